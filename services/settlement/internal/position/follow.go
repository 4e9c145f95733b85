package position

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
)

// Bounds of one pass.
const (
	// MaxEvents bounds the events that count in one transaction.
	MaxEvents = 200
	// MaxBatches bounds the transactions of one pass over a chain.
	MaxBatches = 20
	// MaxPostings bounds the postings of one pass.
	MaxPostings = 200
	// MaxGone bounds the positions with events that are gone that are made anew in one transaction.
	MaxGone = 100
)

// Events are the final events of the collateral contracts, which another part reads of the chains.
type Events interface {
	// Final returns the time of a final block of a chain up to which no event is missing; zero while there is none.
	Final(ctx context.Context, on chain.ID) (time.Time, error)
	// After lists events of a chain that have a number behind one and do not count yet, in the order of the chain.
	After(ctx context.Context, on chain.ID, number int64, limit int) (Batch, error)
}

// Batch is what counts in one transaction.
type Batch struct {
	Events []Event
	// UpTo is the number up to which no event is left out once these count.
	UpTo int64
	// Final is the time of a final block behind which nothing is missing after them; zero where more may follow.
	Final time.Time
}

// Movement is what the books are to be told of an event, or of a position that was made anew.
type Movement struct {
	Chain  chain.ID
	Number int64
	// Tx and Place name it in the books for ever. Of a position that was made anew Tx is no transaction: see Restating.
	Tx       chain.Hash
	Place    uint32
	Provider ids.ProviderID
	// Units came in; below zero they left.
	Units int64
}

// Restated is the kind of a movement that is no event: a position was made anew of the events that its chain has.
const Restated contract.Kind = "restated"

// Cause says why a position was made anew.
type Cause string

// The causes.
const (
	// Gone says that the chain has an event of the position no longer.
	Gone Cause = "gone"
	// Again says that an event that was gone was mined again.
	Again Cause = "again"
	// Late says that an event was found after others that follow it.
	Late Cause = "late"
)

// Restatement is a position that was made anew.
type Restatement struct {
	Was, Is Position
	Cause   Cause
}

// Restating names, in the books, the restatement of a position that so many came before. It is the same in a database
// that lost it and has it again.
func Restating(on chain.ID, subject contract.Word, depositor chain.Address, before int64) chain.Hash {
	return sha256.Sum256(fmt.Appendf(nil, "restated %d %x %x %d", on, subject, depositor, before))
}

// Applied says what a transaction of events did.
type Applied struct {
	Events int
	// Restated are positions that were made anew. More reports whether others are to be.
	Restated []Restatement
	More     bool
	// Foreign are events of penalties that are none of ours, or not as we proposed them: whoever has the slasher's key
	// proposed them.
	Foreign []Event
}

// Store keeps positions.
type Store interface {
	// Cursor returns the number of the last event of a chain that counts.
	Cursor(ctx context.Context, on chain.ID) (int64, error)
	// Apply has events count, in one transaction. Those that count already are left out. Positions of which an event is
	// gone, mined again or late are made anew. It does nothing while a changed history is read again, and fails where an
	// event does not follow.
	Apply(ctx context.Context, on chain.ID, b Batch) (Applied, error)
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
		batch, err := f.Events.After(ctx, on, number, MaxEvents)
		if err != nil {
			return all, err
		}
		full := len(batch.Events) == MaxEvents
		if !full {
			batch.Final = final
		}
		applied, err := f.Store.Apply(ctx, on, batch)
		if err != nil {
			return all, fmt.Errorf("follow the positions of chain %s: %w", on, err)
		}
		crash.At("settlement.position.applied")
		all.Events += applied.Events
		all.Foreign = append(all.Foreign, applied.Foreign...)
		all.Restated = append(all.Restated, applied.Restated...)
		if !full && !applied.More {
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
