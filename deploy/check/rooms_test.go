package check

import (
	"slices"
	"strings"
	"testing"
)

// gateway is the directory of the rooms that a request passes in edge-gateway.
const gateway = "services/edge-gateway/internal/"

// rooms names the rooms of edge-gateway, and for each the rooms that it may import. A
// request is read and answered in httpapi, runs in inference, and is admitted in
// admission; rewrite makes the bytes of its answer.
var rooms = map[string][]string{
	"admission": nil,
	"rewrite":   nil,
	"inference": {"admission", "rewrite"},
	"httpapi":   {"admission", "inference", "rewrite"},
}

func TestARoomOfTheGatewayImportsOnlyRoomsBelowIt(t *testing.T) {
	files := map[string]int{}
	for _, s := range sources(t) {
		room, ok := strings.CutPrefix(s.dir, gateway)
		below, isRoom := rooms[room]
		if !ok || !isRoom {
			continue
		}
		files[room]++
		for _, imp := range s.imports {
			other, ok := strings.CutPrefix(imp, "svc.internal/"+gateway)
			if _, isRoom := rooms[other]; ok && isRoom && !slices.Contains(below, other) {
				t.Errorf("%s imports %s: %s may import of the rooms only %v", s.path, imp, room, below)
			}
		}
	}
	for room := range rooms {
		if files[room] == 0 {
			t.Errorf("files of %s: got 0, want any but 0", gateway+room)
		}
	}
}

// TestRewriteIsBytesInAndBytesOut keeps connections, peers and the gateway's other
// packages out of rewrite, so that each form is tested with bytes alone.
func TestRewriteIsBytesInAndBytesOut(t *testing.T) {
	allowed := []string{"svc.internal/pkg/dialguard", "svc.internal/pkg/jsonscan", "svc.internal/pkg/openai"}
	for _, s := range sources(t) {
		if s.dir != gateway+"rewrite" {
			continue
		}
		for _, imp := range s.imports {
			standard := !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".")
			if standard && imp != "net" && !strings.HasPrefix(imp, "net/") || slices.Contains(allowed, imp) {
				continue
			}
			t.Errorf("%s imports %s", s.path, imp)
		}
	}
}
