package webhook

import (
	"time"

	"svc.internal/pkg/ids"
)

// offsets are when an event is sent again, counted from its first try.
var offsets = []time.Duration{0, 5 * time.Minute, 30 * time.Minute, 4 * time.Hour, 24 * time.Hour}

// MaxTries is how often an event is sent at most.
var MaxTries = len(offsets)

const (
	// leastPause is between two tries of one event, however late the first was.
	leastPause = time.Minute
	// After a try that failed, an endpoint hears nothing else for a while: firstPause, and twice
	// as long with each failure in a row, up to maxPause.
	firstPause = 10 * time.Second
	maxPause   = 5 * time.Minute
	// MaxFailing is for how long an endpoint must have failed to be ended.
	MaxFailing = 3 * 24 * time.Hour
	// MinFailures is how many tries in a row must have failed, too.
	MinFailures = 10
)

// Turn is a delivery that is under way: its endpoint and the message.
type Turn struct {
	Endpoint ID
	Account  ids.AccountID
	URL      string
	// Secrets are sealed, the current one first.
	Secrets [][]byte
	Message Message
	// Attempt is the number of this try, from 1.
	Attempt int
	// Failing reports that the last try at the endpoint failed.
	Failing bool
	// Lease is until when nobody else sends to the endpoint. It names the turn.
	Lease time.Time
}

// Problem says in a word what was wrong with a try. It tells nothing of what stands at an
// address that nobody may reach.
type Problem string

// The problems.
const (
	NoProblem  Problem = ""
	BadStatus  Problem = "status"
	BadAddress Problem = "address"
	BadTLS     Problem = "tls"
	Timeout    Problem = "timeout"
	Connection Problem = "connection"
)

// Result is the end of a try. Status is 0 where there was no answer.
type Result struct {
	Status  int
	Problem Problem
}

// Success reports whether the receiver has the event.
func (r Result) Success() bool { return r.Problem == NoProblem && r.Status/100 == 2 }

// Next is what follows from a try, by the database's clock.
type Next struct {
	State State
	// Due is when the event is sent again, of one that still waits.
	Due time.Time
	// Failures, FailingSince and Pause are the endpoint's; Note ends it unless it is Enabled.
	Failures     int
	FailingSince time.Time
	Pause        time.Time
	Note         Note
}

// Follow decides what follows from the result of a try at now. first is the time of the
// event's first try; failures and since are what the endpoint had before.
func Follow(r Result, attempt int, first, now time.Time, failures int, since time.Time) Next {
	if r.Success() {
		return Next{State: Delivered}
	}
	n := Next{State: Failed, Failures: failures + 1, FailingSince: since}
	if since.IsZero() {
		n.FailingSince = now
	}
	n.Pause = now.Add(min(firstPause<<min(failures, 10), maxPause))
	switch {
	case r.Status == 410:
		n.Note = Gone
	case n.Failures >= MinFailures && now.Sub(n.FailingSince) >= MaxFailing:
		n.Note = Failing
	}
	if attempt < MaxTries && n.Note != Gone {
		n.State, n.Due = Waiting, later(first.Add(offsets[attempt]), now.Add(leastPause))
	}
	return n
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
