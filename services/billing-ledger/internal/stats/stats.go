// Package stats sums up what gateways reported of requests, for the figures of the service
// that anybody may see.
//
// The fold adds each report once to three sums: of five minutes, of the hour and of the day
// (UTC) in which it was recorded. A sum is of one model at one provider in one mode of
// connection. Figures are made of the sums that cover a span of time: whole hours, with
// spans of five minutes at both ends.
//
// The requests of the platform's own accounts count as all others do. Without them, a
// provider that counts its requests would learn how many of them were probes.
//
// Figures that rest on few requests would tell what one consumer did. So a rate and a
// percentile need LeastShown requests, and a 95th percentile needs LeastTail.
package stats

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

// Span is the length of the time of a sum, in minutes.
type Span int16

// The spans, each a multiple of the one before.
const (
	FiveMinutes Span = 5
	Hour        Span = 60
	Day         Span = 1440
)

// Spans are all spans with the time for which their sums are kept.
var Spans = map[Span]time.Duration{
	FiveMinutes: 49 * time.Hour, // the figures reach two days back, and the fold is behind
	Hour:        35 * 24 * time.Hour,
	Day:         400 * 24 * time.Hour,
}

// Duration returns the length of a span.
func (s Span) Duration() time.Duration { return time.Duration(s) * time.Minute }

// Start returns the beginning of the span in which a moment lies.
func (s Span) Start(at time.Time) time.Time { return at.UTC().Truncate(s.Duration()) }

// Report is what a gateway reported of a request, with what its hold and its settled line say.
type Report struct {
	Request    ids.RequestID
	RecordedAt time.Time
	// Model is empty where the request's hold is gone.
	Model string
	// ByTokens reports whether the model is priced by tokens.
	ByTokens bool
	// Mode is how the provider was reached; 0 where that is not known.
	Mode int16
	// Outcome and the fields below are those of hold.RequestReport.
	Outcome        string
	Committed      int32
	Attempts       []hold.Attempt
	Continued      bool
	Stream         bool
	FirstContentMS int64
	TotalMS        int64
	Prompt         int64
	Completion     int64
}

// Key says of what a sum is.
type Key struct {
	Span Span
	At   time.Time
	// Provider is zero where no provider worked on the requests.
	Model    string
	Provider ids.ProviderID
	Mode     int16
}

// Sum is of requests.
type Sum struct {
	Requests int64
	// Judged are the requests that tell how well the service works: those with an answer to
	// its end, those that failed and those that took too long. Succeeded are the first.
	Judged, Succeeded int64
	// Retried requests had more than one attempt, or went on with another model.
	Retried int64
	// FailedOver counts the provider's attempts that failed and that another attempt followed.
	FailedOver int64
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
	s.FailedOver += o.FailedOver
	s.Tokens += o.Tokens
	s.FirstContent.Add(&o.FirstContent)
	s.Speed.Add(&o.Speed)
}

// leastTokens is the number of tokens from which an answer tells a speed: a few tokens come
// in one piece.
const leastTokens = 16

// Results of an attempt that a provider worked on.
const (
	resultServed     = "served"
	resultFailed     = "failed"
	resultTimeout    = "timeout"
	resultRefused    = "refused"
	resultClientGone = hold.ClientGone
)

// Outcomes of a request that tell how well the service works.
const (
	outcomeCompleted = "completed"
	outcomeFailed    = "failed"
	outcomeTimeout   = "timeout"
)

// SumUp sums reports up in all spans.
func SumUp(reports []Report) map[Key]*Sum {
	sums := map[Key]*Sum{}
	for i := range reports {
		r := &reports[i]
		if r.Model == "" {
			continue // its hold is gone
		}
		last := r.provider()
		own := r.sum()
		r.add(sums, last, r.Mode, &own)
		for _, provider := range r.failedOver() {
			r.add(sums, provider, 0, &Sum{FailedOver: 1})
		}
	}
	return sums
}

func (r *Report) add(sums map[Key]*Sum, provider ids.ProviderID, mode int16, more *Sum) {
	for span := range Spans {
		k := Key{Span: span, At: span.Start(r.RecordedAt), Model: r.Model, Provider: provider, Mode: mode}
		if sums[k] == nil {
			sums[k] = &Sum{}
		}
		sums[k].Add(more)
	}
}

// sum is the sum of this request alone.
func (r *Report) sum() Sum {
	s := Sum{Requests: 1}
	switch r.Outcome {
	case outcomeCompleted:
		s.Judged, s.Succeeded = 1, 1
	case outcomeFailed, outcomeTimeout:
		s.Judged = 1
	}
	if len(r.Attempts) > 1 || r.Continued {
		s.Retried = 1
	}
	if r.ByTokens {
		s.Tokens = r.Prompt + r.Completion
	}
	if !r.Stream || r.Committed == 0 || r.FirstContentMS <= 0 {
		return s
	}
	s.FirstContent.Count(float64(r.FirstContentMS))
	if took := r.TotalMS - r.FirstContentMS; r.ByTokens && r.Completion >= leastTokens && took > 0 {
		s.Speed.Count(float64(r.Completion) * 1000 / float64(took) * speedUnit)
	}
	return s
}

// provider returns whose attempt the request ended with; zero where no provider worked on it.
func (r *Report) provider() ids.ProviderID {
	for i := len(r.Attempts) - 1; i >= 0; i-- {
		a := &r.Attempts[i]
		if r.Committed != 0 && a.Attempt != r.Committed {
			continue
		}
		if r.Committed == 0 && !worked(a.Result) {
			return ids.ProviderID{}
		}
		return providerOf(a)
	}
	return ids.ProviderID{}
}

func worked(result string) bool {
	switch result {
	case resultServed, resultFailed, resultTimeout, resultRefused, resultClientGone:
		return true
	}
	return false
}

// failedOver returns the providers of the attempts that failed and that another followed.
func (r *Report) failedOver() []ids.ProviderID {
	var failed []ids.ProviderID
	for i := range max(len(r.Attempts)-1, 0) {
		a := &r.Attempts[i]
		if a.Result != resultFailed && a.Result != resultTimeout {
			continue
		}
		if id := providerOf(a); !id.IsZero() {
			failed = append(failed, id)
		}
	}
	return failed
}

func providerOf(a *hold.Attempt) ids.ProviderID {
	id, err := ids.ParseProvider(a.ProviderID)
	if err != nil {
		return ids.ProviderID{}
	}
	return id
}
