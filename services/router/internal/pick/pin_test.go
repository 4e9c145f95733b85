package pick

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/window"
)

func pinned(provider string, fallbacks bool) func(*Request) {
	return func(r *Request) { r.Pin, r.AllowFallbacks = provider, fallbacks }
}

func TestAPinIsHonouredEvenWhenDegraded(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2), session(3))
	rec := b.known.Get(health.Pair{Provider: id(2), Model: "m"})
	for i := range window.Enough {
		rec.Window.Record(window.Sample{At: start, Account: tag.Account(i)})
	}
	for _, fallbacks := range []bool{true, false} {
		c, err := b.Select(t.Context(), b.request(pinned(id(2), fallbacks)))
		switch {
		case err != nil:
			t.Fatalf("got the error %v, want none", err)
		case c.Fallback != NoFallback:
			t.Fatalf("c.Fallback: got %d, want %d", c.Fallback, NoFallback)
		case chosen(c)[0] != id(2):
			t.Fatalf("chosen(c)[0]: got %q, want %q", chosen(c)[0], id(2))
		}
		if want := map[bool]int{true: 3, false: 1}[fallbacks]; len(c.Candidates) != want {
			t.Errorf("got %d candidates with fallbacks=%v, want %d", len(c.Candidates), fallbacks, want)
		}
	}
}

func TestAKnownProviderThatCannotServeIsUnavailable(t *testing.T) {
	for name, arrange := range map[string]func(*bundle){
		"offline":    func(b *bundle) { b.names.exist = []string{id(9)} },
		"not active": func(b *bundle) { b.report("hub", session(9, func(s *presence.Session) { s.Active = false })) },
		"other model": func(b *bundle) {
			b.report("hub",
				session(9, func(s *presence.Session) { s.Offers[0].Model = "x" }))
		},
		"small window": func(b *bundle) {
			b.report("hub",
				session(9, func(s *presence.Session) { s.Offers[0].Window = 10 }))
		},
		"open breaker": func(b *bundle) { b.report("hub", session(9)); b.fail(id(9), breaker.Threshold) },
		"no directory": func(b *bundle) { b.names.err = errors.New("away") },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup()
			b.report("hub", session(1))
			arrange(b)
			c, err := b.Select(t.Context(), b.request(pinned(id(9), true)))
			switch {
			case err != nil:
				t.Errorf("with fallbacks: got the error %v, want none", err)
			case c.Fallback != PinUnavailable:
				t.Errorf("with fallbacks: c.Fallback: got %d, want %d", c.Fallback, PinUnavailable)
			case chosen(c)[0] != id(1):
				t.Errorf("with fallbacks: chosen(c)[0]: got %q, want %q", chosen(c)[0], id(1))
			}
			_, err = b.Select(t.Context(), b.request(pinned(id(9), false)))
			wantReason(t, err, fault.RequestedProviderUnavailable)
		})
	}
}

func TestAPinThatNeverExistedIsRefused(t *testing.T) {
	b := setup()
	b.report("hub", session(1))
	for _, pin := range []string{id(9), "nobody", "0192f0c0-0000-7000-8000"} {
		for _, fallbacks := range []bool{true, false} {
			_, err := b.Select(t.Context(), b.request(pinned(pin, fallbacks)))
			wantReason(t, err, fault.InvalidProvider)
			if f, ok := fault.As(err); !ok {
				t.Errorf("got the error %v, want a fault", err)
			} else if f.Param != "X-Svc-Provider" {
				t.Errorf(`f.Param: got %q, want "X-Svc-Provider"`, f.Param)
			}
		}
	}
	_, err := b.Select(t.Context(), b.request(pinned(id(9), true), func(r *Request) { r.Model = "nobody has it" }))
	wantReason(t, err, fault.InvalidProvider) // 400 before 503
}

func TestAPinThatHasFailedFallsBackForThatReason(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2))
	c, err := b.Select(t.Context(), b.request(pinned(id(2), true), func(r *Request) { r.Exclude = []string{id(2)} }))
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case c.Fallback != PinFailed:
		t.Errorf("c.Fallback: got %d, want %d", c.Fallback, PinFailed)
	case !slices.Equal(chosen(c), []string{id(1)}):
		t.Errorf("chosen(c): got %q, want %q", chosen(c), []string{id(1)})
	}
}

func TestABusyPinIsPassedOverWithFallbacksAndWaitedForWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup()
		b.report("hub", session(1), session(2, full))
		began := time.Now()
		c, err := b.Select(t.Context(), b.request(pinned(id(2), true)))
		if err != nil {
			t.Errorf("with fallbacks: got the error %v, want none", err)
		} else if c.Fallback != PinUnavailable {
			t.Errorf("with fallbacks: c.Fallback: got %d, want %d", c.Fallback, PinUnavailable)
		} else if chosen(c)[0] != id(1) {
			t.Errorf("with fallbacks: chosen(c)[0]: got %q, want %q", chosen(c)[0], id(1))
		} else if got := time.Since(began); got != 0 {
			t.Errorf("with fallbacks: time.Since(began): got %v, want 0", got)
		}
		_, err = b.Select(t.Context(), b.request(pinned(id(2), false)))
		wantReason(t, err, fault.RequestedProviderUnavailable)
		if waited := time.Since(began); waited != MaxWait {
			t.Errorf("waited: got %v, want %v", waited, MaxWait)
		}
	})
}
