package sending

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/services/settlement/internal/chain"
)

// lateBatch is how many ended calls one page of Recheck has.
const lateBatch = 100

// MaxTries bounds the transactions of a nonce.
const MaxTries = 32

// Recheck asks the chain again for the calls that ended within RecheckFor. Where one is gone, although its block was
// final, the chain is halted, and what agrees with the end is sent again: the content of a call that succeeded, or a
// cancel. The end stays: nothing is posted anew.
//
// A chain that takes back final blocks may mine another transaction of the nonce. Where that is final and did what the
// end denies, nothing can be sent any more: the halt names the call and both transactions, and comes again until an
// operator has lifted it. Package chainaudit reports the call for as long as the chain says so.
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
	tx, r, mined, err := s.minedNow(ctx, c.Node)
	if err != nil {
		return err
	}
	again := mined && tx.Hash == s.End.Transaction
	switch {
	case again && !r.Final:
		return nil
	case mined && r.Final && !s.End.Denies(tx, r):
		return nil // mined again, in the same block or in another, or with other fees
	case mined && r.Final:
		return p.denied(ctx, c, s, tx, r)
	}
	detail := fmt.Sprintf("%s %s: transaction %s was final in block %d, %s, and is no longer", s.Call.Purpose, s.Call.Ref,
		s.End.Transaction, s.End.Block, s.End.Outcome)
	if err := p.store.Halt(ctx, c.ID, FinalReorged, detail); err != nil || mined {
		return err
	}
	return p.sendAgain(ctx, c, s)
}

// minedNow returns which transaction of an ended call a block has. It is mostly the transaction that ended the call.
func (s Status) minedNow(ctx context.Context, node Node) (tx Signed, r chain.Receipt, mined bool, err error) {
	for _, first := range []bool{true, false} {
		for _, tx := range s.Signed {
			if (tx.Hash == s.End.Transaction) != first {
				continue
			}
			r, mined, err = node.Receipt(ctx, tx.Hash)
			if err != nil {
				return tx, r, false, fmt.Errorf("read the receipt of %s: %w", tx.Hash, err)
			}
			if mined {
				return tx, r, true, nil
			}
		}
	}
	return Signed{}, chain.Receipt{}, false, nil
}

// Denies reports whether a transaction of the call did by its receipt what the end says did not happen, or the other
// way around.
func (e End) Denies(tx Signed, r chain.Receipt) bool {
	return (e.Outcome == Succeeded) != (!tx.Cancels && r.Succeeded)
}

// Denial says what stands where an end is denied.
func (s Status) Denial(tx Signed, r chain.Receipt) string {
	kind, did := "transaction", "was not done, although it is stored as done"
	if tx.Cancels {
		kind = "the cancel"
	}
	if s.End.Outcome != Succeeded {
		did = "was done, although it is stored as not done"
	}
	return fmt.Sprintf("%s %s %s: it ended by %s, %s, and final block %d has %s %s of its nonce", s.Call.Purpose,
		s.Call.Ref, did, s.End.Transaction, s.End.Outcome, r.Block, kind, tx.Hash)
}

// denied halts the chain until an operator has lifted this very halt.
func (p *Pipeline) denied(ctx context.Context, c Chain, s Status, tx Signed, r chain.Receipt) error {
	detail := s.Denial(tx, r)
	switch seen, err := p.store.Lifted(ctx, c.ID, FinalReorged, detail); {
	case err != nil:
		return err
	case seen:
		return nil
	}
	if err := p.store.Halt(ctx, c.ID, FinalReorged, detail); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", detail, ErrHalted)
}

// sendAgain has what agrees with the end mined. Nodes may have the other kind of transaction too, so its fees are
// above those of all others, and they are raised as those of a call that waits.
func (p *Pipeline) sendAgain(ctx context.Context, c Chain, s Status) error {
	s.CancelAsked = s.End.Outcome != Succeeded
	var last, highest Signed
	for _, tx := range s.Signed {
		if tx.Fees.Max.Cmp(highest.Fees.Max) > 0 {
			highest = tx
		}
		if tx.Cancels == s.CancelAsked {
			last = tx
		}
	}
	known := len(last.Raw) > 0
	fresh := known && last.Hash == highest.Hash && s.Now.Sub(last.At) < BumpAfter
	switch {
	case known && (fresh || len(s.Signed) >= MaxTries):
		return p.broadcast(ctx, c, last)
	case len(s.Signed) >= MaxTries:
		return fmt.Errorf("%s %s: %d transactions are signed, and no cancel is among them", s.Call.Purpose, s.Call.Ref,
			len(s.Signed))
	}
	suggested, err := c.Node.SuggestFees(ctx)
	if err != nil {
		return fmt.Errorf("read the fees of the chain: %w", err)
	}
	fees, ok := raised(highest.Fees, suggested, c.MaxGasPrice)
	switch {
	case !ok && known:
		return p.broadcast(ctx, c, last)
	case !ok:
		fees = firstFees(suggested, c.MaxGasPrice)
	}
	return p.sign(ctx, c, s, &fees)
}
