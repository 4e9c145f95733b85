package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/gate"
	"svc.internal/services/provider-hub/internal/presence"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/provider/providertest"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// hold delays the joining of a session until it is told, so that epochs drawn
// in one order join in the other.
type hold struct {
	*Registry
	admitted chan int64
	join     chan struct{}
}

func (h *hold) Admit(ctx context.Context, shown session.Credential) (session.Grant, error) {
	g, err := h.Registry.Admit(ctx, shown)
	h.admitted <- g.Epoch
	<-h.join
	return g, err
}

type fixture struct {
	registry *Registry
	accounts *provider.Directory
	recorder *presence.Recorder
	url      string
	account  provider.Account
	key      string
}

func setup(t *testing.T, perProvider int, wrap func(*Registry) gate.Registrar) *fixture {
	t.Helper()
	tables, quiet := store.New(pgtest.Pool(t, store.Schema, store.Role, store.Migrations)), slog.New(slog.DiscardHandler)
	accounts := provider.NewDirectory(tables, provider.SecretsOf(apikey.Pepper{1}), provider.Site{Domain: "svc.test",
		URI:     "wss://svc.test/ws",
		ChainID: 8453},
		clock.System, rand.Reader)
	f := &fixture{accounts: accounts, recorder: presence.NewRecorder("hub-a", tables, clock.System, quiet)}
	f.registry = New(accounts, f.recorder, nil, perProvider)
	server := gate.New(gate.Config{Session: session.Config{RefuseHold: 50 * time.Millisecond}}, gate.Deps{
		Registrar: wrap(f.registry), Clock: clock.System, Log: quiet, Counts: &gate.Counts{},
	})
	server.Accept()
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	f.url = "ws" + strings.TrimPrefix(web.URL, "http") + "/ws"
	var err error
	if f.account, err = accounts.Create(t.Context(), "Farm", "", ""); err != nil {
		t.Fatal(err)
	}
	if _, f.key, err = accounts.IssueKey(t.Context(), f.account.ID, ""); err != nil {
		t.Fatal(err)
	}
	return f
}

func plain(r *Registry) gate.Registrar { return r }

func (f *fixture) dial(t *testing.T, node string) (*fakeagent.Agent, error) {
	t.Helper()
	a, err := fakeagent.Dial(t.Context(), f.url, fakeagent.Options{Key: f.key, NodeID: node, Models: []string{"m"}})
	if err == nil {
		t.Cleanup(a.Close)
	}
	return a, err
}

func TestSessionsOfOneProviderAreBounded(t *testing.T) {
	t.Parallel()
	f := setup(t, 2, plain)
	for i := range 2 {
		if _, err := f.dial(t, fmt.Sprintf("node-000%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var refused *fakeagent.Refused
	if _, err := f.dial(t, "node-0009"); !errors.As(err, &refused) {
		t.Errorf("a third: got the error %v, want a %T", err, refused)
	} else if refused.Frame.GetCode() != agentwire.CodeTooManySessions {
		t.Errorf("a third: refused.Frame.GetCode(): got %q, want %q", refused.Frame.GetCode(), agentwire.CodeTooManySessions)
	}
	if _, err := f.dial(t, "node-0001"); err != nil {
		t.Errorf("a newer one of a node that is there: %v", err)
	}
	if n := f.registry.Len(); n != 2 {
		t.Errorf("sessions: got %d, want 2", n)
	}
}

func TestEpochThatWasDrawnEarlierLosesEvenIfItJoinsLater(t *testing.T) {
	t.Parallel()
	h := &hold{admitted: make(chan int64), join: make(chan struct{})}
	f := setup(t, 0, func(r *Registry) gate.Registrar { h.Registry = r; return h })
	results := make(chan error, 1)
	go func() {
		_, err := f.dial(t, "node-0001")
		results <- err
	}()
	earlier := <-h.admitted
	// Meanwhile another connection of the node draws an epoch and joins.
	f2 := make(chan error, 1)
	go func() {
		_, err := f.dial(t, "node-0001")
		f2 <- err
	}()
	later := <-h.admitted
	if later <= earlier {
		t.Fatalf("epoch: got %d, want more than %d", later, earlier)
	}
	// Either may be let go first. The session with the later epoch must stay.
	h.join <- struct{}{}
	h.join <- struct{}{}
	err1, err2 := <-results, <-f2
	if err2 != nil {
		t.Errorf("the later epoch: %v", err2)
	}
	var refused *fakeagent.Refused
	if err1 != nil && !errors.As(err1, &refused) {
		t.Errorf("the earlier epoch: err1: got the error %v, want a %T", err1, refused)
	} else if err1 != nil && refused.Frame.GetCode() != agentwire.CodeSuperseded {
		t.Errorf("the earlier epoch: refused.Frame.GetCode(): got %q, want %q", refused.Frame.GetCode(),
			agentwire.CodeSuperseded)
	}
	if _, ok := f.registry.Find(f.account.ID, "node-0001", later); !ok {
		t.Error("the later epoch does not stand")
	}
	if _, ok := f.registry.Find(f.account.ID, "node-0001", earlier); ok {
		t.Error("the earlier epoch stands")
	}
}

func TestChangesAreToldOnceAndEndsAreNotForgotten(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	a, err := f.dial(t, "node-0001")
	if err != nil {
		t.Fatal(err)
	}
	live := waitFor(t, f.registry, func(live []session.View, _ []int64) bool { return len(live) == 1 })
	if live[0].Active {
		t.Error("view: live[0].Active: got true, want false")
	} else if want := a.Epoch(); live[0].Epoch != want {
		t.Errorf("view: live[0].Epoch: got %d, want %d", live[0].Epoch, want)
	} else if live[0].Offers[0].Model != "m" {
		t.Errorf(`view: live[0].Offers[0].Model: got %q, want "m"`, live[0].Offers[0].Model)
	}
	if again, ended, full := f.registry.Changes(); len(again)+len(ended) != 0 {
		t.Errorf("told again: len(again)+len(ended): got %d, want 0", len(again)+len(ended))
	} else if full {
		t.Error("told again: full of f.registry.Changes(): got true, want false")
	}
	f.registry.Apply(provider.Standing{ProviderID: f.account.ID, Status: provider.Active})
	waitFor(t, f.registry, func(live []session.View, _ []int64) bool { return len(live) == 1 && live[0].Active })
	f.registry.Apply(provider.Standing{ProviderID: ids.ProviderID{9}, Status: provider.Suspended}) // somebody else
	a.Kill()
	waitFor(t, f.registry, func(_ []session.View, ended []int64) bool { return len(ended) == 1 && ended[0] == a.Epoch() })
}

func waitFor(t *testing.T, r *Registry, ok func([]session.View, []int64) bool) []session.View {
	t.Helper()
	deadline := time.After(time.Minute)
	var all []int64 // what changes at once may be told in parts
	for {
		select {
		case <-r.Changed():
			live, ended, _ := r.Changes()
			if all = append(all, ended...); ok(live, all) {
				return live
			}
		case <-deadline:
			t.Fatal("the change was not told")
		}
	}
}

func (f *fixture) expelled(t *testing.T, a *fakeagent.Agent, code string) {
	t.Helper()
	select {
	case <-a.Closed():
	case <-time.After(time.Minute):
		t.Fatal("the agent stays")
	}
	if why := a.Farewell(); why.GetCode() != code {
		t.Errorf("farewell %v, want %s", why, code)
	}
	if n := f.registry.Len(); n != 0 {
		t.Errorf("sessions stand: got %d, want 0", n)
	}
}

func TestSessionsFeelWhatAnotherHubWasTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tell func(*fixture, *testing.T) error
		code string
	}{
		"suspended": {func(f *fixture, t *testing.T) error {
			_, err := f.accounts.SetStatus(t.Context(), f.account.ID, provider.Suspended, "")
			return err
		}, agentwire.CodeSuspended},
		"rejected": {func(f *fixture, t *testing.T) error {
			_, err := f.accounts.SetStatus(t.Context(), f.account.ID, provider.UnderReview, "")
			if err == nil {
				_, err = f.accounts.SetStatus(t.Context(), f.account.ID, provider.Rejected, "")
			}
			return err
		}, agentwire.CodeSuspended},
		"the key is followed by another at once": {func(f *fixture, t *testing.T) error {
			_, _, _, err := f.accounts.RotateKey(t.Context(), apikey.Sum(f.key), "next", 0)
			return err
		}, agentwire.CodeKeyRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 0, plain)
			a, err := f.dial(t, "node-0001")
			if err != nil {
				t.Fatal(err)
			}
			switch err := f.registry.Recheck(t.Context()); {
			case err != nil:
				t.Fatalf("before: got the error %v, want none", err)
			case f.registry.Len() != 1:
				t.Fatalf("before: f.registry.Len(): got %d, want 1", f.registry.Len())
			case !f.registry.Online(f.account.ID):
				t.Fatal("before: f.registry.Online(f.account.ID): got false, want true")
			}
			if err := c.tell(f, t); err != nil {
				t.Fatal(err)
			}
			if err := f.registry.Recheck(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.expelled(t, a, c.code)
			if f.registry.Online(f.account.ID) {
				t.Error("it is online")
			}
		})
	}
}

func TestProbationIsToldToRoutersAndEndsThere(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	if _, err := f.dial(t, "node-0001"); err != nil {
		t.Fatal(err)
	}
	account := providertest.Activate(t, f.accounts, f.account.ID, f.accounts.Now())
	if err := f.registry.Recheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	switch v := f.registry.Views(); {
	case len(v) != 1:
		t.Errorf("views: len(v): got %d, want 1, in %+v", len(v), v)
	case !v[0].Active:
		t.Error("views: v[0].Active: got false, want true")
	case !v[0].Probation:
		t.Error("views: v[0].Probation: got false, want true")
	case v[0].Uptime30d != nil:
		t.Errorf("views: v[0].Uptime30d: got %v, want nil", v[0].Uptime30d)
	}
	up, standing := 0.75, account.Standing()
	standing.Probation, standing.Uptime30d = false, &up
	f.registry.Apply(standing)
	switch v := f.registry.Views(); {
	case !v[0].Active:
		t.Error("views: v[0].Active: got false, want true")
	case v[0].Probation:
		t.Error("views: v[0].Probation: got true, want false")
	case v[0].Uptime30d == nil:
		t.Error("views: v[0].Uptime30d: got nil, want a value")
	case *v[0].Uptime30d != up:
		t.Errorf("views: *v[0].Uptime30d: got %v, want %v", *v[0].Uptime30d, up)
	}
}

func TestTheNewerOfTwoConnectionsIsToldThatItTookAPlace(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	older, err := f.dial(t, "node-0001")
	if err != nil {
		t.Fatal(err)
	}
	newer, err := f.dial(t, "node-0001")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-older.Closed():
	case <-time.After(time.Minute):
		t.Fatal("the older one stays")
	}
	if why := older.Farewell(); why.GetCode() != agentwire.CodeSuperseded {
		t.Errorf("the older one hears: got %q, want %q", why.GetCode(), agentwire.CodeSuperseded)
	}
	if newer.Ack().GetWarning() == "" {
		t.Error("the newer one hears nothing")
	}
}

func TestServingListsTheSessionsOfAModel(t *testing.T) {
	t.Parallel()
	f := setup(t, 0, plain)
	for _, node := range []string{"node-0001", "node-0002"} {
		if _, err := f.dial(t, node); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		model    string
		provider ids.ProviderID
		node     string
		want     int
	}{
		{"m", ids.ProviderID{}, "", 2}, {"m", f.account.ID, "", 2}, {"m", f.account.ID, "node-0002", 1},
		{"other", ids.ProviderID{}, "", 0}, {"m", ids.ProviderID{9}, "", 0}, {"m", f.account.ID, "node-0009", 0},
	} {
		if got := f.registry.Serving(c.model, c.provider, c.node); len(got) != c.want {
			t.Errorf("%+v: sessions: got %d, want %d", c, len(got), c.want)
		}
	}
}
