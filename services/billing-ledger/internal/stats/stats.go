// Package stats sums up what gateways reported of requests, for the figures of the service
// that anybody may see.
//
// The fold adds each report once to the sums of the whole service, of five minutes and of
// the day (UTC) in which it was recorded, and to the sums of its model and of its providers,
// of the hour.
//
// The requests of the platform's own accounts count as all others do. Without them, a
// provider that counts its requests would learn how many of them were probes.
//
// # What nobody may learn
//
// The difference of two figures of a quiet model would be what one consumer did. So:
//   - A model, a provider or the whole service has figures of a window only when paid requests
//     of at least LeastAccounts accounts were served there in the window. Only served requests
//     with a price make an account count, because all others cost nothing. The playground's
//     account does not count, because its visitors do not pay.
//   - The window of a model or a provider is 24 whole hours, so its figures change at most
//     once an hour.
//   - Numbers of requests and of tokens have two significant digits, below 100 they are tens, and
//     below LeastShown they are 0. Rates have three decimals.
//   - A rate and a percentile need LeastShown requests, and a 95th percentile LeastTail.
//
// The figures of the whole service are of all accounts, so they may change each minute.
//
// The bound on accounts is a bound on cost and no proof: an account is not a person. Whoever pays
// for a served request of each of LeastAccounts-1 accounts of its own makes the figures of a
// subject with one other account appear. Then it may subtract its own requests, and learns what
// the rounding leaves of the other's. So the bound keeps a consumer from those who only look,
// and not from those who pay to look.
//
// # What nobody may spoil
//
// A failed request costs its consumer nothing. So a failure counts only where the consumer
// has paid for as much: an attempt whose request another provider then served counts, and
// of the failures of requests that nobody served, an account has at most as many counted
// as it had requests served at the same model or provider in the same hour. What no provider
// worked on (a price or a pin that nobody meets, a busy provider), what an engine refused and
// what its caller left say nothing of how well the service works, so they count for nobody. Nor
// do a request without a price and a request of the playground's visitor, failed or served.
package stats

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

// Span is the length of the time of a sum, in minutes.
type Span int16

// The spans. Those of the whole service are FiveMinutes and Day. Those of models and of
// providers are Hour.
const (
	FiveMinutes Span = 5
	Hour        Span = 60
	Day         Span = 1440
)

// Spans are all spans with the time for which their sums are kept. Figures reach two days
// back, and the fold is behind.
var Spans = map[Span]time.Duration{
	FiveMinutes: 49 * time.Hour,
	Hour:        49 * time.Hour,
	Day:         400 * 24 * time.Hour,
}

// UsesKept is how long it is kept what an account did in an hour.
const UsesKept = 49 * time.Hour

// Duration returns the length of a span.
func (s Span) Duration() time.Duration { return time.Duration(s) * time.Minute }

// Start returns the beginning of the span in which a moment lies.
func (s Span) Start(at time.Time) time.Time { return at.UTC().Truncate(s.Duration()) }

// Report is what a gateway reported of a request, with what its hold says.
type Report struct {
	Request    ids.RequestID
	RecordedAt time.Time
	// Model is empty where the request's hold is gone.
	Model   string
	Account ids.AccountID
	// Paid reports whether the request had a price and its account is not the playground's.
	Paid bool
	// ByTokens reports whether the model is priced by tokens.
	ByTokens bool
	// Outcome and the fields below are those of hold.RequestReport.
	Outcome   string
	Committed int32
	Attempts  []hold.Attempt
	// NextModel reports whether the request went on with another model. The next prompt of a
	// request with several prompts is of the same model.
	NextModel      bool
	Stream         bool
	FirstContentMS int64
	TotalMS        int64
	Prompt         int64
	Completion     int64
}

// Subject is a model, a provider, or with both empty the whole service.
type Subject struct {
	Model    string
	Provider ids.ProviderID
}

// Key says of what a sum is.
type Key struct {
	Span Span
	At   time.Time
	Subject
}

// UseKey is an account at a model or a provider, in an hour.
type UseKey struct {
	At time.Time
	Subject
	Account ids.AccountID
}

// Use is what an account did. Failed are its requests that were tried and that nobody served,
// of a provider their failed attempts.
type Use struct{ Served, Failed int64 }

// Add adds to a use and returns how many more of its failures count.
func (u *Use) Add(served, failed int64) (counted int64) {
	before := min(u.Served, u.Failed)
	u.Served += served
	u.Failed += failed
	return min(u.Served, u.Failed) - before
}

// Sum is of requests.
type Sum struct {
	Requests int64
	// Judged tell how well requests are served, and Succeeded are those of them that were
	// served. They are requests, of a provider attempts.
	Judged, Succeeded int64
	// Retried requests had more than one attempt, or went on with another model.
	Retried int64
	// Tokens are of prompts and completions, for models that are priced by tokens.
	Tokens int64
	// FirstContent is of milliseconds until the first content of streamed answers, and Speed
	// of tokens a second from then on.
	FirstContent, Speed Histogram
}

// Add adds another sum.
func (s *Sum) Add(o *Sum) {
	s.Requests += o.Requests
	s.Judged += o.Judged
	s.Succeeded += o.Succeeded
	s.Retried += o.Retried
	s.Tokens += o.Tokens
	s.FirstContent.Add(&o.FirstContent)
	s.Speed.Add(&o.Speed)
}
