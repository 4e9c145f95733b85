package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/apikey"
	"svc.internal/services/provider-agent/internal/service"
)

const (
	serviceFix = "set SVC_SERVICE_URL to the marketplace's API: its host or port may differ from the hub's"
	// handshakeTimeout bounds the WebSocket handshake, and maxRefusal what is shown of a
	// refusal, in characters.
	handshakeTimeout = 10 * time.Second
	maxRefusal       = 200
)

// socket makes a WebSocket handshake with the hub, through the proxy that the environment
// names, and closes it.
func (s Subject) socket(ctx context.Context) []Finding {
	const check = "websocket"
	if s.Hub == "" {
		return one(check, Blocks, "the hub's address is not set", "set SVC_WS_URL to the address of the marketplace's hub")
	}
	by := proxy(s.Hub)
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshakeTimeout, Subprotocols: []string{agentwire.Subprotocol},
	}
	conn, resp, err := dialer.DialContext(ctx, s.Hub, http.Header{"User-Agent": {"svc-agent"}})
	if err != nil {
		text := fmt.Sprintf("no WebSocket to the hub%s: %v", by, err)
		if resp != nil {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // a part of it will do
			text = fmt.Sprintf("the handshake%s is answered %s %s", by, resp.Status,
				service.Clean(string(bytes.TrimSpace(body)), maxRefusal))
		}
		fix := "see that SVC_WS_URL is the hub's address, and that this machine may reach it (firewall, DNS)"
		if by != "" || resp != nil {
			fix = "a proxy or firewall lets no WebSocket through: allow Upgrade: websocket, or name the hub in NO_PROXY"
		}
		return one(check, Blocks, text, fix)
	}
	spoken := conn.Subprotocol()
	if err := conn.Close(); err != nil {
		return one(check, Warns, "the connection cannot be closed: "+err.Error(), "look at the network")
	}
	if spoken != agentwire.Subprotocol {
		return one(check, Blocks, "what answers"+by+" does not speak "+agentwire.Subprotocol,
			"set SVC_WS_URL to the hub's address, because something else answers at this one")
	}
	return well(check, "the hub answers"+by)
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

// account checks the key, the account that it opens, and the other machines with it.
func (s Subject) account(ctx context.Context) []Finding {
	const check = "key"
	if !s.Key.IsSet() {
		if s.ByWallet {
			return one(check, Skipped, "the agent signs in with a wallet", "")
		}
		return one(check, Blocks, "no provider key is set", "set SVC_PROVIDER_KEY, or run svc-agent setup")
	}
	if prefix, ok := apikey.Parse(s.Key.Reveal()); !ok || prefix != apikey.Provider {
		return one(check, Blocks, "the provider key is mistyped",
			"copy the whole key: it begins with sk-prov- and is shown once, when it is made")
	}
	if s.Service == nil {
		return one(check, Skipped, "the service's address is not known", serviceFix)
	}
	answer, err := s.Service.Status(ctx, s.Key)
	switch {
	case errors.Is(err, service.ErrKey):
		return one(check, Blocks, err.Error(), "make another key in the dashboard, and set SVC_PROVIDER_KEY to it")
	case err != nil:
		return one(check, Blocks, err.Error(), serviceFix)
	}
	told, err := service.ParseStatus(answer)
	if err != nil {
		return one(check, Blocks, err.Error(), serviceFix)
	}
	found := well(check, "the key is valid, for "+service.Clean(told.Name, maxRefusal))
	found = append(found, s.others(told)...)
	return append(found, ofAccount(told)...)
}

// others names the machines beside this one that are connected with the account.
func (s Subject) others(told service.Status) []Finding {
	const check = "key used elsewhere"
	var names []string
	for _, n := range told.Nodes {
		if n.Online && n.NodeID != s.NodeID && len(names) < maxNamed {
			names = append(names, service.Clean(n.NodeName+" ("+n.NodeID+")", maxRefusal))
		}
	}
	if strings.Contains(told.Warning, "share node id") {
		return one(check, Blocks, "two machines share a node id, and their connections replace each other",
			"give each machine its own state folder: remove the file node-id from the copy")
	}
	if len(names) == 0 {
		return well(check, "no other machine is connected with this account")
	}
	return one(check, Warns, "connected beside this machine: "+strings.Join(names, ", "),
		"if one is not yours, somebody has the key: replace it in the dashboard")
}

// maxNamed bounds the machines that are named.
const maxNamed = 8

// ofAccount says what keeps the account from earning.
func ofAccount(told service.Status) []Finding {
	const check = "account"
	label := service.Clean(told.Label, maxRefusal)
	switch {
	case told.Status == "active" || told.Status == "offline":
		return well(check, label)
	case !told.CanConnect:
		return one(check, Blocks, service.Clean(label+": "+told.Warning, maxRefusal), next(told))
	}
	return one(check, Warns, label+": "+service.Clean(told.Message, maxRefusal), next(told))
}

// next are the next steps in one line.
func next(told service.Status) string {
	text := service.Clean(strings.Join(told.NextSteps, " "), 3*maxRefusal)
	if text == "" {
		return "svc-agent status says more"
	}
	return text
}
