package external

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/fault"
)

func TestOnlyPublicServersMayBeEndpoints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://api.example.org/v1":          "https://api.example.org/v1",
		"HTTPS://API.Example.ORG:443/v1//":    "https://api.example.org/v1",
		"https://api.example.org.":            "https://api.example.org",
		"https://api.example.org:8000/a/b%20": "https://api.example.org:8000/a/b%20",
		"https://8.8.8.8:8443/v1":             "https://8.8.8.8:8443/v1",
		"https://[2606:4700::1111]/v1":        "https://[2606:4700::1111]/v1",
		"https://[2606:4700:0:0:0:0:0:1111]":  "https://[2606:4700::1111]",
		"https://[2606:4700:0000::1111]:8443": "https://[2606:4700::1111]:8443",

		"http://api.example.org/v1": "", "ftp://api.example.org": "", "https://": "", "": "", "api.example.org": "",
		"https://u@api.example.org": "", "https://u:p@api.example.org": "", "https://api.example.org/?a=1": "",
		"https://api.example.org/#x":  "",
		"https://api.example.org/v1?": "", "https://api.example.org\\@10.0.0.1/": "",
		"https://api.example.org/v1\n": "", "https://api.example.org/ v1": "", "https://api.example.org/../x": "",
		"https://api.example.org/%2e%2e/x": "", "https://api.example.org/" + strings.Repeat("x", 512): "",
		"https://127.1/": "", "https://0x7f.1/": "", "https://127.0.0.1/": "", "https://localhost/": "",
		"https://2130706433":         "",
		"https://[::ffff:10.0.0.1]/": "", "https://100.64.0.1": "", "https://metadata.google.internal/": "",
		"https://169.254.169.254/": "", "https://[fd00::1]/": "",
		"https://[64:ff9b::a00:1]/": "", "https://postgres/": "",
		"https://api.example.org:5432": "", "https://api.example.org:22": "", "https://api.example.org:80": "",
		"https://api.example.org:0443": "",
		"https://api.example.org:":     "https://api.example.org", "https://api.example.org:x": "",
	} {
		got, err := (Rules{}).parseBase(text)
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if want == "" && !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%q: got the error %v, want the reason %v", text, err, fault.InvalidValue)
		}
	}
	if got, err := (Rules{Development: true}).parseBase("http://127.0.0.1:5432/v1"); err != nil {
		t.Errorf("in development: got the error %v, want none", err)
	} else if got != "http://127.0.0.1:5432/v1" {
		t.Errorf("in development: got %q, want it as it is", got)
	}
}

// FuzzParseBase reads base URLs of any content. What passes leads to a host that the guard
// lets pass, has one form, and is a URL of that host for Go too.
func FuzzParseBase(f *testing.F) {
	f.Add("https://api.example.org:8000/v1")
	f.Add("https://[2606:4700::1111]:443/")
	f.Add("https://[2606:4700:0:0:0:0:0:1111]:8443/")
	f.Add("https://a.b/%2e/")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := (Rules{}).parseBase(text)
		if err != nil {
			return
		}
		if again, _ := (Rules{}).parseBase(got); again != got {
			t.Fatalf("%q: got %q and then %q, want the same twice", text, got, again)
		}
		u, err := url.Parse(got + "/models")
		if err != nil {
			t.Fatalf("%q: got %q, want a URL: %v", text, got, err)
		}
		if plain := (url.URL{Scheme: "https", Host: u.Host, Path: u.Path, RawPath: u.RawPath}); *u != plain {
			t.Fatalf("%q: got %q, want a plain URL", text, got)
		}
		if a, err := netip.ParseAddr(strings.Trim(u.Hostname(), "[]")); err == nil && dialguard.Blocked(a) {
			t.Fatalf("%q: got the address %v, want a public one", text, a)
		}
		if !strings.HasPrefix(got+"/", originOf(got)+"/") {
			t.Fatalf("%q: got the origin %q of %q, want its beginning", text, originOf(got), got)
		}
	})
}
