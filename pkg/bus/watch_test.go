package bus_test

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/bustest"
)

// A look is fresh at first and after each reconnection, and others come when the pause is over that the last look
// returned. While the connection is down there is none.
func TestWatchLooksAfterEachConnectionAndAfterEachPause(t *testing.T) {
	s := bustest.NewServer(t)
	c := bustest.Connect(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks, pauses, ended := make(chan bool), make(chan time.Duration), make(chan struct{})
	go func() {
		defer close(ended)
		c.Watch(ctx, func(fresh bool) time.Duration {
			looks <- fresh
			return <-pauses
		})
	}()
	expect := func(want bool, what string) {
		t.Helper()
		if fresh := receive(t, looks, what); fresh != want {
			t.Errorf("%s: fresh: got %v, want %v", what, fresh, want)
		}
	}
	expect(true, "the first look")
	pauses <- 0
	expect(false, "a look after the pause")
	back := c.Reconnected()
	pauses <- time.Hour
	cfg := s.Config()
	s.Stop()
	restart(t, cfg)
	receive(t, back, "the reconnection")
	expect(true, "the look after the reconnection")
	pauses <- time.Hour
	cancel()
	receive(t, ended, "the end")
}
