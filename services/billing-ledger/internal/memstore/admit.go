package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

// Admit decides reservations; see hold.Decider.
func (s *Store) Admit(_ context.Context, reservations []hold.Reservation) ([]hold.Decision, error) {
	if err := s.keepSlicesOut(reservations); err != nil {
		return nil, err
	}
	decisions := make([]hold.Decision, len(reservations))
	for _, i := range s.lockOrder(reservations) {
		decisions[i] = s.admit(reservations[i])
	}
	return decisions, nil
}

// lockOrder returns the order in which the database decides a batch.
func (s *Store) lockOrder(reservations []hold.Reservation) []int {
	places := make([]int, len(reservations))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		x, y := reservations[a], reservations[b]
		ax, _ := s.Account(x.Key)
		ay, _ := s.Account(y.Key)
		return cmp.Or(bytes.Compare(ax[:], ay[:]), bytes.Compare(x.Key[:], y.Key[:]),
			bytes.Compare(x.Request[:], y.Request[:]))
	})
	return places
}

func (s *Store) admit(c hold.Reservation) hold.Decision {
	k := s.keys[c.Key]
	if k == nil {
		return hold.Decision{Outcome: hold.InvalidKey}
	}
	if h := s.holds[c.Request]; h != nil {
		v := hold.Decision{Outcome: hold.Repeated, Admission: h.admission()}
		if h.Key != c.Key || h.Model != c.Model {
			v.Outcome = hold.Reused
		}
		return v
	}
	w := s.wallets[k.account]
	switch {
	case int64(s.open(k.account))+s.strandedPlaces(k.account) >= int64(s.Concurrent):
		return hold.Decision{Outcome: hold.TooManyOpen}
	case c.Amount > w.Posted-w.Held:
		return hold.Decision{Outcome: hold.CreditShort}
	}
	now := s.now()
	h := &Hold{Reservation: c, Account: k.account, State: hold.Open, AdmittedAt: now, Expires: now.Add(s.Terms.Lease)}
	s.holds[c.Request] = h
	s.order = append(s.order, h)
	w.Held += c.Amount
	k.open++
	return hold.Decision{Outcome: hold.Admitted, Admission: h.admission()}
}

// keepSlicesOut returns the open slices of owners that are alive as an error. Where there are none,
// it strands the others.
func (s *Store) keepSlicesOut(reservations []hold.Reservation) error {
	met := hold.SlicesOpen{Of: map[ids.KeyID]hold.SliceOpen{}}
	var dead []*sliceRow
	for _, r := range reservations {
		account, ok := s.Account(r.Key)
		if !ok {
			continue
		}
		c := s.openSlice(account)
		switch {
		case c == nil:
		case c.aliveUntil.After(s.now()):
			open := hold.SliceOpen{Account: account, Owner: c.owner.ID, Address: c.owner.Address}
			if len(met.Of) == 0 || compareAccounts(account, met.First.Account) < 0 {
				met.First = open
			}
			met.Of[r.Key] = open
		case !slices.Contains(dead, c):
			dead = append(dead, c)
		}
	}
	if len(met.Of) > 0 {
		return fmt.Errorf("decide reservations: %w", met)
	}
	slices.SortFunc(dead, func(a, b *sliceRow) int { return compareAccounts(a.account, b.account) })
	for _, c := range dead {
		s.strand(c)
	}
	return nil
}
