package external_test

import (
	"crypto/rand"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/provider"
)

// A hub with a wrong secret keeps no endpoint that another hub can serve, however many endpoints there
// are.
func TestAHubThatCannotOpenAKeyLeavesTheEndpointToAnother(t *testing.T) {
	t.Parallel()
	m := setup(t)
	url := server(t)
	for range 4 {
		_, err := m.directory().Create(t.Context(), m.provider, external.Draft{Name: "Rack", BaseURL: url,
			Key: config.NewSecret("sk-12345678"), Models: []external.Model{{ID: "acme/one", Local: "one"}}}, "")
		m.must(err)
	}
	right := m.sealer
	wrong, err := external.NewSealer(config.NewSecret("another secret"), config.Secret{}, []byte("another fleet"))
	m.must(err)
	m.sealer = wrong
	m.hub("hub-a")
	list, _, err := m.directory().List(t.Context(), m.provider, 0, 10)
	m.must(err)
	for _, e := range list {
		m.failing(e, external.KeyUnreadable)
	}
	m.sealer = right
	b := m.hub("hub-b")
	m.eventually("the other hub serves all", func() bool { return b.registry.Len() == len(list) })
	for _, e := range list {
		m.eventually("its owner sees it", func() bool {
			got, err := m.tables.Endpoint(t.Context(), m.provider, e.ID)
			m.must(err)
			return got.HubID == "hub-b" && got.State == external.Healthy
		})
	}
}

func TestAHubTakesNothingThatItSkipsUntilItIsChanged(t *testing.T) {
	t.Parallel()
	m := setup(t)
	e := m.endpoint(m.provider, "https://api.example.org")
	holder, err := external.NewHolder(time.Now(), rand.Reader)
	m.must(err)
	held := func(skip ...external.Held) int {
		t.Helper()
		list, err := m.tables.Beat(t.Context(), external.Beat{Holder: holder, HubID: "hub-a", TTL: time.Hour, Max: 1,
			Skip: skip, Unreadable: len(skip)})
		m.must(err)
		return len(list)
	}
	this, next := external.Held{ID: e.ID, Revision: e.Revision}, external.Held{ID: e.ID, Revision: e.Revision + 1}
	for _, beat := range []struct {
		what string
		skip []external.Held
		want int
	}{
		{"at first", nil, 1}, {"skipped", []external.Held{this}, 0}, {"still skipped", []external.Held{this}, 0},
		{"skipped as it is not", []external.Held{next}, 1},
	} {
		if got := held(beat.skip...); got != beat.want {
			t.Errorf("%s: endpoints of the hub: got %d, want %d", beat.what, got, beat.want)
		}
	}
}

// For a provider that may not connect, a server is sent nothing, not even probes.
func TestNobodyHoldsEndpointsOfASuspendedProvider(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.endpoint(m.provider, "https://api.example.org")
	holder, err := external.NewHolder(time.Now(), rand.Reader)
	m.must(err)
	held := func() int {
		t.Helper()
		list, err := m.tables.Beat(t.Context(), external.Beat{Holder: holder, HubID: "hub-a", TTL: time.Hour, Max: 1})
		m.must(err)
		return len(list)
	}
	if got := held(); got != 1 {
		t.Fatalf("of a pending provider: got %d, want 1", got)
	}
	_, err = m.accounts.SetStatus(t.Context(), m.provider, provider.Suspended, "seen")
	m.must(err)
	if got := held(); got != 0 {
		t.Errorf("of a suspended provider: got %d, want 0", got)
	}
}
