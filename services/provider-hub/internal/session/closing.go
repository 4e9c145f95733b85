package session

import (
	"time"

	"svc.internal/pkg/agentwire"
)

// CloseReason says why a connection ends.
type CloseReason struct {
	// Code is one of agentwire's.
	Code    string
	Message string
	// ReconnectAfter is the pause before the agent is to dial again, for a dialect that
	// can say a time; 0 leaves the pause to the agent.
	ReconnectAfter time.Duration
	// Hold is how long the socket stays open after the last message. A dialect may
	// hold the socket for longer.
	Hold time.Duration
	// Status is the status of the close frame; 0 leaves the status to the dialect.
	Status uint16
	// Bare reports that the agent is sent no message before the close frame, because
	// the agent broke the rules of WebSocket.
	Bare bool
}

// Error is the code with its message.
func (c *CloseReason) Error() string { return c.Code + ": " + c.Message }

// LingerHold is how long a socket is held so that the agent can read the reason.
const LingerHold = 500 * time.Millisecond

// Refused returns the reason for an agent that would be refused again. The socket is
// held, because an agent that dials at once would spin.
func Refused(c Config, code, message string) *CloseReason {
	return &CloseReason{Code: code, Message: message, Hold: c.RefuseHold, ReconnectAfter: c.RefuseHold}
}

// ShuttingDown returns the reason of a hub that shuts down, with the pause before the
// agent is to dial again.
func ShuttingDown(reconnectAfter time.Duration) *CloseReason {
	why := closing(agentwire.CodeShuttingDown, "the hub shuts down")
	why.ReconnectAfter = reconnectAfter
	return why
}

func closing(code, message string) *CloseReason {
	return &CloseReason{Code: code, Message: message, Hold: LingerHold}
}

func protocolError(message string) *CloseReason { return closing(agentwire.CodeProtocolError, message) }
