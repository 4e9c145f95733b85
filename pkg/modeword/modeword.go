// Package modeword has the words by which the public API says how a provider is reached: in the
// header X-Svc-Connection-Mode, in offerings and in receipts.
package modeword

import eventsv1 "svc.internal/proto/svc/events/v1"

// The words.
const (
	WebSocket = "websocket"
	External  = "external"
)

// Of returns the word for a mode; empty where the event does not say the mode. A mode that only a
// later release knows is external, because it is not the agent's WebSocket, and there are two
// words.
func Of(m eventsv1.ConnectionMode) string {
	switch m {
	case eventsv1.ConnectionMode_CONNECTION_MODE_UNSPECIFIED:
		return ""
	case eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET:
		return WebSocket
	case eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL:
	}
	return External
}
