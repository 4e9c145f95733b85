package sending

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/crash"
	"svc.internal/services/settlement/internal/chain"
)

// Pass moves every call of a chain on, once: it looks for receipts, signs, raises fees, and broadcasts. It returns what
// waits for a person or longer than it should.
func (p *Pipeline) Pass(ctx context.Context, id chain.ID) (Stuck, error) {
	c, err := p.chain(id)
	if err != nil {
		return Stuck{}, err
	}
	waiting, err := p.store.Waiting(ctx, id, MaxWaiting)
	if err != nil {
		return Stuck{}, err
	}
	var stuck Stuck
	var faults []error
	for _, s := range waiting {
		if ctx.Err() != nil {
			return stuck, ctx.Err()
		}
		late, err := p.advance(ctx, c, s)
		if late {
			stuck.Fees++
		}
		if last, ok := s.Last(); err != nil || ok && s.Now.Sub(last.At) > StuckAfter {
			stuck.Calls++
		}
		if errors.Is(err, ErrRefused) {
			stuck.Refused++
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s, nonce %d of %s: %w", s.Call.Purpose, s.Call.Ref, s.Call.Nonce,
				s.Call.Sender, err))
		}
	}
	return stuck, errors.Join(faults...)
}

// advance takes the next step of one call. late reports that its fees cannot be raised any more.
func (p *Pipeline) advance(ctx context.Context, c Chain, s Status) (late bool, err error) {
	// The nonce is read before the receipts, because a transaction may be mined in between.
	final, _, err := c.Node.Nonce(ctx, s.Call.Sender)
	if err != nil {
		return false, fmt.Errorf("read the nonce of the sender: %w", err)
	}
	switch mined, err := p.lookForEnd(ctx, c, s); {
	case err != nil || mined:
		return false, err
	case final > s.Call.Nonce:
		return false, p.unknown(ctx, s)
	}
	last, signed := s.Last()
	switch {
	case !signed:
		return false, p.sign(ctx, c, s, nil)
	case s.CancelAsked && !last.Cancels:
		return p.raise(ctx, c, s, last)
	case s.Now.Sub(last.At) < BumpAfter:
		return false, p.broadcast(ctx, c, last)
	case bumps(s.Signed) >= MaxBumps:
		return true, p.broadcast(ctx, c, last)
	default:
		return p.raise(ctx, c, s, last)
	}
}

// bumps counts the times that fees were raised. A cancel begins to count anew.
func bumps(signed []Signed) int {
	n := -1
	for _, s := range signed {
		if s.Cancels == signed[len(signed)-1].Cancels {
			n++
		}
	}
	return n
}

// lookForEnd looks for the receipts of the call's transactions, and stores the end where one is final. mined reports
// that a block has one of them.
func (p *Pipeline) lookForEnd(ctx context.Context, c Chain, s Status) (mined bool, err error) {
	for _, tx := range s.Signed {
		r, found, err := c.Node.Receipt(ctx, tx.Hash)
		if err != nil {
			return false, fmt.Errorf("read the receipt of %s: %w", tx.Hash, err)
		}
		if !found {
			continue
		}
		mined = true
		if !r.Final {
			continue
		}
		e, err := endOf(tx, r)
		if err != nil {
			return true, err
		}
		crash.At("settlement.call.final")
		if err := p.store.AddEnd(ctx, s.Call.Place(), e); err != nil {
			return true, err
		}
		crash.At("settlement.call.ended")
		return true, nil
	}
	return mined, nil
}

// endOf returns the end that a final receipt means.
func endOf(tx Signed, r chain.Receipt) (End, error) {
	cost, ok := r.Cost()
	if !ok {
		return End{}, fmt.Errorf("the receipt of %s has a cost beyond 2^256", tx.Hash)
	}
	e := End{Outcome: Succeeded, Transaction: tx.Hash, Block: r.Block, BlockHash: r.BlockHash, Cost: cost}
	switch {
	case tx.Cancels:
		e.Outcome = Cancelled
	case !r.Succeeded:
		e.Outcome = Reverted
	}
	return e, nil
}

// unknown halts the chain: a final transaction has the call's nonce, and it is none of those that are stored. So
// commits were lost, or somebody else has the key.
func (p *Pipeline) unknown(ctx context.Context, s Status) error {
	detail := fmt.Sprintf("nonce %d of %s (%s %s) is final with a transaction that is not stored", s.Call.Nonce,
		s.Call.Sender, s.Call.Purpose, s.Call.Ref)
	if err := p.store.Halt(ctx, s.Call.Chain, UnknownTransaction, detail); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", detail, ErrHalted)
}

// raise signs the call again with higher fees. late reports that they are at their bound.
func (p *Pipeline) raise(ctx context.Context, c Chain, s Status, last Signed) (late bool, err error) {
	suggested, err := c.Node.SuggestFees(ctx)
	if err != nil {
		return false, fmt.Errorf("read the fees of the chain: %w", err)
	}
	fees, ok := raised(last.Fees, suggested, c.MaxGasPrice)
	if !ok {
		return true, p.broadcast(ctx, c, last)
	}
	return false, p.sign(ctx, c, s, &fees)
}

// sign signs the call, or its cancel, stores the bytes, and then broadcasts them. Without fees it offers what the chain
// suggests.
func (p *Pipeline) sign(ctx context.Context, c Chain, s Status, fees *chain.Fees) error {
	if fees == nil {
		suggested, err := c.Node.SuggestFees(ctx)
		if err != nil {
			return fmt.Errorf("read the fees of the chain: %w", err)
		}
		first := firstFees(suggested, c.MaxGasPrice)
		fees = &first
	}
	crash.At("settlement.call.enqueued")
	signature, err := p.signer.Sign(ctx, s.Call, s.CancelAsked, *fees)
	switch {
	case errors.Is(err, ErrContent):
		detail := fmt.Sprintf("nonce %d of %s (%s %s): %v", s.Call.Nonce, s.Call.Sender, s.Call.Purpose, s.Call.Ref, err)
		if err := p.store.Halt(ctx, s.Call.Chain, SignerRefuses, detail[:min(len(detail), 500)]); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w", detail, ErrHalted)
	case err != nil:
		return fmt.Errorf("sign: %w", err)
	}
	tx, err := s.signedBy(signature, *fees)
	if err != nil {
		return err
	}
	crash.At("settlement.call.signed")
	if err := p.store.AddSigned(ctx, s.Call, tx); err != nil {
		if errors.Is(err, ErrOther) {
			return nil // its bytes are sent, and these are forgotten
		}
		return err
	}
	crash.At("settlement.call.stored")
	return p.broadcast(ctx, c, tx)
}

// signedBy checks what the signer returned against the call.
func (s Status) signedBy(signature Signature, fees chain.Fees) (Signed, error) {
	switch {
	case len(signature.Raw) == 0 || len(signature.Raw) > maxRaw:
		return Signed{}, fmt.Errorf("the signer returned %d bytes", len(signature.Raw))
	case signature.Hash != keccak256(signature.Raw):
		return Signed{}, errors.New("the signer returned bytes and a hash that is not theirs")
	case signature.Sender != s.Call.Sender:
		return Signed{}, fmt.Errorf("the signer signed for %s, and not for %s", signature.Sender, s.Call.Sender)
	case !s.CancelAsked && signature.Content != s.Call.Hash:
		return Signed{}, fmt.Errorf("the signer signed the content %s, and not %s", signature.Content, s.Call.Hash)
	}
	return Signed{Hash: signature.Hash, Try: len(s.Signed), Cancels: s.CancelAsked, Raw: signature.Raw, Fees: fees}, nil
}

// broadcast sends stored bytes. What nodes say of them decides nothing: they are sent again with the next look, until
// the call has an end.
func (p *Pipeline) broadcast(ctx context.Context, c Chain, tx Signed) error {
	_, err := c.Node.Broadcast(ctx, tx.Raw)
	crash.At("settlement.call.sent")
	if err != nil && !errors.Is(err, chain.ErrRefused) {
		return fmt.Errorf("broadcast %s: %w", tx.Hash, err)
	}
	return nil
}
