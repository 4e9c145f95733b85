package chainaudit

import (
	"bytes"
	"context"
	"fmt"

	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

// nonces compares the senders with the chain: it has no nonce that is not given, and each nonce that it has is that of
// a stored transaction.
func (a *Auditor) nonces(ctx context.Context, found *audit.Invariant) error {
	final, err := a.Node.Final(ctx)
	if err != nil {
		return err
	}
	waiting, err := a.Rows.Waiting(ctx, a.Config.ID, sending.MaxWaiting)
	if err != nil {
		return err
	}
	// Read after the block, because nonces are given before they are mined.
	senders, err := a.Rows.Nonces(ctx, a.Config.ID)
	if err != nil || len(senders) == 0 {
		return err
	}
	addresses := make([]chain.Address, len(senders))
	for i, s := range senders {
		addresses[i] = s.Address
	}
	counts, err := a.Node.Counts(ctx, addresses, final)
	if err != nil {
		return err
	}
	mined := map[chain.Address]uint64{}
	for i, s := range senders {
		found.Checked++
		if mined[s.Address] = counts[i]; counts[i] > s.Next {
			found.Found("sender %s: the chain has %d transactions, and %d nonces were given", s.Address, counts[i], s.Next)
		}
	}
	for _, s := range waiting {
		found.Checked++
		if s.Call.Nonce >= mined[s.Call.Sender] {
			continue
		}
		if err := a.ours(ctx, s, final, found); err != nil {
			return err
		}
	}
	return nil
}

// ours checks that the transaction of a mined nonce is a stored one.
func (a *Auditor) ours(ctx context.Context, s sending.Status, final chain.Block, found *audit.Invariant) error {
	hashes := make([]chain.Hash, len(s.Signed))
	for i, tx := range s.Signed {
		hashes[i] = tx.Hash
	}
	receipts, err := a.Node.Receipts(ctx, hashes, final)
	if err != nil {
		return err
	}
	for _, r := range receipts {
		if r != nil {
			return nil
		}
	}
	found.Found("nonce %d of %s (%s %s) is final with a transaction that is not stored", s.Call.Nonce, s.Call.Sender,
		s.Call.Purpose, s.Call.Ref)
	return nil
}

// Calls makes the check of ended calls alone.
func (a *Auditor) Calls(ctx context.Context) (found audit.Invariant, err error) {
	err = a.ended(ctx, &found)
	return found, err
}

// ended compares calls that ended with their receipts, and what was promised with what was sent.
func (a *Auditor) ended(ctx context.Context, found *audit.Invariant) error {
	final, err := a.Node.Final(ctx)
	if err != nil {
		return err
	}
	var behind sending.Place
	for {
		list, err := a.Rows.Ended(ctx, a.Config.ID, behind, page)
		if err != nil || len(list) == 0 {
			return err
		}
		hashes := make([]chain.Hash, len(list))
		for i, e := range list {
			hashes[i] = e.End.Transaction
		}
		receipts, err := a.Node.Receipts(ctx, hashes, final)
		if err != nil {
			return err
		}
		for i, e := range list {
			found.Checked++
			fault, report := a.faultOf(e, receipts[i]), found.Found
			if receipts[i] == nil && fault == gone {
				var denied bool
				if fault, denied, err = a.insteadOf(ctx, e, final); err != nil {
					return err
				}
				if denied {
					report = found.First
				}
			}
			if fault != "" {
				report("nonce %d of %s (%s %s), transaction %s: %s", e.Call.Nonce, e.Call.Sender, e.Call.Purpose, e.Call.Ref,
					e.End.Transaction, fault)
			}
		}
		behind = list[len(list)-1].Call.Place()
	}
}

// gone is the fault of a call whose transaction is not on the chain.
const gone = "no final block has it"

// insteadOf says what the chain has of a call whose transaction is gone, and whether that denies the end.
func (a *Auditor) insteadOf(ctx context.Context, e Ended, final chain.Block) (fault string, denied bool, err error) {
	hashes := make([]chain.Hash, len(e.Others))
	for i, tx := range e.Others {
		hashes[i] = tx.Hash
	}
	receipts, err := a.Node.Receipts(ctx, hashes, final)
	if err != nil {
		return "", false, err
	}
	for i, r := range receipts {
		switch tx := e.Others[i]; {
		case r == nil:
		case e.End.Denies(tx, *r):
			return fmt.Sprintf("%s, and instead: %s", gone, sending.Status{Call: e.Call, End: &e.End}.Denial(tx, *r)), true, nil
		default:
			return fmt.Sprintf("%s, and block %d has %s, which comes to the same", gone, r.Block, tx.Hash), false, nil
		}
	}
	return gone + ", and no other one of its nonce", false, nil
}

// faultOf says what is wrong with a call that ended; empty for nothing.
func (a *Auditor) faultOf(e Ended, r *chain.Receipt) string {
	if fault := a.faultOfBytes(e); fault != "" {
		return fault
	}
	succeeded := e.End.Outcome != sending.Reverted
	switch {
	case r == nil:
		return gone
	case r.Succeeded != succeeded && !e.Cancels:
		return fmt.Sprintf("it is stored as %s, and its receipt's success is %t", e.End.Outcome, r.Succeeded)
	case r.BlockHash != e.End.BlockHash || r.Block != e.End.Block:
		return fmt.Sprintf("it is in block %d, and block %d is stored", r.Block, e.End.Block)
	case r.From != e.Call.Sender:
		return "it is from " + r.From.String()
	case e.Payout != "" && e.End.Outcome == sending.Succeeded:
		return a.faultOfPayout(e, *r)
	}
	return ""
}

// faultOfBytes compares the stored bytes with the call.
func (a *Auditor) faultOfBytes(e Ended) string {
	sent, err := a.Decode(e.Raw)
	switch {
	case err != nil:
		return err.Error()
	case sent.Hash != e.End.Transaction:
		return "its bytes are those of " + sent.Hash.String()
	case sent.Chain != e.Call.Chain || sent.Sender != e.Call.Sender || sent.Nonce != e.Call.Nonce:
		return "its bytes are of another chain, sender or nonce"
	case e.Cancels:
		if sent.To != e.Call.Sender || !sent.Value.IsZero() || len(sent.Data) > 0 {
			return "a cancel does something"
		}
	case sent.To != e.Call.To || sent.Value != e.Call.Value || !bytes.Equal(sent.Data, e.Call.Data):
		return "its bytes do something else than the call says"
	}
	return ""
}

// faultOfPayout checks that the promised amount went to the promised address.
func (a *Auditor) faultOfPayout(e Ended, r chain.Receipt) string {
	asset, ok := a.Config.Asset(a.Config.ID.PaysOut())
	if !ok {
		return "the chain pays nothing"
	}
	if asset.Kind == chain.Coin {
		if e.Call.To != e.PaidTo || e.Call.Value != e.Paid || len(e.Call.Data) > 0 {
			return fmt.Sprintf("payout %s promises %s to %s, and %s went to %s", e.Payout, e.Paid, e.PaidTo, e.Call.Value,
				e.Call.To)
		}
		return ""
	}
	for _, l := range r.Logs {
		if isTransfer(l, asset.Contract, e.PaidTo, e.Paid) && l.Topics[1] == word(e.Call.Sender) {
			return ""
		}
	}
	return fmt.Sprintf("payout %s promises %s to %s, and its receipt has no such transfer", e.Payout, e.Paid, e.PaidTo)
}
