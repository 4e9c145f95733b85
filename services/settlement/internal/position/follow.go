package position

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
)

// Bounds of one pass.
const (
	// MaxEvents bounds the events that count in one transaction.
	MaxEvents = 200
	// MaxBatches bounds the transactions of one pass over a chain.
	MaxBatches = 20
	// MaxPostings bounds the postings of one pass.
	MaxPostings = 200
)

// Events are the final events of the collateral contracts, which another part reads of the chains.
type Events interface {
	// Final returns the time of a final block of a chain up to which no event is missing; zero while there is none.
	Final(ctx context.Context, on chain.ID) (time.Time, error)
	// After lists events of a chain behind a number, in their order.
	After(ctx context.Context, on chain.ID, number int64, limit int) ([]Event, error)
}

// Movement is what the books are to be told of an event.
type Movement struct {
	Chain    chain.ID
	Number   int64
	Tx       chain.Hash
	Place    uint32
	Provider ids.ProviderID
	// Units came in; below zero they left.
	Units int64
}

// Applied says what a transaction of events did.
type Applied struct {
	Events int
	// Foreign are events of penalties that are none of ours, or not as we proposed them: whoever has the slasher's key
	// proposed them.
	Foreign []Event
}

// Store keeps positions.
type Store interface {
	// Cursor returns the number of the last event of a chain that counts.
	Cursor(ctx context.Context, on chain.ID) (int64, error)
	// Apply has events count, in one transaction. Those that count already are left out. final is the time of a final
	// block behind which nothing is missing after them; zero where more may follow. It fails where an event does not
	// follow.
	Apply(ctx context.Context, on chain.ID, events []Event, final time.Time) (Applied, error)
	// Unposted lists what the books are to be told, of each provider in the order of its events.
	Unposted(ctx context.Context, on chain.ID, limit int) ([]Movement, error)
	// Posted records that the books were told.
	Posted(ctx context.Context, m Movement, entry ids.EntryID) error
}

// Ledger has the books.
type Ledger interface {
	CustodyMoved(ctx context.Context, m Movement, token string) (ids.EntryID, error)
}

// Follower has positions follow the events of the contracts.
type Follower struct {
	Terms  Terms
	Store  Store
	Events Events
	Ledger Ledger
}

// Follow has what is new on a chain count, and returns what it did. Of two that follow at once, the second finds
// nothing new.
func (f *Follower) Follow(ctx context.Context, on chain.ID) (Applied, error) {
	var all Applied
	for range MaxBatches {
		// The time is read first: events up to it are there.
		final, err := f.Events.Final(ctx, on)
		if err != nil {
			return all, err
		}
		number, err := f.Store.Cursor(ctx, on)
		if err != nil {
			return all, err
		}
		events, err := f.Events.After(ctx, on, number, MaxEvents)
		if err != nil {
			return all, err
		}
		if len(events) == MaxEvents {
			final = time.Time{}
		}
		applied, err := f.Store.Apply(ctx, on, events, final)
		if err != nil {
			return all, fmt.Errorf("follow the positions of chain %s: %w", on, err)
		}
		crash.At("settlement.position.applied")
		all.Events += applied.Events
		all.Foreign = append(all.Foreign, applied.Foreign...)
		if len(events) < MaxEvents {
			break
		}
	}
	return all, nil
}

// Post tells the books what came in and left. What they refuse of one provider keeps what follows of it, and of nobody
// else.
func (f *Follower) Post(ctx context.Context, on chain.ID) error {
	rules, ok := f.Terms.Of(on)
	if !ok {
		return fmt.Errorf("chain %s takes no collateral", on)
	}
	moved, err := f.Store.Unposted(ctx, on, MaxPostings)
	if err != nil {
		return err
	}
	kept := map[ids.ProviderID]bool{}
	var faults []error
	for _, m := range moved {
		if kept[m.Provider] {
			continue
		}
		entry, err := f.Ledger.CustodyMoved(ctx, m, rules.Asset.Name())
		if err == nil {
			crash.At("settlement.custody.posted")
			err = f.Store.Posted(ctx, m, entry)
		}
		if err != nil {
			kept[m.Provider] = true
			faults = append(faults, fmt.Errorf("post event %d of chain %s: %w", m.Number, on, err))
		}
	}
	return errors.Join(faults...)
}
