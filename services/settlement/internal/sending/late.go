package sending

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/services/settlement/internal/chain"
)

// lateBatch is how many ended calls one page of Recheck has.
const lateBatch = 100

// Recheck asks the chain again for the calls that ended within RecheckFor. Where one is gone, although its block was
// final, the chain is halted, and the same bytes are sent again. Its end stays: nothing is posted anew.
func (p *Pipeline) Recheck(ctx context.Context, id chain.ID) error {
	c, err := p.chain(id)
	if err != nil {
		return err
	}
	var behind Place
	var faults []error
	for {
		late, err := p.store.Late(ctx, id, behind, lateBatch)
		if err != nil {
			return err
		}
		for _, s := range late {
			faults = append(faults, p.recheck(ctx, c, s))
			behind = s.Call.Place()
		}
		if len(late) < lateBatch {
			return errors.Join(faults...)
		}
	}
}

func (p *Pipeline) recheck(ctx context.Context, c Chain, s Status) error {
	r, found, err := c.Node.Receipt(ctx, s.End.Transaction)
	switch {
	case err != nil:
		return fmt.Errorf("read the receipt of %s: %w", s.End.Transaction, err)
	case found && (!r.Final || s.End.Outcome == Cancelled || r.Succeeded == (s.End.Outcome == Succeeded)):
		return nil // mined again, in the same block or in another
	}
	detail := fmt.Sprintf("%s %s: transaction %s was final in block %d, %s, and is no longer", s.Call.Purpose, s.Call.Ref,
		s.End.Transaction, s.End.Block, s.End.Outcome)
	if err := p.store.Halt(ctx, c.ID, FinalReorged, detail); err != nil || found {
		return err
	}
	for _, tx := range s.Signed {
		if tx.Hash == s.End.Transaction {
			return p.broadcast(ctx, c, tx)
		}
	}
	return nil
}
