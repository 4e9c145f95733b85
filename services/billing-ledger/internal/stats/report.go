package stats

import (
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

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

// sum is the sum of this request alone, without its failure and the time to its first content.
func (r *Report) sum() Sum {
	s := Sum{Requests: 1}
	if r.Paid && r.Outcome == outcomeCompleted {
		s.Succeeded = 1
	}
	if len(r.Attempts) > 1 || r.NextModel {
		s.Retried = 1
	}
	if r.ByTokens {
		s.Tokens = r.Prompt + r.Completion
	}
	if took := r.generating(); r.told() && r.ByTokens && r.Completion >= leastTokens && took > 0 {
		s.Speed.Count(float64(r.Completion) * 1000 / float64(took) * speedUnit)
	}
	return s
}

// use is the key of what the request's account did at a subject.
func (r *Report) use(of Subject) UseKey {
	return UseKey{At: Hour.Start(r.RecordedAt), Subject: of, Account: r.Account}
}

// failed reports whether providers tried to serve the request, which was to be paid, and failed.
func (r *Report) failed() bool {
	if !r.Paid || r.Outcome != outcomeFailed && r.Outcome != outcomeTimeout {
		return false
	}
	for i := range r.Attempts {
		if failedAttempt(&r.Attempts[i]) {
			return true
		}
	}
	return false
}

// told reports whether the answer tells times: only a stream shows its first content.
func (r *Report) told() bool { return r.Stream && r.Committed != 0 && r.FirstContentMS > 0 }

// firstContent returns how many milliseconds the committed attempt took to its first content,
// with those of the attempts before it if asked. A report of an older gateway does not say it
// of the attempt. Then it is the time of the whole request, and 0 for an attempt that others
// came before.
func (r *Report) firstContent(withEarlier bool) float64 {
	var earlier int64
	for i := range r.Attempts {
		a := &r.Attempts[i]
		switch {
		case a.Attempt != r.Committed:
			earlier += a.LatencyMS
		case a.FirstContentMS > 0 && withEarlier:
			return float64(earlier + a.FirstContentMS)
		case a.FirstContentMS > 0:
			return float64(a.FirstContentMS)
		}
	}
	if len(r.Attempts) > 1 && !withEarlier {
		return 0
	}
	return float64(r.FirstContentMS)
}

// maxReading is the part of the time from the first content on that the client may take to
// read, as a divisor. A slower client hides how fast its provider is, so its answer tells no
// speed.
const maxReading = 10

// generating returns how many milliseconds the provider took from the first content on; 0 for
// not known. Older gateways do not report how long the client read.
func (r *Report) generating() int64 {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Attempt != r.Committed || a.ContentMS <= 0 {
			continue
		}
		if a.ClientMS > a.ContentMS/maxReading {
			return 0
		}
		return a.ContentMS - a.ClientMS
	}
	return r.TotalMS - r.FirstContentMS
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

func failedAttempt(a *hold.Attempt) bool {
	return a.Result == resultFailed || a.Result == resultTimeout
}

func providerOf(a *hold.Attempt) ids.ProviderID {
	id, err := ids.ParseProvider(a.ProviderID)
	if err != nil {
		return ids.ProviderID{}
	}
	return id
}
