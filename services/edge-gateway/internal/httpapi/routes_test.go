package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/services/edge-gateway/internal/openapi"
)

// described gives the methods of each path of the description.
func described(t *testing.T) map[string][]string {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(openapi.Document(), &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for path, item := range doc.Paths {
		if !strings.HasPrefix(path, operators) {
			path = strings.ReplaceAll(path, "{model_id}", "{id}")
		}
		for verb := range item {
			out[path] = append(out[path], strings.ToUpper(verb))
		}
	}
	return out
}

// Operators' routes are on a listener of their own; that each is served there, and
// none here, is another test's to say.
const operators = "/api/v1/admin"

func TestEveryRouteIsDescribed(t *testing.T) {
	doc := described(t)
	all := map[string]route{}
	for _, r := range fixed {
		all[r.pattern] = r
	}
	for path, r := range ofProviders {
		if r.pattern != path {
			t.Errorf("%s is called: got %q, want %q", path, r.pattern, path)
		}
		all[r.pattern] = r
	}
	for _, r := range prefixed {
		all[r.pattern] = r.route
	}
	for _, r := range ofUsers {
		all[r.pattern] = r
	}
	for pattern, r := range all {
		if r.methods == nil && doc[pattern] != nil { // the route answers 404 whatever is asked
			t.Errorf("%s is described and not served", pattern)
		}
		for _, method := range r.methods {
			if method != http.MethodHead && !slices.Contains(doc[pattern], method) {
				t.Errorf("%s %s is served and not described", method, pattern)
			}
		}
	}
}

func TestEveryDescribedRouteIsServed(t *testing.T) {
	for path, methods := range described(t) {
		r, _ := find(path)
		if strings.HasPrefix(path, operators+"/") {
			if r.pattern != unknown.pattern {
				t.Errorf("%s is public: got %q, want %q", path, r.pattern, unknown.pattern)
			}
			continue
		}
		for _, method := range methods {
			if r.pattern != path {
				t.Errorf("%s %s, which is described: r.pattern: got %q, want %q", method, path, r.pattern, path)
			} else if !slices.Contains(r.methods, method) {
				t.Errorf("%s %s, which is described: r.methods: got %q, want %q in it", method, path, r.methods, method)
			}
		}
	}
}
