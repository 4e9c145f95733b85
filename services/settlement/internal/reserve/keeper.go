package reserve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"svc.internal/services/settlement/internal/chain"
)

// Again is the pause before a reading that is to be confirmed, and after a look that failed.
const Again = time.Minute

// Ledger is the books.
type Ledger interface {
	// Sheet reads the books.
	Sheet(ctx context.Context) (Sheet, error)
}

// Store keeps findings. Its clock is the database's.
type Store interface {
	// Due reports whether a look at a chain, or at the books (0), is due, and puts the next one off by a time: of two
	// callers one gets it.
	Due(ctx context.Context, id chain.ID, next time.Duration) (bool, error)
	// Later puts the next look off by a time.
	Later(ctx context.Context, id chain.ID, next time.Duration) error
	// Record adds readings to their findings, which it returns, and halts the payouts of chains, or lifts the halts, as
	// all findings say. Without a reading it does nothing.
	Record(ctx context.Context, readings []Reading, chains []chain.ID) ([]Finding, error)
}

// Keeper looks at all chains and at the books.
type Keeper struct {
	Store   Store
	Ledger  Ledger
	Lookers []Looker
	Terms   Terms
	// Every is the pause between two looks.
	Every time.Duration
}

// Pass makes the looks that are due. Looks that fail are errors, and keep no other from being made.
func (k *Keeper) Pass(ctx context.Context) error {
	var faults []error
	var all []chain.ID
	for _, l := range k.Lookers {
		id := l.Config.ID
		all = append(all, id)
		faults = append(faults, k.look(ctx, id, []chain.ID{id}, func() ([]Reading, error) { return k.read(ctx, l) }))
	}
	faults = append(faults, k.look(ctx, 0, all, func() ([]Reading, error) {
		sheet, err := k.Ledger.Sheet(ctx)
		if err != nil {
			return nil, err
		}
		return []Reading{k.Terms.reading(sheet)}, nil
	}))
	return errors.Join(faults...)
}

// read reads a chain. The contract counts by itself where the tokens cannot be read, and they without it.
func (k *Keeper) read(ctx context.Context, l Looker) ([]Reading, error) {
	contract, ok, failed := l.Contract(ctx)
	readings, err := l.Tokens(ctx, func(ctx context.Context) (map[string]int64, error) {
		sheet, err := k.Ledger.Sheet(ctx)
		return sheet.Tokens, err
	})
	if ok {
		readings = append(readings, contract)
	}
	return readings, errors.Join(failed, err)
}

// look makes one look if it is due. A reading of a shortfall, and a look that failed, is followed soon.
func (k *Keeper) look(
	ctx context.Context, id chain.ID, halts []chain.ID, read func() ([]Reading, error),
) error {
	// A process that dies while it looks keeps nobody from looking for long.
	due, err := k.Store.Due(ctx, id, Again)
	if err != nil || !due {
		return err
	}
	readings, failed := read()
	if failed != nil {
		failed = fmt.Errorf("the reserves of %s are not known: %w", of(id), failed)
	}
	findings, err := k.Store.Record(ctx, readings, halts)
	if err != nil || failed != nil || slices.ContainsFunc(findings, Finding.open) {
		return errors.Join(failed, err)
	}
	return k.Store.Later(ctx, id, k.Every)
}

func of(id chain.ID) string {
	if id == 0 {
		return "the books"
	}
	return "chain " + id.String()
}

// open reports whether a reading soon may decide something.
func (s Finding) open() bool { return s.Short() || s.Confirmed }
