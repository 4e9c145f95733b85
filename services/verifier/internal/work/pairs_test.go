package work_test

import (
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/pairing"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/work"
)

// One consumer lets its requests fail on purpose, and each replica has probes beside them.
func TestPairsOfOneAccountCountOnceADayForAllReplicas(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Advance(t, o, "first", standing.Event{Ticked: &standing.Tick{}})
	pair := func(replica, n int, account string) {
		t.Helper()
		var told []ids.ProviderID
		at := clock.NewManual(storetest.Start)
		p := &work.Pairs{Matcher: pairing.New(), Mover: mover(e.Stores[replica], &told), Clock: at,
			Log: slog.New(slog.DiscardHandler)}
		id := probe.ID{1, byte(n)}
		p.Matcher.Begin(o, id, at.Now())
		p.Matcher.Ended(o, id, false, at.Now())
		p.Matcher.Attempted(pairing.Attempt{Request: id.String(), Account: account, Offer: o, Failed: true,
			At: at.Now().Add(time.Second)})
		at.Advance(2 * pairing.Hold)
		p.Pass(t.Context())
	}
	for n := range 6 {
		pair(n%2, n, "griefer")
	}
	if n := e.Count(t, `SELECT count(*) FROM event WHERE kind = 'paired'`); n != 1 {
		t.Errorf("pairs of one account: got %d, want 1", n)
	}
	pair(0, 7, "another")
	if n := e.Count(t, `SELECT count(*) FROM event WHERE kind = 'paired'`); n != 2 {
		t.Errorf("pairs of two accounts: got %d, want 2", n)
	}
}
