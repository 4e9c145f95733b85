package provider

import (
	"fmt"
	"time"
)

const (
	// NamesKept is how long an engine's last name for a model is kept, and namesShown how
	// long its provider sees it.
	NamesKept  = PresenceKept
	namesShown = 7 * day
	shownNames = 64
)

// AnsweredAs reports that engines of a provider called a model by a name that is neither
// the catalog's, nor the name that the provider was sent, nor the name that the provider
// declared. It is evidence for a review and moves nothing by itself, because an engine
// may have a name of its own for a build.
type AnsweredAs struct {
	// Model is the catalog's name. Name is the engine's last name for it, which is the
	// engine's own text, printable and at most 200 characters.
	Model, Name string
	// First and Last are when the engine first and last used another name, whichever it
	// was, and Answers how often.
	First, Last time.Time
	Answers     int64
}

// Meaning says in words what happened, and what the provider should do.
func (n AnsweredAs) Meaning() string {
	return fmt.Sprintf("For %s, the engine's answers name another model: %d since %s, the last at %s as %q. "+
		"This alone costs neither requests nor earnings, but operators see it. "+
		"If it is the same model, have the engine call it %s (vLLM and SGLang: --served-model-name); "+
		"if it is another one, correct which model the agent offers.",
		n.Model, n.Answers, n.First.UTC().Format(time.RFC3339), n.Last.UTC().Format(time.RFC3339), n.Name, n.Model)
}

// lately is what a provider sees of its engines' names.
func (d Detail) lately(now time.Time) []AnsweredAs {
	var list []AnsweredAs
	for _, n := range d.AnsweredAs {
		if now.Sub(n.Last) < namesShown {
			list = append(list, n)
		}
	}
	return list
}
