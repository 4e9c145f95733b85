package memstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/slice"
)

var _ slice.Keeper = (*Store)(nil)

// Sliced returns what the slices of an account have.
func (s *Store) Sliced(account ids.AccountID) (sum money.NanoUSD) {
	for _, c := range s.slices {
		if c.account == account {
			sum += c.amount
		}
	}
	return sum
}

func compareAccounts(a, b ids.AccountID) int { return bytes.Compare(a[:], b[:]) }

// WritePins writes holds that are not there yet; see store.WritePins.
func (s *Store) WritePins(_ context.Context, pins []hold.Pin) error {
	pins = slices.Clone(pins)
	slices.SortStableFunc(pins, func(a, b hold.Pin) int { return bytes.Compare(a.Request[:], b.Request[:]) })
	now := s.now()
	// wanted are what the pins of each slice want of what it had at the beginning.
	wanted, had := map[*sliceRow]money.NanoUSD{}, map[*sliceRow]money.NanoUSD{}
	for _, p := range pins {
		k := s.keys[p.Key]
		if k == nil || k.account != p.Account || s.holds[p.Request] != nil {
			continue
		}
		taken := money.NanoUSD(0)
		if c := s.sliceOf(&p); c != nil {
			if _, known := had[c]; !known {
				had[c] = c.amount
			}
			wanted[c] += p.Amount
			if wanted[c] <= had[c] {
				taken = p.Amount
			}
			if !s.Faults.PinWithoutSlice {
				c.amount -= taken
			}
			c.places = max(c.places-1, 0)
		}
		asked := hold.AdmitRequest{Request: p.Request, Key: p.Key, Model: p.Model, PromptTokens: p.Prompt,
			MaxCompletionTokens: p.MaxCompletion, Images: p.Images, Pinned: p.Pinned}
		h := &Hold{Reservation: hold.Reservation{AdmitRequest: asked, Billing: p.Billing, Price: p.Price, Rates: p.Rates,
			Amount: taken},
			Account: p.Account, State: hold.Open, AdmittedAt: earliest(p.AdmittedAt, now), Expires: now.Add(s.Terms.Lease)}
		s.holds[p.Request] = h
		s.order = append(s.order, h)
		k.open++
	}
	return nil
}

// sliceOf returns the slice that a pin was admitted from; nil when it is gone.
func (s *Store) sliceOf(p *hold.Pin) *sliceRow {
	for _, c := range s.slices {
		if c.account == p.Account && c.epoch == p.Epoch {
			return c
		}
	}
	return nil
}

// Turn takes turns; see slice.Keeper. There are no rates.
func (s *Store) Turn(ctx context.Context, owner slice.Owner, turns []slice.Turn) ([]slice.State, error) {
	var pins []hold.Pin
	for _, t := range turns {
		pins = append(pins, t.Pins...)
	}
	if err := s.WritePins(ctx, pins); err != nil {
		return nil, err
	}
	states := make([]slice.State, len(turns))
	for i := range turns {
		states[i] = s.turn(owner, &turns[i])
	}
	return states, nil
}

// turn does what turn_slices.sql does for one account, and reads what decides about its requests.
func (s *Store) turn(owner slice.Owner, t *slice.Turn) slice.State {
	now, w := s.now(), s.wallets[t.Account]
	st := slice.State{Account: hold.Account{ID: t.Account, Now: now, Lease: s.Terms.Lease}}
	if w == nil {
		return st
	}
	st.Plain = true
	c := s.openSlice(t.Account)
	mine := c != nil && c.owner.ID == owner.ID && (t.Epoch == 0 || t.Epoch == c.epoch)
	switch {
	case t.Close && mine:
		w.Held -= c.amount
		s.endSlice(c)
		mine = false
	case t.Close:
	case t.Epoch == 0 && !mine && (c == nil || !c.aliveUntil.After(now)):
		if c != nil {
			s.strand(c)
		} else if !s.hasSlice(t.Account) {
			s.epochs++
			c, mine = &sliceRow{account: t.Account, epoch: s.epochs, owner: owner}, true
			s.slices = append(s.slices, c)
		}
	}
	if mine {
		s.fill(c, w, t)
		c.owner.Address, c.aliveUntil = owner.Address, now.Add(s.SliceTerms.Lease)
		st.Epoch, st.Amount, st.Places = c.epoch, c.amount, c.places
	}
	st.Account.Free = w.Posted - w.Held
	st.Account.Open = int64(s.open(t.Account)) + s.strandedPlaces(t.Account)
	st.Account.MaxOpen = int64(s.Concurrent)
	for _, k := range sorted(s.keys) {
		if s.keys[k].account == t.Account {
			key := slice.Key{Key: hold.Key{ID: k}}
			for i := range key.Limits {
				key.Limits[i] = limit.Unlimited
			}
			st.Keys = append(st.Keys, key)
		}
	}
	return st
}

// fill gives a slice what the turn wants, as far as the account has it to spare.
func (s *Store) fill(c *sliceRow, w *Wallet, t *slice.Turn) {
	if available := w.Posted - w.Held + c.amount; available >= s.SliceTerms.Least {
		top := max(min(t.Want, available/money.NanoUSD(s.SliceTerms.Share))-c.amount, 0)
		c.amount += top
		w.Held += top
	}
	room := int64(s.Concurrent) - int64(s.open(c.account))
	places := min(max(t.Places, 0), slice.MaxPlaces)
	c.places = max(c.places, min(places, room/2))
}

func (s *Store) endSlice(c *sliceRow) {
	s.slices = slices.DeleteFunc(s.slices, func(other *sliceRow) bool { return other == c })
}

// ReclaimSlices gives back what stranded slices have whose time is over, and strands those of dead owners;
// see store.ReclaimSlices.
func (s *Store) ReclaimSlices(_ context.Context, asOf time.Time, limit int) (int, error) {
	until := earliest(s.now(), asOf)
	over := map[ids.AccountID]bool{}
	for _, c := range s.slices {
		if !c.isOpen() && !c.reclaimAt.After(until) || c.isOpen() && !c.aliveUntil.After(until) {
			over[c.account] = true
		}
	}
	n := 0
	accounts := slices.SortedFunc(maps.Keys(over), compareAccounts)
	for _, account := range accounts[:min(len(accounts), limit)] {
		for _, c := range slices.Clone(s.slices) {
			switch {
			case c.account != account:
			case c.isOpen() && !c.aliveUntil.After(until):
				s.strand(c)
				n++
			case !c.isOpen() && !c.reclaimAt.After(until):
				s.wallets[account].Held -= c.amount
				s.endSlice(c)
				n++
			}
		}
	}
	return n, nil
}
