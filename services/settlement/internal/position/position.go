// Package position keeps what stands behind providers: the positions of the collateral contracts, and what was paid by
// card. It decides what follows for a provider: whether its collateral is confirmed, on which chain it is paid, and for
// which causes it is suspended (settlement design, section 7; decisions, "Settlement chain" and "Ladder").
//
// A position is what one depositor has put behind one provider on one chain. It follows the final events of the
// contract, each of which counts once, in the order of the chain.
//
// A chain may lose events that were final, have them again elsewhere, or its RPCs may leave one out that a second
// reading finds. Then the position is made anew of all events that the chain has, which restates it: what came before
// stays as it was told, and the books and the hub are told the difference.
//
// Anybody may put anything behind any provider. So a position below the chain's dust is recorded and ignored, and
// of the others the MaxCounted largest of a provider and chain count, and the MaxCounted largest of those that nobody
// takes away. Otherwise strangers could take all places and leave, which would suspend the provider. The books have
// what is not dust, whether it counts or not, in whole units of theirs.
package position

import (
	"fmt"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
)

// MaxCounted bounds the positions of a provider on a chain that count: the largest ones, and as many of those that
// stay.
const MaxCounted = 32

// Position is one position. Times that nobody asked for are zero.
type Position struct {
	Chain     chain.ID
	Subject   contract.Word
	Depositor chain.Address
	// Free is what no penalty has set aside, and Escrow what open penalties have.
	Free, Escrow chain.Amount
	// RefundAt is when the refund that we asked for is due, and ExitAt when that is that the depositor asked for.
	RefundAt, ExitAt time.Time
	// Booked is what the books have of the position, in their units.
	Booked int64
	// Counted reports whether the position is not dust.
	Counted bool
	// Last is where the last event of it is that counts.
	Last Place
}

// Place is where an event is on its chain.
type Place struct {
	Block uint64
	// Index is that of the log in its block.
	Index uint64
}

// Before reports whether the place comes before another one.
func (p Place) Before(o Place) bool {
	return p.Block < o.Block || p.Block == o.Block && p.Index < o.Index
}

// Total is all of a position. Its parts are below 2^128 each.
func (p Position) Total() chain.Amount {
	sum, _ := p.Free.Add(p.Escrow)
	return sum
}

// Event is one final event with its place.
type Event struct {
	contract.Event
	Chain chain.ID
	// Number is the watcher's, and grows in the order in which events were found.
	Number int64
	Where  Place
	Tx     chain.Hash
	// Place is the log's place within the receipt of its own transaction.
	Place uint32
	// At is the time of its block.
	At time.Time
}

// Rules are those of one chain.
type Rules struct {
	Chain    chain.ID
	Name     string
	Contract chain.Address
	Asset    chain.Asset
	// Minimum is what must be free for a confirmation. What is below Dust is ignored.
	Minimum, Dust               chain.Amount
	PublicRPC, Explorer, Faucet string
}

// CardRules are those of collateral by card.
type CardRules struct {
	Available bool
	Minimum   money.NanoUSD
	// LiveOnly leaves out payments in which no money moved.
	LiveOnly bool
}

// After returns the position as it is after an event of it. It fails for an event that cannot follow: then the events
// are not those of the contract, and nothing may be concluded from them.
func (p Position) After(e Event, r Rules) (Position, error) {
	ok := true
	move := func(from, to *chain.Amount) {
		var enough, fits bool
		*from, enough = from.Sub(e.Amount)
		if to != nil {
			*to, fits = to.Add(e.Amount)
		}
		ok = ok && enough && (fits || to == nil)
	}
	switch e.Kind {
	case contract.Deposited:
		p.Free, ok = p.Free.Add(e.Amount)
	case contract.RefundRequested:
		p.RefundAt = e.Until
	case contract.RefundCancelled:
		p.RefundAt = time.Time{}
	case contract.ExitRequested:
		p.ExitAt = e.Until
	case contract.ExitCancelled:
		p.ExitAt = time.Time{}
	case contract.Refunded:
		move(&p.Free, nil)
		ok = ok && p.Free.IsZero() && p.Escrow.IsZero()
		p.RefundAt, p.ExitAt = time.Time{}, time.Time{}
	case contract.SlashProposed:
		move(&p.Free, &p.Escrow)
	case contract.SlashAppealed:
	case contract.SlashExecuted:
		move(&p.Escrow, nil)
	case contract.SlashReversed, contract.SlashLapsed:
		move(&p.Escrow, &p.Free)
	default:
		ok = false
	}
	if !ok {
		return Position{}, fmt.Errorf("the event %s of transaction %s, place %d on chain %s does not follow", e.Kind, e.Tx,
			e.Place, e.Chain)
	}
	if p.Last.Before(e.Where) {
		p.Last = e.Where
	}
	return p.booked(r)
}

// booked sets what the books have of the position.
func (p Position) booked(r Rules) (Position, error) {
	p.Counted, p.Booked = !p.Total().IsZero() && p.Total().Cmp(r.Dust) >= 0, 0
	if !p.Counted {
		return p, nil
	}
	units, _, ok := p.Total().Units(r.Asset.Decimals)
	if !ok {
		return Position{}, fmt.Errorf("the position of %s on chain %s is more than the books can count", p.Depositor,
			p.Chain)
	}
	p.Booked = units
	return p, nil
}

// Key names a provider's position.
type Key struct {
	Chain     chain.ID
	Provider  ids.ProviderID
	Depositor chain.Address
}
