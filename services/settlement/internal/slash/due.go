package slash

import (
	"fmt"
	"time"

	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
)

// MaxProposals is how often a part is proposed whose position has less than the part, until the part is given up.
const MaxProposals = 3

// Due returns what is to be done for a part of a penalty in a state. now is the time of the last final block of the
// part's chain; it is zero while that is unknown.
func (p Part) Due(of penalty.State, now time.Time) Action {
	if p.ByCard() {
		return p.dueByCard(of)
	}
	if (p.State == Escrowed || p.State == Appealed) && !now.Before(p.LapsesAt) {
		return LapseNow
	}
	switch p.State {
	case Opened:
		if of == penalty.Reversed && p.Attempt == 0 {
			return Drop
		}
		return Propose
	case Escrowed:
		return p.dueInEscrow(of, !now.Before(p.AppealUntil))
	case Appealed:
		switch of {
		case penalty.Executed:
			return Uphold
		case penalty.Reversed:
			return Reverse
		case penalty.Proposed, penalty.Appealed, penalty.Upheld:
		}
	case Executed, Reversed, Lapsed, Missed:
	}
	return None
}

// dueInEscrow decides for a part whose clock runs on the chain. over reports whether its time to appeal is over:
// then the contract takes no appeal any more, and a part that must not be executed waits until it lapses.
func (p Part) dueInEscrow(of penalty.State, over bool) Action {
	switch of {
	case penalty.Appealed, penalty.Upheld, penalty.Reversed:
		if !over {
			return Appeal
		}
	case penalty.Executed:
		if over {
			return Execute
		}
	case penalty.Proposed:
	}
	return None
}

func (p Part) dueByCard(of penalty.State) Action {
	switch p.State {
	case Opened:
		return PostSlashed // reversed or not: a posting that may have been made is made, and then taken back
	case Escrowed:
		switch of {
		case penalty.Executed:
			return PostForfeited
		case penalty.Reversed:
			return PostWon
		case penalty.Proposed, penalty.Appealed, penalty.Upheld:
		}
	case Appealed, Executed, Reversed, Lapsed, Missed:
	}
	return None
}

// Calldata returns the call of the contract for an action; nil for an action that is none.
func (p Part) Calldata(a Action) []byte {
	switch a {
	case Propose:
		return contract.ProposeSlash(p.ID, contract.Subject(p.Provider), p.Depositor, p.Amount)
	case Appeal:
		return contract.Appeal(p.ID)
	case Execute:
		return contract.ExecuteSlash(p.ID)
	case Uphold:
		return contract.Resolve(p.ID, true)
	case Reverse:
		return contract.Resolve(p.ID, false)
	case LapseNow:
		return contract.Lapse(p.ID)
	default:
		return nil
	}
}

// lapseAfter is the contract's LAPSE_AFTER, counted from the proposal.
const lapseAfter = 30*24*time.Hour - penalty.Window

// After returns the part as it is after a final event of it. ok is false for an event that changes nothing.
func (p Part) After(e position.Event) (next Part, ok bool, err error) {
	was := p.State
	switch e.Kind {
	case contract.SlashProposed:
		if e.Amount != p.Amount || e.Depositor != p.Depositor {
			return p, false, fmt.Errorf("penalty part %x was proposed otherwise on chain %s", p.ID, p.Chain)
		}
		p.State, p.AppealUntil, p.LapsesAt = Escrowed, e.Until, e.Until.Add(lapseAfter)
	case contract.SlashAppealed:
		p.State, p.LapsesAt = Appealed, e.Until
	case contract.SlashExecuted:
		p.State = Executed
	case contract.SlashReversed:
		p.State = Reversed
	case contract.SlashLapsed:
		p.State = Lapsed
	case contract.Deposited, contract.RefundRequested, contract.RefundCancelled, contract.ExitRequested,
		contract.ExitCancelled, contract.Refunded:
		return p, false, nil
	}
	for _, to := range was.Next() {
		if to == p.State {
			p.Action, p.Attempt = None, 0
			return p, true, nil
		}
	}
	return p, false, fmt.Errorf("penalty part %x does not go from %s to %s", p.ID, was, p.State)
}

// Again returns the part as it is once an event of it that counted before is mined again: the contract's times are
// those of the new block. ok is false for an event that is not as we proposed it.
func (p Part) Again(e position.Event) (next Part, ok bool) {
	if e.Depositor != p.Depositor || e.Kind == contract.SlashProposed && e.Amount != p.Amount {
		return p, false
	}
	switch {
	case e.Kind == contract.SlashProposed && p.State == Escrowed:
		p.AppealUntil, p.LapsesAt = e.Until, e.Until.Add(lapseAfter)
	case e.Kind == contract.SlashAppealed && p.State == Appealed:
		p.LapsesAt = e.Until
	}
	return p, true
}

// ClockRuns reports whether a penalty must not be executed yet because of the part: nobody knows yet that its time to
// appeal is over on its chain. now is as for Due.
func (p Part) ClockRuns(now time.Time) bool {
	switch p.State {
	case Opened:
		return !p.ByCard()
	case Escrowed:
		return !p.ByCard() && now.Before(p.AppealUntil)
	case Appealed:
		return true
	default:
		return false
	}
}
