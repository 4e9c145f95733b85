package session

import "time"

// The codes of Error frames that close a connection or reset a stream.
const (
	CodeInvalidKey      = "invalid_api_key"
	CodeKeyRevoked      = "key_revoked"
	CodeSuspended       = "suspended"
	CodeSuperseded      = "superseded"
	CodeProtocolError   = "protocol_error"
	CodeWindowExceeded  = "window_exceeded"
	CodeRegisterTimeout = "register_timeout"
	CodeTooManyModels   = "too_many_models"
	CodeTooManySessions = "too_many_sessions"
	CodeShuttingDown    = "shutting_down"
	CodeTryLater        = "try_later"
)

// Closing says why a connection ends.
type Closing struct {
	Code    string
	Message string
	// ReconnectAfter is what an agent of v2 is told; 0 leaves it to the agent.
	ReconnectAfter time.Duration
	// Hold is how long the socket stays open behind the Error frame. A dialect
	// may hold it longer.
	Hold time.Duration

	// status is that of the close frame; 0 leaves it to the dialect.
	status uint16
	// bare tells that there is no Error frame: what came was no WebSocket.
	bare bool
}

// Error is the code with its message.
func (c *Closing) Error() string { return c.Code + ": " + c.Message }

// Closings that are held only for the agent to read why.
const lingerHold = 500 * time.Millisecond

func closing(code, message string) *Closing {
	return &Closing{Code: code, Message: message, Hold: lingerHold}
}

func protocolError(message string) *Closing { return closing(CodeProtocolError, message) }

// broken ends a connection that violates RFC 6455.
func broken(v *violation) *Closing {
	return &Closing{Code: CodeProtocolError, Message: v.text, status: v.status, bare: true}
}

// refused holds the socket, or an agent that dials at once would spin.
func (s *Session) refused(code, message string) *Closing {
	return &Closing{Code: code, Message: message, Hold: s.cfg.RefuseHold, ReconnectAfter: s.cfg.RefuseHold}
}
