package edgegateway

import (
	"net/http"
	"testing"
)

const meURL = "/api/v1/provider/me"

func TestAProviderReadsItsWholeAccountByKeyOrSession(t *testing.T) {
	f := start(t)
	session := []string{"Authorization", "Bearer " + sessionToken}
	f.people.set(providerA, nil)
	for name, credential := range map[string][]string{"a key": f.asProvider(), "a session": session} {
		var said struct {
			ProviderID string `json:"provider_id"`
			Models     []struct {
				ModelID string `json:"model_id"`
			} `json:"models"`
			Earnings struct {
				Settled string `json:"settled_usd_str"`
			} `json:"earnings"`
			Penalties []any `json:"penalties"`
		}
		var body string
		// A router that takes longer than half a second is left out, which a slow machine's may.
		until(t, name+" reads the models of the verifier and of the router", func() bool {
			said.Models = nil
			body = wantJSON(t, f.do(http.MethodGet, meURL, "", credential...), 200, &said)
			return len(said.Models) == 2
		})
		newSchemas(t).wantShape(t, name, "#/components/schemas/ProviderOverview", body)
		switch {
		case said.ProviderID != providerA:
			t.Errorf("%s: provider: got %q, want %q", name, said.ProviderID, providerA)
		case said.Models[1].ModelID != modelID:
			t.Errorf("%s: model of the router: got %q, want %q", name, said.Models[1].ModelID, modelID)
		case said.Models[0].ModelID != providerA: // the verifier says who asks
			t.Errorf("%s: model: got %q, want %q", name, said.Models[0].ModelID, providerA)
		case said.Earnings.Settled != "1.50":
			t.Errorf("%s: settled: got %q, want 1.50", name, said.Earnings.Settled)
		case len(said.Penalties) != 1:
			t.Errorf("%s: penalties: got %d, want 1", name, len(said.Penalties))
		}
	}
	wantError(t, f.do(http.MethodGet, meURL, ""), 401, "missing_api_key")
	resp := f.do(http.MethodDelete, meURL, "")
	if resp.StatusCode != 405 {
		t.Errorf("DELETE: status: got %d, want 405", resp.StatusCode)
	}
	if got := resp.Header.Get("Allow"); got != "GET, HEAD, PUT" {
		t.Errorf("DELETE: allowed: got %q, want GET, HEAD and PUT", got)
	}
}
