package batch

import (
	"cmp"
	"slices"

	"svc.internal/pkg/money"
)

// Add adds an account's balance to a standing. Accounts come in any order.
func (s *Balances) Add(account, month string, balance money.NanoUSD) {
	switch account {
	case Accrued:
		s.Settled += balance
	case HeldSum:
		if month == "" {
			s.Settled -= balance
			s.Held += balance
			return
		}
		s.pending(month).Held += balance
	case PlanHeld:
		s.pending(month).Amount += balance
	case Payable:
		s.Payable += balance
	case InFlight:
		s.InFlight += balance
	case Receivable:
		s.Owed -= balance
	case PaidSum:
		s.Paid += balance
	case ConvertedSum:
		s.Converted += balance
	}
}

func (s *Balances) pending(month string) *Pending {
	i, found := slices.BinarySearchFunc(s.Pending, month, func(p Pending, m string) int { return cmp.Compare(p.Month, m) })
	if !found {
		s.Pending = slices.Insert(s.Pending, i, Pending{Month: month})
	}
	return &s.Pending[i]
}

// Trim drops the months of which nothing is left.
func (s *Balances) Trim() {
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool { return p.Amount == 0 && p.Held == 0 })
}
