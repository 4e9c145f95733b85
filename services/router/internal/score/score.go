// Package score puts a number on how good a choice a provider is now. Higher
// is better; all factors are in (0, 1].
//
//	score = trust · success² · spare · speed
//
// success is the health window's rate: squared, so that a provider that fails
// one in five loses a third of its weight and not a fifth. spare is the share
// of its slots that would stay free, never below 0.05 so that a full provider
// is still comparable. speed is 1/(1 + first content in seconds/2): 1 s more is
// worth about a third at first and less and less later. What is unknown counts
// as PriorFirstContent.
package score

import "time"

// PriorFirstContent is assumed of a provider that has not been measured.
const PriorFirstContent = 800 * time.Millisecond

const leastSpare = 0.05

// Trust is what verification has found of a provider.
type Trust uint8

// Unverified is the only trust there is until providers are verified: nothing
// has been checked, so nothing is held against anybody.
const Unverified Trust = 0

// Weight is the factor that trust contributes.
func (t Trust) Weight() float64 {
	switch t {
	case Unverified:
		return 1
	default:
		return 0.01 // a value of a newer release: keep it comparable, prefer what is known
	}
}

// Input is what a score is made of.
type Input struct {
	Trust        Trust
	Success      float64
	FirstContent time.Duration
	Load, Limit  int
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
	return in.Trust.Weight() * in.Success * in.Success * spare / (1 + first.Seconds()/2)
}
