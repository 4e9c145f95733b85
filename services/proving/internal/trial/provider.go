package trial

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/config"
	provideragent "svc.internal/services/provider-agent"
)

// Provider is a provider that becomes active once an agent of it has connected.
type Provider struct {
	// ID names the provider. Its agents connect with Key.
	ID  string
	Key string
	// Leave ends the agent that Join connected, and waits for it. The end of the test
	// does so too.
	Leave func()
}

// Provider makes a provider with a key and no agent. An operator has confirmed its
// collateral and waived the GPU rule; it becomes active by its benchmark, which the verifier
// waives once an agent is connected.
func (m *Market) Provider(t testing.TB, name string) *Provider {
	t.Helper()
	p := &Provider{Leave: func() {}}
	p.ID = Text(t, m.Admin(t, http.MethodPost, "/api/v1/admin/providers", `{"name":"`+name+`"}`), "provider",
		"provider_id")
	m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/qualification",
		`{"collateral":true,"gpu_waived":true,"reason":"test"}`)
	p.Key = Text(t, m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/keys", `{"name":"k"}`), "api_key")
	return p
}

// Join makes a provider and connects its agent to the hub. Each model is served under its
// own name from the engine at engineURL, which has no /v1. Join returns once the models
// are callable.
func (m *Market) Join(t testing.TB, name, engineURL string, models ...string) *Provider {
	t.Helper()
	return m.JoinAt(t, m.WSURL(), name, engineURL, models...)
}

// roomy is the capacity of Join's providers: more than any test uses.
const roomy = 256

// JoinAt is Join at a certain hub.
func (m *Market) JoinAt(t testing.TB, wsURL, name, engineURL string, models ...string) *Provider {
	t.Helper()
	return m.joinAt(t, wsURL, name, engineURL, roomy, usualWindow, provideragent.Deps{}, models)
}

// usualWindow is the context of PutModel's models, in tokens.
const usualWindow = 8192

// JoinWith is Join for an agent that works with deps of its own.
func (m *Market) JoinWith(t testing.TB, name, engineURL string, deps provideragent.Deps, models ...string) *Provider {
	t.Helper()
	return m.joinAt(t, m.WSURL(), name, engineURL, roomy, usualWindow, deps, models)
}

// JoinWithWindow is Join for models that take so many tokens.
func (m *Market) JoinWithWindow(t testing.TB, name, engineURL string, window int, models ...string) *Provider {
	t.Helper()
	return m.joinAt(t, m.WSURL(), name, engineURL, roomy, window, provideragent.Deps{}, models)
}

// JoinWarm is Join for a provider whose agent loads models when it is asked to, which is
// how routers probe a provider that they suspect.
func (m *Market) JoinWarm(t testing.TB, name, engineURL string, models ...string) *Provider {
	t.Helper()
	return m.joinAt(t, m.WSURL(), name, engineURL, roomy, usualWindow, provideragent.Deps{}, models, "warmup")
}

// JoinWithSlots is Join for a provider with so many slots for each model.
func (m *Market) JoinWithSlots(t testing.TB, name, engineURL string, slots int, models ...string) *Provider {
	t.Helper()
	return m.joinAt(t, m.WSURL(), name, engineURL, slots, usualWindow, provideragent.Deps{}, models)
}

func (m *Market) joinAt(
	t testing.TB, wsURL, name, engineURL string, slots, window int, deps provideragent.Deps, models []string,
	more ...string,
) *Provider {
	t.Helper()
	p := m.Provider(t, name)
	p.connect(t, wsURL, name, engineURL, slots, window, deps, models, more...)
	for _, id := range models {
		m.WaitOffered(t, id, p.ID)
	}
	return p
}

// Connect connects an agent of a provider that stands already, and does not wait until its
// models are callable. It is else like Join.
func (m *Market) Connect(t testing.TB, p *Provider, engineURL string, models ...string) {
	t.Helper()
	m.ConnectAt(t, p, m.WSURL(), engineURL, models...)
}

// ConnectWithin is Connect for models with a window of so many tokens.
func (m *Market) ConnectWithin(t testing.TB, p *Provider, engineURL string, window int, models ...string) {
	t.Helper()
	p.connect(t, m.WSURL(), "agent", engineURL, roomy, window, provideragent.Deps{}, models)
}

// ConnectAt is Connect at a certain hub.
func (m *Market) ConnectAt(t testing.TB, p *Provider, wsURL, engineURL string, models ...string) {
	t.Helper()
	p.connect(t, wsURL, "agent", engineURL, roomy, usualWindow, provideragent.Deps{}, models)
}

// ConnectWarm is Connect for an agent that loads models when it is asked to.
func (m *Market) ConnectWarm(t testing.TB, p *Provider, engineURL string, models ...string) {
	t.Helper()
	p.connect(t, m.WSURL(), "warm", engineURL, roomy, usualWindow, provideragent.Deps{}, models, "warmup")
}

func (p *Provider) connect(
	t testing.TB, wsURL, name, engineURL string, slots, window int, deps provideragent.Deps, models []string,
	more ...string,
) {
	t.Helper()
	cfg := provideragent.DefaultConfig()
	cfg.Capabilities = append([]string{"chat", "stream", "cancel", "logprobs", "embeddings", "images", "transcriptions"},
		more...)
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.NodeName = wsURL, config.NewSecret(p.Key), t.TempDir(), name
	for _, id := range models {
		cfg.Models = append(cfg.Models, provideragent.Model{ModelID: id, EngineURL: engineURL + "/v1", LocalModel: id,
			ContextLength: int64(window), Capacity: slots})
	}
	agent, err := provideragent.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	p.Leave = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the agent of %s ended with %v", name, err)
		}
	})
	t.Cleanup(p.Leave)
}

// steadyAnswers is how often in a row a fleet must give the same answer, because its
// replicas answer in turn.
const steadyAnswers = 6

// WaitOffered waits until a provider's offer of a model is known and the model
// can be called, by all replicas.
func (m *Market) WaitOffered(t testing.TB, model, providerID string) {
	t.Helper()
	m.steadily(t, providerID+" offers "+model, func() bool { return m.Offers(t, model, providerID) })
	m.steadily(t, model+" is callable", func() bool {
		_, _, body := m.Call(t, http.MethodGet, "/v1/models", "", "")
		return strings.Contains(string(body), `"`+model+`"`)
	})
}

// steadily waits until every replica sees a state.
func (m *Market) steadily(t testing.TB, what string, reached func() bool) {
	t.Helper()
	want := 1
	if m.fleet != nil {
		want = steadyAnswers
	}
	seen := 0
	Until(t, what, func() bool {
		if !reached() {
			seen = 0
			return false
		}
		seen++
		return seen >= want
	})
}

// Offers reports whether the public list of a model's providers names a provider.
func (m *Market) Offers(t testing.TB, model, providerID string) bool {
	t.Helper()
	_, _, body := m.Call(t, http.MethodGet, "/api/v1/models/"+model+"/providers", "", "")
	list, _ := At(Decode(t, body), "data", "list").([]any)
	for _, o := range list {
		if At(o, "provider_id") == providerID {
			return true
		}
	}
	return false
}
