package posting

import (
	"context"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// Holding is what the books have of a token.
type Holding struct {
	Token ledger.Token
	// Units are all that came less all that went, and Booked is what they stand for.
	Units  ledger.Units
	Booked money.NanoUSD
	// Last is the coin's last revaluation; nil for none.
	Last *Revaluation
}

// Revaluation is how a coin was revalued on a day.
type Revaluation struct {
	Revalued
	// Worth is what the units were worth at the day's rate.
	Worth money.NanoUSD
	Entry ids.EntryID
}

// Check returns ErrDiffers with what the books have, unless the fact says the same. A
// deposit may have arrived since the books were read.
func (f Revalued) Check(has Holding) error {
	if f.Units == has.Units && f.Booked == has.Booked {
		return nil
	}
	return fmt.Errorf("%w: %d units of %s that stand for %s", ErrDiffers, has.Units, has.Token, has.Booked)
}

// HoldingStore reads what the books have of tokens.
type HoldingStore interface {
	// Holdings returns all tokens, by their names, on one view of the data.
	Holdings(ctx context.Context) ([]Holding, error)
}
