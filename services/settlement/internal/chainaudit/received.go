package chainaudit

import (
	"bytes"
	"context"
	"slices"

	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/reserve"
	"svc.internal/services/settlement/internal/watch"
)

// word is an address as a topic.
func word(a chain.Address) (h chain.Hash) {
	copy(h[len(h)-len(a):], a[:])
	return h
}

// isTransfer reports whether a log is the transfer of an amount of a token to an address.
func isTransfer(l chain.Log, token, to chain.Address, amount chain.Amount) bool {
	data := amount.Bytes()
	return l.Contract == token && len(l.Topics) == 3 && l.Topics[0] == watch.TransferTopic && l.Topics[2] == word(to) &&
		bytes.Equal(l.Data, data[:])
}

// positions compares each position with the contract's own view, and their sum with what the contract says that it
// holds, so that none is missing here.
func (a *Auditor) positions(ctx context.Context, found *audit.Invariant) error {
	of, err := a.Config.CollateralAddress()
	if err != nil || of.IsZero() {
		return err
	}
	list, staked, err := a.Rows.Positions(ctx, a.Config.ID)
	if err != nil {
		return err
	}
	if staked.Behind {
		return reserve.ErrBehind
	}
	if staked.Block.Hash.IsZero() {
		return nil
	}
	for _, p := range list {
		found.Checked++
		says, err := a.Node.CallAt(ctx, chain.Call{To: of, Data: contract.PositionOf(p.Subject, p.Depositor)}, staked.Block)
		if err != nil {
			return err
		}
		free, escrow, ok := contract.ReadPosition(says)
		if !ok || free != p.Free || escrow != p.Escrow {
			found.Found("%x, %s: %s free and %s in escrow, by the contract %s and %s", p.Subject, p.Depositor, p.Free, p.Escrow,
				free, escrow)
		}
	}
	found.Checked++
	says, err := a.Node.CallAt(ctx, chain.Call{To: of, Data: contract.Held()}, staked.Block)
	if err != nil {
		return err
	}
	if held, err := chain.AmountOf(says); err != nil || len(says) != 32 || held != staked.Sum {
		found.Found("all positions come to %s, by the contract to %s", staked.Sum, held)
	}
	return nil
}

// events compares the stored logs of the contract with receipts.
func (a *Auditor) events(ctx context.Context, found *audit.Invariant) error {
	final, err := a.Node.Final(ctx)
	if err != nil {
		return err
	}
	for behind := int64(0); ; {
		list, err := a.Rows.Events(ctx, a.Config.ID, behind, page)
		if err != nil || len(list) == 0 {
			return err
		}
		hashes := make([]chain.Hash, len(list))
		for i, l := range list {
			hashes[i] = l.Tx
		}
		receipts, err := a.Node.Receipts(ctx, hashes, final)
		if err != nil {
			return err
		}
		for i, l := range list {
			if found.Checked++; !l.isIn(receipts[i]) {
				found.Found("event %d, transaction %s, place %d: the chain has no such log", l.Number, l.Tx, l.Place)
			}
		}
		behind = list[len(list)-1].Number
	}
}

// isIn reports whether a receipt has the log at its place.
func (l Log) isIn(r *chain.Receipt) bool {
	if r == nil || !r.Succeeded || l.Place >= len(r.Logs) {
		return false
	}
	has := r.Logs[l.Place]
	return has.Contract == l.Contract && slices.Equal(has.Topics, l.Topics) && bytes.Equal(has.Data, l.Data)
}

// deposits compares the transfers that the books have with the chain.
func (a *Auditor) deposits(ctx context.Context, found *audit.Invariant) error {
	final, err := a.Node.Final(ctx)
	if err != nil {
		return err
	}
	var behind Deposit
	for {
		list, err := a.Rows.Deposits(ctx, a.Config.ID, behind, page)
		if err != nil || len(list) == 0 {
			return err
		}
		hashes := make([]chain.Hash, len(list))
		for i, d := range list {
			hashes[i] = d.Tx
		}
		receipts, err := a.Node.Receipts(ctx, hashes, final)
		if err != nil {
			return err
		}
		for i, d := range list {
			found.Checked++
			arrived, err := a.arrived(ctx, d, receipts[i])
			if err != nil {
				return err
			}
			if !arrived {
				found.Found("transaction %s, place %d: no %s of %s arrived at %s", d.Tx, d.Place, d.Amount, d.Kind, d.To)
			}
		}
		behind = list[len(list)-1]
	}
}

// arrived reports whether a deposit is on the chain.
func (a *Auditor) arrived(ctx context.Context, d Deposit, r *chain.Receipt) (bool, error) {
	if r == nil || !r.Succeeded {
		return false, nil
	}
	if d.Kind != chain.Coin {
		asset, ok := a.Config.Asset(d.Kind)
		return ok && d.Place < len(r.Logs) && isTransfer(r.Logs[d.Place], asset.Contract, d.To, d.Amount), nil
	}
	blocks, err := a.Node.Blocks(ctx, r.Block, r.Block, true)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(blocks[0].Transactions, func(t chain.Transaction) bool {
		return t.Hash == d.Tx && t.To == d.To && t.Value == d.Amount
	}), nil
}
