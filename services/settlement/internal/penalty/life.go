package penalty

import (
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Actor is who moves a penalty: one of these, or an operator (see package actor).
type Actor = string

// The actors besides operators.
const (
	ByVerifier Actor = "verifier"
	ByProvider Actor = "provider"
	ByPlatform Actor = "platform"
)

// Opened is the cause of a penalty's first entry, which no trigger makes.
const Opened = "open"

// The reasons of what follows by itself.
const (
	reasonExpired  = "nobody appealed within 48 hours"
	reasonExecuted = "the appeal was refused"
)

// Entry is one change in a penalty's history.
type Entry struct {
	Revision int64
	// From is empty for the opening.
	From, To State
	// Cause is a trigger, or Opened.
	Cause  string
	Actor  Actor
	Reason string
	At     time.Time
}

// appeal records the provider's appeal. It fails with penalty_not_found for a penalty of
// another provider, because a provider must not learn that it exists.
func (p *Penalty) appeal(provider ids.ProviderID, text string, now time.Time) (Entry, error) {
	if p.ProviderID != provider {
		return Entry{}, notFound()
	}
	return p.take(Appeal, ByProvider, text, now)
}

// appealOnChain records an appeal that a depositor made on a chain.
func (p *Penalty) appealOnChain(text string, now time.Time) (Entry, error) {
	if p.State == Proposed {
		p.AppealedOnChain = true
	}
	return p.take(Appeal, ByProvider, text, now)
}

// carryOut takes what follows by itself at a time: nothing before it is due.
func (p *Penalty) carryOut(now time.Time) (Entry, error) {
	switch {
	case p.State == Upheld:
		return p.take(Execute, ByPlatform, reasonExecuted, now)
	case p.State == Proposed && !now.Before(p.AppealUntil) && !p.ClockRuns:
		return p.take(Expire, ByPlatform, reasonExpired, now)
	default:
		return Entry{}, nil
	}
}

// take applies a trigger. The entry is zero where the trigger came before. It fails with
// transition_not_allowed.
func (p *Penalty) take(t Trigger, by Actor, said string, now time.Time) (Entry, error) {
	to, err := p.State.After(t)
	if err != nil {
		return Entry{}, err
	}
	if to == p.State {
		if !p.took(t) {
			return Entry{}, notAllowed("a penalty that is %s cannot take %s", p.State, t)
		}
		return Entry{}, nil
	}
	over := !now.Before(p.AppealUntil)
	if t == Appeal && over && !p.AppealedOnChain {
		return Entry{}, notAllowed("the time to appeal was over at %s", p.AppealUntil.UTC().Format(time.RFC3339))
	}
	if t == Expire && !over {
		return Entry{}, notAllowed("the time to appeal is over at %s", p.AppealUntil.UTC().Format(time.RFC3339))
	}
	reason := said
	switch t {
	case Appeal:
		p.AppealText, p.AppealedAt = said, now
		reason = "" // the text stands in the penalty
	case Uphold, Reverse:
		p.Resolution, p.ResolvedAt = said, now
	case Expire, Execute:
		p.ExecutedAt = now
	}
	e := Entry{Revision: p.Revision + 1, From: p.State, To: to, Cause: string(t), Actor: by, Reason: reason, At: now}
	p.State, p.Revision = to, e.Revision
	return e, nil
}

// took reports whether the penalty took the trigger before.
func (p *Penalty) took(t Trigger) bool {
	switch t {
	case Appeal:
		return !p.AppealedAt.IsZero()
	case Uphold:
		return p.State != Reversed && !p.ResolvedAt.IsZero()
	case Reverse:
		return p.State == Reversed
	case Expire:
		return p.State == Executed && p.AppealedAt.IsZero()
	case Execute:
		return p.State == Executed && !p.ResolvedAt.IsZero()
	}
	return false
}

// NotFound is the reason of an error about a penalty that does not exist for the caller.
const NotFound fault.Reason = "penalty_not_found"

func notFound() error { return fault.New(fault.NotFound, NotFound, "no such penalty").On("penalty_id") }
