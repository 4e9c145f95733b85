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
	// ReconnectAfter is what an agent is told that can be told; 0 leaves it to the
	// agent.
	ReconnectAfter time.Duration
	// Hold is how long the socket stays open behind the last message. A dialect may
	// hold it longer.
	Hold time.Duration
	// Status is that of the close frame; 0 leaves it to the dialect.
	Status uint16
	// Bare reports that the agent is sent no message, because what came was no
	// WebSocket.
	Bare bool
}

// Error is the code with its message.
func (c *CloseReason) Error() string { return c.Code + ": " + c.Message }

// LingerHold is how long a socket is held only for the agent to read why.
const LingerHold = 500 * time.Millisecond

// Refused ends the connection of an agent that would be refused again. The socket is
// held, because an agent that dials at once would spin.
func Refused(c Config, code, message string) *CloseReason {
	return &CloseReason{Code: code, Message: message, Hold: c.RefuseHold, ReconnectAfter: c.RefuseHold}
}

// ShuttingDown ends a connection because the hub does, and says when to come back.
func ShuttingDown(reconnectAfter time.Duration) *CloseReason {
	why := closing(agentwire.CodeShuttingDown, "the hub shuts down")
	why.ReconnectAfter = reconnectAfter
	return why
}

func closing(code, message string) *CloseReason {
	return &CloseReason{Code: code, Message: message, Hold: LingerHold}
}

func protocolError(message string) *CloseReason { return closing(agentwire.CodeProtocolError, message) }
