package deposit

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/crash"
)

// postPage is how many transfers are posted at once.
const postPage = 200

// Poster posts what was decided.
type Poster struct {
	Store  Store
	Ledger Ledger
}

// Pass posts what is due. One that fails keeps no other one waiting, and is tried again at the next pass.
func (p *Poster) Pass(ctx context.Context) (posted int, err error) {
	due, err := p.Store.Due(ctx, postPage)
	if err != nil {
		return 0, err
	}
	var faults []error
	for _, t := range due {
		if err := p.post(ctx, t); err != nil {
			faults = append(faults, fmt.Errorf("transfer %s of chain %s, place %d: %w", t.Transaction, t.Chain, t.Place, err))
			continue
		}
		posted++
	}
	return posted, errors.Join(faults...)
}

func (p *Poster) post(ctx context.Context, t Transfer) error {
	if t.Entry == "" {
		fact, to := FactStray, Unmatched
		switch t.Decision {
		case Credit:
			fact, to = FactDeposited, Credited
		case Deny:
			to = Denied
		case Stray: // as it is set
		}
		crash.At("settlement.deposit.decided")
		entry, err := p.Ledger.Post(ctx, fact, t)
		if err != nil {
			return err
		}
		crash.At("settlement.deposit.posted")
		return p.Store.Posted(ctx, t.Key, to, entry)
	}
	fact, to := FactReturned, Returned
	switch {
	case t.End == Matched:
		fact, to = FactMatched, Credited
	case t.End == GoneForBad && t.Decision == Credit:
		fact, to = FactGone, Dropped
	case t.End == GoneForBad:
		to = Dropped
	}
	entry, err := p.Ledger.Post(ctx, fact, t)
	if err != nil {
		return err
	}
	return p.Store.Ended(ctx, t.Key, to, entry)
}
