package origin

import (
	"net/http"
	"testing"
)

func TestOnlyPagesOfTheSiteItselfAreLetIn(t *testing.T) {
	for _, tc := range []struct {
		host    string
		origins []string
		sites   []string
		want    bool
	}{
		{"site.example", []string{"https://site.example"}, nil, true},
		{"site.example", []string{"http://site.example"}, nil, true},
		{"Site.example:443", []string{"https://site.EXAMPLE"}, nil, true},
		{"site.example:8080", []string{"http://site.example:8080"}, nil, true},
		{"[::1]:8080", []string{"http://[::1]:8080"}, nil, true},
		{"inner", []string{"https://site.example"}, []string{"same-origin"}, true},
		{"site.example", nil, []string{"same-origin"}, true},

		{"site.example", nil, nil, false},
		{"site.example", []string{"null"}, nil, false},
		{"site.example", []string{"https://evil.example"}, []string{"cross-site"}, false},
		{"site.example", []string{"https://a.site.example"}, []string{"same-site"}, false},
		{"site.example", []string{"https://site.example:8443"}, nil, false},
		{"site.example", []string{"https://site.example.evil.example"}, nil, false},
		{"site.example", []string{"https://site.example@evil.example"}, nil, false},
		{"site.example", []string{"https://user@site.example"}, nil, false},
		{"site.example", []string{"https://site.example/"}, nil, false},
		{"site.example", []string{"https://site.example", "https://evil.example"}, nil, false},
		{"site.example", []string{"file://site.example"}, nil, false},
		{"site.example", nil, []string{"same-origin", "cross-site"}, false},
		{"site.example", nil, []string{"none"}, false},
		{"", []string{"https://"}, nil, false},
		{"site.example", []string{"https://site.example"}, []string{"same-origin"}, true},
		{"localhost:8082", []string{"http://localhost:8082"}, []string{"same-site"}, false},
		{"localhost:8082", []string{"http://localhost:8080"}, nil, false},
		{"localhost:8082", []string{"http://localhost:8080"}, []string{"same-site"}, false},
	} {
		r := &http.Request{Host: tc.host, Header: http.Header{"Origin": tc.origins, "Sec-Fetch-Site": tc.sites}}
		if got := Same(r); got != tc.want {
			t.Errorf("host %q, origin %q, site %q: got %t, want %t", tc.host, tc.origins, tc.sites, got, tc.want)
		}
	}
}

func FuzzSame(f *testing.F) {
	f.Add("site.example", "https://site.example")
	f.Add("[::1]:80", "http://[::1]")
	f.Add("site.example", "null")
	f.Add("", "https://:443")
	f.Fuzz(func(t *testing.T, host, origin string) {
		r := &http.Request{Host: host, Header: http.Header{"Origin": {origin}}}
		if !Same(r) {
			return
		}
		if host == "" {
			t.Errorf("origin %q: got let in without a host", origin)
		}
		if len(origin) < len("http://") {
			t.Errorf("host %q, origin %q: got let in, want an origin with a scheme", host, origin)
		}
	})
}
