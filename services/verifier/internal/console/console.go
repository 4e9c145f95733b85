// Package console decides what providers are shown of verification: what is theirs and
// helps no cheat.
//
// A provider must not find out which of its requests were probes, what exceeds, how much
// evidence there is, or when the next probe comes. So hidden probes are shown by UTC day
// and kind, once the day has been over for Delay; without a number, because 48 probes a day
// would betray a silent watch; and as void only where most of the day's probes of the kind
// were, because whoever fails one request on purpose must not read from the list whether it
// was a probe. Whether a probe that counted was passed is not shown at all. A watch is shown
// as nothing.
package console

import (
	"time"

	"svc.internal/services/verifier/internal/probe"
)

// Delay lies between the end of a UTC day and the time from which its hidden probes are
// shown.
const Delay = 24 * time.Hour

// Challenge is a visible challenge, or the hidden probes of a day and kind.
type Challenge struct {
	Model  string
	Flow   probe.Flow
	Kind   probe.Kind
	At     time.Time
	Result Result
}

// Result is how a challenge ended, as far as its provider is told.
type Result string

// The results.
const (
	// Counted says something, whatever that is.
	Counted Result = "counted"
	// Void counts for nothing.
	Void Result = "void"
	// Differs is a fingerprint that is not that of the model's files.
	Differs Result = "differs"
)
