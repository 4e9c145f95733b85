package external_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/provider/providertest"
)

// What an operator says.
var yes, no = true, false

// another makes one more provider.
func (m *market) another(name string) ids.ProviderID {
	m.Helper()
	a, err := m.accounts.Create(m.Context(), name, "eu", "")
	m.must(err)
	return a.ID
}

// register has an owner register a server.
func (m *market) register(of ids.ProviderID, base string) external.Endpoint {
	m.Helper()
	e, err := m.directory().Create(m.Context(), of, external.Draft{Name: "Rack", BaseURL: base,
		Models: []external.Model{{ID: "acme/one", Local: "one"}}}, "")
	m.must(err)
	return e
}

// rules has an operator decide on an endpoint.
func (m *market) rules(e external.Endpoint, r external.Ruling) external.Endpoint {
	m.Helper()
	got, err := m.directory().Rule(m.Context(), "operator:ann", e.ID, r)
	m.must(err)
	return got
}

// found stores what a probe found of an endpoint.
func (m *market) found(e external.Endpoint, state external.State) error {
	return m.tables.Found(m.Context(), e.ID, e.Revision, external.Finding{State: state, At: time.Now()})
}

// failing waits until an endpoint shows a failure.
func (m *market) failing(e external.Endpoint, want external.Failure) {
	m.Helper()
	m.eventually("the endpoint shows "+string(want), func() bool {
		got, err := m.tables.Endpoint(m.Context(), e.Provider, e.ID)
		m.must(err)
		return got.Failure == want && got.State == external.Unhealthy
	})
}

// A server that two accounts offer would be counted, benchmarked and paid twice.
func TestTwoProvidersDoNotServeFromOneServer(t *testing.T) {
	t.Parallel()
	m := setup(t)
	url := server(t)
	first := m.register(m.provider, url)
	h := m.hub("hub-a")
	m.eventually("the first provider serves", func() bool { return h.registry.Len() == 1 })
	second := m.register(m.another("Other"), strings.Replace(url, "http://", "HTTP://", 1)+"/another/path/")
	m.failing(second, external.OriginTaken)
	if got := h.registry.Views(); len(got) != 1 {
		t.Fatalf("sessions: got %d, want 1", len(got))
	} else if got[0].ProviderID != m.provider {
		t.Errorf("provider: got %v, want the first, %v", got[0].ProviderID, m.provider)
	}
	if got := m.rules(second, external.Ruling{Shared: &yes}); !got.OriginShared {
		t.Error("an operator's word: got an origin that is not shared, want it shared")
	}
	m.eventually("both serve", func() bool { return h.registry.Len() == 2 })
	m.rules(second, external.Ruling{Shared: &no})
	m.failing(second, external.OriginTaken)
	m.eventually("one serves", func() bool { return h.registry.Len() == 1 })
	m.must(m.directory().Delete(t.Context(), m.provider, first.ID))
	m.eventually("the second provider serves", func() bool {
		got := h.registry.Views()
		return len(got) == 1 && got[0].ProviderID == second.Provider
	})
}

// Anybody may open an account and register somebody else's server.
func TestNamingAServerFirstKeepsItFromNobody(t *testing.T) {
	t.Parallel()
	m := setup(t)
	const theirs = "sk-of-the-owner-0"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+theirs {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprint(w, `{"object":"list","data":[{"id":"one"}]}`)
	}))
	t.Cleanup(s.Close)
	thief := m.register(m.another("Thief"), s.URL)
	h := m.hub("hub-a")
	m.failing(thief, external.Unauthorized)
	_, err := m.directory().Create(t.Context(), m.provider, external.Draft{Name: "Rack", BaseURL: s.URL,
		Key: config.NewSecret(theirs), Models: []external.Model{{ID: "acme/one", Local: "one"}}}, "")
	m.must(err)
	m.eventually("the owner serves", func() bool {
		got := h.registry.Views()
		return len(got) == 1 && got[0].ProviderID == m.provider
	})
}

func TestWhatAnOperatorDisabledStaysDisabledWhenItIsRegisteredAnew(t *testing.T) {
	t.Parallel()
	m := setup(t)
	url := server(t)
	e, sibling := m.register(m.provider, url), m.register(m.provider, url+"/sibling")
	h := m.hub("hub-a")
	m.eventually("both serve", func() bool { return h.registry.Len() == 2 })
	m.rules(e, external.Ruling{Disabled: &yes, Reason: "seen"})
	m.eventually("none serves", func() bool { return h.registry.Len() == 0 })
	m.must(m.directory().Delete(t.Context(), m.provider, e.ID))
	m.must(m.directory().Delete(t.Context(), m.provider, sibling.ID))
	anew := m.register(m.provider, url+"/v2")
	if anew.DisabledAt.IsZero() {
		t.Error("registered anew: got an endpoint in service, want it disabled")
	}
	if anew.DisabledReason != "seen" {
		t.Errorf("registered anew: reason: got %q, want the operator's", anew.DisabledReason)
	}
	moved := m.register(m.provider, "http://127.0.0.1:9/v1")
	moved, err := m.directory().Update(t.Context(), m.provider, moved.ID, external.Change{BaseURL: &url})
	m.must(err)
	if moved.DisabledAt.IsZero() {
		t.Error("moved there: got an endpoint in service, want it disabled")
	}
	// A provider that is disabled does not hold the origin, so another provider may serve from there.
	other := m.register(m.another("Other"), url)
	m.eventually("the other provider serves", func() bool { return h.registry.Len() == 1 })
	m.must(m.directory().Delete(t.Context(), other.Provider, other.ID))
	if got := m.rules(anew, external.Ruling{Shared: &yes}); got.DisabledAt.IsZero() {
		t.Error("a word about sharing puts the endpoint into service, want it to stay out")
	}
	if got := m.rules(anew, external.Ruling{Disabled: &no}); !got.DisabledAt.IsZero() {
		t.Error("let back in: got it disabled, want it in service")
	}
	m.eventually("both serve again", func() bool { return h.registry.Len() == 2 })
}

// Anybody may open an account, reach a server without a key, and never serve.
func TestAnOriginThatIsHeldAndNotServedIsTakenOver(t *testing.T) {
	t.Parallel()
	m := setup(t)
	const day = 24 * time.Hour
	for i, c := range []struct {
		what              string
		active, healthy   bool
		held, unhealthily time.Duration
		taken             bool
	}{
		{"pending, for 6 days", false, true, 6 * day, 0, false},
		{"pending, for 8 days", false, true, 8 * day, 0, true},
		{"pending, unhealthy", false, false, time.Hour, 0, true},
		{"active, for 8 days", true, true, 8 * day, 0, false},
		{"active, unhealthy for 23 hours", true, false, 8 * day, 23 * time.Hour, false},
		{"active, unhealthy for 25 hours", true, false, 8 * day, 25 * time.Hour, true},
	} {
		holder, rival := m.another("Holder"), m.another("Rival")
		if c.active {
			providertest.Activate(t, m.accounts, holder, time.Now())
		}
		base := fmt.Sprintf("http://127.0.0.1:%d", 2000+i)
		e, theirs := m.register(holder, base), m.register(rival, base)
		m.must(m.found(e, external.Healthy))
		if !c.healthy {
			m.must(m.found(e, external.Unhealthy))
		}
		_, err := m.pool.Exec(t.Context(), `UPDATE external_origin SET held_since = now() - $2::interval,
			last_healthy = last_healthy - $3::interval WHERE provider_id = $1`, holder, c.held, c.unhealthily)
		m.must(err)
		var want error
		if !c.taken {
			want = external.ErrOriginTaken
		}
		if err := m.found(theirs, external.Healthy); !errors.Is(err, want) {
			t.Errorf("held by a provider that is %s: got the error %v, want %v", c.what, err, want)
		}
		got, err := m.tables.Endpoint(t.Context(), holder, e.ID)
		m.must(err)
		if healthy := got.State == external.Healthy; healthy != (c.healthy && !c.taken) {
			t.Errorf("held by a provider that is %s: got its endpoint %s", c.what, got.State)
		}
		if !c.taken {
			continue
		}
		if err := m.found(e, external.Healthy); !errors.Is(err, external.ErrOriginTaken) {
			t.Errorf("taken from a provider that is %s: its next good probe: got the error %v, want %v", c.what, err,
				external.ErrOriginTaken)
		}
	}
}

// An IPv6 address has many forms.
func TestOneAddressIsOneOriginHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	m := setup(t)
	first := m.register(m.provider, "http://[2606:4700:0::1111]:9/a")
	second := m.endpoint(m.another("Other"), "http://[2606:4700:0:0:0:0:0:1111]:9/b") // from before there was one form
	if want := "http://[2606:4700::1111]:9/a"; first.BaseURL != want {
		t.Errorf("base URL: got %q, want %q", first.BaseURL, want)
	}
	m.must(m.found(first, external.Healthy))
	if err := m.found(second, external.Healthy); !errors.Is(err, external.ErrOriginTaken) {
		t.Errorf("a good probe of another form: got the error %v, want %v", err, external.ErrOriginTaken)
	}
}

func TestTheDatabaseLetsNobodyServeFromATakenOrDisabledServer(t *testing.T) {
	t.Parallel()
	m := setup(t)
	first, second := m.register(m.provider, "http://127.0.0.1:9/a"), m.register(m.another("Other"), "http://127.0.0.1:9/b")
	found := func(e external.Endpoint) error { return m.found(e, external.Healthy) }
	m.must(found(first))
	if err := found(second); !errors.Is(err, external.ErrOriginTaken) {
		t.Errorf("a good probe of a taken server: got the error %v, want %v", err, external.ErrOriginTaken)
	}
	for _, sql := range []string{
		`UPDATE external_endpoint SET state = 'healthy' WHERE endpoint_id = $1`,
		`UPDATE external_origin o SET held_since = now() FROM external_endpoint e
			WHERE e.endpoint_id = $1 AND o.origin = e.origin AND o.provider_id = e.provider_id`,
		`UPDATE external_endpoint SET origin = 'http://127.0.0.1:8', state = 'healthy' WHERE endpoint_id = $1`,
	} {
		if _, err := m.pool.Exec(t.Context(), sql, second.ID); err == nil {
			t.Errorf("%s: got no error, want one", sql)
		}
	}
	m.rules(first, external.Ruling{Disabled: &yes})
	_, err := m.pool.Exec(t.Context(), `UPDATE external_endpoint SET disabled_at = NULL WHERE endpoint_id = $1`, first.ID)
	m.must(err)
	got, err := m.tables.Endpoint(t.Context(), m.provider, first.ID)
	m.must(err)
	if got.DisabledAt.IsZero() {
		t.Error("an endpoint at a disabled server: got it in service, want it disabled")
	}
	m.must(found(second)) // a disabled provider does not hold the origin
}
