package edgegateway

import (
	"net/http"
	"slices"
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
			Earnings *struct {
				Settled string `json:"settled_usd_str"`
			} `json:"earnings"`
			Penalties []any             `json:"penalties"`
			Notes     map[string]string `json:"notes"`
		}
		body := wantJSON(t, f.do(http.MethodGet, meURL, "", credential...), 200, &said)
		newSchemas(t).wantShape(t, name, "#/components/schemas/ProviderOverview", body)
		switch {
		case said.ProviderID != providerA:
			t.Errorf("%s: provider: got %q, want %q", name, said.ProviderID, providerA)
		case len(said.Models) == 0 || said.Models[0].ModelID != providerA: // the verifier says who asks
			t.Errorf("%s: models: got %v, want %q", name, said.Models, providerA)
		case said.Earnings == nil || said.Earnings.Settled != "1.50":
			t.Errorf("%s: earnings: got %v, want 1.50 settled", name, said.Earnings)
		case len(said.Penalties) != 1:
			t.Errorf("%s: penalties: got %d, want 1", name, len(said.Penalties))
		case len(said.Notes) != 0:
			t.Errorf("%s: notes: got %v, want none", name, said.Notes)
		}
	}
	wantError(t, f.do(http.MethodGet, meURL, ""), 401, "missing_api_key")
	if resp := f.do(http.MethodDelete, meURL, ""); resp.StatusCode != 405 ||
		!slices.Equal(resp.Header.Values("Allow"), []string{"GET, HEAD, PUT"}) {
		t.Errorf("DELETE: got %d %v, want 405 with what is allowed", resp.StatusCode, resp.Header.Values("Allow"))
	}
}
