package doctor

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// finding returns what the check of the WebSocket finds where each handshake gets the same answer.
func finding(t *testing.T, answer http.HandlerFunc) Finding {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return Subject{Hub: "ws" + strings.TrimPrefix(server.URL, "http") + "/ws"}.socket(t.Context())[0]
}

// Each refusal has a fix of its own, and a proxy is blamed only where there is a sign of one.
func TestARefusedHandshakeBlamesAProxyOnlyBySignsOfOne(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		header     [2]string
		body, want string
		blamed     bool
	}{
		"401": {status: 401, want: "asks for a sign-in before the hub does"},
		"403": {status: 403, want: "does not let this machine's address in"},
		"404": {status: 404, want: "nothing is served at this path"},
		"409": {status: 409, want: "another connection of this machine"},
		"429": {status: 429, want: "too many connections come from this address"},
		"503": {status: 503, want: "the hub takes no new connections now"},
		"500": {status: 500, want: "the fault is the marketplace's"},
		"302": {status: 302, want: "follow no redirect"},
		"400": {status: 400, want: "takes no WebSocket"},
		"503 of a proxy's server": {status: 503, header: [2]string{"Server", "nginx"},
			want: "the hub takes no new connections now"},
		"403 of a proxy's server": {status: 403, header: [2]string{"Via", "1.1 squid"},
			want: "does not let this machine's address in"},
		"407": {status: 407, want: "the proxy asks for a sign-in", blamed: true},
		"400 with Via": {status: 400, header: [2]string{"Via", "1.1 squid"}, want: "have it allow Upgrade: websocket",
			blamed: true},
		"426 with Server": {status: 426, header: [2]string{"Server", "squid"}, want: "have it allow Upgrade: websocket",
			blamed: true},
		"501 with Server": {status: 501, header: [2]string{"Server", "old"}, want: "have it allow Upgrade: websocket",
			blamed: true},
		"200 with a page": {status: 200, header: [2]string{"Content-Type", "text/html; charset=utf-8"},
			body: "<html>sign in", want: "a page answers in place of the hub", blamed: true},
		"200 with a text": {status: 200, header: [2]string{"Content-Type", "application/json"}, body: "{}",
			want: "takes no WebSocket"},
	} {
		got := finding(t, func(w http.ResponseWriter, _ *http.Request) {
			if c.header[0] != "" {
				w.Header().Set(c.header[0], c.header[1])
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body)) // the doctor may have left
		})
		if got.Level != Blocks {
			t.Errorf("%s: level: got %s, want %s", name, got.Level, Blocks)
		}
		if !strings.Contains(got.Fix, c.want) {
			t.Errorf("%s: the fix: got %q, want %q in it", name, got.Fix, c.want)
		}
		if blamed := strings.Contains(got.Fix, "proxy"); blamed != c.blamed {
			t.Errorf("%s: a proxy is blamed: got %t, want %t, in %q", name, blamed, c.blamed, got.Fix)
		}
	}
}

// A proxy that the environment names, and that does not let the handshake through, is to blame. The
// finding says what the proxy asks for.
func TestAProxyThatOpensNoWayIsBlamed(t *testing.T) {
	for status, want := range map[int]string{407: "the proxy asks for a sign-in", 403: "in NO_PROXY"} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodConnect {
				t.Errorf("%d: method: got %s, want CONNECT", status, r.Method)
			}
			w.WriteHeader(status)
		}))
		t.Cleanup(proxy.Close)
		at, err := url.Parse(proxy.URL)
		if err != nil {
			t.Fatal(err)
		}
		dialer := websocket.Dialer{Proxy: http.ProxyURL(at)}
		conn, resp, err := dialer.DialContext(t.Context(), "ws://hub.invalid/ws", nil)
		if err == nil {
			t.Fatalf("%d: got no error, want one: %v", status, conn.Close())
		}
		if got := unreachedFix(resp, err, " (through the proxy "+at.Host+")"); !strings.Contains(got, want) {
			t.Errorf("%d: the fix: got %q, want %q in it, for the error %v", status, got, want, err)
		}
	}
}
