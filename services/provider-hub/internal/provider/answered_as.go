package provider

import (
	"fmt"
	"time"
)

const (
	// NamesKept is how long it is kept what an engine called a model last, and
	// namesShown how long its provider is told.
	NamesKept  = PresenceKept
	namesShown = 7 * day
	shownNames = 64
)

// AnsweredAs tells that engines of a provider called a model otherwise than they
// were asked for. That is evidence for a review and moves nothing by itself: an
// engine may well have a name of its own for a build.
type AnsweredAs struct {
	// Model is the catalog's name; Name what the engine called it last, which is
	// the engine's own text, printable and at most 200 characters.
	Model, Name string
	// First and Last are when it was called otherwise, whatever the name, and
	// Answers how often.
	First, Last time.Time
	Answers     int64
}

// Meaning says it in words, and what its provider should do.
func (n AnsweredAs) Meaning() string {
	return fmt.Sprintf("For %s, the engine's answers name another model: %d since %s, the last at %s as %q. "+
		"This alone costs neither requests nor earnings, but operators see it. "+
		"If it is the same model, have the engine call it %s (vLLM and SGLang: --served-model-name); "+
		"if it is another one, correct which model the agent offers.",
		n.Model, n.Answers, n.First.UTC().Format(time.RFC3339), n.Last.UTC().Format(time.RFC3339), n.Name, n.Model)
}

// lately is what a provider is told of its engines' names.
func (d Detail) lately(now time.Time) []AnsweredAs {
	var list []AnsweredAs
	for _, n := range d.AnsweredAs {
		if now.Sub(n.Last) < namesShown {
			list = append(list, n)
		}
	}
	return list
}
