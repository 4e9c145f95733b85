package memstore

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Settle settles a batch; see usage.Store.
func (s *Store) Settle(
	_ context.Context, requests []ids.RequestID, _ []ids.ProviderID,
	decide func(usage.Snapshot) (usage.Effects, []usage.Reject),
) error {
	fx, rejects, err := s.decide(requests, decide)
	if err != nil {
		return err
	}
	s.apply(fx)
	s.quarantine(rejects)
	return nil
}

// Preview decides a batch and changes nothing.
func (s *Store) Preview(requests []ids.RequestID, decide func(usage.Snapshot) (usage.Effects, []usage.Reject)) error {
	_, _, err := s.decide(requests, decide)
	return err
}

func (s *Store) decide(
	requests []ids.RequestID, decide func(usage.Snapshot) (usage.Effects, []usage.Reject),
) (usage.Effects, []usage.Reject, error) {
	snapshot := s.snapshot(requests)
	fx, rejects := decide(snapshot)
	if fx.NeedsWallets {
		snapshot.Wallets = map[ids.AccountID]usage.Wallet{}
		for _, account := range snapshot.Accounts() {
			w := s.wallets[account]
			snapshot.Wallets[account] = usage.Wallet{Posted: w.Posted, Held: w.Held}
		}
		fx, rejects = decide(snapshot)
	}
	if err := s.check(fx); err != nil {
		return usage.Effects{}, nil, errors.Join(usage.ErrRefused, err)
	}
	return fx, rejects, nil
}

func (s *Store) snapshot(requests []ids.RequestID) usage.Snapshot {
	b := usage.Snapshot{
		Holds: map[ids.RequestID]usage.Hold{}, Settled: map[ids.RequestID]usage.First{},
		Truncated: map[ids.RequestID]usage.Relayed{}, Reported: map[ids.RequestID]bool{},
		Related: s.related, GrantedCredit: map[ids.AccountID]bool{},
	}
	for _, r := range requests {
		h := s.holds[r]
		if h == nil {
			continue
		}
		b.Holds[r] = usage.Hold{
			Account: h.Account, Key: h.Key, Model: h.Model, Billing: h.Billing, Amount: h.Amount,
			Prompt: h.PromptTokens, MaxCompletion: h.MaxCompletionTokens, Price: h.Price, Rates: h.Rates, State: h.State,
		}
		b.GrantedCredit[h.Account] = s.wallets[h.Account].Granted > 0
		w, told := s.reports[r]
		b.Reported[r] = told
		if told && w.Outcome == "failed" && w.CommittedAttempt > 0 && w.Metered == nil {
			b.Truncated[r] = usage.Relayed{Tokens: w.RelayedTokens, Bytes: w.RelayedBytes}
		}
		if place, ok := s.lines[r]; ok && h.State != hold.Open {
			first := s.settled[place]
			b.Settled[r] = usage.First{Hash: first.Hash, EvidenceSource: first.Event.EvidenceSource}
		}
		if s.Faults.NoPrimaryKey {
			anew := b.Holds[r]
			anew.State = hold.Open
			b.Holds[r] = anew
			delete(b.Settled, r)
		}
	}
	return b
}

// check refuses what the database's CHECKs would refuse.
func (s *Store) check(fx usage.Effects) error {
	for _, l := range fx.Lines {
		_, exists := s.lines[l.Event.Request]
		switch {
		case exists && !s.Faults.NoPrimaryKey:
			return fmt.Errorf("request %s is settled", l.Event.Request)
		case l.Payout < 0 || l.Payout > l.ListPrice || l.Charged < 0 || l.Shortfall < 0:
			return fmt.Errorf("amounts of request %s are out of order", l.Event.Request)
		case l.Source == usage.PayAsYouGo && l.Charged+l.Shortfall+l.Discount != l.ListPrice,
			l.Source != usage.PayAsYouGo && l.Charged+l.Shortfall+l.Discount != 0,
			l.Source == usage.Free && l.ListPrice != 0:
			return fmt.Errorf("the charge of request %s does not fit its source", l.Event.Request)
		}
	}
	if s.Faults.NoPrimaryKey {
		return nil
	}
	for account, c := range fx.Wallets {
		w := s.wallets[account]
		if posted, held := w.Posted-c.Charged, w.Held-c.Released; posted < 0 || held < 0 || held > posted {
			return fmt.Errorf("the wallet of %s would have %d, of which %d are held", account, posted, held)
		}
	}
	return nil
}

func (s *Store) apply(fx usage.Effects) {
	now := s.now()
	for _, l := range fx.Lines {
		r := l.Event.Request
		s.lines[r] = len(s.settled)
		s.settled, s.settledAt = append(s.settled, l), append(s.settledAt, now)
		if l.Source == usage.Orphan && l.Payout > 0 {
			s.orphans += l.Payout
			s.entries = append(s.entries, entry{ledger.Orphan(ids.EntryID(r), r, l.Event.Provider, l.Payout), now})
		}
	}
	for _, r := range fx.Overruled {
		if v := s.reviews[r]; v != nil {
			v.next = now
		} else {
			s.reviews[r] = &review{publications: 1, next: now}
		}
	}
	for _, r := range fx.Closed {
		h := s.holds[r]
		h.State, _ = hold.Open.After(hold.Usage)
		h.ClosedAt = now
	}
	for account, c := range fx.Wallets {
		s.wallets[account].Posted -= c.Charged
		s.wallets[account].Held -= c.Released
	}
	for k, n := range fx.Ended {
		s.keys[k].open -= n
	}
}

// Quarantine stores events that will never be settled; see usage.Store.
func (s *Store) Quarantine(_ context.Context, rejects []usage.Reject) error {
	s.quarantine(rejects)
	return nil
}

func (s *Store) quarantine(rejects []usage.Reject) {
	for _, r := range rejects {
		k := rejectKey{sum: r.Hash(), reason: r.Reason}
		if _, known := s.rejects[k]; !known {
			s.rejects[k] = r
		}
	}
}
