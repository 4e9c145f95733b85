package bench

import (
	"errors"
	"fmt"
	"math"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// ErrRun is the error for what cannot be a run or a report of it.
var ErrRun = errors.New("not a benchmark run")

// Report is what the answer to one question says.
type Report struct {
	Plan probe.ID `json:"plan"`
	// Name is that of the question. The run writes it.
	Name string `json:"name"`
	// Answered reports whether a whole answer came.
	Answered bool `json:"answered,omitempty"`
	// Offline reports whether none came because the provider's connection was lost.
	Offline bool `json:"offline,omitempty"`
	// Tokens is our count of the answer, FirstMicros when its first bytes came after the
	// question, and Micros how long the rest took.
	Tokens      int64 `json:"tokens,omitempty"`
	FirstMicros int64 `json:"first_us,omitempty"`
	Micros      int64 `json:"us,omitempty"`
	// Judged reports whether the answer has an observation, and Exceeded whether that is
	// b = 1.
	Judged   bool `json:"judged,omitempty"`
	Exceeded bool `json:"exceeded,omitempty"`
	// Oldest is how far from the prompt's end, in tokens, the oldest needle lies that came
	// back. Unknown reports whether the model cannot recall, by the reference's answer.
	Oldest  int  `json:"oldest,omitempty"`
	Unknown bool `json:"unknown,omitempty"`
}

func (p Report) check() error {
	for _, n := range []int64{p.Tokens, p.FirstMicros, p.Micros, int64(p.Oldest)} {
		if n < 0 || n > math.MaxInt32*1000 {
			return fmt.Errorf("%w: a number of a report is %d", ErrRun, n)
		}
	}
	if p.Plan.IsZero() || p.Tokens > battery.MaxTokens || p.Exceeded && !p.Judged ||
		p.Offline && p.Answered {
		return fmt.Errorf("%w: a report contradicts itself", ErrRun)
	}
	return nil
}

// Read makes the report of a question from its record and judgement.
func Read(rec judge.Record, j judge.Judgement) Report {
	a := rec.Answer
	p := Report{Plan: rec.Plan.ID, Answered: a.Complete && !a.Failed && !a.TooLong && !j.Failed}
	for _, o := range j.Observations {
		if o.Family() == evidence.Visible {
			p.Judged, p.Exceeded = true, o.Exceeded()
		}
	}
	if n := len(a.Chunks); n > 0 {
		p.FirstMicros = clamp(a.Chunks[0].AtMicros)
		p.Micros = clamp(a.Chunks[n-1].AtMicros - a.Chunks[0].AtMicros)
	}
	if rec.Plan.Kind == probe.Embedding {
		// A vector comes whole, so that reading the prompt is what is timed.
		p.Tokens, p.Micros = int64(rec.Plan.PromptTokens), p.FirstMicros+p.Micros
		return p
	}
	text, v := judge.Text(a.Raw)
	if v != statistic.None {
		return p
	}
	p.Tokens = tokens(rec, text)
	if rec.Plan.Kind == probe.Recall {
		p.Oldest, p.Unknown = oldest(rec, text)
	}
	return p
}

func clamp(n int64) int64 { return max(0, min(n, math.MaxInt32)) }

// tokens is our count of an answer: by the reference that scored it, else by its bytes. It
// is never more than was asked for, so that a provider gains nothing by an answer that is
// longer than a model writes.
func tokens(rec judge.Record, text string) int64 {
	n := int64(float64(len(text)) / ratioOf(rec.Plan))
	for _, s := range rec.Scores {
		if s.Alternative != "" || rec.Plan.Kind == probe.Recall {
			continue
		}
		if scored := judge.Tokens(s.Raw, text); scored > 0 {
			n = int64(scored)
		}
		break
	}
	return min(n, int64(rec.Plan.MaxTokens))
}

func ratioOf(p probe.Plan) float64 {
	if p.BytesPerToken > 0 {
		return p.BytesPerToken
	}
	return 4
}

// unableBelow is how many needles of sixteen the reference must recall for a loss to mean
// anything.
const unableBelow = 2

// oldest returns how far the oldest needle lies that came back, and whether the reference
// recalls too few itself.
func oldest(rec judge.Record, text string) (tokens int, unable bool) {
	if len(rec.Needles) != len(rec.Plan.FromEnd) {
		return 0, true
	}
	for i, found := range statistic.Recalled(rec.Needles, text) {
		if found {
			tokens = max(tokens, rec.Plan.FromEnd[i])
		}
	}
	if len(rec.Scores) == 0 {
		return tokens, tokens == 0
	}
	ours, v := judge.Text(rec.Scores[0].Raw)
	hits := 0
	for _, found := range statistic.Recalled(rec.Needles, ours) {
		if found {
			hits++
		}
	}
	return tokens, tokens == 0 && (v != statistic.None || hits < unableBelow)
}
