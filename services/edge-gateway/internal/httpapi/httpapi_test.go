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
			switch {
			case r.pattern != "/v1/models/{id}":
				t.Errorf(`%q: r.pattern: got %q, want "/v1/models/{id}"`, path, r.pattern)
			case err != nil:
				t.Errorf("%q: got the error %v, want none", path, err)
			case got != id:
				t.Errorf("%q: url.PathUnescape(rest): got %q, want %q", path, got, id)
			}
		}
	})
}

func TestMethodsAreLoggedFromAClosedList(t *testing.T) {
	if method("GET") != "GET" {
		t.Errorf(`a method of the client's own making would be logged: method("GET"): got %q, want "GET"`, method("GET"))
	} else if method("BREW\nlevel=ERROR") != "other" {
		t.Errorf(`a method of the client's own making would be logged: method(…): got %q, want "other"`,
			method("BREW\nlevel=ERROR"))
	}
}
