package e2e

import (
	"net/http"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// modeHeader says how the provider that served is reached.
const modeHeader = "X-Svc-Connection-Mode"

const endpointsPath = "/api/v1/provider/external-endpoints"

// owned makes a qualified provider, and returns it with the session of the user who owns it.
func owned(t *testing.T, m *trial.Market, name string) (p *trial.Provider, session string) {
	t.Helper()
	call := func(path, token, body string) any {
		t.Helper()
		status, _, answer := m.Call(t, http.MethodPost, path, token, body)
		if status != http.StatusCreated {
			t.Fatalf("%s: status: got %d, want 201, with %s", path, status, answer)
		}
		return trial.Decode(t, answer)
	}
	session = trial.Text(t, call("/api/v1/user/signup", "",
		`{"email":"`+name+`@example.org","password":"correct horse battery","display_name":"`+name+`"}`), "token")
	made := call("/api/v1/user/upgrade-to-provider", session, `{"name":"`+name+`","wallet_address":""}`)
	p = &trial.Provider{ID: trial.Text(t, made, "provider_id"), Key: trial.Text(t, made, "provider_api_key"),
		Leave: func() {}}
	m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/qualification",
		`{"collateral":true,"gpu_waived":true,"reason":"test"}`)
	return p, session
}

// A server without an agent serves as long as no agent does, and from then on those who pin it.
func TestAnExternalEndpointServesUntilAnAgentIsThere(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error", "SVC_HUB_DEVELOPMENT_ENDPOINTS=true")
	const model = "test/external"
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	endpoint, session := owned(t, m, "endpoint")
	server := `{"name":"rack","base_url":"` + engine.URL + `/v1","models":[{"model_id":"` + model + `"}]}`
	if status, _, body := m.Call(t, http.MethodPost, endpointsPath, endpoint.Key, server); status != http.StatusForbidden {
		t.Fatalf("register by a key: status: got %d, want 403, with %s", status, body)
	}
	if status, _, body := m.Call(t, http.MethodPost, endpointsPath, session, server); status != http.StatusCreated {
		t.Fatalf("register: status: got %d, want 201, with %s", status, body)
	}
	m.WaitOffered(t, model, endpoint.ID)
	account, key := m.Consumer(t, "1")
	m.Unlimit(t, account)

	servedBy(t, m, key, trial.Chat(model, ""), endpoint.ID, "external")
	servedBy(t, m, key, trial.Chat(model, `,"stream":true`), endpoint.ID, "external")

	agent := m.Join(t, "agent", engine.URL, model)
	for _, more := range []string{"", `,"stream":true`, `,"provider":{"sort":"throughput"}`} {
		servedBy(t, m, key, trial.Chat(model, more), agent.ID, "websocket")
	}
	servedBy(t, m, key, trial.Chat(model, ""), endpoint.ID, "external", "X-Svc-Provider", endpoint.ID)
	servedBy(t, m, key, trial.Chat(model, `,"provider":{"order":["`+endpoint.ID+`"]}`), endpoint.ID, "external")
	modes := map[any]any{}
	_, _, body := m.Call(t, http.MethodGet, "/api/v1/models/"+model+"/providers", "", "")
	list, _ := trial.At(trial.Decode(t, body), "data", "list").([]any)
	for _, offering := range list {
		modes[trial.At(offering, "provider_id")] = trial.At(offering, "connection_mode")
	}
	for provider, want := range map[string]string{endpoint.ID: "external", agent.ID: "websocket"} {
		if got := modes[provider]; got != want {
			t.Errorf("offering of %s: got %v, want %q", provider, got, want)
		}
	}
	trial.Until(t, "the catalog counts both", func() bool { return onlineProviders(t, m, model) == 2.0 })

	agent.Leave()
	trial.Until(t, "the endpoint serves again", func() bool {
		status, header, _ := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
		return status == http.StatusOK && header.Get(modeHeader) == "external"
	})
	m.NothingHeld(t, account)
	m.Balanced(t)
}

// onlineProviders is how many providers of a model the catalog counts.
func onlineProviders(t *testing.T, m *trial.Market, model string) any {
	t.Helper()
	_, _, body := m.Call(t, http.MethodGet, "/api/v1/models", "", "")
	list, _ := trial.At(trial.Decode(t, body), "data", "list").([]any)
	for _, entry := range list {
		if trial.At(entry, "id") == model {
			return trial.At(entry, "online_providers")
		}
	}
	return nil
}

// servedBy sends a request and wants the provider and its mode in header and receipt.
func servedBy(t *testing.T, m *trial.Market, key, body, provider, mode string, headers ...string) {
	t.Helper()
	status, header, answer := m.Call(t, http.MethodPost, trial.ChatPath, key, body, headers...)
	if status != http.StatusOK {
		t.Fatalf("%s: status: got %d, want 200, with %s", body, status, answer)
	}
	if got := header.Get("X-Svc-Provider-Id"); got != provider {
		t.Errorf("%s: provider: got %q, want %q", body, got, provider)
	}
	if got := header.Get(modeHeader); got != mode {
		t.Errorf("%s: mode: got %q, want %q", body, got, mode)
	}
	receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader))
	if receipt["provider_id"] != provider {
		t.Errorf("%s: provider of the receipt: got %v, want %q", body, receipt["provider_id"], provider)
	}
	if receipt["connection_mode"] != mode {
		t.Errorf("%s: mode of the receipt: got %v, want %q", body, receipt["connection_mode"], mode)
	}
}
