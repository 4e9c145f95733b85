package store_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/ledger"
)

func entryID(t testing.TB) ids.EntryID {
	t.Helper()
	id, err := ids.NewEntry(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newFact(t testing.TB) ledger.Fact {
	t.Helper()
	return ledger.Fact{ID: entryID(t), BusinessID: entryID(t).String(), Memo: "test"}
}

func newProvider(t testing.TB) ids.ProviderID {
	t.Helper()
	id, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func post(t testing.TB, e *env, entries ...ledger.Entry) []ids.EntryID {
	t.Helper()
	posted, err := e.store.Post(t.Context(), entries...)
	if err != nil {
		t.Fatalf("post %s: %v", entries[0].Kind, err)
	}
	return posted
}

func column[T any](t testing.TB, e *env, sql string, args ...any) []T {
	t.Helper()
	rows, err := e.owner.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestTheDatabaseHasTheChartOfTheCode(t *testing.T) {
	e := setup(t, unlimited)
	var want, tokens []string
	for _, l := range ledger.Chart() {
		want = append(want, fmt.Sprintf("%s %s %t %s", l.Kind, l.Normal, l.Owned, l.Book))
	}
	slices.Sort(want)
	got := column[string](t, e, `SELECT format('%s %s %s %s', kind, normal, owned::text, book) FROM chart`)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("chart of the database\n%s\nof the code\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for token, decimals := range ledger.Tokens() {
		tokens = append(tokens, fmt.Sprintf("%s %d", token, decimals))
	}
	tokens = append(tokens, "usd 9")
	slices.Sort(tokens)
	assets := column[string](t, e, `SELECT format('%s %s', id, decimals) FROM asset`)
	slices.Sort(assets)
	if !slices.Equal(assets, tokens) {
		t.Errorf("assets of the database: got %q, want %q", assets, tokens)
	}
}

// vendorEntries returns what a vendor is owed for orphan work, two corrections, and a payment.
func vendorEntries(t *testing.T, vendor ids.ProviderID) []ledger.Entry {
	t.Helper()
	paid, err := ledger.VendorPayment(newFact(t), vendor, 5)
	if err != nil {
		t.Fatal(err)
	}
	more, err := ledger.VendorCorrection(newFact(t), vendor, 5, 7)
	if err != nil {
		t.Fatal(err)
	}
	less, err := ledger.VendorCorrection(newFact(t), vendor, 7, 5)
	if err != nil {
		t.Fatal(err)
	}
	return []ledger.Entry{ledger.VendorOrphan(entryID(t), request(t), vendor, 5), more, less, paid}
}

// The rules have what the constructors make, and no more.
func TestTheDatabaseTakesTheEntriesOfTheCodeAndOnlyTheirLegs(t *testing.T) {
	e := setup(t, unlimited)
	c, provider := e.consumer(t, 100*money.USD), newProvider(t)
	used := map[string]bool{}
	use := func(entries ...ledger.Entry) {
		for _, entry := range entries {
			for _, p := range entry.Postings {
				side, unit := ledger.Credit, "usd"
				if p.Amount < 0 {
					side = ledger.Debit
				}
				if p.Asset != ledger.USD {
					unit = "token"
				}
				used[fmt.Sprintf("%s %s %s %s", entry.Kind, p.Account.Kind, side, unit)] = true
			}
		}
	}
	undo := e.fund(t, provider, c)
	all := append(everyEntry(t, e, c, provider), ledger.Orphan(entryID(t), request(t), provider, 5))
	all = append(all, vendorEntries(t, provider)...)
	for _, entry := range all {
		post(t, e, entry)
		stored, err := e.store.Entry(t.Context(), entry.ID)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(stored.Postings, stored.Quote == nil) != fmt.Sprint(entry.Postings, entry.Quote == nil) {
			t.Errorf("%s is stored as %+v, posted as %+v: fmt.Sprint(…): got %q, want %q", entry.Kind, stored, entry,
				fmt.Sprint(stored.Postings, stored.Quote == nil), fmt.Sprint(entry.Postings, entry.Quote == nil))
		} else if entry.Quote != nil && *stored.Quote != *entry.Quote {
			t.Errorf("%s is stored as %+v, posted as %+v: *stored.Quote: got %+v, want %+v", entry.Kind, stored, entry,
				*stored.Quote, *entry.Quote)
		}
	}
	for _, entry := range slices.Backward(all) {
		undone, err := ledger.Reverse(entryID(t), entry, "test")
		if err != nil {
			t.Fatal(err)
		}
		use(entry, undone)
		if entry.Kind == ledger.OrphanPayout {
			continue // there is no settled request that it belongs to
		}
		if entry.Kind == ledger.CollateralRefundFailed {
			continue // it undoes what charge has paid, and that stays
		}
		post(t, e, undone)
	}
	undo()
	e.exec(t, `DELETE FROM posting WHERE entry_kind = 'orphan_work'`)
	e.exec(t, `DELETE FROM entry WHERE kind = 'orphan_work'`)
	e.wantWallet(t, c, 100*money.USD, 0)

	// A program of the version before makes it.
	used["card_reversed e:chargeback debit usd"] = true
	rules := column[string](t, e, `SELECT format('%s %s %s %s', entry_kind, account_kind, side, unit) FROM posting_rule`)
	slices.Sort(rules)
	if made := slices.Sorted(maps.Keys(used)); !slices.Equal(rules, made) {
		for _, r := range append(rules, made...) {
			if slices.Contains(rules, r) != slices.Contains(made, r) {
				t.Errorf("in the rules %t, made by the code %t: %s: got %t, want %t", slices.Contains(rules, r),
					slices.Contains(made, r), r, slices.Contains(rules, r), slices.Contains(made, r))
			}
		}
	}
	e.sound(t)
}

// Each entry is tried with one leg broken in every way, through SQL.
func TestTheDatabaseRefusesEveryEntryWithABrokenLeg(t *testing.T) {
	e := setup(t, unlimited)
	c, provider := e.consumer(t, 100*money.USD), newProvider(t)
	other := newProvider(t)
	e.fund(t, provider, c)
	for _, entry := range append(everyEntry(t, e, c, provider), ledger.Orphan(entryID(t), request(t), provider, 5)) {
		for i := range entry.Postings {
			for name, breakLeg := range map[string]func(*ledger.Posting){
				"amount":          func(p *ledger.Posting) { p.Amount++ },
				"sign":            func(p *ledger.Posting) { p.Amount = -p.Amount },
				"zero":            func(p *ledger.Posting) { p.Amount = 0 },
				"out of bounds":   func(p *ledger.Posting) { p.Amount = -1 << 63 },
				"another account": func(p *ledger.Posting) { p.Account.Kind = ledger.Discount },
				"unknown account": func(p *ledger.Posting) { p.Account.Kind = "l:free_money" },
				"another book":    func(p *ledger.Posting) { p.Account.Book += "x" },
				"another asset":   func(p *ledger.Posting) { p.Asset = "1:doge" },
				"an owner too many or too few": func(p *ledger.Posting) {
					if p.Account.Owner != [16]byte{} {
						p.Account.Owner = [16]byte{}
					} else {
						p.Account.Owner = other
					}
				},
			} {
				broken := entry
				broken.ID = entryID(t)
				broken.BusinessID = rand.Text()
				broken.Postings = slices.Clone(entry.Postings)
				breakLeg(&broken.Postings[i])
				if err := e.insertRaw(t, broken); err == nil {
					t.Errorf("%s with leg %d broken (%s): accepted", entry.Kind, i+1, name)
				}
			}
		}
	}
}

// insertRaw posts as the application role without the checks of the code.
func (e *env) insertRaw(t testing.TB, entry ledger.Entry) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), e.pool, func(tx pgx.Tx) error {
		var token, source *string
		var rate *int64
		var at *time.Time
		if q := entry.Quote; q != nil {
			token, source, rate, at = (*string)(&q.Token), &q.Source, (*int64)(&q.Rate), &q.At
		}
		var reverses *[16]byte
		if !entry.Reverses.IsZero() {
			reverses = (*[16]byte)(&entry.Reverses)
		}
		if _, err := tx.Exec(t.Context(),
			`INSERT INTO entry (id, kind, business_id, reverses, quote_asset, quote_source, quote_rate, quote_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			[16]byte(entry.ID), string(entry.Kind), entry.BusinessID, reverses, token, source, rate, at); err != nil {
			return err
		}
		for i, p := range entry.Postings {
			var owner *[16]byte
			if p.Account.Owner != [16]byte{} {
				owner = &p.Account.Owner
			}
			if _, err := tx.Exec(t.Context(),
				`INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, book, asset, amount)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, [16]byte(entry.ID), i+1, string(entry.Kind),
				string(p.Account.Kind), owner != nil, owner, p.Account.Book, string(p.Asset), int64(p.Amount)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A provider's accounts are credited by lines 5, 7 and 12 (settled requests),
// 27 (orphan work) and reversals; 18 gives back what 16 took. What else credits
// one only moves what the provider has, or is its own money: nothing but
// requests is income.
func TestAProviderIsCreditedByNothingElse(t *testing.T) {
	e := setup(t, unlimited)
	credited := column[string](t, e, `SELECT DISTINCT k.line || ' ' || r.entry_kind || ' ' || r.account_kind
		FROM posting_rule r JOIN entry_kind k ON k.kind = r.entry_kind
		WHERE r.account_kind LIKE 'l:provider:%' AND r.side = 'credit' AND r.entry_kind <> 'reversal' ORDER BY 1`)
	want := []string{
		"12 plan_late l:provider:payable",
		"14 plan_share l:provider:payable",
		"15 earnings_batch l:provider:payable",
		"16 payout_requested l:provider:payout_in_flight",
		"18 payout_failed l:provider:payable",
		"23 collateral_card l:provider:collateral",
		"23 collateral_dispute_won l:provider:collateral",
		"23 collateral_dispute_won l:provider:payable",
		"24 slash l:provider:slash_escrow",
		"24 slash_appeal_won l:provider:collateral",
		"24 slash_appeal_won l:provider:payable",
		"26 collateral_refund l:provider:collateral_refund_pending",
		"26 collateral_refund_failed l:provider:collateral_refund_pending",
		"26 collateral_refund_undone l:provider:collateral",
		"26 collateral_refund_undone l:provider:payable",
		"27 orphan_work l:provider:accrued",
	}
	if !slices.Equal(credited, want) {
		t.Errorf("a provider is credited by\n%s", strings.Join(credited, "\n"))
	}
	c, provider := e.consumer(t, 100*money.USD), newProvider(t)
	for _, entry := range append(everyEntry(t, e, c, provider), ledger.Orphan(entryID(t), request(t), provider, 5)) {
		var gain money.NanoUSD
		for _, p := range entry.Postings {
			if strings.HasPrefix(string(p.Account.Kind), "l:provider:") || p.Account.Kind == ledger.ProviderReceivable {
				gain += p.Amount
			}
		}
		want := slices.Contains([]ledger.EntryKind{ledger.OrphanPayout, ledger.CardCollateralPaid,
			ledger.CollateralDisputeWon, ledger.CollateralRefundFailed}, entry.Kind)
		if (gain > 0) != want {
			t.Errorf("%s changes what a provider: gain > 0: got %t, want %t", entry.Kind, gain > 0, want)
		}
	}
	view := scan[string](t, e, `SELECT pg_get_viewdef('usage_leg'::regclass)`)
	for _, kind := range []string{"provider:payable", "payout_in_flight", "collateral", "slash_escrow",
		"provider_receivable"} {
		if strings.Contains(view, kind) {
			t.Errorf("a settled request touches %s: got %q, want it without %q", kind, view, kind)
		}
	}
}

func TestAnEntryIsPostedOnceHoweverOftenItIsAsked(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	first := ledger.Grant(entryID(t), c.account, 20*usd, "grant", "")
	var all sync.WaitGroup
	posted := make([]ids.EntryID, 8)
	for i := range posted {
		again := first
		again.ID = entryID(t)
		all.Go(func() {
			got, err := e.store.Post(t.Context(), again)
			if err != nil {
				t.Error(err)
				return
			}
			posted[i] = got[0]
		})
	}
	all.Wait()
	for _, id := range posted {
		if id != posted[0] {
			t.Errorf("posted: got %v, want %v", id, posted[0])
		}
	}
	e.wantWallet(t, c, 20*usd, 0)
	other := ledger.Grant(entryID(t), c.account, 21*usd, "grant", "")
	if _, err := e.store.Post(t.Context(), other); !errors.Is(err, ledger.ErrReused) {
		t.Errorf("the same business id for other legs: got the error %v, want %v", err, ledger.ErrReused)
	}
	e.sound(t)
}

func TestEntriesOfOneTransactionArePostedTogetherOrNotAtAll(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	sound := ledger.Grant(entryID(t), c.account, 5, "sound", "")
	stranger := ledger.Grant(entryID(t), ids.AccountID{1}, 5, "stranger", "")
	if _, err := e.store.Post(t.Context(), sound, stranger); !errors.Is(err, ledger.ErrNoWallet) {
		t.Errorf("a consumer that does not exist: got the error %v, want %v", err, ledger.ErrNoWallet)
	}
	taken, err := ledger.CardReversal(newFact(t), c.account, 6, 6)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.store.Post(t.Context(), sound, taken); !errors.Is(err, ledger.ErrShort) {
		t.Errorf("more than the consumer has: got the error %v, want %v", err, ledger.ErrShort)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM entry`); n != 0 {
		t.Errorf("entries posted: got %d, want 0", n)
	}
	post(t, e, sound)
	e.wantWallet(t, c, 5, 0)
}

func TestAnEntryIsUndoneOnceAndByItsExactNegation(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	original := ledger.Grant(entryID(t), c.account, 5, "grant", "")
	post(t, e, original)
	undone, err := e.store.Reverse(t.Context(), entryID(t), original.ID, "mistake")
	if err != nil {
		t.Fatal(err)
	}
	e.wantWallet(t, c, 0, 0)
	if again, err := e.store.Reverse(t.Context(), entryID(t), original.ID, "mistake"); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if again != undone {
		t.Errorf("a second reversal: got %v, want %v", again, undone)
	}
	if _, err := e.store.Reverse(t.Context(), entryID(t), undone, ""); err == nil {
		t.Error("a reversal was reversed")
	}
	if _, err := e.store.Reverse(t.Context(), entryID(t), entryID(t), ""); !errors.Is(err, ledger.ErrNoEntry) {
		t.Errorf("an entry that does not exist: got the error %v, want %v", err, ledger.ErrNoEntry)
	}
	// Spent money is not taken back.
	spent := ledger.Grant(entryID(t), c.account, 5000, "spent", "")
	taken, err := ledger.ReverseDeposit(newFact(t), c.account, usdc(3), 3000)
	if err != nil {
		t.Fatal(err)
	}
	post(t, e, spent, taken)
	if _, err := e.store.Reverse(t.Context(), entryID(t), spent.ID, ""); !errors.Is(err, ledger.ErrShort) {
		t.Errorf("taking back what was spent: got the error %v, want %v", err, ledger.ErrShort)
	}
	e.wantWallet(t, c, 2000, 0)
	e.sound(t)
}

func TestAReversalThatIsNotTheNegationIsRefused(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	original := ledger.Grant(entryID(t), c.account, 5, "grant", "")
	another := ledger.Grant(entryID(t), c.account, 7, "another", "")
	post(t, e, original, another)
	reverse := func(of ledger.Entry) ledger.Entry {
		r, err := ledger.Reverse(entryID(t), of, "")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	less := reverse(original)
	less.Postings[0].Amount, less.Postings[1].Amount = 4, -4
	swapped := reverse(original)
	swapped.Postings[0], swapped.Postings[1] = swapped.Postings[1], swapped.Postings[0]
	longer := reverse(original)
	longer.Postings = append(longer.Postings, ledger.Posting{Account: longer.Postings[0].Account, Asset: ledger.USD,
		Amount: 1},
		ledger.Posting{Account: longer.Postings[1].Account, Asset: ledger.USD, Amount: -1})
	crossed := reverse(another)
	crossed.Reverses, crossed.BusinessID = original.ID, original.ID.String()
	for name, r := range map[string]ledger.Entry{"less": less, "swapped": swapped, "longer": longer,
		"another's": crossed} {
		if err := e.insertRaw(t, r); err == nil {
			t.Errorf("%s: got no error, want one", name)
		} else if !strings.Contains(err.Error(), "does not undo") {
			t.Errorf(`%s: got the error %q, want "does not undo" in it`, name, err)
		}
	}
	if err := e.insertRaw(t, reverse(original)); err != nil {
		t.Fatal(err)
	}
	if err := e.insertRaw(t, reverse(original)); err == nil {
		t.Error("undone twice")
	}
}

// postAndUndo posts an entry that moves the wallets of several, and undoes it
// unless that was spent meanwhile.
func (c *crowd) postAndUndo(r *mathrand.Rand) error {
	var affected []ledger.Compensation
	for _, i := range r.Perm(len(c.consumers))[:2] {
		affected = append(affected, ledger.Compensation{Account: c.consumers[i].account, Amount: cent})
	}
	provider := newProvider(c.t)
	paid, err := ledger.CardCollateral(newFact(c.t), provider, 5*money.USD)
	if err != nil {
		return err
	}
	c.charge(c.t, paid)
	slash, err := ledger.Slash(newFact(c.t), provider, 2*cent)
	if err != nil {
		return err
	}
	entry, err := ledger.SlashForfeit(newFact(c.t), provider, 2*cent, affected)
	if err != nil {
		return err
	}
	if _, err := c.store.Post(c.t.Context(), paid, slash, entry); err != nil {
		return err
	}
	if _, err := c.store.Reverse(c.t.Context(), entryID(c.t), entry.ID, ""); err != nil &&
		!errors.Is(err, ledger.ErrShort) {
		return err
	}
	return nil
}

// Any history of postings and their undoing leaves wallets as their postings
// make them, and never takes what is not there.
func TestRandomPostingsLeaveWalletsAsTheModel(t *testing.T) {
	e := setup(t, unlimited)
	seed := mathrand.Uint64()
	t.Logf("seed %d", seed)
	r := mathrand.New(mathrand.NewPCG(seed, 1))
	consumers := []consumer{e.consumer(t, 0), e.consumer(t, 0), e.consumer(t, 0)}
	has := map[ids.AccountID]money.NanoUSD{}
	var open []ledger.Entry // not undone
	for step := range 150 {
		c := consumers[r.IntN(len(consumers))].account
		amount := 1000 * money.NanoUSD(1+r.Int64N(50))
		switch r.IntN(4) {
		case 0, 1:
			entry := ledger.Grant(entryID(t), c, amount, rand.Text(), "")
			post(t, e, entry)
			has[c] += amount
			open = append(open, entry)
		case 2:
			entry, err := ledger.ReverseDeposit(newFact(t), c, usdc(ledger.Units(amount/1000)), amount)
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.store.Post(t.Context(), entry)
			if short := amount > has[c]; short != errors.Is(err, ledger.ErrShort) {
				t.Fatalf("step %d: %d of %d taken: short: got %t, want %t", step, amount, has[c], short,
					errors.Is(err, ledger.ErrShort))
			} else if !short && err != nil {
				t.Fatalf("step %d: %d of %d taken: got the error %v, want none, where !short", step, amount, has[c], err)
			} else if !short {
				has[c] -= amount
				open = append(open, entry)
			}
		case 3:
			if len(open) == 0 {
				continue
			}
			i := r.IntN(len(open))
			var change money.NanoUSD
			var of ids.AccountID
			for _, p := range open[i].Postings {
				if p.Account.Kind == ledger.Available {
					change, of = -p.Amount, p.Account.Owner
				}
			}
			_, err := e.store.Reverse(t.Context(), entryID(t), open[i].ID, "")
			if short := has[of]+change < 0; short != errors.Is(err, ledger.ErrShort) {
				t.Fatalf("step %d: undoing %d of %d: short: got %t, want %t", step, change, has[of], short,
					errors.Is(err, ledger.ErrShort))
			} else if !short && err != nil {
				t.Fatalf("step %d: undoing %d of %d: got the error %v, want none, where !short", step, change, has[of], err)
			} else if !short {
				has[of] += change
				open = slices.Delete(open, i, i+1)
			}
		}
	}
	for _, c := range consumers {
		e.wantWallet(t, c, has[c.account], 0)
	}
	e.sound(t)
}

func TestVerifyTellsTokensAndFalseReversals(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	deposit, err := ledger.Deposit(newFact(t), c.account, ledger.Sum{Token: ledger.USDCBase, Units: 7})
	if err != nil {
		t.Fatal(err)
	}
	grant := ledger.Grant(entryID(t), c.account, 5, "grant", "")
	post(t, e, deposit, grant)
	if _, err := e.store.Reverse(t.Context(), entryID(t), grant.ID, ""); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	want := []audit.TokenLine{
		{Account: "a:crypto", Token: "8453:usdc", Debit: 7}, {Account: "m:treasury", Token: "8453:usdc", Credit: 7},
	}
	if report.Drift != 0 {
		t.Errorf("drift: got %d, want 0", report.Drift)
	} else if !slices.Equal(report.Tokens, want) {
		t.Errorf("report.Tokens: got %+v, want %+v", report.Tokens, want)
	}
	var text strings.Builder
	if err := report.Print(&text); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), "m:treasury 8453:usdc 0 7") {
		t.Errorf(`strings.Join(…): got %q, want "m:treasury 8453:usdc 0 7" in it`,
			strings.Join(strings.Fields(text.String()), " "))
	}
	// Both balance by themselves.
	e.exec(t, `UPDATE posting SET amount = amount * 2 WHERE entry_kind = 'reversal'`)
	e.exec(t, `UPDATE posting SET amount = amount + 1 WHERE asset <> 'usd' AND account_kind = 'm:treasury'`)
	report, err = audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	if !named(report, "every reversal is the negation of its entry", "of what it undoes") {
		t.Error("a reversal: named(…): got false, want true")
	} else if !named(report, audit.TrialBalanceZero, "8453:usdc") {
		t.Error("the trial balance: named(…): got false, want true")
	}
}
