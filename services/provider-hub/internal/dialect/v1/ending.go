package v1

import (
	"svc.internal/pkg/agentwire"
	"svc.internal/services/provider-hub/internal/dialect"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// Ending implements dialect.Codec. An agent that hears why is held for longer where it
// would be refused again, and where it should come back later, because it cannot be given
// a time.
func (c codec) Ending(why *session.CloseReason) dialect.Ending {
	code, status := codes(why.Code)
	e := dialect.Ending{Status: why.Status, Hold: why.Hold, Silent: code == 0 || why.Bare}
	if e.Status == 0 {
		e.Status = status
	}
	later := why.ReconnectAfter > 0 && why.Code != agentwire.CodeTryLater
	if !e.Silent && (refusesAgent(code) || later) {
		e.Hold = max(e.Hold, c.refuseHold)
	}
	return e
}

// codes are the code of the error message, 0 for none, and the status of the close
// frame.
func codes(code string) (number int, status uint16) {
	switch code {
	case agentwire.CodeShuttingDown:
		return 0, wsconn.StatusServiceRestart
	case agentwire.CodeInvalidKey, agentwire.CodeKeyRevoked:
		return 401, wsconn.StatusPolicy
	case agentwire.CodeSuspended:
		return 403, wsconn.StatusPolicy
	case agentwire.CodeSuperseded:
		return 409, wsconn.StatusPolicy
	case agentwire.CodeTooManySessions:
		return 429, wsconn.StatusTryLater
	case agentwire.CodeTryLater:
		return 503, wsconn.StatusTryLater
	default:
		return 400, wsconn.StatusPolicy
	}
}

// refusesAgent reports whether an agent that dials again at once would be refused again.
func refusesAgent(code int) bool {
	switch code {
	case 401, 403, 409, 429:
		return true
	default:
		return false
	}
}
