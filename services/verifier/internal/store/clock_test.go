package store_test

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

func TestTheClockTellsTheDatabasesTimeBetweenTwoReads(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	machine := clock.NewManual(storetest.Start.Add(-3 * time.Hour))
	c := store.NewClock(e.Stores[0], machine)
	is := func(what string, want time.Time) {
		t.Helper()
		if got := c.Now(); !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	read := func() {
		t.Helper()
		if err := c.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	is("before the first read", machine.Now())
	read()
	is("at the first read", storetest.Start)
	machine.Advance(time.Minute)
	is("a minute later", storetest.Start.Add(time.Minute))
	e.Pass(t, time.Minute+time.Second)
	read()
	is("where the clocks came a second apart", storetest.Start.Add(time.Minute))
	e.Pass(t, 24*time.Hour)
	read()
	is("where the database's clock is a day on", storetest.Start.Add(24*time.Hour+time.Minute+time.Second))
	e.Pass(t, -48*time.Hour)
	read()
	is("where the database's clock was set back", storetest.Start.Add(-24*time.Hour+time.Minute+time.Second))
}

func TestAClockThatCannotReadTheDatabaseGoesOnAsBefore(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	machine := clock.NewManual(storetest.Start.Add(-3 * time.Hour))
	c := store.NewClock(e.Stores[0], machine)
	if err := c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Pass(t, time.Hour)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Read(ended); err == nil {
		t.Error("a read that cannot be: got no error, want one")
	}
	if got := c.Now(); !got.Equal(storetest.Start) {
		t.Errorf("the time: got %v, want %v", got, storetest.Start)
	}
}
