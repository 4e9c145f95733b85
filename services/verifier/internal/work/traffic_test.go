package work

import (
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/traffic"
)

func newTraffic(s *store.Store, at clock.Clock) *Traffic {
	return &Traffic{Store: s, Counter: traffic.New(), Clock: at, Log: slog.New(slog.DiscardHandler)}
}

func keepAll(t *testing.T, k *Traffic) {
	t.Helper()
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAReplicaBeginsWithTheTrafficOfTheWeek(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o, at := e.See(t, storetest.Provider(t)), clock.NewManual(storetest.Start)
	served := func(k *Traffic) int64 { return k.Counter.Of(o, at.Now()).Served }
	one, other := newTraffic(e.Stores[0], at), newTraffic(e.Stores[1], at)
	hear := func(n int, all ...*Traffic) {
		for _, k := range all {
			for range n {
				k.Counter.Attempted(o, true, at.Now())
			}
		}
	}
	keepAll(t, one)
	keepAll(t, other)
	hear(30, one, other)
	hear(5, one) // the other missed them
	keepAll(t, one)
	keepAll(t, other)
	at.Advance(time.Hour)
	e.Pass(t, time.Hour)
	hear(10, one, other)
	keepAll(t, one)
	hear(10, one, other)
	keepAll(t, one)
	again := newTraffic(e.Stores[0], at)
	hear(1, again) // heard before all is read
	if err := again.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := served(again), int64(35+20+1); got != want {
		t.Errorf("served as a replica knows that began anew: got %d, want %d", got, want)
	}
	keepAll(t, again)
	third := newTraffic(e.Stores[1], at)
	keepAll(t, third)
	if got, want := served(third), int64(35+20+1); got != want {
		t.Errorf("served as a third replica knows: got %d, want %d", got, want)
	}
}

func TestTrafficOfOldHoursIsForgottenInBatches(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o, at := e.See(t, storetest.Provider(t)), clock.NewManual(storetest.Start)
	e.Exec(t, `INSERT INTO traffic_hour (hour, provider_id, model_id, requests, served, payout_nano_usd)
		SELECT $1::timestamptz - n * interval '1 hour', $2, $3, 1, 1, 0 FROM generate_series(1, $4) AS n`,
		storetest.Start, o.Provider, o.Model, 2*store.MaxBatch+300)
	k := newTraffic(e.Stores[0], at)
	keepAll(t, k)
	if got, want := e.Count(t, `SELECT count(*) FROM traffic_hour`), 8*24; got != want {
		t.Errorf("hours that are kept: got %d, want %d", got, want)
	}
	if got, want := k.Counter.Of(o, at.Now()).Served, int64(7*24-1); got != want {
		t.Errorf("served in the hours of a week: got %d, want %d", got, want)
	}
}

func TestTrafficIsReadPageByPage(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	at := clock.NewManual(storetest.Start)
	for range 9 {
		o := e.See(t, storetest.Provider(t))
		e.Exec(t, `INSERT INTO traffic_hour (hour, provider_id, model_id, requests, served, payout_nano_usd)
			SELECT $1::timestamptz - n * interval '1 hour', $2, $3, 1, 0, 7 FROM generate_series(0, 149) AS n`,
			storetest.Start, o.Provider, o.Model)
	}
	k := newTraffic(e.Stores[0], at)
	keepAll(t, k)
	if got, want := len(k.Counter.Since(time.Time{}, at.Now())), 9*150; got != want {
		t.Errorf("hours that are known: got %d, want %d", got, want)
	}
}

func TestTrafficOfAnOfferThatWasNeverSeenIsNotKept(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	k := newTraffic(e.Stores[0], clock.NewManual(storetest.Start))
	k.Counter.Attempted(probe.Offer{Provider: storetest.Provider(t), Model: "invented"}, true, storetest.Start)
	keepAll(t, k)
	if got := e.Count(t, `SELECT count(*) FROM traffic_hour`); got != 0 {
		t.Errorf("hours that are kept: got %d, want 0", got)
	}
}
