package payoutsim

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

var errDown = errors.New("the call failed")

// fails reports whether a call fails now.
func (w *world) fails() bool { return w.faulty && w.rng.IntN(25) == 0 }

// node is the chain as one process reads it. Every answer may be missing.
type node struct {
	*world
	*runner
}

func (n node) ask() error {
	n.pause()
	if n.fails() {
		return chain.ErrUnavailable
	}
	return nil
}

func (n node) Final(context.Context) (chain.Block, error) {
	if err := n.ask(); err != nil {
		return chain.Block{}, err
	}
	f := n.chain.final()
	return chain.Block{Number: uint64(f), Hash: n.chain.blocks[f].hash}, nil
}

func (n node) Nonce(_ context.Context, sender chain.Address) (final, latest uint64, err error) {
	if err := n.ask(); err != nil {
		return 0, 0, err
	}
	final, latest = n.chain.nonces(sender)
	return final, latest, nil
}

func (n node) Receipt(_ context.Context, hash chain.Hash) (chain.Receipt, bool, error) {
	if err := n.ask(); err != nil {
		return chain.Receipt{}, false, err
	}
	r, ok := n.chain.receipt(hash)
	return r, ok, nil
}

func (n node) Broadcast(_ context.Context, raw []byte) (chain.Outcome, error) {
	if err := n.ask(); err != nil {
		return "", err
	}
	t, ok := n.chain.byRaw[string(raw)]
	if !ok {
		return "", chain.ErrRefused
	}
	outcome := n.chain.take(t)
	if err := n.ask(); err != nil {
		return "", err // it was taken, and nobody hears of it
	}
	return outcome, nil
}

func (n node) SuggestFees(context.Context) (chain.Fees, error) {
	if err := n.ask(); err != nil {
		return chain.Fees{}, err
	}
	return chain.Fees{Max: chain.NewAmount(n.chain.fee + 10), Tip: chain.NewAmount(1)}, nil
}

func (n node) EstimateGas(_ context.Context, c chain.Call) (uint64, error) {
	if err := n.ask(); err != nil {
		return 0, err
	}
	if to, units := (&tx{data: c.Data}).pays(); n.chain.blocked[to] || units > n.chain.holds(len(n.chain.blocks)-1) {
		return 0, &chain.Revert{Reason: "blocked"}
	}
	return gasOfCall, nil
}

func (n node) Balance(context.Context, chain.Address, chain.Block) (chain.Amount, error) {
	return chain.NewAmount(1 << 62), n.ask()
}

// Holds implements payout.Wallet.
func (n node) Holds(context.Context, chain.ID, chain.Address) (chain.Amount, error) {
	if err := n.ask(); err != nil {
		return chain.Amount{}, err
	}
	return chain.NewAmount(n.chain.holds(n.chain.final())), nil
}

// signer is the chain-signer as one process calls it.
type signer struct {
	*world
	*runner
}

func (s signer) Next(context.Context, chain.ID, sending.Key) (chain.Address, uint64, error) {
	s.pause()
	if s.fails() {
		return chain.Address{}, 0, errDown
	}
	return wallet, s.disk.next, nil
}

func (s signer) Sign(_ context.Context, c sending.Call, cancel bool, fees chain.Fees) (sending.Signature, error) {
	s.pause()
	if s.fails() {
		return sending.Signature{}, errDown
	}
	asked := c
	if s.plant == NewContent && s.signedOnce[c.Hash] && !cancel {
		c.Nonce = s.disk.next // a second try takes another nonce
	}
	first, known := s.disk.content[c.Nonce]
	switch {
	case !cancel && (known && first != c.Hash || s.disk.cancelled[c.Nonce]):
		return sending.Signature{}, sending.ErrContent
	case !cancel:
		s.disk.content[c.Nonce] = c.Hash
	case !known:
		s.disk.cancelled[c.Nonce] = true
	}
	s.disk.next = max(s.disk.next, c.Nonce+1)
	s.signedOnce[asked.Hash] = true
	t := tx{sender: wallet, nonce: c.Nonce, fees: fees, content: c.Hash, cancels: cancel, to: wallet}
	if !cancel {
		t.to, t.data = c.To, c.Data
	}
	made := s.chain.compose(t)
	if s.plant == BroadcastFirst {
		s.chain.take(made)
	}
	s.pause() // the answer is on its way
	if s.fails() {
		return sending.Signature{}, errDown
	}
	return sending.Signature{Raw: []byte(made.raw), Hash: made.hash, Sender: wallet, Content: asked.Hash}, nil
}

// books is the ledger as one process calls it. A call may be lost on its way there or back.
type books struct {
	*world
	*runner
}

func (b books) post(do func() (ids.EntryID, error)) (ids.EntryID, error) {
	b.pause()
	if b.fails() {
		return ids.EntryID{}, errDown
	}
	entry, err := do()
	b.pause()
	if b.fails() {
		return ids.EntryID{}, errDown
	}
	return entry, err
}

func (w *world) entry() ids.EntryID {
	w.entries++
	return ids.EntryID{0: 1, 14: byte(w.entries >> 8), 15: byte(w.entries)}
}

func (b books) Balances(_ context.Context, id ids.ProviderID) (payable, inFlight money.NanoUSD, err error) {
	b.pause()
	if b.fails() {
		return 0, 0, errDown
	}
	return b.payable[id], b.inFlight[id], nil
}

func (b books) Reserve(_ context.Context, p payout.Payout) (ids.EntryID, error) {
	return b.post(func() (ids.EntryID, error) {
		if a, ok := b.accounts[p.ID]; ok {
			return a.reserved, nil
		}
		if b.payable[p.ProviderID] < p.Gross {
			return ids.EntryID{}, fault.New(fault.Precondition, fault.InsufficientEarnings, "less than that")
		}
		b.payable[p.ProviderID] -= p.Gross
		b.inFlight[p.ProviderID] += p.Gross
		b.accounts[p.ID] = &account{Payout: p, reserved: b.entry()}
		return b.accounts[p.ID].reserved, nil
	})
}

func (b books) Confirm(_ context.Context, p payout.Payout) (ids.EntryID, error) {
	return b.end(p, true)
}

func (b books) GiveBack(_ context.Context, p payout.Payout) (ids.EntryID, error) {
	return b.end(p, false)
}

func (b books) end(p payout.Payout, confirmed bool) (ids.EntryID, error) {
	return b.post(func() (ids.EntryID, error) {
		a, ok := b.accounts[p.ID]
		switch {
		case !ok:
			return ids.EntryID{}, fault.New(fault.Precondition, fault.TransitionNotAllowed, "no such payout was requested")
		case !a.ended.IsZero() && a.confirmed == confirmed:
			return a.ended, nil
		case !a.ended.IsZero():
			return ids.EntryID{}, fault.New(fault.Precondition, fault.TransitionNotAllowed, "the payout has ended otherwise")
		}
		a.ended, a.confirmed = b.entry(), confirmed
		b.inFlight[p.ProviderID] -= p.Gross
		if !confirmed {
			b.payable[p.ProviderID] += p.Gross
		}
		return a.ended, nil
	})
}

func (b books) Convert(_ context.Context, c payout.Conversion) (ids.EntryID, error) {
	return b.post(func() (ids.EntryID, error) {
		if entry, ok := b.converted[c.ID]; ok {
			return entry, nil
		}
		if b.payable[c.ProviderID] < c.Amount {
			return ids.EntryID{}, fault.New(fault.Precondition, fault.InsufficientEarnings, "less than that")
		}
		b.payable[c.ProviderID] -= c.Amount
		b.converted[c.ID] = b.entry()
		return b.converted[c.ID], nil
	})
}

// Gas implements sending.Books.
func (b books) Gas(_ context.Context, s sending.Spent) (ids.EntryID, error) {
	return b.post(func() (ids.EntryID, error) {
		if first, ok := b.gas[s.Transaction]; ok {
			if first.Quote != s.Quote {
				return ids.EntryID{}, fault.New(fault.Precondition, fault.IdempotencyKeyReused, "another quote")
			}
			return ids.EntryID{0: 2}, nil
		}
		b.gas[s.Transaction] = s
		return ids.EntryID{0: 2}, nil
	})
}

// Quote implements sending.Quotes.
func (b books) Quote(context.Context, chain.ID) (sending.Quote, error) {
	b.pause()
	if b.fails() {
		return sending.Quote{}, errDown
	}
	return sending.Quote{Rate: money.NanoUSD(2_000+b.rng.IntN(50)) * money.USD, Source: "sim", At: b.now}, nil
}

// hub is the payees and the screening. Each payout of a provider has an address of its own, so that payments can be
// told apart.
type hub struct {
	*world
	*runner
}

func (h hub) Payee(_ context.Context, id ids.ProviderID) (payout.Payee, error) {
	h.pause()
	if h.fails() {
		return payout.Payee{}, errDown
	}
	h.addresses++
	address := chain.Address{0: 0xbb, 18: byte(h.addresses >> 8), 19: byte(h.addresses)}
	if h.rng.IntN(8) == 0 {
		h.chain.blocked[address] = true
	}
	return payout.Payee{Account: ids.AccountID(id), Address: address}, nil
}

func (h hub) Screen(_ context.Context, address chain.Address) (denied bool, version string, err error) {
	h.pause()
	if h.fails() {
		return false, "", errDown
	}
	return false, fmt.Sprintf("v%d", address[19]%3), nil
}
