// Package score puts a number on how good a choice a provider is now. Higher
// is better; all factors are in (0, 1].
//
//	score = trust · success² · uptime · spare · speed
//
// trust is what the verifier says of the provider's model, and at most ProbationWeight in
// a provider's first day. success is the success rate of the health window, squared, so
// that a provider that fails one request in five loses a third of its weight and not a
// fifth. uptime is (1 + share of the last 30 days)/2: a provider that is away half of the
// time loses a quarter, because it matters most that the provider is here now. spare is
// the share of its slots that would stay free, at least 0.05, so that full providers can
// still be compared. speed is 1/(1 + first content in seconds/2): the first second costs a
// third, and each further second costs less. A latency that is not known counts as
// PriorFirstContent. An uptime that is not known, or that a probation is still to judge,
// costs nothing.
//
// In its time of grace, the first days after a provider became active, uptime is 1 and
// success is at least GraceSuccess, because few attempts say little.
package score

import "time"

// PriorFirstContent is the latency of a provider that has not been measured.
const PriorFirstContent = 800 * time.Millisecond

// ProbationWeight is the most trust in a provider on probation.
const ProbationWeight = 0.8

// GraceSuccess is the least success of a provider in its time of grace.
const GraceSuccess = 0.8

const leastSpare = 0.05

// Input is what a score is made of.
type Input struct {
	// Trust is above 0 and at most 1.
	Trust float64
	// Probation reports whether the provider is in its first day.
	Probation bool
	// Grace reports whether the provider is in its time of grace.
	Grace        bool
	Success      float64
	FirstContent time.Duration
	// Uptime counts if UptimeKnown.
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
	trust, success, up := in.Trust, in.Success, 1.0
	if in.UptimeKnown && !in.Probation {
		up = (1 + in.Uptime) / 2
	}
	if in.Probation {
		trust = min(trust, ProbationWeight)
	}
	if in.Grace {
		success, up = max(success, GraceSuccess), 1
	}
	return trust * success * success * up * spare / (1 + first.Seconds()/2)
}
