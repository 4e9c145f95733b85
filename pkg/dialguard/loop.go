package dialguard

import (
	"net/http"
	"strings"
)

// hub names the hubs of this platform to the servers that they call.
const hub = "svc-hub"

// MarkHub marks a request as a hub's, by CDN-Loop (RFC 8586), which intermediaries must not remove, and
// by User-Agent, for intermediaries that do not know CDN-Loop.
func MarkHub(h http.Header) {
	h.Set("User-Agent", hub)
	h.Set("CDN-Loop", hub)
}

// HubMarked reports whether a request bears a hub's mark: a hub sent it, or an intermediary passed it on.
// A hub never calls this platform's own API on purpose, so such a request is in a loop.
func HubMarked(h http.Header) bool {
	if agent := h.Get("User-Agent"); strings.EqualFold(agent, hub) {
		return true
	}
	for _, line := range h.Values("CDN-Loop") {
		for info := range strings.SplitSeq(line, ",") {
			if id, _, _ := strings.Cut(info, ";"); strings.EqualFold(strings.TrimSpace(id), hub) {
				return true
			}
		}
	}
	return false
}
