package store_test

import (
	"encoding/hex"
	"testing"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm/evmtest"
)

func TestDollarsThatAreMadeForAnAddressAreThoseOfWhoeverHadThemMade(t *testing.T) {
	t.Parallel()
	w := newDepositWorld(t, chain.Base, 2)
	at, by := w.newAddress(), w.watcher()
	w.catchUp(by)
	bridge := evmtest.Address("bridge", 1)
	w.arrive(by, evmtest.Tx{Salt: 1, From: bridge, To: w.token,
		Events: []evmtest.Event{evmtest.TransferEvent(w.token, chain.Address{}, at, usd(5_000_000))},
		Moves:  []evmtest.Move{{Token: w.token, Account: at, Amount: usd(5_000_000)}}})
	want := "credited " + hex.EncodeToString(bridge[:])
	if got := w.text(`SELECT state || ' ' || encode(sender, 'hex') FROM transfer`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.audit()
}
