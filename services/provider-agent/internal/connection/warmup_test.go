package connection

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

func isWarmed(f *agentv2.Frame) bool { return f.GetWarmupResult() != nil }

func warmUp(s *hubtest.Session, model string) {
	s.Send(&agentv2.Frame{Body: &agentv2.Frame_Warmup{Warmup: &agentv2.Warmup{ModelId: model}}})
}

func warmed(s *hubtest.Session) *agentv2.WarmupResult {
	return s.ControlOf(isWarmed).GetWarmupResult()
}

// takesWarmUps lets a link load models with warm.
func takesWarmUps(warm Warm) func(*Deps) { return func(d *Deps) { d.Warm = warm } }

func TestWarmUpTellsHowLongTheModelTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true, deps: takesWarmUps(func(_ context.Context, model string) error {
			pass(7 * time.Second)
			if model != "m" {
				t.Errorf(`loaded: got %q, want "m"`, model)
			}
			return nil
		})})
		s := b.hub.AcceptLive()
		warmUp(s, "m")
		if got, end := s.Open("m", body(3)).Answer(); string(got) != body(3) {
			t.Errorf("a request beside: got %q, want %q", string(got), body(3))
		} else if !end.GetComplete() {
			t.Errorf("a request beside: end.GetComplete(): got false, want true, with %v", end)
		}
		switch r := warmed(s); {
		case !r.GetSuccess():
			t.Errorf("the result: r.GetSuccess(): got false, want true, with %v", r)
		case r.GetModelId() != "m":
			t.Errorf(`the result: r.GetModelId(): got %q, want "m"`, r.GetModelId())
		case r.GetLoadTimeMs() != 7000:
			t.Errorf("the result: r.GetLoadTimeMs(): got %d, want 7000", r.GetLoadTimeMs())
		case r.GetError() != "":
			t.Errorf(`the result: r.GetError(): got %q, want ""`, r.GetError())
		}
	})
}

func TestWarmUpOfAModelIsDoneOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int32
		b := setup(t, echo, options{piped: true, deps: takesWarmUps(func(context.Context, string) error {
			loads.Add(1)
			return errors.New("the engine answers 500")
		})})
		s := b.hub.AcceptLive()
		for range 3 {
			warmUp(s, "m")
			if r := warmed(s); r.GetSuccess() {
				t.Errorf("the result: r.GetSuccess(): got true, want false, with %v", r)
			} else if r.GetError() != "the engine answers 500" {
				t.Errorf(`the result: r.GetError(): got %q, want "the engine answers 500"`, r.GetError())
			}
		}
		if n := loads.Load(); n != 1 {
			t.Errorf("it was loaded: got %d, want 1", n)
		}
		pass(warmUpInterval)
		warmUp(s, "m")
		warmed(s)
		if n := loads.Load(); n != 2 {
			t.Errorf("after a minute it was loaded: got %d, want 2", n)
		}
	})
}

func TestModelsAreLoadedOneAtATimeAndFewWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, begun := make(chan struct{}), make(chan string, 64)
		var offers []Offer
		for i := range maxWarmUps + 2 {
			offers = append(offers, Offer{ModelID: fmt.Sprintf("m%d", i), Capacity: 1})
		}
		b := setup(t, echo, options{piped: true, offers: offers,
			deps: takesWarmUps(func(_ context.Context, model string) error {
				begun <- model
				<-release
				return nil
			})})
		s := b.hub.AcceptLive()
		for _, o := range offers {
			warmUp(s, o.ModelID)
		}
		for range 2 { // those beyond the bound are told at once
			if r := warmed(s); r.GetSuccess() {
				t.Errorf("the result: r.GetSuccess(): got true, want false, with %v", r)
			} else if !strings.Contains(r.GetError(), "too many") {
				t.Errorf(`the result: r.GetError(): got %q, want "too many" in it`, r.GetError())
			}
		}
		synctest.Wait()
		if len(begun) != 1 {
			t.Errorf("loaded at once: got %d, want 1", len(begun))
		}
		close(release)
		for range maxWarmUps {
			if r := warmed(s); !r.GetSuccess() {
				t.Errorf("the result is %v", r)
			}
		}
	})
}

func TestWarmUpsThatCannotBeAreRefused(t *testing.T) {
	b := setup(t, echo, options{deps: takesWarmUps(func(context.Context, string) error { return nil })})
	s := b.hub.AcceptLive()
	for _, model := range []string{"unknown", "", strings.Repeat("x", 3000), "a\nb"} {
		warmUp(s, model)
		switch r := warmed(s); {
		case r.GetSuccess():
			t.Errorf("%.20q: the result: r.GetSuccess(): got true, want false, with %v", model, r)
		case len(r.GetModelId()) > maxError:
			t.Errorf("%.20q: the result: len(r.GetModelId()): got %d, want at most %d, in %v", model, len(r.GetModelId()),
				maxError, r)
		case strings.Contains(r.GetModelId(), "\n"):
			t.Errorf("%.20q: the result: r.GetModelId(): got %q, want it without %q", model, r.GetModelId(), "\n")
		case r.GetError() == "":
			t.Errorf(`%.20q: the result: r.GetError(): got "", want some text`, model)
		}
	}
	b = setup(t, echo, options{})
	s = b.hub.AcceptLive()
	warmUp(s, "m")
	if r := warmed(s); r.GetSuccess() {
		t.Errorf("the result: r.GetSuccess(): got true, want false, with %v", r)
	} else if !strings.Contains(r.GetError(), "does not take") {
		t.Errorf(`the result: r.GetError(): got %q, want "does not take" in it`, r.GetError())
	}
}

func TestLostConnectionEndsItsWarmUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Int32
		b := setup(t, echo, options{piped: true, random: constant(0),
			deps: takesWarmUps(func(ctx context.Context, _ string) error {
				<-ctx.Done()
				stopped.Add(1)
				return ctx.Err()
			})})
		s := b.hub.AcceptLive()
		warmUp(s, "m")
		synctest.Wait()
		s.Kill()
		b.hub.AcceptLive()
		if n := stopped.Load(); n != 1 {
			t.Errorf("warm-ups stopped: got %d, want 1", n)
		}
	})
}

func TestDrainedConnectionStaysUntilItsWarmUpIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := setup(t, echo, options{piped: true, random: constant(0),
			deps: takesWarmUps(func(ctx context.Context, _ string) error {
				select {
				case <-release:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})})
		old := b.hub.AcceptLive()
		warmUp(old, "m")
		synctest.Wait()
		old.Send(drainIn(time.Second))
		fresh := b.hub.AcceptLive()
		if !isOpen(old) {
			t.Fatal("the old connection ended under its warm-up")
		}
		close(release)
		if r := warmed(old); !r.GetSuccess() {
			t.Errorf("the result is %v", r)
		}
		old.WaitClosed()
		warmUp(fresh, "m")
		if r := warmed(fresh); !r.GetSuccess() {
			t.Errorf("on the new connection the result is %v", r)
		}
	})
}

func TestWarmUpThatIsCutOffIsNotTheModelsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int32
		b := setup(t, echo, options{piped: true, random: constant(0),
			deps: takesWarmUps(func(ctx context.Context, _ string) error {
				if loads.Add(1) > 1 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			})})
		old := b.hub.AcceptLive()
		warmUp(old, "m")
		synctest.Wait()
		old.Send(drainIn(time.Second))
		fresh := b.hub.AcceptLive()
		old.Kill() // the hub has not waited for it
		old.WaitClosed()
		synctest.Wait()
		warmUp(fresh, "m")
		if r := warmed(fresh); !r.GetSuccess() {
			t.Errorf("r.GetSuccess(): got false, want true, with %v", r)
		} else if loads.Load() != 2 {
			t.Errorf("it was loaded: got %d, want 2", loads.Load())
		}
	})
}

func TestStopDoesNotWaitForWarmUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true, random: constant(0),
			deps: takesWarmUps(func(ctx context.Context, _ string) error {
				<-ctx.Done()
				return ctx.Err()
			})})
		old := b.hub.AcceptLive()
		warmUp(old, "m")
		synctest.Wait()
		old.Send(drainIn(time.Second))
		b.hub.AcceptLive()
		if !isOpen(old) {
			t.Fatal("the old connection ended under its warm-up")
		}
		began := time.Now()
		b.stop()
		<-b.done
		if took := time.Since(began); took != 0 {
			t.Errorf("it took: got %v, want 0", took)
		}
	})
}

func TestWarmUpIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWarmer(func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}, clock.System)
		w.enter()
		if took, err := w.load(t.Context(), "m"); err == nil {
			t.Error("got no error, want one")
		} else if took != warmUpTimeout {
			t.Errorf("it took: got %v, want %v", took, warmUpTimeout)
		}
		if w.waiting != 0 {
			t.Errorf("w.waiting: got %d, want 0", w.waiting)
		} else if len(w.turn) != 0 {
			t.Errorf("len(w.turn): got %d, want 0", len(w.turn))
		}
	})
}
