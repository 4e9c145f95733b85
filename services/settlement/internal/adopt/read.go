package adopt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// facts reads what a plan rests on. The books are read before the rows: a payout's row is committed before the books
// hear of it.
func (a *Adopter) facts(ctx context.Context, c Chain, since time.Time) (Facts, error) {
	f := Facts{Chain: c.ID, Asset: c.Asset, USDC: c.USDC, Treasury: c.Treasury, Collateral: c.Collateral}
	booked, err := a.deps.Books.Payouts(ctx, since, MaxPayouts)
	if err != nil {
		return f, err
	}
	senders, err := a.behind(ctx, c)
	if err != nil {
		return f, err
	}
	for _, s := range senders {
		if err := a.nonces(ctx, c, s, &f); err != nil {
			return f, err
		}
	}
	if err := a.forgotten(ctx, c, &f); err != nil {
		return f, err
	}
	if err := a.payouts(ctx, booked, &f); err != nil {
		return f, err
	}
	if f.Unexplained, err = a.deps.Store.Unexplained(ctx); err != nil {
		return f, err
	}
	for _, other := range a.deps.Chains {
		if other.ID == c.ID || other.Asset.Decimals == 0 {
			continue
		}
		lost, err := a.behind(ctx, other)
		if err != nil {
			return f, err
		}
		if slices.ContainsFunc(lost, func(s lostSender) bool { return s.Key == sending.Payout }) {
			f.Elsewhere = other.ID
		}
	}
	return f, a.deposits(ctx, &f)
}

// lostSender is a sender of which more nonces are known than the database has.
type lostSender struct {
	Sender
	// final, latest and signed are the next nonces of final blocks, of all blocks, and of the signer.
	final, latest, signed uint64
}

// behind lists the senders of a chain of which the chain or the signer knows more nonces than the database.
func (a *Adopter) behind(ctx context.Context, c Chain) ([]lostSender, error) {
	own, err := a.deps.Store.Senders(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	signed, err := a.deps.Signer.Senders(ctx, c.ID)
	if err != nil {
		return nil, fmt.Errorf("ask the signer for its senders: %w", err)
	}
	all := map[chain.Address]lostSender{}
	for _, s := range own {
		all[s.Address] = lostSender{Sender: s}
	}
	for _, s := range signed {
		one, known := all[s.Address]
		if !known {
			one.Sender = Sender{Key: s.Key, Address: s.Address}
		}
		one.signed = s.Next
		all[s.Address] = one
	}
	var lost []lostSender
	for _, s := range all {
		if s.final, s.latest, err = c.Node.Nonce(ctx, s.Address); err != nil {
			return nil, fmt.Errorf("read the nonce of %s: %w", s.Address, err)
		}
		if max(s.latest, s.signed) > s.Next {
			lost = append(lost, s)
		}
	}
	slices.SortFunc(lost, func(a, b lostSender) int {
		return cmp.Or(strings.Compare(string(a.Key), string(b.Key)), slices.Compare(a.Address[:], b.Address[:]))
	})
	return lost, nil
}

// nonces reads the lost nonces of a sender.
func (a *Adopter) nonces(ctx context.Context, c Chain, s lostSender, f *Facts) error {
	records, err := a.deps.Signer.Signed(ctx, c.ID, s.Address, s.Next)
	if err != nil {
		return fmt.Errorf("ask the signer for what it signed: %w", err)
	}
	from, err := a.deps.Store.EndBefore(ctx, sending.Place{Chain: c.ID, Sender: s.Address, Nonce: s.Next})
	if err != nil {
		return err
	}
	for nonce := s.Next; nonce < max(s.latest, s.signed); nonce++ {
		if len(f.Nonces) >= MaxCalls {
			f.More = true
			return nil
		}
		n := Nonce{Place: sending.Place{Chain: c.ID, Sender: s.Address, Nonce: nonce}, Key: s.Key,
			Mined: nonce >= s.final && nonce < s.latest}
		if record, ok := records[nonce]; ok {
			n.Promised = &record
		}
		if nonce < s.final {
			if err := mined(ctx, c, &n, from); err != nil {
				return err
			}
			from = n.Sent.Block
		}
		f.Nonces = append(f.Nonces, n)
	}
	return nil
}

// mined reads what final blocks have of a nonce.
func mined(ctx context.Context, c Chain, n *Nonce, from uint64) error {
	sent, found, err := c.Node.Sent(ctx, n.Sender, n.Nonce, from)
	if err == nil && !found {
		err = chain.ErrUnavailable
	}
	if err != nil {
		return fmt.Errorf("find the transaction %d of %s: %w", n.Nonce, n.Sender, err)
	}
	r, found, err := c.Node.Receipt(ctx, sent.Hash)
	if err == nil && (!found || !r.Final) {
		err = chain.ErrUnavailable
	}
	if err != nil {
		return fmt.Errorf("read the receipt of %s: %w", sent.Hash, err)
	}
	n.Sent, n.Receipt = &sent, &r
	return nil
}

// forgotten adds the calls whose nonce is final with a transaction that the database does not have.
func (a *Adopter) forgotten(ctx context.Context, c Chain, f *Facts) error {
	waiting, err := a.deps.Store.Waiting(ctx, c.ID, sending.MaxWaiting)
	if err != nil {
		return err
	}
	finals := map[chain.Address]uint64{}
	for _, s := range waiting {
		final, ok := finals[s.Call.Sender]
		if !ok {
			if final, _, err = c.Node.Nonce(ctx, s.Call.Sender); err != nil {
				return fmt.Errorf("read the nonce of %s: %w", s.Call.Sender, err)
			}
			finals[s.Call.Sender] = final
		}
		if s.Call.Nonce >= final {
			continue
		}
		if len(f.Nonces) >= MaxCalls {
			f.More = true
			return nil
		}
		from, err := a.deps.Store.EndBefore(ctx, s.Call.Place())
		if err != nil {
			return err
		}
		n := Nonce{Place: s.Call.Place(), Key: s.Call.Key, Known: &s}
		if err := mined(ctx, c, &n, from); err != nil {
			return err
		}
		if !slices.ContainsFunc(s.Signed, func(tx sending.Signed) bool { return tx.Hash == n.Sent.Hash }) {
			f.Nonces = append(f.Nonces, n)
		}
	}
	return nil
}

// payouts reads what the database has of the books' payouts, and leaves out the payouts of which it has all.
func (a *Adopter) payouts(ctx context.Context, booked []Booked, f *Facts) error {
	slices.SortFunc(booked, func(a, b Booked) int {
		return cmp.Or(a.At.Compare(b.At), slices.Compare(a.ID[:], b.ID[:]))
	})
	list := make([]payout.ID, len(booked))
	for i, b := range booked {
		list[i] = b.ID
	}
	rows, called, err := a.deps.Store.Rows(ctx, list)
	if err != nil {
		return err
	}
	var providers []ids.ProviderID
	for _, b := range booked {
		row, ok := rows[b.ID]
		if called[b.ID] || ok && row.State.Final() {
			continue
		}
		l := Lost{Booked: b}
		if ok {
			l.Row, l.Address = &row, row.Address
		}
		f.Payouts = append(f.Payouts, l)
		providers = append(providers, b.Provider)
	}
	open, err := a.deps.Store.OpenOf(ctx, providers)
	if err != nil {
		return err
	}
	addresses := map[ids.ProviderID]chain.Address{}
	for i := range f.Payouts {
		l := &f.Payouts[i]
		if other := open[l.Provider]; l.Row == nil && other != l.ID {
			l.Open = other
		}
		if l.Row != nil {
			continue
		}
		address, known := addresses[l.Provider]
		if !known {
			payee, err := a.deps.Payees.Payee(ctx, l.Provider)
			if err != nil {
				return fmt.Errorf("ask for the address of provider %s: %w", l.Provider, err)
			}
			address = payee.Address
			addresses[l.Provider] = address
		}
		l.Address = address
	}
	return nil
}

// deposits reads which senders, and which senders of authorizations, are deposit addresses.
func (a *Adopter) deposits(ctx context.Context, f *Facts) (err error) {
	var of []chain.Address
	for _, n := range f.Nonces {
		if n.Sent == nil {
			continue
		}
		of = append(of, n.Sender)
		if len(n.Sent.Data) >= 4+32 {
			of = append(of, chain.Address(n.Sent.Data[4+12:4+32]))
		}
	}
	f.Deposits, f.Sweeps, err = a.deps.Store.Deposits(ctx, f.Chain, of)
	if err != nil {
		return err
	}
	for i := range f.Nonces {
		n := &f.Nonces[i]
		if index, ok := f.Deposits[n.Sender]; ok && n.Key == "deposit" {
			n.Key = sending.Deposit(index)
		}
	}
	return nil
}
