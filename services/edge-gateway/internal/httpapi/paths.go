package httpapi

import (
	"net/http"
	"strings"
)

// The routes of probes.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

const statusPath = "/api/v1/provider/status"

// playgroundRoutes begins the patterns of the playground's routes.
const playgroundRoutes = "/v1/playground/"

// tellsRate reports whether answers to a request speak of its key's rate: those of
// the playground speak of the visitor's, and browsers ask in advance without a
// key.
func tellsRate(r *http.Request) bool {
	path := r.URL.Path
	return strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, playgroundRoutes) && r.Method != http.MethodOptions
}

// crossOrigin reports whether pages of any origin may call a path: those of the
// OpenAI API, for which a page brings a key of its own. The playground needs no
// key, and other pages shall not spend its visits.
func crossOrigin(path string) bool {
	return strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/v1/playground/")
}

// method keeps what is logged within the methods that exist.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}
