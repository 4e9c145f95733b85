package doctor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/agentwire"
	"svc.internal/services/provider-agent/internal/service"
)

// handshakeTimeout bounds the WebSocket handshake.
const handshakeTimeout = 10 * time.Second

// The fixes where the hub is not reached.
const (
	reachFix   = "see that SVC_WS_URL is the hub's address, and that this machine may reach it (firewall, DNS)"
	proxyFix   = "have the proxy let WebSockets through to the hub, or name the hub's host in NO_PROXY"
	upgradeFix = "a proxy or firewall on the way does not let WebSockets through: have it allow Upgrade: websocket"
)

// socket makes a WebSocket handshake with the hub.
func (s Subject) socket(ctx context.Context) []Finding {
	if s.Hub == "" {
		return one("websocket", Blocks, "the hub's address is not set",
			"set SVC_WS_URL to the address of the marketplace's hub")
	}
	return []Finding{Reach(ctx, s.Hub)}
}

// Reach makes a WebSocket handshake with the hub at an address, through the proxy that the
// environment names, and closes it. It says what mends a handshake that fails.
func Reach(ctx context.Context, hub string) Finding {
	const check = "websocket"
	by := proxy(hub)
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshakeTimeout, Subprotocols: []string{agentwire.Subprotocol},
	}
	conn, resp, err := dialer.DialContext(ctx, hub, http.Header{"User-Agent": {"svc-agent"}})
	if err != nil {
		return Finding{Check: check, Level: Blocks, Text: unreached(resp, err, by), Fix: unreachedFix(resp, err, by)}
	}
	spoken := conn.Subprotocol()
	if err := conn.Close(); err != nil {
		return Finding{Check: check, Level: Warns, Text: "the connection cannot be closed: " + err.Error(),
			Fix: "look at the network"}
	}
	if spoken != agentwire.Subprotocol {
		return Finding{Check: check, Level: Blocks, Text: "what answers" + by + " does not speak " + agentwire.Subprotocol,
			Fix: "set SVC_WS_URL to the hub's address, because something else answers at this one"}
	}
	return Finding{Check: check, Level: OK, Text: "the hub answers" + by}
}

// unreached returns how a handshake failed. resp is nil where nothing answered.
func unreached(resp *http.Response, err error, by string) string {
	if resp == nil {
		return fmt.Sprintf("no WebSocket to the hub%s: %v", by, err)
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // a part of it will do
	if marked(resp.Header) != "" {
		by += " (by " + marked(resp.Header) + ")"
	}
	return strings.TrimSpace(fmt.Sprintf("the handshake%s is answered %s %s", by, resp.Status,
		service.Clean(string(bytes.TrimSpace(body)), maxRefusal)))
}

// unreachedFix returns what mends a handshake that failed. It blames a proxy only where there is a sign
// of one.
func unreachedFix(resp *http.Response, err error, by string) string {
	if resp == nil {
		switch {
		case by == "":
			return reachFix
		// The library reports the proxy's refusal only in the text of its error.
		case strings.Contains(err.Error(), http.StatusText(http.StatusProxyAuthRequired)):
			return signInFix
		}
		return proxyFix
	}
	if fix, known := refusalFixes[resp.StatusCode]; known {
		return fix
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // empty where it is malformed
	switch status := resp.StatusCode; {
	case status == http.StatusOK && kind == "text/html":
		return "a page answers in place of the hub: a proxy that asks for a sign-in, or a web site; " +
			"open the hub's address in a browser, and see that SVC_WS_URL is the hub's address"
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		return "set SVC_WS_URL to the address that the answer leads to, because agents follow no redirect"
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return "the fault is the marketplace's: the agent tries again by itself; tell the operators if it stays"
	case marked(resp.Header) != "":
		return upgradeFix
	}
	return "set SVC_WS_URL to the hub's address, because what answers at this one takes no WebSocket"
}

// signInFix is the fix for a proxy that asks for a sign-in.
const signInFix = "the proxy asks for a sign-in: put it into HTTPS_PROXY as http://name:password@host:port, " +
	"or name the hub's host in NO_PROXY"

// refusalFixes are the fixes of refusals by their status, where the status has a meaning of its own.
var refusalFixes = map[int]string{
	http.StatusProxyAuthRequired: signInFix,
	http.StatusUnauthorized: "what answers asks for a sign-in before the hub does: hubs ask for the key only once they " +
		"are connected; see that SVC_WS_URL is the hub's address, and tell the marketplace's operators",
	http.StatusForbidden: "what answers does not let this machine's address in: ask the marketplace's operators to " +
		"allow the address, or connect from another network",
	http.StatusNotFound: "nothing is served at this path: see that SVC_WS_URL is the hub's address and not the API's; " +
		"/ws is added to it",
	http.StatusConflict: "the hub has another connection of this machine: see that one agent alone runs with this " +
		"state folder, and wait a minute",
	http.StatusTooManyRequests: "too many connections come from this address: stop agents that start again and again, " +
		"and wait a minute",
	http.StatusServiceUnavailable: "the hub takes no new connections now: wait, because the agent tries again by " +
		"itself; tell the operators if it stays",
}

// marked returns the name of a server between this machine and the hub, as an answer gives it; empty
// where there is no sign of one. Hubs themselves send neither header.
func marked(h http.Header) string {
	return service.Clean(cmp.Or(h.Get("Via"), h.Get("Server")), maxRefusal)
}

// proxy names the proxy by which an address is reached; empty for none.
func proxy(hub string) string {
	u, err := url.Parse(strings.Replace(hub, "ws", "http", 1))
	if err != nil {
		return ""
	}
	by, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil || by == nil {
		return ""
	}
	return " (through the proxy " + by.Host + ")"
}
