package store_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// marked is a ledger that keeps marks.
func marked(t testing.TB) *env {
	t.Helper()
	e := setup(t, unlimited)
	if _, err := e.store.LedgerSecret(t.Context(), [32]byte{1}); err != nil {
		t.Fatal(err)
	}
	return e
}

// addressOf is one of many addresses.
func addressOf(n int) string { return fmt.Sprintf("0x%040x", n) }

func evidenceOf(t testing.TB, n int) kin.Evidence {
	t.Helper()
	evidence, err := kin.OfAddress(addressOf(n))
	if err != nil {
		t.Fatal(err)
	}
	return evidence
}

// mark marks an account with an address.
func (e *env) mark(t testing.TB, c consumer, cause kin.Cause, address int) {
	t.Helper()
	m := kin.Mark{Account: c.account, Cause: cause, Evidence: evidenceOf(t, address)}
	if err := e.store.Mark(t.Context(), []kin.Mark{m}); err != nil {
		t.Fatal(err)
	}
}

// markProvider marks a provider with an address.
func (e *env) markProvider(t testing.TB, p ids.ProviderID, cause kin.Cause, address int) {
	t.Helper()
	m := kin.Mark{Provider: p, Cause: cause, Evidence: evidenceOf(t, address)}
	if err := e.store.Mark(t.Context(), []kin.Mark{m}); err != nil {
		t.Fatal(err)
	}
}

// payByCard has an account buy credit with a card.
func (e *env) payByCard(t testing.TB, c consumer, fingerprint string) {
	t.Helper()
	cards := store.Cards{Store: e.store}
	opened, err := cards.Open(t.Context(), card.Checkout{ID: newCheckoutID(t), Purpose: card.TopUp, Account: c.account,
		Amount: 2000, Processor: "sandbox", ReturnURL: "https://example.com/"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cards.SetSession(t.Context(), opened.ID, card.Session{ID: rand.Text(), URL: "https://example.com/",
		Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := cards.Pay(t.Context(), opened.ID, card.Charge{PaymentID: rand.Text(), CostID: rand.Text(), Total: 2000,
		Fingerprint: fingerprint}, newEntry); err != nil {
		t.Fatal(err)
	}
}

// fillMarks gives an account or a provider ten marks of a cause more than it may have.
func (e *env) fillMarks(t testing.TB, table string, bearer [16]byte, cause kin.Cause) {
	t.Helper()
	if _, err := e.pool.Exec(t.Context(), `INSERT INTO `+table+`_mark (`+table+`_id, evidence, cause)
		SELECT $1::uuid, sha256(n::text::bytea), $2::text FROM generate_series(1, $3::integer) AS n`, bearer,
		string(cause), kin.MaxMarks+10); err != nil {
		t.Fatal(err)
	}
}

// user makes a user of the account who has no provider.
func (e *env) user(t testing.TB, c consumer) {
	t.Helper()
	if _, err := e.owner.Exec(t.Context(), `INSERT INTO app_user (id, email, display_name, password_hash, account_id)
		VALUES (gen_random_uuid(), $1::uuid || '@x', '', '$argon2id$v=19$m=1', $1)`, [16]byte(c.account)); err != nil {
		t.Fatal(err)
	}
}

// linkProvider gives the user of an account a provider.
const linkProvider = `UPDATE app_user SET provider_id = $2 WHERE account_id = $1`

// link gives the user of an account a provider.
func (e *env) link(t testing.TB, c consumer, p ids.ProviderID) {
	t.Helper()
	if _, err := e.pool.Exec(t.Context(), linkProvider, [16]byte(c.account), [16]byte(p)); err != nil {
		t.Fatal(err)
	}
}

// ruleOf has a provider serve a request of an account, and returns by which rule the payout is
// held; empty for one that is not.
func (e *env) ruleOf(t testing.TB, c consumer, p ids.ProviderID) usage.Rule {
	t.Helper()
	reservation := e.reservation(t, c, 10)
	e.admitOne(t, reservation, hold.Admitted)
	e.settle(t, usage.Settled, e.servedBy(t, reservation, p))
	return usage.Rule(scan[string](t, e, `SELECT coalesce((SELECT rule FROM held_earning WHERE request_id = $1), '')`,
		[16]byte(reservation.Request)))
}

// Hostile 40: the rule of kin is the less sure of their two causes.
func TestAnAddressThatTwoBearMakesThemKin(t *testing.T) {
	t.Parallel()
	e := marked(t)
	for n, tc := range []struct {
		account, provider kin.Cause
		want              usage.Rule
	}{
		{kin.Wallet, kin.Wallet, "wallet"},
		{kin.Wallet, kin.PayoutAddress, "payout_address"},
		{kin.DepositSource, kin.Wallet, "deposit_source"},
		{kin.DepositSource, kin.PayoutAddress, "deposit_source"},
	} {
		c, other, p := e.consumer(t, money.USD), e.consumer(t, money.USD), newProvider(t)
		e.mark(t, c, tc.account, n+1)
		if got := e.ruleOf(t, c, p); got != "" {
			t.Errorf("%s and %s, before both have marks: held by %q, want none", tc.account, tc.provider, got)
		}
		e.mark(t, other, tc.account, 1000+n)
		e.markProvider(t, p, tc.provider, n+1)
		if got := e.ruleOf(t, c, p); got != tc.want {
			t.Errorf("%s and %s: held by %q, want %q", tc.account, tc.provider, got, tc.want)
		}
		if got := e.ruleOf(t, other, p); got != "" {
			t.Errorf("an account with another address: held by %q, want none", got)
		}
		if got := e.ruleOf(t, c, newProvider(t)); got != "" {
			t.Errorf("another provider: held by %q, want none", got)
		}
	}
	if got := scan[int](t, e, `SELECT count(*) FROM held_earning`); got != 4 {
		t.Errorf("held: got %d, want 4, because what was settled before is free", got)
	}
	e.sound(t)
}

func TestTheMarksOfAnAccountAreItsProvidersWhateverCameFirst(t *testing.T) {
	t.Parallel()
	e := marked(t)
	for _, linkedFirst := range []bool{true, false} {
		owner, other, p := e.consumer(t, money.USD), e.consumer(t, money.USD), newProvider(t)
		address := 1
		if linkedFirst {
			address = 2
		}
		e.user(t, owner)
		if linkedFirst {
			e.link(t, owner, p)
		}
		e.mark(t, owner, kin.DepositSource, address)
		e.link(t, owner, p)
		e.mark(t, other, kin.DepositSource, address)
		if got := e.ruleOf(t, other, p); got != "deposit_source" {
			t.Errorf("linked first %t: the other account is held by %q, want deposit_source", linkedFirst, got)
		}
		if got := e.ruleOf(t, owner, p); got != usage.SameUser {
			t.Errorf("linked first %t: the own account is held by %q, want %q", linkedFirst, got, usage.SameUser)
		}
	}
}

func TestKinOfKinAreStrangers(t *testing.T) {
	t.Parallel()
	e := marked(t)
	first, second, p := e.consumer(t, money.USD), e.consumer(t, money.USD), newProvider(t)
	e.mark(t, first, kin.DepositSource, 1)
	e.mark(t, second, kin.DepositSource, 1)
	e.mark(t, second, kin.Wallet, 2)
	e.markProvider(t, p, kin.Wallet, 2)
	if got := e.ruleOf(t, second, p); got != "wallet" {
		t.Errorf("the account with the provider's wallet: held by %q, want wallet", got)
	}
	if got := e.ruleOf(t, first, p); got != "" {
		t.Errorf("the account that shares a source with that one: held by %q, want none", got)
	}
}

// Hostile 40: the hot wallet of an exchange makes no kin of its customers, and what was held
// before so many were seen stays held.
func TestASourceThatManyShareMakesNobodyKin(t *testing.T) {
	t.Parallel()
	e := marked(t)
	const exchange = 1
	owner, p := e.consumer(t, money.USD), newProvider(t)
	e.user(t, owner)
	e.link(t, owner, p)
	e.mark(t, owner, kin.DepositSource, exchange)
	customer := e.consumer(t, money.USD)
	e.mark(t, customer, kin.DepositSource, exchange)
	for range kin.MaxSharers - 2 {
		e.mark(t, e.consumer(t, money.USD), kin.DepositSource, exchange)
	}
	if got := e.ruleOf(t, customer, p); got != "deposit_source" {
		t.Errorf("a source of %d accounts: held by %q, want deposit_source", kin.MaxSharers, got)
	}
	e.mark(t, e.consumer(t, money.USD), kin.DepositSource, exchange)
	if got := e.ruleOf(t, customer, p); got != "" {
		t.Errorf("a source of %d accounts: held by %q, want none", kin.MaxSharers+1, got)
	}
	if got := scan[int](t, e, `SELECT count(*) FROM held_earning WHERE ended_as IS NULL`); got != 1 {
		t.Errorf("held from before: got %d, want 1", got)
	}

	// Nine accounts do not make an owner a stranger to its own addresses.
	paid := newProvider(t)
	e.markProvider(t, paid, kin.PayoutAddress, exchange)
	if got := e.ruleOf(t, customer, paid); got != "deposit_source" {
		t.Errorf("a provider that is paid there: held by %q, want deposit_source", got)
	}
	if got := e.ruleOf(t, customer, p); got != "" {
		t.Errorf("a claim of another provider on the address: held by %q, want none", got)
	}
	e.markProvider(t, newProvider(t), kin.Wallet, exchange)
	if got := e.ruleOf(t, customer, p); got != "deposit_source" {
		t.Errorf("a source that has signed for somebody: held by %q, want deposit_source", got)
	}
}

// Every batch of settled requests asks for kin, so the marks of others may cost it nothing.
func TestSettlingReadsTheMarksOfItsAccountsAlone(t *testing.T) {
	t.Parallel()
	e := marked(t)
	c := e.consumer(t, money.USD)
	p := newProvider(t)
	e.mark(t, c, kin.DepositSource, 1)
	e.markProvider(t, p, kin.PayoutAddress, 1)
	reservation := e.reservation(t, c, 1)
	e.admitOne(t, reservation, hold.Admitted)
	e.exec(t, `INSERT INTO account_mark (account_id, evidence, cause)
		SELECT gen_random_uuid(), sha256(n::text::bytea), 'deposit_source' FROM generate_series(1, 20000) AS n`)
	e.exec(t, `INSERT INTO provider_mark (provider_id, evidence, cause)
		SELECT gen_random_uuid(), sha256(n::text::bytea), 'deposit_source' FROM generate_series(1, 20000) AS n`)
	e.exec(t, `ANALYZE account_mark, provider_mark, app_user, hold`)
	plan := column[string](t, e, `EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) `+store.SelectRelated,
		[][16]byte{reservation.Request}, [][16]byte{p})
	read := 0
	for _, line := range plan {
		// The first line with buffers has the sum of all below it.
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "Buffers: shared hit=%d", &read); err == nil {
			break
		}
	}
	if read == 0 {
		t.Error("blocks read: got none, want some")
	}
	if read > 100 {
		t.Errorf("blocks read: got %d, want at most 100", read)
	}
	if t.Failed() {
		t.Log(strings.Join(plan, "\n"))
	}
}

func TestABearerHasABoundedNumberOfMarksOfEachCause(t *testing.T) {
	t.Parallel()
	e := marked(t)
	c, p := e.consumer(t, money.USD), newProvider(t)
	for table, bearer := range map[string][16]byte{"account": c.account, "provider": p} {
		for _, cause := range []kin.Cause{kin.Wallet, kin.DepositSource, kin.Card} {
			e.fillMarks(t, table, bearer, cause)
			count := `SELECT count(*) FROM ` + table + `_mark WHERE cause = $1`
			if got := scan[int](t, e, count, string(cause)); got != kin.MaxMarks {
				t.Errorf("%s, %s: got %d marks, want %d", table, cause, got, kin.MaxMarks)
			}
		}
	}
	e.exec(t, `INSERT INTO provider_mark (provider_id, evidence, cause)
		SELECT $1::uuid, sha256(n::text::bytea), 'payout_address' FROM generate_series(1, $2::integer) AS n`,
		[16]byte(p), kin.MaxPayoutAddresses-1)
	e.markProvider(t, p, kin.PayoutAddress, 1)
	e.markProvider(t, p, kin.PayoutAddress, 2)
	const count = `SELECT count(*) FROM provider_mark WHERE cause = 'payout_address'`
	if got := scan[int](t, e, count); got != kin.MaxPayoutAddresses {
		t.Errorf("payout addresses: got %d marks, want %d", got, kin.MaxPayoutAddresses)
	}
}

// Hostile 40: an owner deposits a little from each of a thousand throw-away addresses, and then pays
// for the account and for another by one card.
func TestAnAccountFullOfDepositSourcesIsMarkedByItsCard(t *testing.T) {
	t.Parallel()
	e := marked(t)
	owner, other, p := e.consumer(t, money.USD), e.consumer(t, money.USD), newProvider(t)
	e.user(t, owner)
	e.link(t, owner, p)
	e.fillMarks(t, "account", owner.account, kin.DepositSource)
	if got := scan[int](t, e, `SELECT count(*) FROM provider_mark`); got != kin.MaxMarks {
		t.Errorf("marks of the provider: got %d, want %d, which is all that it may have by deposits", got, kin.MaxMarks)
	}
	fingerprint := strings.Repeat("f", 32)
	e.payByCard(t, owner, fingerprint)
	if got := scan[int](t, e, `SELECT count(*) FROM account_mark WHERE cause = 'card'`); got != 1 {
		t.Errorf("cards that mark the account: got %d, want 1", got)
	}
	e.payByCard(t, other, fingerprint)
	if got := e.ruleOf(t, other, p); got != "card" {
		t.Errorf("the other account that the card paid for: held by %q, want card", got)
	}
}

// A provider that changes where its earnings go ten times a day has had a thousand payout addresses
// in a hundred days.
func TestAProviderIsMarkedByItsNewestPayoutAddress(t *testing.T) {
	t.Parallel()
	e := marked(t)
	c, p := e.consumer(t, money.USD), newProvider(t)
	e.fillMarks(t, "provider", p, kin.PayoutAddress)
	e.markProvider(t, p, kin.PayoutAddress, 1)
	e.mark(t, c, kin.Wallet, 1)
	if got := e.ruleOf(t, c, p); got != "payout_address" {
		t.Errorf("the account with the newest address: held by %q, want payout_address", got)
	}
}

func TestAMarkHasADigestAndNoAddress(t *testing.T) {
	t.Parallel()
	e := marked(t)
	e.mark(t, e.consumer(t, 0), kin.DepositSource, 0xabcdef)
	e.markProvider(t, newProvider(t), kin.Wallet, 0xabcdef)
	for _, table := range []string{"account_mark", "provider_mark"} {
		if got := scan[string](t, e, `SELECT `+table+`::text FROM `+table); strings.Contains(got, "abcdef") {
			t.Errorf("%s: got %s, want nothing of the address", table, got)
		}
	}
	a, p := scan[[]byte](t, e, `SELECT evidence FROM account_mark`), scan[[]byte](t, e,
		`SELECT evidence FROM provider_mark`)
	if !slices.Equal(a, p) {
		t.Errorf("digests of one address: got %x and %x, want the same", a, p)
	}
	for _, plain := range []string{addressOf(0xabcdef), addressOf(0xabcdef)[2:]} {
		if scan[bool](t, e, `SELECT sha256($1::bytea) = evidence FROM account_mark`, []byte(plain)) {
			t.Error("the digest is made without a key")
		}
	}
}

func TestWhatIsNoMarkIsRefused(t *testing.T) {
	t.Parallel()
	e := marked(t)
	c := e.consumer(t, 0)
	good := kin.Mark{Account: c.account, Cause: kin.Wallet, Evidence: evidenceOf(t, 1)}
	for name, bad := range map[string]kin.Mark{
		"nobody's":       {Cause: kin.Wallet, Evidence: evidenceOf(t, 1)},
		"of no account":  {Account: ids.AccountID{9}, Cause: kin.Wallet, Evidence: evidenceOf(t, 1)},
		"of no evidence": {Account: c.account, Cause: kin.Wallet},
	} {
		if err := e.store.Mark(t.Context(), []kin.Mark{good, bad}); err == nil {
			t.Errorf("a mark that is %s: got no error, want one", name)
		}
	}
	if got := scan[int](t, e, `SELECT count(*) FROM account_mark`); got != 0 {
		t.Errorf("marks beside a bad one: got %d, want 0", got)
	}
	if err := e.store.Mark(t.Context(), nil); err != nil {
		t.Errorf("no marks: %v", err)
	}
}

func TestMarksThatComeAtOnceAreKeptOnce(t *testing.T) {
	t.Parallel()
	e := marked(t)
	c, p := e.consumer(t, 0), newProvider(t)
	var marks []kin.Mark
	for n := range 20 {
		marks = append(marks, kin.Mark{Account: c.account, Cause: kin.DepositSource, Evidence: evidenceOf(t, n+1)},
			kin.Mark{Provider: p, Cause: kin.Wallet, Evidence: evidenceOf(t, n+1)})
	}
	var callers sync.WaitGroup
	for n := range 8 {
		mine := slices.Clone(marks)
		if n%2 == 1 {
			slices.Reverse(mine)
		}
		callers.Go(func() {
			if err := e.store.Mark(t.Context(), mine); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	for _, table := range []string{"account_mark", "provider_mark"} {
		if got := scan[int](t, e, `SELECT count(*) FROM `+table); got != 20 {
			t.Errorf("%s: got %d marks, want 20", table, got)
		}
	}
}

func TestAMarkAndALinkThatComeAtOnceMeet(t *testing.T) {
	t.Parallel()
	e := marked(t)
	for n := range 20 {
		c, p := e.consumer(t, 0), newProvider(t)
		e.user(t, c)
		var both sync.WaitGroup
		m := kin.Mark{Account: c.account, Cause: kin.DepositSource, Evidence: evidenceOf(t, n+1)}
		both.Go(func() {
			if err := e.store.Mark(t.Context(), []kin.Mark{m}); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if _, err := e.pool.Exec(t.Context(), linkProvider, [16]byte(c.account), [16]byte(p)); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if got := scan[int](t, e, `SELECT count(*) FROM provider_mark WHERE provider_id = $1`, [16]byte(p)); got != 1 {
			t.Fatalf("round %d: got %d marks of the provider, want 1", n, got)
		}
	}
}

// Hostile 40: a wallet that a user proves is as sure as one that a provider does, and ending the
// link unties nothing.
func TestAWalletThatItsUserProvedMakesKinForEver(t *testing.T) {
	t.Parallel()
	e := marked(t)
	opened, linked := newPurse(1), newPurse(2)
	in := e.comesIn(t, opened)
	if _, _, err := e.accounts.Grant(t.Context(), in.User.Account, money.USD, "grant", "test"); err != nil {
		t.Fatal(err)
	}
	c := e.issue(t, in.User.Account, key.IssueRequest{})
	providers := map[string]ids.ProviderID{"signed in": newProvider(t), "linked": newProvider(t)}
	for name, wallet := range map[string]purse{"signed in": opened, "linked": linked} {
		evidence, err := kin.OfAddress(wallet.address.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := e.store.Mark(t.Context(), []kin.Mark{{Provider: providers[name], Cause: kin.Wallet,
			Evidence: evidence}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.ruleOf(t, c, providers["signed in"]); got != "wallet" {
		t.Errorf("the wallet that opened the user: held by %q, want wallet", got)
	}
	if got := e.ruleOf(t, c, providers["linked"]); got != "" {
		t.Errorf("before the second wallet is linked: held by %q, want none", got)
	}
	identity := e.links(t, in, linked)
	for _, when := range []string{"linked", "ended"} {
		if got := e.ruleOf(t, c, providers["linked"]); got != "wallet" {
			t.Errorf("the second wallet, %s: held by %q, want wallet", when, got)
		}
		if when == "linked" {
			if err := e.users(t).EndIdentity(t.Context(), in.User.ID, identity.ID, in.Family); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := e.ruleOf(t, c, newProvider(t)); got != "" {
		t.Errorf("a provider with another wallet: held by %q, want none", got)
	}
	e.sound(t)
}

// Proving a wallet costs nothing, and one that is passed over would sign in without a mark.
func TestAnAccountIsMarkedByABoundedNumberOfWallets(t *testing.T) {
	t.Parallel()
	e := marked(t)
	users, in := e.users(t), e.comesIn(t, newPurse(1))
	const wallet = `INSERT INTO user_identity (id, user_id, issuer, subject, evidence)
		SELECT gen_random_uuid(), $1::uuid, 'wallet', '0x' || lpad(n::text, 40, '0'), sha256(n::text::bytea)
		FROM generate_series($2::integer, $3::integer) AS n`
	for n := 1; n < kin.MaxWallets; n++ {
		if _, err := e.pool.Exec(t.Context(), wallet, [16]byte(in.User.ID), n, n); err != nil {
			t.Fatal(err)
		}
		e.exec(t, `DELETE FROM user_identity WHERE subject LIKE '0x000000%'`)
	}
	late := newPurse(2)
	_, err := users.LinkWallet(t.Context(), in.User.ID, in.Family, late.fresh(t, users, in.User.ID))
	wantReason(t, "one wallet too many", err, fault.TransitionNotAllowed)
	if got := scan[int](t, e, `SELECT count(*) FROM user_identity`); got != 1 {
		t.Errorf("identities: got %d, want 1", got)
	}
	if got := scan[int](t, e, `SELECT count(*) FROM account_mark`); got != kin.MaxWallets {
		t.Errorf("marks: got %d, want %d", got, kin.MaxWallets)
	}
	if _, err := e.pool.Exec(t.Context(), wallet, [16]byte(in.User.ID), 1, 1); err != nil {
		t.Errorf("a wallet that has signed before: got the error %v, want none", err)
	}
	if again := e.comesIn(t, late); again.User.ID == in.User.ID {
		t.Error("the wallet that was refused: got the user who is full, want another")
	}
}

func TestAWalletThatIsLinkedMarksAnAccountFullOfOtherMarks(t *testing.T) {
	t.Parallel()
	e := marked(t)
	in := e.comesIn(t, newPurse(1))
	for _, cause := range []kin.Cause{kin.DepositSource, kin.Card} {
		e.fillMarks(t, "account", in.User.Account, cause)
	}
	e.links(t, in, newPurse(2))
	if got := scan[int](t, e, `SELECT count(*) FROM account_mark WHERE cause = 'wallet'`); got != 2 {
		t.Errorf("wallets that mark: got %d, want 2", got)
	}
}

// A hub's event marks the provider with the wallets that a link brings, in the same order.
func TestAHubsMarksAndALinkThatComeAtOnceDoNotWaitInACircle(t *testing.T) {
	t.Parallel()
	e := marked(t)
	const rounds, wallets = 20, 30
	for round := range rounds {
		c, p := e.consumer(t, 0), newProvider(t)
		e.user(t, c)
		var marks []kin.Mark
		for n := range wallets {
			e.mark(t, c, kin.Wallet, round*wallets+n+1)
			marks = append(marks, kin.Mark{Provider: p, Cause: kin.Wallet, Evidence: evidenceOf(t, round*wallets+n+1)})
		}
		var both sync.WaitGroup
		both.Go(func() {
			if err := e.store.Mark(t.Context(), marks); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if _, err := e.pool.Exec(t.Context(), linkProvider, [16]byte(c.account), [16]byte(p)); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
	}
}
