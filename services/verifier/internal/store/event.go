package store

import (
	"errors"

	"svc.internal/services/verifier/internal/probe"
)

// EventKey names an event of an offer. The same key a second time is the same event.
type EventKey string

// ProbeKey is the key of the event that a probe was judged.
func ProbeKey(id probe.ID) EventKey { return EventKey("probe:" + id.String()) }

// MaxKey bounds an EventKey in bytes.
const MaxKey = 256

// ErrKey is the error for a key that cannot be one, or that is not the probe's.
var ErrKey = errors.New("not the key of an event")
