package providerhub_test

import (
	"testing"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/fakeagent"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// TestNodeThatMovesKeepsItsOpenRequests has an agent say that it leaves, and come
// back before its requests have ended.
func TestNodeThatMovesKeepsItsOpenRequests(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	old := w.dial(m, fakeagent.Options{})
	c := w.call(order(m, old, true))
	r := received(t, old)
	must(t, r.Text("one "))
	c.content()
	must(t, old.Send(&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}}))
	must(t, old.Ping())
	fresh := w.dial(m, fakeagent.Options{})
	if warning := fresh.Ack().GetWarning(); warning != "" {
		t.Errorf(`the newer one is warned: got %q, want ""`, warning)
	}
	next := w.call(order(m, fresh, true))
	r2 := received(t, fresh)
	for _, r := range []*fakeagent.Request{r2, r} {
		must(t, r.Text("two"))
		must(t, r.Finish("stop"))
		must(t, r.Usage(12, 2))
		must(t, r.Done())
		must(t, r.End(200, true))
	}
	for name, c := range map[string]*call{"older": c, "newer": next} {
		if got := c.rest(); got.finished == nil {
			t.Errorf("%s: finished: got nil, want a value", name)
		} else if got.failed != nil {
			t.Errorf("%s: failed: got %v, want nil", name, got.failed)
		}
	}
	select {
	case <-old.Closed():
		t.Error("the older one was closed")
	default:
	}
}

func TestAHubThatStopsWaitsForItsAgentsToMoveAndNotForEver(t *testing.T) {
	t.Parallel()
	stopped := func(t *testing.T) (*fakeagent.Agent, <-chan struct{}) {
		t.Helper()
		w := setup(t, func(c *hubConfig) { c.DrainTimeout = patience })
		a := w.dial(w.active(), fakeagent.Options{})
		halted := make(chan struct{})
		go func() {
			defer close(halted)
			w.halt(w.hub)
		}()
		wait(t, "the drain", a.Drained())
		return a, halted
	}
	t.Run("one that moves", func(t *testing.T) {
		a, halted := stopped(t)
		began := time.Now()
		select {
		case <-a.Closed():
			t.Error("its connection is closed before it is registered elsewhere")
		case <-time.After(200 * time.Millisecond):
		}
		a.Close()
		wait(t, "the end", halted)
		if took := time.Since(began); took > patience/2 {
			t.Errorf("it took: got %v, want at most %v", took, patience/2)
		}
	})
	t.Run("one that stays", func(t *testing.T) {
		a, halted := stopped(t)
		began := time.Now()
		wait(t, "the end of its connection", a.Closed())
		if a.Farewell().GetCode() != agentwire.CodeShuttingDown {
			t.Errorf("it hears: got %q, want %q", a.Farewell().GetCode(), agentwire.CodeShuttingDown)
		}
		wait(t, "the end", halted)
		if took := time.Since(began); took > patience/2 {
			t.Errorf("it took: got %v, want at most %v", took, patience/2)
		}
	})
}
