package check

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

const (
	hub         = "services/provider-hub"
	hubInternal = hub + "/internal/"
	// sessionDir is the package of sessions.
	sessionDir = "session"
)

// wires are the packages that say how a provider's connection works, or that it is
// made with.
var wires = map[string]string{
	"svc.internal/" + hubInternal + "quota":         "quota",
	"svc.internal/" + hubInternal + "wsconn":        "wsconn",
	"svc.internal/" + hubInternal + sessionDir:      "session",
	"svc.internal/" + hubInternal + "dialect":       "dialect",
	"svc.internal/" + hubInternal + "dialect/v1":    "dialect/v1",
	"svc.internal/" + hubInternal + "dialect/v2":    "dialect/v2",
	"svc.internal/" + hubInternal + "gate":          "gate",
	"svc.internal/pkg/agentwire":                    "agentwire",
	"svc.internal/pkg/agentwire/frame":              "frame",
	"svc.internal/pkg/fault":                        "fault",
	"svc.internal/pkg/jsonscan":                     "jsonscan",
	"svc.internal/proto/svc/agent/v2":               "proto",
	"github.com/gorilla/websocket":                  "gorilla",
	"google.golang.org/protobuf/proto":              "protobuf",
	"google.golang.org/protobuf/encoding/protowire": "protobuf",
	"google.golang.org/grpc":                        "grpc",
	"encoding/json":                                 "json",
	"net/http":                                      "http",
	"sync":                                          "sync",
}

// mayKnow are those of wires that each package of the hub's connection may import: form
// is the dialect's, rules are the session's, waiting is the gate's, and bytes are
// wsconn's.
var mayKnow = map[string][]string{
	"quota":      {"sync"},
	"wsconn":     {"quota", "gorilla", "http", "sync"},
	sessionDir:   {"agentwire", "quota", "sync"},
	"dialect":    {"session", "wsconn"},
	"dialect/v1": {"dialect", "session", "wsconn", "agentwire", "jsonscan", "json"},
	"dialect/v2": {"dialect", "session", "wsconn", "agentwire", "frame", "proto"},
	"gate": {
		"quota", "wsconn", "session", "dialect", "dialect/v1", "dialect/v2", "agentwire", "fault", "http", "sync",
	},
}

func TestTheSessionKnowsNoWire(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || !strings.HasPrefix(s.dir, hub) {
			continue
		}
		name := strings.TrimPrefix(s.dir, hubInternal)
		belowGate(t, s, name)
		allowed, ours := mayKnow[name]
		if !ours {
			continue
		}
		found[name] = true
		for _, imp := range s.imports {
			if wire := wires[imp]; wire != "" && !slices.Contains(allowed, wire) {
				t.Errorf("%s: got an import of %s, want only %v of the connection's", s.path, imp, allowed)
			}
		}
		if strings.HasPrefix(name, "dialect") {
			knowsNoSession(t, s)
		}
	}
	for _, name := range []string{sessionDir, "dialect", "dialect/v1", "dialect/v2", "wsconn", "quota"} {
		if !found[name] {
			t.Errorf("got no file of %s, want the package where it was", name)
		}
	}
}

// belowGate holds that only the service makes a gate, and that only wsconn knows the
// library that makes its handshakes.
func belowGate(t *testing.T, s source, name string) {
	t.Helper()
	for _, imp := range s.imports {
		switch wire := wires[imp]; {
		case wire == "gate" && s.dir != hub:
			t.Errorf("%s: got an import of gate, want it in %s alone", s.path, hub)
		case wire == "gorilla" && name != "wsconn":
			t.Errorf("%s: got an import of gorilla, want it in wsconn alone", s.path)
		}
	}
}

// knowsNoSession holds that a dialect names messages and limits of package session, and
// no session: it has neither a lock nor a state.
func knowsNoSession(t *testing.T, s source) {
	t.Helper()
	ast.Inspect(s.file, func(n ast.Node) bool {
		of, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := of.X.(*ast.Ident)
		if ok && pkg.Name == "session" && slices.Contains([]string{"Session", "Stream", "New", "Env"}, of.Sel.Name) {
			t.Errorf("%s: got session.%s, want a dialect that knows no session", s.path, of.Sel.Name)
		}
		return true
	})
}

// TestOnlyOneFunctionStartsTelemetry checks that each program starts it by node.Observe, which sets
// what all gRPC clients share before the first of them, the client that sends traces, reads it.
func TestOnlyOneFunctionStartsTelemetry(t *testing.T) {
	const starter = "pkg/node/main.go"
	var starts []string
	for _, s := range sources(t) {
		if s.test || !slices.Contains(s.imports, "svc.internal/pkg/telemetry") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if selected, ok := n.(*ast.SelectorExpr); ok && selected.Sel.Name == "Start" {
				if of, ok := selected.X.(*ast.Ident); ok && of.Name == "telemetry" {
					starts = append(starts, s.path)
				}
			}
			return true
		})
	}
	if !slices.Equal(starts, []string{starter}) {
		t.Errorf("files that call telemetry.Start: got %q, want %s alone", starts, starter)
	}
}
