package external

import (
	"net/http"
	"time"

	"svc.internal/services/provider-hub/internal/session"
)

// A list of models is a file that any server can hold, so an endpoint is not well by its probes
// alone. failedCalls is how many of its calls must fail in a row, none of them answered between,
// before the hub asks the server itself (asked.go). Consumers choose what is in a call and when they
// leave it, so without that one consumer could take a rival out of service. If the hub's own call
// fails too, the endpoint loses its session. Then good probes do not count for firstRest, and for
// twice as long each further time, up to lastRest. After a rest one more failure is enough for the
// hub to ask again, until a call is answered. A vendor's endpoint keeps its session: its models are
// put back one by one (rest.go), and it earns no uptime.
const (
	failedCalls = 8
	firstRest   = 30 * time.Second
	lastRest    = 16 * time.Minute
)

// hungAfter is how long a stream that was given up must have been without an answer to count as
// failed. A consumer may leave earlier, and says nothing of the server by that. A whole answer shows
// nothing before its end, so its silence says nothing either.
const hungAfter = 45 * time.Second

// outcome is what a call says of its endpoint.
type outcome int

const (
	saysNothing outcome = iota
	answered
	failed
)

// outcomeOf judges a call by its end. A refusal of the content says nothing of the server, and 429 only
// lowers the capacity.
func outcomeOf(end *session.End, cause error, stream bool, silentFor time.Duration) outcome {
	switch {
	case cause != nil && (!stream || silentFor < hungAfter):
		return saysNothing
	case cause != nil:
		return failed
	case end.Complete && end.Status >= 200 && end.Status <= 299:
		return answered
	}
	switch end.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired:
		return failed
	}
	if end.Status >= 400 && end.Status <= 499 {
		return saysNothing
	}
	return failed
}

// record is what the last calls said of an endpoint. It is not safe for concurrent use.
type record struct {
	inRow  int
	asking bool // the hub asks the server itself
	rest   time.Duration
	until  time.Time
}

// note takes the outcome of a call, and reports whether the hub must ask the server itself.
func (r *record) note(o outcome, now time.Time) (asks bool) {
	switch o {
	case answered:
		*r = record{asking: r.asking}
	case failed:
		r.inRow++
		if r.inRow < failedCalls || r.asking || now.Before(r.until) {
			return false
		}
		r.asking = true
		return true
	case saysNothing:
	}
	return false
}

// judge takes the outcome of the hub's own call, and reports whether the endpoint loses its session
// by it. A call that was answered meanwhile overrules a failure.
func (r *record) judge(o outcome, now time.Time) (rests bool) {
	r.asking = false
	switch {
	case o != failed:
		*r = record{}
	case r.inRow >= failedCalls:
		r.inRow = failedCalls - 1
		r.rest = min(max(2*r.rest, firstRest), lastRest)
		r.until = now.Add(r.rest)
		return true
	}
	return false
}
