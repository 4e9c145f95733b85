// Package v2 is the form of dialect v2: binary messages, each one Frame of
// proto/svc/agent/v2. The agent of this repository speaks it.
//
// DATA makes up nearly all traffic, so it is read and written without allocating.
// Everything else goes through protobuf.
package v2

import (
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/services/provider-hub/internal/dialect"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// maxStreams bounds the requests at once.
const maxStreams = 4096

// codec reads and writes messages.
type codec struct{}

// New returns the dialect. An agent may be without a heartbeat for sessionTimeout.
func New(sessionTimeout time.Duration) *dialect.Dialect {
	return &dialect.Dialect{
		Codec:  codec{},
		Limits: session.Limits{Name: "v2", Strict: true, Streams: maxStreams, Silence: sessionTimeout},
		Kind:   wsconn.Binary,

		MaxUnregistered: agentwire.MaxMessage, MaxMessage: agentwire.MaxMessage, MaxUnasked: agentwire.MaxMessage,
	}
}

// Name implements dialect.Codec. Messages are never so large that only the beginning of
// one is kept.
func (codec) Name([]byte) []byte { return nil }

// Ending implements dialect.Codec.
func (codec) Ending(why *session.CloseReason) dialect.Ending {
	e := dialect.Ending{Status: why.Status, Hold: why.Hold, Silent: why.Bare}
	if e.Status == 0 {
		e.Status = wsconn.StatusNormal
	}
	return e
}
