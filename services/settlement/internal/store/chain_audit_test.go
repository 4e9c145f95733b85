package store_test

import (
	"errors"
	"testing"

	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/chainaudit"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/store"
)

// RPCs that invent a receipt together are believed. Others do not have it.
func TestADepositThatRPCsInventedIsFoundByOthers(t *testing.T) {
	t.Parallel()
	w := newChainWorld(t, chain.Base, 2)
	honest := newChainWorld(t, chain.Base, 2)
	at, by := w.address(0), w.watcher()
	w.catchUp(by)
	w.chain.Mine(evmtest.Lie(1, w.token, at, usd(5_000_000)))
	w.chain.MineEmpty(3)
	honest.chain.MineEmpty(4)
	w.catchUp(by)
	w.exec(`UPDATE transfer SET decision = 'credit', account_id = gen_random_uuid(), screened = 'v1'`)
	w.exec(`UPDATE transfer SET state = 'credited', entry_id = 'e1'`)
	rows := store.ChainRows{Reserves: store.Reserves{Store: w.store.Store}}
	verify := func(node chainaudit.Node) audit.Report {
		t.Helper()
		cfg := w.reads.Config()
		cfg.Collateral = nil
		auditor := chainaudit.Auditor{Rows: rows, Node: node, Config: cfg,
			Decode: func([]byte) (chain.Sent, error) { return chain.Sent{}, errors.New("nothing was sent") }}
		found, err := auditor.Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return audit.NewReport(found)
	}
	drifts := func(r audit.Report, name string) int64 {
		for _, i := range r.Invariants {
			if i.Name == "chain 8453: "+name {
				return i.Drift
			}
		}
		t.Fatalf("there is no check %q", name)
		return 0
	}
	const arrived, held = "credited deposits are on the chain", "reserves are held"
	liars := verify(w.reads)
	if got := drifts(liars, arrived); got != 0 {
		t.Errorf("by those who lie: deposits: got %d drifts, want 0", got)
	}
	if got := drifts(liars, held); got != 1 {
		t.Errorf("by those who lie: reserves: got %d drifts, want 1, because nothing arrived", got)
	}
	if got := drifts(verify(honest.reads), arrived); got != 1 {
		t.Errorf("by others: deposits: got %d drifts, want 1", got)
	}
	honest.rpcs[1].Down(true)
	down := verify(honest.reads)
	if down.Drift != 0 {
		t.Errorf("one is silent: got %d drifts, want 0", down.Drift)
	}
	if want := 4; down.Unknown < want {
		t.Errorf("one is silent: got %d checks that are not known, want at least %d", down.Unknown, want)
	}
}
