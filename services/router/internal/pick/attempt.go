package pick

import (
	"time"

	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/warmup"
	"svc.internal/services/router/internal/window"
)

// Outcome is what an attempt says about its provider's health.
type Outcome uint8

// The outcomes of attempts.
const (
	// Neutral says nothing about health: the content was refused, or the caller has left.
	Neutral Outcome = iota
	Served
	Failed
	// TurnedAway lowers the learnt capacity and leaves health alone.
	TurnedAway
)

// leastTokens is the shortest answer by which a speed is measured, in tokens.
const leastTokens = 8

// Attempt is an attempt that has ended.
type Attempt struct {
	Request  string
	Provider string
	Node     string
	Epoch    int64
	Model    string
	Outcome  Outcome
	// Account is the account whose request it was.
	Account tag.Account
	// Excused is a failure that says little about the provider, because the request
	// failed on another provider before, or had less time than its prompt needs.
	Excused bool
	// Probe reports whether this is a warm-up, which has no request.
	Probe bool
	// Chat reports whether the request was a chat. Only then does a warm-up, which is a
	// chat of one token, try the same.
	Chat bool
	// Prompt is the length of the prompt in tokens; 0 where it is not known.
	Prompt int64
	// Blocked is the part of Duration in which content waited for the consumer.
	Blocked time.Duration
	// NeverBegan is an attempt for which a slot was booked and that was not made. Nothing
	// is learnt from it.
	NeverBegan       bool
	FirstContent     time.Duration
	Duration         time.Duration
	CompletionTokens int64
}

// Ended takes note of an attempt that has ended: its slot is free, and more is known of
// its provider. An attempt that is reported twice counts twice in the windows, which are
// estimates in any case.
func (p *Picker) Ended(a Attempt) {
	now := p.deps.Clock.Now()
	if a.Probe {
		p.probed(a, now)
		return
	}
	p.learn(&a, now)
	if seat := p.deps.View.Find(a.Provider, a.Node, a.Epoch, a.Model); seat != nil {
		p.free(seat, &a, now) // last, because a request that it wakes chooses by what is known
	}
}

// learn takes note of how an attempt went.
func (p *Picker) learn(a *Attempt, now time.Time) {
	if a.Outcome != Served && a.Outcome != Failed {
		return
	}
	if a.Outcome == Failed {
		p.deps.Retries.Failed(a.Account, now)
	}
	rec := p.deps.Health.Get(health.Pair{Provider: a.Provider, Model: a.Model})
	if rec == nil {
		return
	}
	if a.Outcome == Served {
		rec.Breaker.Served(now)
	} else if rec.Breaker.Failed(a.Account, a.Excused, now) && a.Chat {
		p.deps.Warm.Suspect(warmup.Target{Provider: a.Provider, Node: a.Node, Model: a.Model}, now)
	}
	if a.Excused {
		return
	}
	rec.Window.Record(window.Sample{
		At: now, Served: a.Outcome == Served, Account: a.Account, TokensPerSecond: speed(*a),
		FirstContent: a.FirstContent, Prompt: a.Prompt, Pace: p.deps.Health.Pace(a.Model),
	})
}

// probed takes note of a warm-up that has ended.
func (p *Picker) probed(a Attempt, now time.Time) {
	if a.Outcome != Served && a.Outcome != Failed {
		return
	}
	if rec := p.deps.Health.Find(health.Pair{Provider: a.Provider, Model: a.Model}); rec != nil {
		rec.Breaker.Probed(a.Outcome == Served, now)
		p.deps.Waitlist.Wake(a.Model)
	}
}

// free gives back the slot of an attempt and wakes the requests that may have it.
func (p *Picker) free(seat *presence.Seat, a *Attempt, now time.Time) {
	var wasFull bool
	if a.NeverBegan {
		wasFull = seat.Slots.Cancel(a.Request)
	} else {
		wasFull = seat.Slots.End(a.Request, now.Add(-a.Duration), now)
	}
	switch a.Outcome {
	case TurnedAway:
		seat.Slots.Busy(now)
	case Served:
		seat.Slots.Served(now)
	case Neutral, Failed:
	}
	if !wasFull {
		p.deps.Waitlist.Wake(a.Model)
		return
	}
	for i := range seat.Session.Offers {
		p.deps.Waitlist.Wake(seat.Session.Offers[i].Model)
	}
}

func speed(a Attempt) float64 {
	after := a.Duration - a.FirstContent - a.Blocked
	if a.CompletionTokens < leastTokens || after <= 0 {
		return 0
	}
	return float64(a.CompletionTokens) / after.Seconds()
}
