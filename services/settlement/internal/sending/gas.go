package sending

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
)

// gasBatch is how many costs are posted in one look.
const gasBatch = 100

// coinUnits is how many units of the books one coin has.
const coinUnits = 1_000_000_000

// Quotes has the prices of coins.
type Quotes interface {
	// Quote returns the price of a chain's coin now. It fails while there is none that is good.
	Quote(ctx context.Context, id chain.ID) (Quote, error)
}

// Books keeps what transactions cost.
type Books interface {
	// Gas posts a cost. It is idempotent by chain and transaction.
	Gas(ctx context.Context, s Spent) (ids.EntryID, error)
}

// PostGas tells the books what calls cost that have ended. The quote is stored before the cost is posted, so that a
// process that dies in between posts the same again.
func (p *Pipeline) PostGas(ctx context.Context, quotes Quotes, books Books) error {
	due, err := p.store.GasDue(ctx, gasBatch)
	if err != nil {
		return err
	}
	var faults []error
	for _, s := range due {
		if err := p.postGas(ctx, s, quotes, books); err != nil {
			faults = append(faults, fmt.Errorf("post the cost of %s: %w", s.Transaction, err))
		}
	}
	return errors.Join(faults...)
}

func (p *Pipeline) postGas(ctx context.Context, s Spent, quotes Quotes, books Books) error {
	if s.Quote.Rate == 0 {
		fixed, err := p.fixGas(ctx, s, quotes)
		if err != nil {
			return err
		}
		s = fixed
	}
	if s.Worthless {
		return nil
	}
	entry, err := books.Gas(ctx, s)
	if err != nil {
		return err
	}
	crash.At("settlement.gas.posted")
	return p.store.GasPosted(ctx, s.Place, entry)
}

func (p *Pipeline) fixGas(ctx context.Context, s Spent, quotes Quotes) (Spent, error) {
	units, _, ok := s.Cost.Units(chain.CoinDecimals)
	if !ok {
		return Spent{}, fmt.Errorf("a cost of %s wei is more than the books can count", s.Cost)
	}
	quote, err := quotes.Quote(ctx, s.Chain)
	if err != nil {
		return Spent{}, err
	}
	s.Units, s.Quote = units, quote
	s.Worthless = worthless(units, quote.Rate)
	return p.store.FixGas(ctx, s)
}

// worthless reports whether units round to no nano-dollar at all.
func worthless(units int64, rate money.NanoUSD) bool {
	hi, lo := bits.Mul64(uint64(units), uint64(rate))
	return hi == 0 && lo <= coinUnits/2
}
