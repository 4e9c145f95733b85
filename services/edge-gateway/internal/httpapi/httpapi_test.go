package httpapi

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzFind: every path has a route, and a model's id comes out of it as it
// went in, with its slashes raw or escaped.
func FuzzFind(f *testing.F) {
	for _, s := range []string{"acme/tiny-1b", "a", "a b", "..", "%2F", "a//b", "x?y", "\u00e9", "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if r, _ := find(id); r.serve == nil {
			t.Fatalf("%q has no route", id)
		}
		if id == "" {
			return
		}
		escaped := "/v1/models/" + url.PathEscape(id)
		for _, path := range []string{escaped, strings.ReplaceAll(escaped, "%2F", "/")} {
			r, rest := find(path)
			got, err := url.PathUnescape(rest)
			if r.pattern != "/v1/models/{id}" || err != nil || got != id {
				t.Errorf("%q: %s %q %v", path, r.pattern, got, err)
			}
		}
	})
}

func TestMethodsAreLoggedFromAClosedList(t *testing.T) {
	if method("GET") != "GET" || method("BREW\nlevel=ERROR") != "other" {
		t.Error("a method of the client's own making would be logged")
	}
}
