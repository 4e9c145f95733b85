package store_test

import (
	"testing"

	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/trust"
)

// A new account is no way out of the lane of an offer that nobody can judge.
func TestANewAccountInheritsThatNobodyCanJudgeTheOldOne(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	old, fresh := e.See(t, storetest.Provider(t)), e.See(t, storetest.Provider(t))
	wallet := store.Identity{Kind: store.Wallet, Digest: [32]byte{3}}
	for _, o := range []probe.Offer{old, fresh} {
		is(t, "recorded", ok(e.Stores[0].Identify(t.Context(), o.Provider, wallet))(t), true)
	}
	for range standing.UnjudgedVoids {
		r := judgetest.Greedy(t, judgetest.Say{})
		r.Plan = e.Plan(t, old)
		r.Answer.Served = old.Provider.String()
		r.Answer.Raw = []byte(`{"choices":[{"message":{"content":" "},"finish_reason":"stop"}]}`)
		e.Queue(t, r.Plan)
		ok(e.Stores[0].Take(t.Context(), "a", store.MaxBatch))(t)
		e.Advance(t, old, store.ProbeKey(r.Plan.ID), standing.Event{Judged: &r})
	}
	list := ok(e.Stores[0].Inherits(t.Context(), fresh.Provider))(t)
	if len(list) != 1 {
		t.Fatalf("accounts: got %d, want 1", len(list))
	}
	lane, _ := store.Worst(list, fresh.Model, storetest.Start.Add(store.Left))
	is(t, "lane once the old account has left", lane, trust.Probe)
}
