package store_test

import (
	"context"
	"testing"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/screen"
)

// asked counts the questions to a screener.
type asked struct {
	deposit.Screener
	times int
}

func (a *asked) Check(ctx context.Context, address chain.Address) (screen.Verdict, error) {
	a.times++
	return a.Screener.Check(ctx, address)
}

// Anybody may send many small transfers, which stay open. A screening service would be asked about each of them at each
// pass, which keeps the deposits of others waiting.
func TestNobodyIsAskedAboutDepositsThatAreNotEnough(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	screener := &asked{Screener: w.decider.Screener}
	w.decider.Screener = screener
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	var flood []evmtest.Tx
	for salt := range uint64(20) {
		flood = append(flood, evmtest.Transfer(salt+1, w.token, at, usd(20_000)))
	}
	w.arrive(by, flood...)
	w.credit()
	if screener.times != 0 {
		t.Errorf("20 transfers of 2 cents: got %d questions, want none", screener.times)
	}
	if got := w.text(`SELECT string_agg(DISTINCT waits, ',') FROM transfer`); got != string(deposit.ForMinimum) {
		t.Errorf("20 transfers of 2 cents wait for %q, want %q", got, deposit.ForMinimum)
	}
	w.arrive(by, evmtest.Transfer(21, w.token, at, usd(600_000)))
	if screener.times != 21 {
		t.Errorf("a dollar together: got %d questions, want one for each of 21", screener.times)
	}
	if got := w.text(`SELECT string_agg(DISTINCT state, ',') FROM transfer`); got != string(deposit.Credited) {
		t.Errorf("a dollar together: got the states %q, want %q", got, deposit.Credited)
	}
}
