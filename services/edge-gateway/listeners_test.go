package edgegateway

import (
	"net/http"
	"strings"
	"testing"
)

// foreignHosts are what a request may claim to be for, in Host and in the headers
// that proxies write.
var foreignHosts = []string{"localhost", "127.0.0.1:9090", "127.0.0.1:8082", "admin.internal", "evil.example", "[::1]"}

// listener is one of a gateway's listeners and what it answers.
type listener struct {
	name string
	base func(*fleet) string
	// serves reports whether a path is one of its routes.
	serves func(path string) bool
}

var listeners = []listener{
	{"public", func(f *fleet) string { return f.base }, func(path string) bool {
		return path == "/healthz" || path == "/v1/models" || path == "/openapi.json"
	}},
	{"operators", func(f *fleet) string { return f.operators }, func(path string) bool {
		return path == "/healthz" || strings.HasPrefix(path, "/api/v1/admin/")
	}},
}

// Hostile test 7: what is on the other listener, or on none of the two, is JSON 404
// on this one, whatever the request claims of its host and whatever its credential.
func TestEachListenerServesItsOwnRoutesAlone(t *testing.T) {
	f := surfaceFleet(t)
	paths := []string{
		"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/admin", "/internal", "/healthz", "/v1/models", "/openapi.json",
		"/api/v1/admin", "/api/v1/admin/", "/api/v1/admin/providers", "/api/v1/admin/accounts/a1/credit", "/api/v1/admin/reconciliation",
		"//api/v1/admin/providers", "/api//v1/admin/providers", "/api/v1/./admin/providers", "/v1/../api/v1/admin/providers",
		"/api/v1/admin%2Fproviders", "/api/v1/%61dmin/providers", "/API/v1/admin/providers", "/api/v1/models/../admin/providers",
		"/api/v1/models/%2e%2e/admin/providers", "/api/v1/models/x/../../admin/providers", "/api/v1/models/../admin/x/providers",
	}
	for _, l := range listeners {
		for _, path := range paths {
			for _, host := range append([]string{""}, foreignHosts...) {
				for _, credential := range []string{"", adminToken, f.key} {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.base(f)+path, nil)
					if err != nil {
						t.Fatal(err)
					}
					if host != "" {
						forge(req, host)
					}
					if credential != "" {
						req.Header.Set("Authorization", "Bearer "+credential)
					}
					resp, err := f.client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { resp.Body.Close() })
					strange := l.name == "operators" && strings.Contains(host, ".") && !strings.HasPrefix(host, "127.")
					if served := l.serves(path) && path != "/api/v1/admin/" && !strange; served {
						if got := resp.StatusCode; got == http.StatusNotFound {
							t.Errorf("%s listener, %s as %q: got 404, want it served", l.name, path, host)
						}
						if path == "/api/v1/admin/providers" && credential != adminToken && resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusTooManyRequests {
							t.Errorf("%s listener, %s: got %d without an operator's token, want 401 or 429", l.name, path, resp.StatusCode)
						}
						read(t, resp)
						continue
					}
					if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Content-Type") != "application/json" {
						// A catalog lookup of such a model answers 404 as well, in the same form.
						t.Errorf("%s listener, %s as %q: got %d %s, want JSON 404", l.name, path, host, resp.StatusCode, resp.Header.Get("Content-Type"))
					}
					for name, values := range resp.Header {
						if host != "" && strings.Contains(strings.Join(values, " "), host) {
							t.Errorf("%s listener, %s as %q: got %s: %v", l.name, path, host, name, values)
						}
					}
					read(t, resp)
				}
			}
		}
	}
}

// forge makes a request claim another host in every way there is.
func forge(req *http.Request, host string) {
	req.Host = host
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Original-Url", "X-Rewrite-Url", "X-Host", "X-Forwarded-Server"} {
		req.Header.Set(name, host)
	}
}

// F14: the routes of operators are not on the public listener, with the right token
// neither.
func TestNoOperatorsRouteIsPublic(t *testing.T) {
	f := surfaceFleet(t)
	found := 0
	for _, o := range operations(t) {
		if !o.operators {
			continue
		}
		found++
		for _, headers := range [][]string{nil, f.credential(o), {"Authorization", "Bearer " + f.key}} {
			resp := f.doAt(f.base, o.method, o.path, o.body, headers...)
			wantError(t, resp, http.StatusNotFound, "unknown_route")
			if allow := resp.Header.Get("Allow"); allow != "" {
				t.Errorf("%s: got Allow: %s, want nothing told", o, allow)
			}
		}
	}
	if found < 20 {
		t.Errorf("got %d operators' routes, want the whole list", found)
	}
}

// The log line of an operator's call says who made it, and never with what.
func TestAnOperatorsCallIsLoggedWithTheOperatorsName(t *testing.T) {
	f := start(t)
	read(t, f.do(http.MethodPost, "/api/v1/admin/accounts/a1/credit", `{"amount_usd":"5.00","idempotency_key":"k"}`, "Authorization", "Bearer "+adminToken))
	text := f.log.String()
	for _, want := range []string{"operator=" + operatorName, "path=/api/v1/admin/accounts/a1/credit", "status=200"} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in the log:\n%s", want, text)
		}
	}
	if strings.Contains(text, adminToken) {
		t.Error("got the token in the log")
	}
}

func TestTheOperatorsSettingsReportEveryFault(t *testing.T) {
	f := newFleet(t)
	cfg := f.cfg
	cfg.OperatorAddr, cfg.WrongTokens = "8082", 0
	if err := cfg.AdminTokens.UnmarshalText([]byte("alice:short,bob")); err != nil {
		t.Fatal(err)
	}
	err := cfg.Validate()
	for _, want := range []string{"SVC_OPERATOR_ADDR", "WrongTokens", "entry 1 (alice)", "entry 2 is not name:token"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
}
