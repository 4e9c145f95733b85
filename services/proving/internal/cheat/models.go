package cheat

import (
	"net/http"

	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/lab"
)

// The cheats below serve another model than the laboratory's, with the small errors that an
// honest host of theirs would have.

// FourBit serves the model's weights in four bits.
func FourBit(seed uint64) http.Handler {
	return Serve(lab.Host(lab.Base(), tinylm.Variant{Seed: seed, WeightBits: 4}))
}

// EightBit serves the model's weights in eight bits.
func EightBit(seed uint64) http.Handler {
	return Serve(lab.Host(lab.Base(), tinylm.Variant{Seed: seed, WeightBits: 8}))
}

// Smaller serves a model of half the size.
func Smaller(seed uint64) http.Handler { return Serve(lab.Honest(lab.Smaller(), seed)) }

// OtherTraining serves a model of another training.
func OtherTraining(seed uint64) http.Handler { return Serve(lab.Honest(lab.OtherTraining(), seed)) }

// FineTune serves a fine-tune of the model.
func FineTune(seed uint64) http.Handler { return Serve(lab.Honest(lab.FineTune(), seed)) }

// Colder samples at a lower temperature than it is asked to, which gives likelier answers.
func Colder(seed uint64) http.Handler {
	temperature := .3
	return Serve(lab.Host(lab.Base(), tinylm.Variant{Seed: seed, Temperature: &temperature}))
}

// Hotter samples at temperature 1 whatever it is asked.
func Hotter(seed uint64) http.Handler {
	temperature := 1.0
	return Serve(lab.Host(lab.Base(), tinylm.Variant{Seed: seed, Temperature: &temperature}))
}

// Truncating reads the last tokens of a prompt alone, and claims all of them.
func Truncating(seed uint64, tokens int) http.Handler {
	return Serve(lab.Host(lab.Base(), tinylm.Variant{Seed: seed, KeepTokens: tokens}))
}
