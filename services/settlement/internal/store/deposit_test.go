package store_test

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/quote"
	"svc.internal/services/settlement/internal/screen"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/watch"
)

// depositBooks is a ledger: a fact is posted once under its business id, and a repeat must be the same.
type depositBooks struct {
	mu      sync.Mutex
	entries map[string]string
	// lost makes the next answers get lost, after the posting.
	lost int
}

var errEntryLost = errors.New("the answer is lost")

func (b *depositBooks) Post(_ context.Context, fact deposit.Fact, t deposit.Transfer) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kind := string(fact)
	if fact == deposit.FactStray {
		kind = string(deposit.FactDeposited) // both have the business id of one arrival
	}
	id := fmt.Sprintf("%s %s/%s/%d", kind, t.Chain, t.Transaction, t.Place)
	content := fmt.Sprintf("%s %s %d", fact, t.Account, t.Units)
	if t.Quote != nil {
		content += fmt.Sprintf(" at %d", t.Quote.Rate)
	}
	if was, ok := b.entries[id]; ok && was != content {
		return "", fmt.Errorf("%s: posted as %q, and now as %q", id, was, content)
	}
	b.entries[id] = content
	if b.lost > 0 {
		b.lost--
		return "", errEntryLost
	}
	return "entry of " + id, nil
}

// has counts the entries of a fact.
func (b *depositBooks) has(fact deposit.Fact) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, content := range b.entries {
		if strings.HasPrefix(content, string(fact)+" ") {
			n++
		}
	}
	return n
}

// prices has one price; 0: none.
type prices struct{ rate int64 }

func (p *prices) Quote(context.Context, chain.ID) (sending.Quote, error) {
	if p.rate == 0 {
		return sending.Quote{}, quote.ErrNone
	}
	return sending.Quote{Rate: money.NanoUSD(p.rate), Source: "test", At: time.Unix(evmtest.Begin, 0).UTC()}, nil
}

// denies denies one address.
type denies chain.Address

func (d denies) Check(_ context.Context, a chain.Address) (screen.Verdict, error) {
	return screen.Verdict{Denied: a == chain.Address(d), Version: "test:1"}, nil
}

// depositWorld is a chain with all that credits its deposits.
type depositWorld struct {
	*chainWorld
	deposits store.Deposits
	books    *depositBooks
	prices   *prices
	decider  *deposit.Decider
	poster   *deposit.Poster
	accounts []ids.AccountID
}

func newDepositWorld(t testing.TB, id chain.ID, depth uint64) *depositWorld {
	t.Helper()
	w := &depositWorld{chainWorld: newChainWorld(t, id, depth), books: &depositBooks{entries: map[string]string{}},
		prices: &prices{rate: 2_000_000_000}}
	w.deposits = store.Deposits{Store: w.store.Store}
	w.decider = &deposit.Decider{Store: w.deposits, Screener: denies(evmtest.Address("sender", 666)), Quotes: w.prices,
		Chains: map[chain.ID]deposit.Balances{id: w.reads}, Config: chain.Configs{w.reads.Config()}, Halted: w.store.Halted}
	w.poster = &deposit.Poster{Store: w.deposits, Ledger: w.books}
	return w
}

// newAccount makes an account's id.
func newAccount(t testing.TB) (id ids.AccountID) {
	t.Helper()
	if _, err := crand.Read(id[:]); err != nil {
		t.Fatal(err)
	}
	id[6], id[8] = 0x70|id[6]&0xf, 0x80|id[8]&0x3f
	return id
}

// newAddress gives an account its address.
func (w *depositWorld) newAddress() chain.Address {
	w.t.Helper()
	account := newAccount(w.t)
	w.accounts = append(w.accounts, account)
	a, err := w.deposits.Address(context.Background(), account, func(i uint32) (chain.Address, error) {
		return evmtest.Address("deposit", uint64(i)), nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Address
}

// credit decides and posts until nothing changes.
func (w *depositWorld) credit() {
	w.t.Helper()
	if _, err := w.decider.Pass(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.poster.Pass(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// arrive mines transactions, makes them final, and credits what came.
func (w *depositWorld) arrive(by *watch.Watcher, txs ...evmtest.Tx) {
	w.t.Helper()
	w.chain.Mine(txs...)
	w.chain.MineEmpty(2)
	w.catchUp(by)
	w.credit()
}

func TestAnAccountHasOneAddressAndIndicesHaveNoGap(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	account := newAccount(t)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			who := account
			if i%2 == 0 {
				who = newAccount(t)
			}
			if _, err := w.deposits.Address(t.Context(), who, func(i uint32) (chain.Address, error) {
				return evmtest.Address("deposit", uint64(i)), nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := w.text(`SELECT count(*) || ' ' || max(deposit_index) FROM deposit_address`); got != "11 10" {
		t.Errorf("addresses and the last index: got %q, want 11 and 10", got)
	}
}

func TestNoMoreAddressesAreGivenThanTheBound(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	w.deposits.MaxAddresses = 2
	derive := func(i uint32) (chain.Address, error) { return evmtest.Address("deposit", uint64(i)), nil }
	accounts := []ids.AccountID{newAccount(t), newAccount(t), newAccount(t)}
	for n, account := range accounts {
		_, err := w.deposits.Address(t.Context(), account, derive)
		if n < 2 && err != nil {
			t.Errorf("address %d: got the error %v, want none", n, err)
		}
		if n == 2 && !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("an address beyond the bound: got the error %v, want %s", err, fault.ServiceUnavailable)
		}
	}
	if _, err := w.deposits.Address(t.Context(), accounts[0], derive); err != nil {
		t.Errorf("an address that was given: got the error %v, want none", err)
	}
}

func TestTheOpenSumIsOfAllThatWaitsOnAllPages(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(300_000)), evmtest.Transfer(2, w.token, at, usd(400_000)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	w.credit()
	open := func() (text string) {
		t.Helper()
		sums, err := w.deposits.OpenSums(t.Context(), w.accounts[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range sums {
			text += fmt.Sprintf("%d of %s: %s (%d)", o.Transfers, o.Token, o.Amount, o.Units)
		}
		return text
	}
	if got, want := open(), "2 of 8453:usdc: 700000 (700000)"; got != want {
		t.Errorf("below a dollar: got %q, want %q", got, want)
	}
	w.chain.Mine(evmtest.Transfer(3, w.token, at, usd(300_000)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	w.credit()
	if got := open(); got != "" {
		t.Errorf("at a dollar: got %q, want nothing open", got)
	}
}

func TestADepositIsCreditedOnceItsAddressHasADollar(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	w.arrive(by, evmtest.Transfer(1, w.token, at, usd(600_000)))
	if got := w.text(`SELECT state || ' ' || waits FROM transfer`); got != "final minimum" {
		t.Errorf("60 cents: got %q, want it to wait for the minimum", got)
	}
	w.arrive(by, evmtest.Transfer(2, w.token, at, usd(399_999)))
	if got := w.books.has(deposit.FactDeposited); got != 0 {
		t.Errorf("a millionth below a dollar: got %d credits, want 0", got)
	}
	w.arrive(by, evmtest.Transfer(3, w.token, at, usd(10_000)))
	w.hasTransfers("above a dollar", "0 credited 10000, 0 credited 399999, 0 credited 600000")
	if got := w.books.has(deposit.FactDeposited); got != 3 {
		t.Errorf("above a dollar: got %d credits, want 3", got)
	}
}

func TestCoinsWaitForAPriceAndKeepTheirQuote(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.SVC, 2)
	w.prices.rate = 0
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	w.arrive(by, evmtest.Coins(1, at, usd(1_000_000_000_000_000_000)),
		evmtest.Coins(666, at, usd(3_000_000_000_000_000_000)))
	if got := w.text(`SELECT string_agg(waits, ',') FROM transfer`); got != "quote,quote" {
		t.Errorf("without a price: got %q, want both to wait for it", got)
	}
	w.prices.rate = 2_000_000_000
	w.books.lost = 1
	if _, err := w.decider.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.poster.Pass(t.Context()); !errors.Is(err, errEntryLost) {
		t.Fatalf("got the error %v, want %v", err, errEntryLost)
	}
	w.prices.rate = 9_000_000_000 // what is decided stays, although the answer was lost
	w.credit()
	w.hasTransfers("with a price", "0 credited 1000000000000000000, 0 denied 3000000000000000000")
	if got := w.text(`SELECT string_agg(rate || ' ' || coalesce(screened, ''), ',') FROM transfer`); got !=
		"2000000000 test:1,2000000000 test:1" {
		t.Errorf("rates: got %q, want that of the decision and the screener's version", got)
	}
}

func TestCoinsThatNoTransactionBringsAreStrayAndAnOperatorEndsThem(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.SVC, 2)
	at, by := w.newAddress(), w.watcher()
	w.newAddress()
	w.catchUp(by)
	growth := &deposit.Growth{Store: w.deposits, Chains: w.decider.Chains, Config: w.decider.Config,
		Small: func(chain.Asset, chain.Amount) bool { return false }}
	inner := evmtest.Tx{Salt: 1, From: evmtest.Address("sender", 1), To: evmtest.Address("splitter", 1),
		Moves: []evmtest.Move{{Account: at, Amount: usd(5_000_000_000_000_000_000)}}}
	w.arrive(by, inner, evmtest.Coins(2, at, usd(1_000_000_000_000_000_000)))
	for want := 1; want >= 0; want-- { // once an hour
		found, err := growth.Pass(t.Context(), chain.SVC)
		if err != nil {
			t.Fatal(err)
		}
		if found != want {
			t.Errorf("growth: got %d, want %d", found, want)
		}
	}
	w.credit()
	w.hasTransfers("looked", "0 credited 1000000000000000000, 0 unmatched 5000000000000000000")
	w.exec(`UPDATE transfer SET ended = 'matched', ended_by = 'operator:ann', end_reason = 'asked', account_id = $1
		WHERE state = 'unmatched'`, w.accounts[1])
	wantActs(t, w.pool, "operator:ann match_transfer "+w.accounts[1].String())
	w.credit()
	w.hasTransfers("matched", "0 credited 1000000000000000000, 0 credited 5000000000000000000")
	if got := w.books.has(deposit.FactMatched); got != 1 {
		t.Errorf("matched: got %d entries, want 1", got)
	}
	if _, err := pgtest.Owner(t, w.pool).Exec(t.Context(), `DELETE FROM balance_check`); err != nil {
		t.Fatal(err)
	}
	if found, err := growth.Pass(t.Context(), chain.SVC); found != 0 {
		t.Errorf("the next hour: got %d, want nothing new", found)
	} else if err != nil {
		t.Errorf("the next hour: got the error %v, want none", err)
	}
}

// Token side of hostile test 54.
func TestHostile54_OnlyWhatReallyArrivedOfAListedTokenIsCreditedOnce(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 3)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	fake := evmtest.Transfer(1, evmtest.Address("fake token", 1), at, usd(1_000_000_000))
	flood := evmtest.Tx{Salt: 3}
	for range 500 {
		flood.Events = append(flood.Events, evmtest.TransferEvent(w.token, evmtest.Address("s", 1), at, usd(1)),
			evmtest.TransferEvent(w.token, evmtest.Address("s", 1), at, usd(0)))
	}
	flood.Moves = []evmtest.Move{{Token: w.token, Account: at, Amount: usd(500)}}
	w.arrive(by, fake, flood)
	w.chain.MineEmpty(1)
	w.catchUp(by)
	w.credit()
	const rows = `SELECT (SELECT count(*) FROM transfer) || ' ' || (SELECT count(*) FROM deposit_dust)`
	if got := w.text(rows); got != "0 1" {
		t.Errorf("a fake token and a flood: got %q, want no transfer and one row of dust", got)
	}
	// Of a token that takes a fee, or lies, less arrives than its log says.
	fee := evmtest.Lie(4, w.token, at, usd(5_000_000))
	fee.Moves = []evmtest.Move{{Token: w.token, Account: at, Amount: usd(4_950_000)}}
	w.arrive(by, fee, evmtest.Lie(5, w.token, at, usd(7_000_000)))
	w.chain.MineEmpty(1)
	w.catchUp(by)
	w.credit()
	if got := w.text(`SELECT string_agg(state || ' ' || waits, ',') FROM transfer`); got != "final balance,final balance" {
		t.Errorf("a fee and a lie: got %q, want both to wait for the balance", got)
	}
	if got := w.books.has(deposit.FactDeposited); got != 0 {
		t.Errorf("a fee and a lie: got %d credits, want 0", got)
	}
}

func TestHostile54_ADepositThatItsChainLosesAfterCreditIsTakenBackOnce(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by := w.newAddress(), w.watcher()
	w.chain.MineEmpty(4)
	w.catchUp(by)
	w.arrive(by, evmtest.Transfer(1, w.token, at, usd(2_000_000)))
	w.arrive(by, evmtest.Transfer(2, w.token, at, usd(3_000_000)))
	w.hasTransfers("credited", "0 credited 2000000, 0 credited 3000000")
	w.chain.Reorg(6)
	w.chain.Mine(evmtest.Transfer(2, w.token, at, usd(3_000_000)))
	w.chain.MineEmpty(9)
	if r, err := by.Pass(t.Context()); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if !r.Halted {
		t.Fatalf("got halted %t, want a halt", r.Halted)
	}
	w.credit()
	if got := w.books.has(deposit.FactGone); got != 0 {
		t.Errorf("halted: got %d reversals, want none before an operator has said so", got)
	}
	lifter := &watch.Lifter{Store: w.store, Chains: map[chain.ID]watch.Reader{chain.Base: w.reads}}
	halt, _, err := w.store.OpenHalt(t.Context(), chain.Base)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lifter.Lift(t.Context(), chain.Base, halt.Is, "operator:ann", "so it is"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.catchUp(by)
		w.credit()
	}
	w.hasTransfers("lifted", "0 dropped 2000000, 0 credited 3000000")
	if got := w.books.has(deposit.FactGone); got != 1 {
		t.Errorf("lifted: got %d reversals, want 1", got)
	}
	if got := w.books.has(deposit.FactDeposited); got != 2 {
		t.Errorf("lifted: got %d credits, want the 2 of before", got)
	}
}

// Over random histories of blocks, changes above the final block, watchers that take over from each other, lost
// answers and processes that die between any two steps, each transfer that is final is credited exactly once, and no
// other.
func TestCreditedIsPostedAndNeverTwiceOverRandomHistories(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w := newDepositWorld(t, chain.Base, 6)
	addresses := []chain.Address{w.newAddress(), w.newAddress()}
	watchers := []*watch.Watcher{w.watcher(), w.watcher()}
	salt, steps := uint64(0), 250
	if testing.Short() {
		steps = 80
	}
	var loose []evmtest.Tx
	for range steps {
		switch r.IntN(8) {
		case 0, 1:
			salt++
			tx := evmtest.Transfer(salt, w.token, addresses[r.IntN(2)], usd(1_000_000+salt))
			w.chain.Mine(tx)
			loose = append(loose, tx)
		case 2:
			w.chain.MineEmpty(1 + r.IntN(3))
		case 3: // not below the final block; what falls out may be mined again
			depth := min(1+r.IntN(6), int(w.chain.Head()))
			w.chain.Reorg(depth)
			for _, tx := range loose {
				if !w.chain.Has(tx) && r.IntN(3) > 0 {
					w.chain.Mine(tx)
				}
			}
			w.chain.MineEmpty(depth)
		case 4, 5:
			one := r.IntN(2)
			if r.IntN(4) == 0 {
				watchers[one] = w.watcher() // another process
			}
			if _, err := watchers[one].Pass(t.Context()); err != nil && !errors.Is(err, watch.ErrFenced) {
				t.Fatal(err)
			}
			_ = watchers[one].Look(t.Context())
		case 6:
			if _, err := w.decider.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		case 7:
			w.books.lost = r.IntN(3)
			if _, err := w.poster.Pass(t.Context()); err != nil && !errors.Is(err, errEntryLost) {
				t.Fatal(err)
			}
		}
	}
	w.books.lost = 0
	w.chain.MineEmpty(7)
	w.catchUp(w.watcher())
	w.credit()
	want := w.mined(loose)
	got := w.text(`SELECT coalesce(string_agg('0x' || encode(tx_hash, 'hex'), ',' ORDER BY tx_hash), '') FROM transfer
		WHERE state = 'credited'`)
	if got != strings.Join(want, ",") {
		t.Errorf("credited: got %s, want %s", got, strings.Join(want, ","))
	}
	if got := w.books.has(deposit.FactDeposited); got != len(want) {
		t.Errorf("entries: got %d, want %d", got, len(want))
	}
	w.audit()
}

// mined returns the hashes of those transactions that the chain has, in order.
func (w *depositWorld) mined(txs []evmtest.Tx) []string {
	var hashes []string
	for _, tx := range txs {
		if w.chain.Has(tx) {
			hashes = append(hashes, tx.Hash().String())
		}
	}
	slices.Sort(hashes)
	return hashes
}

// audit fails the test where an invariant does not hold.
func (w *depositWorld) audit() {
	w.t.Helper()
	report, err := w.store.Audit(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			w.t.Errorf("%s: got %d drifts (%v), want none", i.Name, i.Drift, i.Examples)
		}
	}
}

func TestTheDatabaseRefusesACreditThatIsNotOne(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	w.chain.Mine(evmtest.Transfer(1, w.token, at, usd(2_000_000)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	for name, attack := range map[string]struct{ sql, says string }{
		"credited without an entry": {`UPDATE transfer SET state = 'credited'`, "transfer_credited_once"},
		"credited twice": {`INSERT INTO transfer SELECT (t).* FROM (SELECT t FROM transfer t) x`,
			"duplicate key"},
		"another amount": {`UPDATE transfer SET amount = 9`, "stays"},
		"back to seen":   {`UPDATE transfer SET state = 'seen'`, "does not go"},
		"a decision with a quote of dollars": {`UPDATE transfer
			SET decision = 'credit', rate = 1, quote_source = 'x', quote_at = now()`, "transfer_quoted"},
		"deleted":                     {`DELETE FROM transfer`, "denied"},
		"an older fence":              {`UPDATE chain_cursor SET fence = fence - 1`, "never goes back"},
		"a cursor that goes back":     {`UPDATE chain_cursor SET block = 0, again = 0`, "goes back only"},
		"an address that changes":     {`UPDATE deposit_address SET account_id = gen_random_uuid()`, "denied"},
		"an event that is taken back": {`DELETE FROM chain_event`, "denied"},
	} {
		if _, err := w.pool.Exec(t.Context(), attack.sql); err == nil {
			t.Errorf("%s: got the error %v, want one with %q", name, err, attack.says)
		} else if !strings.Contains(err.Error(), attack.says) {
			t.Errorf("%s: got the error %v, want one with %q", name, err, attack.says)
		}
	}
	w.exec(`INSERT INTO chain_halt (chain_id, block, was_hash, is_hash)
		VALUES (8453, 1, decode(repeat('01', 32), 'hex'), decode(repeat('02', 32), 'hex'))`)
	_, err := w.pool.Exec(t.Context(), `UPDATE transfer SET decision = 'credit'`)
	if err == nil {
		t.Error("a decision on a halted chain: got no error, want a refusal")
	} else if !strings.Contains(err.Error(), "halted chain") {
		t.Errorf("a decision on a halted chain: got the error %v, want a refusal", err)
	}
}

func TestTheDatabaseHasTheWaysOfTransfers(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 2)
	var want []string
	for _, from := range deposit.States() {
		for _, to := range deposit.States() {
			if from.May(to) {
				want = append(want, string(from)+">"+string(to))
			}
		}
	}
	slices.Sort(want)
	got := w.text(`SELECT string_agg(from_state || '>' || to_state, ' ' ORDER BY from_state || '>' || to_state COLLATE "C")
		FROM transfer_transition`)
	if got != strings.Join(want, " ") {
		t.Errorf("got %s, want %s", got, strings.Join(want, " "))
	}
}
