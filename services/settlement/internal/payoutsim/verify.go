package payoutsim

import (
	"context"
	"errors"

	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/chainaudit"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// verify is settlement verify --chain, as far as calls go.
func (w *world) verify(list []payout.Payout) (audit.Invariant, error) {
	rows := auditRows{world: w, payouts: map[string]payout.Payout{}}
	for _, p := range list {
		rows.payouts[p.ID.String()] = p
	}
	auditor := chainaudit.Auditor{Rows: rows, Node: auditNode{world: w}, Decode: w.decode,
		Config: chain.Config{ID: chain.Base, Tokens: []chain.Token{{Kind: chain.USDC, Address: usdc.String(), Decimals: 6}}}}
	return auditor.Calls(context.Background())
}

func (w *world) decode(raw []byte) (chain.Sent, error) {
	t, ok := w.chain.byRaw[string(raw)]
	if !ok {
		return chain.Sent{}, errors.New("nobody has signed that")
	}
	return chain.Sent{Hash: t.hash, Chain: chain.Base, Sender: t.sender, Nonce: t.nonce, To: t.to, Data: t.data}, nil
}

// auditRows are the calls that ended.
type auditRows struct {
	chainaudit.Rows
	world   *world
	payouts map[string]payout.Payout
}

func (r auditRows) Ended(
	ctx context.Context, id chain.ID, behind sending.Place, limit int,
) (list []chainaudit.Ended, err error) {
	late, err := r.world.db.Late(ctx, id, behind, limit)
	for _, s := range late {
		e := chainaudit.Ended{Call: s.Call, End: *s.End, Cancels: s.End.Outcome == sending.Cancelled}
		for _, tx := range s.Signed {
			if tx.Hash == s.End.Transaction {
				e.Raw = tx.Raw
			} else {
				e.Others = append(e.Others, tx)
			}
		}
		if p, ok := r.payouts[s.Call.Ref]; ok {
			e.Payout, e.PaidTo, e.Paid = s.Call.Ref, p.Address, p.Amount
		}
		list = append(list, e)
	}
	return list, err
}

// auditNode is the chain, whose nodes all answer.
type auditNode struct {
	chainaudit.Node
	world *world
}

func (n auditNode) Final(context.Context) (chain.Block, error) {
	f := n.world.chain.final()
	return chain.Block{Number: uint64(f), Hash: n.world.chain.blocks[f].hash}, nil
}

func (n auditNode) Receipts(_ context.Context, txs []chain.Hash, final chain.Block) ([]*chain.Receipt, error) {
	list := make([]*chain.Receipt, len(txs))
	for i, hash := range txs {
		if r, mined := n.world.chain.receipt(hash); mined && r.Block <= final.Number {
			list[i] = &r
		}
	}
	return list, nil
}
