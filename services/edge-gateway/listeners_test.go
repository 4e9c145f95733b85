package edgegateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/serve"
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
		return path == "/healthz" || path == "/v1/models" || path == "/openapi.json" || ofPages(path)
	}},
	{"operators", func(f *fleet) string { return f.operators }, func(path string) bool {
		return path == "/healthz" || path == "/openapi.json" || strings.HasPrefix(path, "/api/v1/admin/") || ofPages(path)
	}},
}

// ofPages reports whether a path is one of the pages' that is there.
func ofPages(path string) bool {
	return path == "/app" || strings.HasPrefix(path, "/app/") && !strings.HasPrefix(path, "/app/assets/none")
}

// Hostile test 7: what is on the other listener, or on none of the two, is JSON 404
// on this one, whatever the request claims of its host and whatever its credential.
func TestEachListenerServesItsOwnRoutesAlone(t *testing.T) {
	f := surfaceFleet(t)
	paths := []string{
		"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/admin", "/internal", "/healthz", "/v1/models",
		"/openapi.json", "/", "/app", "/app/", "/app/../v1/models", "/app/assets/none.js", "/apple", "//app/", "/App/",
		"/app%2Fx", "/api/v1/models/x/y/providers",
		"/api/v1/admin", "/api/v1/admin/", "/api/v1/admin/providers", "/api/v1/admin/accounts/a1/credit",
		"/api/v1/admin/reconciliation",
		"//api/v1/admin/providers", "/api//v1/admin/providers", "/api/v1/./admin/providers", "/v1/../api/v1/admin/providers",
		"/api/v1/admin%2Fproviders", "/api/v1/%61dmin/providers", "/API/v1/admin/providers",
		"/api/v1/models/../admin/providers",
		"/api/v1/models/%2e%2e/admin/providers", "/api/v1/models/x/../../admin/providers",
		"/api/v1/models/../admin/x/providers",
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
						if path == "/api/v1/admin/providers" && credential != adminToken && resp.StatusCode != http.StatusUnauthorized &&
							resp.StatusCode != http.StatusTooManyRequests {
							t.Errorf("%s listener, %s: got %d without an operator's token, want 401 or 429", l.name, path, resp.StatusCode)
						}
						read(t, resp)
						continue
					}
					if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Content-Type") != "application/json" {
						// A catalog lookup of such a model answers 404 as well, in the same form.
						t.Errorf("%s listener, %s as %q: got %d %s, want JSON 404", l.name, path, host, resp.StatusCode,
							resp.Header.Get("Content-Type"))
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
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Original-Url",
		"X-Rewrite-Url", "X-Host", "X-Forwarded-Server"} {
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
				t.Errorf("%s: got Allow: %s, want no methods named", o, allow)
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
	read(t, f.do(http.MethodPost, "/api/v1/admin/accounts/a1/credit", `{"amount_usd":"5.00","idempotency_key":"k"}`,
		"Authorization", "Bearer "+adminToken))
	text := f.log.String()
	for _, want := range []string{"operator=" + operatorName, "path=/api/v1/admin/accounts/a1/credit", "status=200"} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in the log:\n%s", want, text)
		}
	}
	if strings.Contains(text, adminToken) {
		t.Errorf("got the token in the log: got %q, want it without %q", text, adminToken)
	}
}

func TestTheOperatorsSettingsReportEveryFault(t *testing.T) {
	f := newFleet(t)
	cfg := f.cfg
	cfg.OperatorAddr, cfg.WrongTokens = "8082", 0
	if err := cfg.AdminTokens.UnmarshalText([]byte("alice:short,bob")); err != nil {
		t.Fatal(err)
	}
	if err := cfg.MachineTokens.UnmarshalText([]byte("bot:king:00,bot:admin:00")); err != nil {
		t.Fatal(err)
	}
	err := cfg.Validate()
	for _, want := range []string{"SVC_OPERATOR_ADDR", "WrongTokens", "entry 1 (alice)", "entry 2 is not name:token",
		"SVC_MACHINE_TOKENS", "entry 1 (bot) has a role", "entry 2 (bot) has a digest"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
}

// named notes for which operator each unary call to a peer is made.
type named struct {
	grpc.ClientConnInterface
	mu    sync.Mutex
	calls []string // method by operator
}

func (n *named) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	name := serve.Operator(metadata.NewIncomingContext(ctx, md))
	n.mu.Lock()
	n.calls = append(n.calls, method+" by "+name)
	n.mu.Unlock()
	return n.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// since returns the calls of administrative services after the first so many.
func (n *named) since(known int) (calls []string, all int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.calls[known:] {
		if strings.Contains(c, "AdminService/") || strings.Contains(c, "ReconciliationService/") {
			calls = append(calls, c)
		}
	}
	return calls, len(n.calls)
}

// F14: whatever an operator calls, the service that does it gets the operator's name.
func TestTheServiceOfEachOperatorsRouteGetsTheOperatorsName(t *testing.T) {
	f := surfaceFleet(t)
	found := 0
	for _, o := range operations(t) {
		if !o.operators || o.keyless { // whoever signs in has no name yet
			continue
		}
		found++
		_, known := f.named.since(0)
		name, credential := operatorName, f.credential(o)
		if credential[1] == "Bearer "+bossToken {
			name = bossName
		}
		headers := append([]string{"X-Svc-Operator", "mallory", "Grpc-Metadata-X-Svc-Operator", "mallory"}, credential...)
		resp := f.ask(o, headers...)
		read(t, resp)
		calls, _ := f.named.since(known)
		want := 1
		switch {
		case o.path == "/api/v1/admin/acts": // every service has a part of it
			want = 5
		case o.path == "/api/v1/admin/health": // and the streams
			want = 6
		case strings.HasSuffix(o.path, "/routing"): // the fleet's router is not asked over gRPC
			want = 0
		}
		if len(calls) != want {
			t.Errorf("%s: got %d and the calls %v, want %d", o, resp.StatusCode, calls, want)
		}
		for _, c := range calls {
			if !strings.HasSuffix(c, " by "+name) {
				t.Errorf("%s: got the call %s, want it by %s", o, c, name)
			}
		}
		path, _, _ := strings.Cut(o.path, "?")
		if text := f.log.String(); !strings.Contains(text, "operator="+name+" path="+path) {
			t.Errorf("%s: got no line of the log with its operator and path: got %q, want %q in it", o, text,
				"operator="+name+" path="+path)
		}
	}
	if found < 20 {
		t.Errorf("got %d operators' routes, want the whole list", found)
	}
}
