package edgegateway

import (
	"net/http"
	"testing"
)

// An external endpoint may lead back to the marketplace through a proxy that hides the marketplace's
// answers from the hub. The gateway still sees the hub's marks.
func TestARequestThatOneOfOurHubsSentIsRefused(t *testing.T) {
	f := start(t)
	good := []string{"Authorization", "Bearer " + f.key}
	for _, mark := range [][]string{
		{"User-Agent", "svc-hub"},
		{"User-Agent", "proxy/1", "CDN-Loop", "proxy; x=1, svc-hub"},
	} {
		resp := f.do(http.MethodPost, "/v1/chat/completions", hello, append(mark, good...)...)
		wantError(t, resp, http.StatusLoopDetected, "loop_detected")
		resp = f.do(http.MethodGet, "/v1/models", "", append(mark, good...)...)
		wantError(t, resp, http.StatusLoopDetected, "loop_detected")
	}
	resp := f.do(http.MethodPost, "/v1/chat/completions", hello, append(good, "CDN-Loop", "another")...)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a client behind another network: status: got %d, want 200", resp.StatusCode)
	}
}
