package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"svc.internal/pkg/serve"
)

// F24: profiles show what is in memory, and are on loopback unless somebody says otherwise.
func TestProfilesAreOnLoopbackAlone(t *testing.T) {
	for _, c := range []struct {
		address string
		asked   bool
		want    int
	}{
		{"127.0.0.1:9090", false, http.StatusOK}, {"[::1]:9090", false, http.StatusOK},
		{"0.0.0.0:9090", false, http.StatusNotFound}, {"[::]:9090", false, http.StatusNotFound},
		{"10.0.0.1:9090", false, http.StatusNotFound},
		{"10.0.0.1:9090", true, http.StatusOK},
	} {
		cfg := Config{Profiles: c.asked}
		handler := serve.AdminHandler(http.NotFoundHandler(), func(context.Context) error { return nil },
			cfg.hasProfiles(c.address))
		for path, want := range map[string]int{"/debug/pprof/": c.want, "/debug/pprof/heap": c.want,
			"/healthz": http.StatusOK} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("%s at %s (profiles: %v): got %d, want %d", path, c.address, c.asked, w.Code, want)
			}
		}
	}
}
