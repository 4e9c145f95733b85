package store_test

import (
	"testing"
	"time"

	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// fingerprinted queues a fingerprint of an offer, takes it, and judges the answer, which is
// wrong or right.
func fingerprinted(t *testing.T, e *storetest.Env, o probe.Offer, wrong bool) {
	t.Helper()
	r := judgetest.Fingerprint(t, judgetest.Say{N: 1, Exceeded: wrong})
	plan := e.Plan(t, o)
	plan.Kind, plan.Flow, plan.Greedy, plan.PromptTokens, plan.MaxTokens = probe.Fingerprint, probe.Visible, false, 1, 0
	r.Plan, r.Answer.Served = plan, o.Provider.String()
	e.Queue(t, plan)
	ok(e.Stores[0].Take(t.Context(), "a", store.MaxBatch))(t)
	e.Advance(t, o, store.ProbeKey(plan.ID), standing.Event{Judged: &r})
}

// Providers read the result of their fingerprints from the observations.
func TestFilesThatDifferAreAnObservationOfTheSecondFingerprint(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	fingerprinted(t, e, o, false)
	fingerprinted(t, e, o, true)
	e.Pass(t, 24*time.Hour)
	fingerprinted(t, e, o, true)
	list := ok(e.Stores[0].Challenges(t.Context(), o.Provider, storetest.Start, store.ChallengeCursor{}, 10))(t)
	is(t, "challenges", len(list), 3)
	for i, want := range []struct{ observed, exceeded int }{{1, 1}, {0, 0}, {1, 0}} {
		is(t, "observations", list[i].Observed, want.observed)
		is(t, "exceedances", list[i].Exceeded, want.exceeded)
	}
	is(t, "observations of E", e.Count(t, `SELECT count(*) FROM observation WHERE family = 'files'`), 2)
}
