package store_test

import (
	"fmt"
	"strings"
	"testing"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/watch"
)

// tether is USDT on Base, which everybody knows.
func tether(t *testing.T) chain.Address {
	t.Helper()
	for _, o := range (chain.Config{ID: chain.Base}).Others() {
		if o.Symbol == "USDT" {
			return o.Contract
		}
	}
	t.Fatal("the other tokens of Base: got no USDT, want it")
	return chain.Address{}
}

// others are the transfers of other tokens, as "symbol state amount".
func (w *chainWorld) others() string {
	w.t.Helper()
	return w.text(`SELECT coalesce(string_agg(symbol || ' ' || state || ' ' || amount, ', ' ORDER BY amount), '')
		FROM other_transfer`)
}

func (w *chainWorld) hasOthers(when, want string) {
	w.t.Helper()
	if got := w.others(); got != want {
		w.t.Errorf("%s: got the other transfers %q, want %q", when, got, want)
	}
}

func TestAKnownOtherTokenIsRecordedAndCreditedToNobodyUntilAnOperatorReturnsIt(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	usdt := tether(t)
	// A token of the same symbol whose contract nobody knows is not seen.
	w.chain.Mine(evmtest.Transfer(1, usdt, at, usd(7_000_000)), evmtest.Transfer(2, usdt, at, usd(9_999)),
		evmtest.Transfer(3, evmtest.Address("a false USDT", 1), at, usd(8_000_000)),
		evmtest.Transfer(4, usdt, evmtest.Address("stranger", 1), usd(6_000_000)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	w.credit()
	w.hasTransfers("what may be credited", "")
	w.hasOthers("what may not", "USDT unmatched 7000000")
	if got := len(w.books.entries); got != 0 {
		t.Errorf("entries: got %d, want none", got)
	}
	keeper := &deposit.Keeper{Lists: w.deposits}
	ofAccount, err := keeper.OfAccount(t.Context(), w.accounts[0], 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	unmatched, err := keeper.InState(t.Context(), deposit.Unmatched, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string]deposit.Page{"the account's list": ofAccount, "the unmatched ones": unmatched} {
		if page.Total != 1 {
			t.Fatalf("%s: got %d, want the one of USDT", name, page.Total)
		}
		if got := page.List[0].Other.Contract; got != usdt {
			t.Errorf("%s: got the token %s, want %s", name, got, usdt)
		}
	}
	end := deposit.Ending{Key: ofAccount.List[0].Key, End: deposit.Matched, Account: w.accounts[0], Actor: "operator:ann",
		Reason: "asked for it"}
	if _, err := keeper.End(t.Context(), end); err == nil {
		t.Error("a match: got no error, want one, because the token is credited to nobody")
	}
	end.End, end.Back = deposit.SentBack, chain.Hash{7}
	for _, again := range []string{"", " again"} {
		got, err := keeper.End(t.Context(), end)
		if err != nil {
			t.Fatalf("return%s: got the error %v, want none", again, err)
		}
		if got.State != deposit.Returned {
			t.Errorf("return%s: got the state %s, want %s", again, got.State, deposit.Returned)
		}
		if got.ReturnTx != end.Back {
			t.Errorf("return%s: got the transaction %s, want %s", again, got.ReturnTx, end.Back)
		}
	}
	end.Back = chain.Hash{8}
	if _, err := keeper.End(t.Context(), end); err == nil {
		t.Error("a return by another transaction: got no error, want one")
	}
	w.hasOthers("returned", "USDT returned 7000000")
	wantActs(t, w.pool, "operator:ann return_transfer "+end.Transaction.String())
}

func TestAnotherTokenThatItsChainLosesIsDroppedAndMayBeMinedAgain(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by, usdt := w.newAddress(), w.watcher(), tether(t)
	w.chain.MineEmpty(3)
	w.catchUp(by)
	w.chain.Mine(evmtest.Transfer(1, usdt, at, usd(7_000_000)))
	w.chain.Mine(evmtest.Transfer(2, usdt, at, usd(8_000_000)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	w.chain.Reorg(4)
	w.chain.Mine(evmtest.Transfer(2, usdt, at, usd(8_000_000)))
	w.chain.MineEmpty(6)
	if r := w.catchUp(by); !r.Halted {
		t.Fatal("a changed final block: got no halt, want one")
	}
	halt, _, err := w.store.OpenHalt(t.Context(), chain.Base)
	if err != nil {
		t.Fatal(err)
	}
	lifter := &watch.Lifter{Store: w.store, Chains: map[chain.ID]watch.Reader{chain.Base: w.reads}}
	if _, err := lifter.Lift(t.Context(), chain.Base, halt.Is, "operator:ann", "so it is"); err != nil {
		t.Fatal(err)
	}
	w.catchUp(by)
	w.hasOthers("lifted", "USDT dropped 7000000, USDT unmatched 8000000")
	w.chain.Mine(evmtest.Transfer(1, usdt, at, usd(7_000_000)))
	w.chain.MineEmpty(2)
	for range 2 {
		w.catchUp(by)
	}
	w.hasOthers("mined again", "USDT unmatched 7000000, USDT unmatched 8000000")
}

func TestTheDatabaseRefusesAReturnThatIsNotOne(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	w.chain.Mine(evmtest.Transfer(1, tether(t), at, usd(7_000_000)))
	w.chain.MineEmpty(2)
	w.catchUp(by)
	const back = `return_tx = decode(repeat('07', 32), 'hex'), ended_by = 'operator', end_reason = 'x'`
	for _, attack := range []struct{ name, sql, says string }{
		{"without a transaction", `UPDATE other_transfer SET state = 'returned'`, "other_transfer_returned"},
		{"by the platform itself", `UPDATE other_transfer SET state = 'returned', ` + back + `, ended_by = 'platform'`,
			"ended_by"},
		{"another amount", `UPDATE other_transfer SET amount = 1`, "stays"},
		{"credited", `UPDATE other_transfer SET state = 'credited'`, "does not go"},
		{"begun as returned", `INSERT INTO other_transfer SELECT (o).* FROM (SELECT o FROM other_transfer o) x
			WHERE false UNION ALL SELECT chain_id, decode(repeat('01', 32), 'hex'), place, block, block_hash, at, contract,
			symbol, decimals, sender, deposit_index, amount, 'returned', decode(repeat('01', 32), 'hex'), 'operator', 'x',
			found_at FROM other_transfer`, "begins as unmatched"},
		{"deleted", `DELETE FROM other_transfer`, "denied"},
		{"returned", `UPDATE other_transfer SET state = 'returned', ` + back, "<nil>"},
		{"returned again", `UPDATE other_transfer SET return_tx = decode(repeat('08', 32), 'hex')`, "once"},
		{"dropped once it is returned", `UPDATE other_transfer SET state = 'dropped', return_tx = NULL, ended_by = NULL,
			end_reason = NULL`, "once"},
	} {
		_, err := w.pool.Exec(t.Context(), attack.sql)
		if text := fmt.Sprint(err); !strings.Contains(text, attack.says) {
			t.Errorf("%s: got the error %q, want one with %q", attack.name, text, attack.says)
		}
	}
}
