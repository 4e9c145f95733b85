// Package camouflage measures whether hidden probes can be told from consumers' requests
// (verification.md §5).
//
// # What is compared
//
// A Sample is what a provider sees of one request, without its text: which members the body
// has and in which order, its space, its parameters, roles and lengths of the messages, the
// classes of characters, when the request came, how long after the one before, whether the
// client hung up, and what it earned. The bodies are the bytes that a client sends. What
// reaches a provider is made of them by the gateway in the same way for all consumers, so
// that a provider sees no more.
//
// The consumers' samples are in organic.csv.gz. Real SDKs wrote the requests (Orders says
// how they are asked, and services/proving/e2e carries it out). No template of package
// prompt is in them: their texts are comments of Go's standard library. The probes are
// planned and written by packages plan and prompt from histograms of the same traffic, with
// a bank whose sentences come from other files of the library. A naive prober (Naive) is
// the control: a classifier that does not find it could not be believed.
//
// # The measure
//
// AUC is the chance that a classifier gives a probe a higher score than it gives a request:
// .5 is guessing. Boosted trees (package trees) are trained on four fifths of the samples
// and score the last fifth, five times. The standard error is Hanley and McNeil's.
//
// Two comparisons are made. "All requests" takes consumers as they come. "Comparable
// requests" takes those whose parameters a probe could have, with the frequency of the
// probes in each of their cells: temperature and bound of the answer decide what can be
// judged, and are no choice of the camouflage.
package camouflage

import (
	"errors"
	"time"
)

// Request is one request with what is seen of it beside its body.
type Request struct {
	// Body is what the client sent, of chat completions.
	Body []byte
	// At is when it came, and Gap how long after the request before it at the same offer.
	At  time.Time
	Gap time.Duration
	// HungUp reports whether the client left its stream.
	HungUp bool
	// EarnedNano is what the provider earned, in nano-USD.
	EarnedNano int64
}

// ErrBody is the error for a body that is no chat request.
var ErrBody = errors.New("not a chat request")
