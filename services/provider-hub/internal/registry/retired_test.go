package registry

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fakeagent"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/session"
)

// leaving dials a node that says it leaves.
func (f *fixture) leaving(t *testing.T, node string) *fakeagent.Agent {
	t.Helper()
	a, err := f.dial(t, node)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Send(&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, f.registry, func(live []session.View, _ []int64) bool {
		return slices.ContainsFunc(live, func(v session.View) bool { return v.Epoch == a.Epoch() && v.Draining })
	})
	return a
}

func stays(t *testing.T, what string, a *fakeagent.Agent) {
	t.Helper()
	select {
	case <-a.Closed():
		t.Errorf("%s is closed: %v", what, a.Farewell())
	default:
	}
}

func closes(t *testing.T, what string, a *fakeagent.Agent, code string) {
	t.Helper()
	select {
	case <-a.Closed():
	case <-time.After(time.Minute):
		t.Fatalf("%s stays", what)
	}
	if why := a.Farewell(); why.GetCode() != code {
		t.Errorf("%s hears %v, want %s", what, why, code)
	}
}

func TestANodeThatLeavesStaysBesideItsNewerConnection(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	older := f.leaving(t, "node-0001")
	newer, err := f.dial(t, "node-0001")
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, f.registry, func(live []session.View, ended []int64) bool {
		return len(live) == 1 && live[0].Epoch == newer.Epoch() && slices.Equal(ended, []int64{older.Epoch()})
	})
	stays(t, "the older one", older)
	if w := newer.Ack().GetWarning(); w != "" {
		t.Errorf(`the newer one is warned: got %q, want ""`, w)
	}
	if v := f.registry.Views(); len(v) != 1 {
		t.Errorf("views: len(v): got %d, want 1, in %+v", len(v), v)
	} else if want := newer.Epoch(); v[0].Epoch != want {
		t.Errorf("views: v[0].Epoch: got %d, want %d", v[0].Epoch, want)
	} else if f.registry.Len() != 1 {
		t.Errorf("f.registry.Len(): got %d, want 1", f.registry.Len())
	}
	if _, ok := f.registry.Find(f.account.ID, "node-0001", older.Epoch()); ok {
		t.Error("the older one is given new requests")
	}
	if s, ok := f.registry.Find(f.account.ID, "node-0001", newer.Epoch()); !ok {
		t.Error("finding the newer one: ok of f.registry.Find(…): got false, want true")
	} else if got, want := s.Identity().Epoch, newer.Epoch(); got != want {
		t.Errorf("finding the newer one: s.Identity().Epoch: got %d, want %d", got, want)
	}
	nodes := f.detail(t).Nodes
	if len(nodes) != 1 {
		t.Errorf("len(nodes): got %d, want 1, in %+v", len(nodes), nodes)
	} else if nodes[0].Replaced != 0 {
		t.Errorf("nodes[0].Replaced: got %d, want 0", nodes[0].Replaced)
	}
	older.Close()
	f.forgotten(t)
}

// detail is the provider once the recorder has told the store.
func (f *fixture) detail(t *testing.T) provider.Detail {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.recorder.Run(ctx, func(context.Context) {}) }()
	for deadline := time.Now().Add(time.Minute); ; {
		d, err := f.accounts.Detail(t.Context(), f.account.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Nodes) > 0 || time.Now().After(deadline) {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			return d
		}
		<-time.After(10 * time.Millisecond)
	}
}

// forgotten waits until no session is retired.
func (f *fixture) forgotten(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		f.registry.mu.Lock()
		retired, spare := len(f.registry.retired), len(f.registry.spare)
		f.registry.mu.Unlock()
		if retired+spare == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are retired, of %d providers", retired, spare)
		}
	}
}

func TestANodeHasOneConnectionThatLeaves(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	first, second := f.leaving(t, "node-0001"), f.leaving(t, "node-0001")
	third, err := f.dial(t, "node-0001")
	if err != nil {
		t.Fatal(err)
	}
	closes(t, "the first", first, agentwire.CodeSuperseded)
	stays(t, "the second", second)
	stays(t, "the third", third)
}

func TestConnectionsThatLeaveAreBounded(t *testing.T) {
	t.Parallel()
	f := setup(t, 2, plain)
	for i := range 2 {
		f.leaving(t, fmt.Sprintf("node-000%d", i))
		next, err := f.dial(t, fmt.Sprintf("node-000%d", i))
		if err != nil {
			t.Fatal(err)
		}
		next.Close()
		waitFor(t, f.registry, func(_ []session.View, ended []int64) bool { return slices.Contains(ended, next.Epoch()) })
	}
	older := f.leaving(t, "node-0009")
	if _, err := f.dial(t, "node-0009"); err != nil {
		t.Fatal(err)
	}
	closes(t, "one too many", older, agentwire.CodeSuperseded)
}

func TestANodeThatWentToAnotherHubEndsWhatItHasHere(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	a := f.leaving(t, "node-0001")
	f.registry.Supersede(f.account.ID, "node-0001", a.Epoch()+1)
	waitFor(t, f.registry, func(_ []session.View, ended []int64) bool { return slices.Equal(ended, []int64{a.Epoch()}) })
	stays(t, "the older one", a)
	if n := f.registry.Len(); n != 0 {
		t.Errorf("sessions stand: got %d, want 0", n)
	}
}

func TestConnectionsThatLeaveFeelWhatTheirProviderIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tell func(*fixture, *testing.T) error
		code string
	}{
		"suspended": {func(f *fixture, t *testing.T) error {
			a, err := f.accounts.SetStatus(t.Context(), f.account.ID, provider.Suspended, "")
			f.registry.Apply(a.Standing())
			return err
		}, agentwire.CodeSuspended},
		"suspended by another hub": {func(f *fixture, t *testing.T) error {
			if _, err := f.accounts.SetStatus(t.Context(), f.account.ID, provider.Suspended, ""); err != nil {
				return err
			}
			return f.registry.Recheck(t.Context())
		}, agentwire.CodeSuspended},
		"revoked": {func(f *fixture, t *testing.T) error {
			c, err := f.accounts.Holder(t.Context(), apikey.Sum(f.key))
			f.registry.KeyRevoked(c.KeyID)
			return err
		}, agentwire.CodeKeyRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 0, plain)
			older := f.leaving(t, "node-0001")
			newer, err := f.dial(t, "node-0001")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.tell(f, t); err != nil {
				t.Fatal(err)
			}
			closes(t, "the older one", older, c.code)
			closes(t, "the newer one", newer, c.code)
			f.forgotten(t)
		})
	}
}
