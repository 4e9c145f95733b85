package sim

import (
	"fmt"
	"time"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// promptClaim is the prompt that every engine claims.
const promptClaim = 9

type ending int

const (
	endsWell ending = iota
	endsWithoutReason
	endsCut
	endsInError
	endsNever
)

type claim int

const (
	claimsTruly claim = iota
	claimsNothing
	claimsMore
	claimsAbsurdly
	claimsZero
)

// plan describes how an engine answers.
type plan struct {
	status        int
	first, gap    time.Duration
	words, each   int
	breakAt       int // words before an early end; 0 for none
	ending        ending
	claim         claim
	deaf          bool // does not care about CANCEL
	usageOnCancel bool
}

// String says it in a few words.
func (p plan) String() string {
	return fmt.Sprintf("status %d, %d words by %d every %v after %v, break at %d, ending %d, claim %d, deaf %v",
		p.status, p.words, p.each, p.gap, p.first, p.breakAt, p.ending, p.claim, p.deaf)
}

// plan decides how an engine answers: at most what the order allows.
func (n *network) plan(o *hubv1.DispatchOpen) plan {
	w := n.world
	p := plan{
		status: 200, first: w.between(time.Millisecond, 800*time.Millisecond),
		gap: w.between(time.Millisecond, 300*time.Millisecond), words: 1 + w.dice.IntN(int(o.GetMaxOutputTokens())),
		each: 1 + w.dice.IntN(3), deaf: w.chance(100), usageOnCancel: w.chance(500),
	}
	if w.chance(60) {
		p.gap = w.between(time.Second, 12*time.Second) // long enough for renewals
	}
	if w.chance(250) {
		p.claim = claim(w.dice.IntN(5))
	}
	switch roll := w.dice.IntN(1000); {
	case roll < 40:
		p.status = []int{400, 429, 500, 503}[w.dice.IntN(4)]
	case roll < 55:
		p.words = 0 // an empty answer
	case roll < 80:
		p.first = w.between(15*time.Second, 30*time.Second)
	case roll < 85:
		p.gap, p.words = 40*time.Second, int(o.GetMaxOutputTokens()) // beyond the wall limit
	case roll < 200:
		p.breakAt = 1 + w.dice.IntN(p.words)
		p.ending = ending(1 + w.dice.IntN(4))
	}
	return p
}
