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

// describedAt is the route of the description of all routes.
const describedAt = "/openapi.json"

const statusPath = "/api/v1/provider/status"

// playgroundRoutes begins the patterns of the playground's routes.
const playgroundRoutes = "/v1/playground/"

// tellsRate reports whether answers to a request show its key's rate. Answers of the
// playground show the visitor's rate, and browsers ask in advance without a key.
func tellsRate(r *http.Request) bool {
	path := r.URL.Path
	return strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, playgroundRoutes) && r.Method != http.MethodOptions
}

// crossOrigin reports whether pages of any origin may call a path. They may call the
// paths of the OpenAI API, for which a page brings a key of its own. The playground needs
// no key, and other pages must not spend its visits.
func crossOrigin(path string) bool {
	return strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/v1/playground/")
}

// method maps unknown methods to one name, so that logs hold known methods only.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}
