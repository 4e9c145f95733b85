package external_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/gate"
	"svc.internal/services/provider-hub/internal/presence"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/provider/providertest"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The lease of the tests, and how long before its end a hub stops. Between them lies more
// than a machine that has much else to do is late by.
const (
	lease  = 4 * time.Second
	margin = 2 * time.Second
)

// market is a database with a provider, and the hubs of the test.
type market struct {
	*testing.T
	pool     *pgxpool.Pool
	tables   *store.Store
	accounts *provider.Directory
	sealer   *external.Sealer
	provider ids.ProviderID
}

func setup(t *testing.T) *market {
	t.Helper()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	m := &market{T: t, pool: pool, tables: store.New(pool)}
	m.accounts = provider.NewDirectory(m.tables, provider.SecretsOf(apikey.Pepper{1}), provider.Site{Domain: "svc.test",
		URI: "wss://svc.test/ws", ChainID: 8453}, clock.System, rand.Reader)
	a, err := m.accounts.Create(t.Context(), "Farm", "eu", "")
	m.must(err)
	m.provider = a.ID
	m.sealer, err = external.NewSealer(config.Secret{}, config.Secret{}, []byte("fleet"))
	m.must(err)
	return m
}

func (m *market) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// broken is a store that a hub may lose.
type broken struct {
	external.Store
	away atomic.Bool
}

func (b *broken) Beat(ctx context.Context, beat external.Beat) ([]external.Held, error) {
	if b.away.Load() {
		return nil, errors.New("the database is away")
	}
	return b.Store.Beat(ctx, beat)
}

func (b *broken) GiveUp(ctx context.Context, h external.Holder) error {
	if b.away.Load() {
		return errors.New("the database is away")
	}
	return b.Store.GiveUp(ctx, h)
}

// hub is one hub's part, with its registry.
type hub struct {
	*external.Hub
	registry *registry.Registry
	store    *broken
	stop     func()
}

func (m *market) hub(id string) *hub {
	m.Helper()
	quiet := slog.New(slog.DiscardHandler)
	h := &hub{store: &broken{Store: m.tables}}
	h.registry = registry.New(m.accounts, presence.NewRecorder(id, m.tables, clock.System, quiet), nil, 0)
	holder, err := external.NewHolder(time.Now(), rand.Reader)
	m.must(err)
	sessions := gate.New(gate.Config{}, gate.Deps{Registrar: h.registry, Clock: clock.System, Log: quiet,
		Counts: &gate.Counts{}})
	h.Hub = external.New(external.Config{
		HubID: id, LeaseTTL: lease, LeaseMargin: margin, BeatInterval: 50 * time.Millisecond,
		ProbeInterval: 20 * time.Millisecond,
	}, external.Deps{
		Store: h.store, Sealer: m.sealer, Registrar: h.registry, Env: sessions.Env(), Client: client(), Log: quiet,
		Clock: clock.System, Holder: holder,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.Errorf("the hub ended: %v", err)
		}
	})
	m.Cleanup(h.stop)
	return h
}

func client() *http.Client {
	return (&dialguard.Dialer{Allow: netip.Addr.IsLoopback}).KeepingClient(dialguard.Kept{Idle: 1, IdleFor: time.Second,
		HeaderBytes: 1 << 10})
}

func (m *market) directory() *external.Directory {
	return external.NewDirectory(external.DirectoryDeps{Store: m.tables, Sealer: m.sealer,
		Rules: external.Rules{Development: true}, Client: client(), Clock: clock.System, Random: rand.Reader,
		Changed: func() {}})
}

// endpoint keeps an endpoint of a provider.
func (m *market) endpoint(of ids.ProviderID, base string) external.Endpoint {
	m.Helper()
	id, err := ids.NewEndpoint(time.Now(), rand.Reader)
	m.must(err)
	e, _, err := m.tables.CreateEndpoint(m.Context(), external.Endpoint{ID: id, Provider: of, Name: "Rack", BaseURL: base,
		CreatedAt: time.Now(), UpdatedAt: time.Now(),
		Models: []external.Model{{ID: "acme/one", Local: "one", Capabilities: []string{"chat"}, Capacity: 1}},
	}, "", external.Author{What: "endpoint_added"})
	m.must(err)
	return e
}

func server(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"object":"list","data":[{"id":"one"}]}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// eventually asks again until ok. It waits on a ticker, and only as long as it must.
func (m *market) eventually(what string, ok func() bool) {
	m.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-deadline.C:
			m.Fatalf("%s: did not happen", what)
		}
	}
}

// The epoch of the newer session is the higher, so that every router prefers it.
func TestAHubThatCannotRenewStopsBeforeAnotherTakesOver(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.endpoint(m.provider, server(t))
	a := m.hub("hub-a")
	m.eventually("the first hub serves", func() bool { return a.registry.Len() == 1 })
	before := a.registry.Views()[0].Epoch
	b := m.hub("hub-b")
	a.store.away.Store(true)
	began := time.Now()
	m.eventually("another hub serves", func() bool {
		both := b.registry.Len() + a.registry.Len()
		if both > 1 {
			t.Fatal("two hubs serve an endpoint at once")
		}
		return b.registry.Len() == 1
	})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("until another hub served: got %v, want at most 30 s", took)
	}
	if got := b.registry.Views()[0].Epoch; got <= before {
		t.Errorf("epoch of the newer session: got %d, want more than %d", got, before)
	}
	if got := a.Counts.LeasesLost.Load(); got != 1 {
		t.Errorf("leases lost: got %d, want 1", got)
	}
}

func TestHubsShareTheEndpoints(t *testing.T) {
	t.Parallel()
	m := setup(t)
	url := server(t)
	for range 6 {
		m.endpoint(m.provider, url)
	}
	a := m.hub("hub-a")
	m.eventually("one hub serves all", func() bool { return a.registry.Len() == 6 })
	b := m.hub("hub-b")
	m.eventually("two hubs share them", func() bool { return a.registry.Len() == 3 && b.registry.Len() == 3 })
	b.Drain()
	m.eventually("the one that is left serves all", func() bool { return a.registry.Len() == 6 })
}

// Nobody shows a key or a wallet for an endpoint, so the end of neither ends its session.
func TestAnEndpointNeedsNeitherKeyNorWallet(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.endpoint(m.provider, server(t))
	a := m.hub("hub-a")
	m.eventually("the hub serves", func() bool { return a.registry.Len() == 1 })
	before := a.registry.Views()[0]
	if !before.External {
		t.Error("the session of an endpoint is not external")
	}
	m.must(a.registry.Recheck(t.Context()))
	a.registry.WalletUnbound(m.provider)
	after := a.registry.Views()
	if len(after) != 1 {
		t.Fatalf("sessions: got %d, want 1", len(after))
	}
	if after[0].Epoch != before.Epoch {
		t.Errorf("epoch: got %d, want %d", after[0].Epoch, before.Epoch)
	}
}

func TestTheEndpointsOfAProviderAreBounded(t *testing.T) {
	t.Parallel()
	m := setup(t)
	for range external.MaxEndpoints {
		m.endpoint(m.provider, "https://api.example.org")
	}
	directory := m.directory()
	draft := external.Draft{Name: "Rack", BaseURL: "https://api.example.org",
		Models: []external.Model{{ID: "acme/one"}}}
	if _, err := directory.Create(t.Context(), m.provider, draft, ""); !fault.Is(err, fault.TooManyEndpoints) {
		t.Errorf("one more: got the error %v, want the reason %v", err, fault.TooManyEndpoints)
	}
	draft.Models = make([]external.Model, external.MaxModels+1)
	for i := range draft.Models {
		draft.Models[i].ID = fmt.Sprintf("acme/m%d", i)
	}
	if _, err := directory.Create(t.Context(), m.provider, draft, ""); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("too many models: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	list, total, err := directory.List(t.Context(), m.provider, 15, 10)
	m.must(err)
	if total != external.MaxEndpoints {
		t.Errorf("total: got %d, want %d", total, external.MaxEndpoints)
	}
	if len(list) != 1 {
		t.Errorf("the last page: got %d, want 1", len(list))
	}
}

func TestARegistrationIsMadeOnceForEachIdempotencyKey(t *testing.T) {
	t.Parallel()
	m := setup(t)
	directory := m.directory()
	draft := external.Draft{Name: "Rack", BaseURL: "https://api.example.org", Key: config.NewSecret("sk-12345678"),
		Models: []external.Model{{ID: "acme/one"}}}
	first, err := directory.Create(t.Context(), m.provider, draft, "k")
	m.must(err)
	again, err := directory.Create(t.Context(), m.provider, draft, "k")
	m.must(err)
	if again.ID != first.ID {
		t.Errorf("again: got %v, want %v", again.ID, first.ID)
	}
	draft.Key = config.NewSecret("sk-87654321")
	if _, err := directory.Create(t.Context(), m.provider, draft, "k"); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("with another key: got the error %v, want the reason %v", err, fault.IdempotencyKeyReused)
	}
	draft.Key, draft.Models = config.NewSecret("sk-12345678"), []external.Model{{ID: "acme/two"}}
	if _, err := directory.Create(t.Context(), m.provider, draft, "k"); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("with another model: got the error %v, want the reason %v", err, fault.IdempotencyKeyReused)
	}
}

// A deletion that finds nothing costs no probe, so it must cost hubs nothing either.
func TestOnlyAnEndpointThatIsDeletedWakesTheHub(t *testing.T) {
	t.Parallel()
	m := setup(t)
	directory, e, woken := m.directory(), m.endpoint(m.provider, "https://api.example.org"), 0
	directory.Changed = func() { woken++ }
	m.must(directory.Delete(t.Context(), m.provider, e.ID))
	if woken != 1 {
		t.Errorf("a deletion: got %d calls, want 1", woken)
	}
	if err := directory.Delete(t.Context(), m.provider, e.ID); !fault.Is(err, fault.EndpointNotFound) {
		t.Errorf("again: got the error %v, want the reason %v", err, fault.EndpointNotFound)
	}
	if woken != 1 {
		t.Errorf("a deletion of nothing: got %d calls in all, want 1", woken)
	}
}

// Anybody may open an account and register endpoints. They take no place from those that
// consumers are sent to.
func TestAFullHubHasRoomForEndpointsOfActiveProviders(t *testing.T) {
	t.Parallel()
	m := setup(t)
	holder, err := external.NewHolder(time.Now(), rand.Reader)
	m.must(err)
	held := func() external.ID {
		list, err := m.tables.Beat(t.Context(), external.Beat{Holder: holder, HubID: "hub-a", TTL: time.Hour, Max: 1})
		m.must(err)
		if len(list) != 1 {
			t.Fatalf("endpoints of the hub: got %d, want 1", len(list))
		}
		return list[0].ID
	}
	idle := m.endpoint(m.provider, "https://api.example.org")
	if got := held(); got != idle.ID {
		t.Errorf("of a pending provider alone: got %v, want %v", got, idle.ID)
	}
	active, err := m.accounts.Create(t.Context(), "Other", "eu", "")
	m.must(err)
	providertest.Activate(t, m.accounts, active.ID, time.Now())
	earning := m.endpoint(active.ID, "https://api.example.org")
	for range 2 { // and it stays there
		if got := held(); got != earning.ID {
			t.Errorf("with one of an active provider: got %v, want %v", got, earning.ID)
		}
	}
}

// Registrations and checks must not make a scanner of ports.
func TestAProviderHasFewProbes(t *testing.T) {
	t.Parallel()
	m := setup(t)
	directory, e := m.directory(), m.endpoint(m.provider, server(t))
	checks := 0
	for ; checks < 100; checks++ {
		if _, err := directory.Check(t.Context(), m.provider, e.ID); err != nil {
			if !fault.Is(err, fault.RateLimitExceeded) {
				t.Errorf("got the error %v, want the reason %v", err, fault.RateLimitExceeded)
			}
			break
		}
	}
	if checks != 10 {
		t.Errorf("checks at once: got %d, want 10", checks)
	}
	name := "Other"
	if _, err := directory.Update(t.Context(), m.provider, e.ID, external.Change{Name: &name}); !fault.Is(err,
		fault.RateLimitExceeded) {
		t.Errorf("a change: got the error %v, want the reason %v", err, fault.RateLimitExceeded)
	}
}

func TestKeysAreSealedAnewUnderAnotherSecret(t *testing.T) {
	t.Parallel()
	m := setup(t)
	e, err := m.directory().Create(t.Context(), m.provider, external.Draft{Name: "Rack",
		BaseURL: "https://api.example.org", Key: config.NewSecret("sk-12345678"),
		Models: []external.Model{{ID: "acme/one"}}}, "")
	m.must(err)
	m.sealer, err = external.NewSealer(config.NewSecret("another secret"), config.Secret{}, []byte("fleet"))
	m.must(err)
	m.hub("hub-a")
	m.eventually("the key is sealed anew", func() bool {
		got, err := m.tables.Endpoint(t.Context(), m.provider, e.ID)
		m.must(err)
		if got.Sealed.By != m.sealer.Current() {
			return false
		}
		k, err := m.sealer.Open(&got)
		m.must(err)
		return k.Reveal() == "sk-12345678"
	})
}
