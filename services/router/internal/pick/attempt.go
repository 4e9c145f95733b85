package pick

import (
	"time"

	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/warmup"
	"svc.internal/services/router/internal/window"
)

// Outcome is what an attempt says of its provider.
type Outcome uint8

// The outcomes of attempts.
const (
	// Neutral says nothing of health: content refused, caller gone.
	Neutral Outcome = iota
	Served
	Failed
	// TurnedAway lowers learnt capacity and leaves health alone.
	TurnedAway
)

// leastTokens is what a speed needs to be measured on.
const leastTokens = 8

// Attempt is one try that has ended.
type Attempt struct {
	Request  string
	Provider string
	Node     string
	Epoch    int64
	Model    string
	Outcome  Outcome
	// Account is whose request it was.
	Account tag.Account
	// Excused is a failure that says little of the provider: the request failed on
	// another before, or had less time than its prompt needs.
	Excused bool
	// Probe is what became of a warm-up: there is no request.
	Probe bool
	// Chat says that a warm-up asks for the same.
	Chat bool
	// Prompt is the prompt in tokens, where it is known.
	Prompt int64
	// Blocked is the part of Duration in which the consumer did not take what was
	// there.
	Blocked time.Duration
	// NeverBegan is an attempt that a slot was booked for and that was not
	// made: nothing is learnt from it.
	NeverBegan       bool
	FirstContent     time.Duration
	Duration         time.Duration
	CompletionTokens int64
}

// Ended takes note of an attempt: its slot is free, its provider better or
// worse known. An attempt that is told twice counts twice in the windows, which
// are estimates anyway.
func (p *Picker) Ended(a Attempt) {
	now := p.deps.Clock.Now()
	if a.Probe {
		p.probed(a, now)
		return
	}
	if seat := p.deps.View.Find(a.Provider, a.Node, a.Epoch, a.Model); seat != nil {
		p.free(seat, &a, now)
	}
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
		At: now, Served: a.Outcome == Served, Account: a.Account, TokensPerSecond: speed(a),
		FirstContent: a.FirstContent, Prompt: a.Prompt, Pace: p.deps.Health.Pace(a.Model),
	})
}

// probed takes note of what became of a warm-up.
func (p *Picker) probed(a Attempt, now time.Time) {
	if a.Outcome != Served && a.Outcome != Failed {
		return
	}
	if rec := p.deps.Health.Find(health.Pair{Provider: a.Provider, Model: a.Model}); rec != nil {
		rec.Breaker.Probed(a.Outcome == Served, now)
		p.deps.Waitlist.Wake(a.Model)
	}
}

// free gives the slot of an attempt back and rings for whoever may have it.
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
