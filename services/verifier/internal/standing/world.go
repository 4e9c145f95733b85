package standing

import (
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/trust"
)

// World is what a step depends on beside state, event and time. It is part of evidence.
type World struct {
	Offer probe.Offer `json:"offer"`
	// Key names the event, unique for the offer. Ids of verdicts are made of it.
	Key    string            `json:"key"`
	Limits ladder.Thresholds `json:"limits"`
	Brakes ladder.Brakes     `json:"brakes"`
	// Rank is j of the provider's j-th model, from 1.
	Rank int `json:"rank"`
	// Penalties is how many penalties the provider had, over all its models, the last one
	// at LastPenaltyAt.
	Penalties     int       `json:"penalties"`
	LastPenaltyAt time.Time `json:"last_penalty_at"`
	// ActiveSince is when the provider was activated, the zero time while it is not.
	ActiveSince time.Time `json:"active_since"`
	// StatedTokens is the longest prompt that the offer's statement promises to take, 0
	// where it is unknown.
	StatedTokens int64 `json:"stated_tokens"`
}

// maxKey bounds the name of an event.
const maxKey = 256

// check refuses a world in which nothing can be decided.
func (w World) check() error {
	switch {
	case w.Offer.Model == "" || w.Offer.Provider.IsZero():
		return refuse("the world names no offer")
	case w.Key == "" || len(w.Key) > maxKey:
		return refuse("the event's name has %d bytes", len(w.Key))
	case w.Rank < 1 || w.Penalties < 0 || w.StatedTokens < 0:
		return refuse("rank %d, %d penalties, %d tokens", w.Rank, w.Penalties, w.StatedTokens)
	}
	if err := w.Limits.Check(); err != nil {
		return refuse("%v", err)
	}
	return nil
}

// Outcome is what an event brought.
type Outcome struct {
	// Judgement is that of a probe.
	Judgement *judge.Judgement
	// Files is what a fingerprint says for family E: an observation of it, or nothing.
	Files *evidence.Observation
	// Held is why a step that the evidence asks for is not taken.
	Held ladder.Held
	// Verdicts are at most 2, in the order of kinds.
	Verdicts []Verdict
	// Published is what routers are to know now.
	Published Published
}

// Verdict is a decision about an offer. It never changes. Watches are silent and give none.
type Verdict struct {
	ID    probe.VerdictID `json:"id"`
	Offer probe.Offer     `json:"offer"`
	Kind  Kind            `json:"kind"`
	// Trigger is the ladder's trigger or the result of a benchmark, or one of Approve,
	// Refuse and Withdraw.
	Trigger string    `json:"trigger"`
	At      time.Time `json:"at"`
	// Of is the verdict of the penalty that this one is about, where there is one.
	Of      probe.VerdictID `json:"of"`
	Leading evidence.Family `json:"leading,omitempty"`
	// Effects are carried out at once. Those of a verdict with NeedsOperator are only that
	// the provider is told: the sanction comes with the verdict Approve.
	Effects       ladder.Effects `json:"effects"`
	NeedsOperator bool           `json:"needs_operator,omitempty"`
	// Summary is for people. It names no threshold and no evidence.
	Summary string `json:"summary"`
}

// The triggers that are an operator's: Approve and Refuse a penalty that needs their word,
// Withdraw a notice whose observations are void.
const (
	Approve  = "approve"
	Refuse   = "refuse"
	Withdraw = "withdraw"
)

// Published is what routers are to know of an offer.
type Published struct {
	Trust   float64
	Factors trust.Factors
	// Lane is the worst of the two ladders' lanes and that of an offer that nobody can judge.
	Lane      trust.Lane
	CapTokens int64
	// GraceUntil is until when a new provider's uptime and success count as good; the zero
	// time when that is over.
	GraceUntil time.Time
	// Proven reports whether a passed benchmark is fresh, and PassedAt is when it was.
	Proven   bool
	PassedAt time.Time
}

// The times of what is published.
const (
	// Grace is how long routers are patient with a provider after its activation.
	Grace = 7 * 24 * time.Hour
	// Fresh is how long a passed benchmark counts.
	Fresh = 30 * 24 * time.Hour
)

// Publish returns what routers are to know of the offer now.
func (s State) Publish(now time.Time, w World) Published {
	now = micros(now)
	k := trust.Facts{
		Passed: trust.Decay(s.Passed, lasted(s.PassedSince, now)), M: s.Process.M(),
		Recalled: !s.RecalledAt.IsZero(), SinceRecall: lasted(s.RecalledAt, now), Pairs: s.Pairs.M(),
	}
	p := Published{Factors: trust.Of(k), CapTokens: s.CapTokens, PassedAt: s.PassedAt}
	p.Trust = p.Factors.Value()
	p.Proven = s.Run.Routed() && !s.PassedAt.IsZero() && lasted(s.PassedAt, now) < Fresh
	bench := trust.Shut
	if p.Proven {
		bench = s.BenchLane
	}
	p.Lane = trust.Worse(s.HeldLane(), bench)
	if until := micros(w.ActiveSince).Add(Grace); !w.ActiveSince.IsZero() && now.Before(until) {
		p.GraceUntil = until
	}
	return p
}
