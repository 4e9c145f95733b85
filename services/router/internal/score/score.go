// Package score puts a number on how good a choice a provider is now. Higher
// is better; all factors are in (0, 1].
//
//	score = trust · success² · uptime · spare · speed
//
// trust is 1, and ProbationWeight in a provider's first day. success is the health
// window's rate: squared, so that a provider that fails one in five loses a third
// of its weight and not a fifth. uptime is (1 + share of the last 30 days)/2: who
// is away half of the time loses a quarter, because what counts most is being here
// now. spare is the share of its slots that would stay free, never below 0.05 so
// that a full provider is still comparable. speed is 1/(1 + first content in
// seconds/2): 1 s more is worth about a third at first and less and less later. A
// latency that is not known counts as PriorFirstContent, an uptime that is not
// known or that a probation will judge holds nothing back.
package score

import "time"

// PriorFirstContent is assumed of a provider that has not been measured.
const PriorFirstContent = 800 * time.Millisecond

// ProbationWeight is the trust in a provider whose probation goes on.
const ProbationWeight = 0.8

const leastSpare = 0.05

// Trust is what verification has found of a provider.
type Trust uint8

// The trusts there are until providers are verified: nothing has been checked,
// so nothing is held against anybody but that they are new.
const (
	Unverified Trust = iota
	Probation
)

// Weight is the factor that trust contributes.
func (t Trust) Weight() float64 {
	switch t {
	case Unverified:
		return 1
	case Probation:
		return ProbationWeight
	default:
		return 0.01 // a value of a newer release: keep it comparable, prefer what is known
	}
}

// Input is what a score is made of.
type Input struct {
	Trust        Trust
	Success      float64
	FirstContent time.Duration
	// Uptime counts where it is known.
	Uptime      float64
	UptimeKnown bool
	Load, Limit int
}

// Of computes the score.
func Of(in Input) float64 {
	first := in.FirstContent
	if first <= 0 {
		first = PriorFirstContent
	}
	spare := leastSpare
	if in.Limit > 0 {
		spare = max(1-float64(in.Load)/float64(in.Limit), leastSpare)
	}
	up := 1.0
	if in.UptimeKnown && in.Trust != Probation {
		up = (1 + in.Uptime) / 2
	}
	return in.Trust.Weight() * in.Success * in.Success * up * spare / (1 + first.Seconds()/2)
}
