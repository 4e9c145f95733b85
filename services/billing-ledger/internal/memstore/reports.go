package memstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/orphan"
)

// Conclude stores the first report of each request; see hold.ReportStore.
func (s *Store) Conclude(
	_ context.Context, all []hold.RequestReport,
) (released int, unwritten []ids.RequestID, err error) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b hold.RequestReport) int { return bytes.Compare(a.Request[:], b.Request[:]) })
	for _, w := range all {
		h := s.holds[w.Request]
		if h == nil && w.Pin != nil {
			unwritten = append(unwritten, w.Request)
		}
		if _, told := s.reports[w.Request]; told || h == nil {
			continue
		}
		kept := report{RequestReport: w, at: s.now()}
		kept.hub, kept.provider = w.Committed()
		s.reports[w.Request] = kept
		if h.State != hold.Open {
			continue
		}
		s.keys[h.Key].open--
		if w.CommittedAttempt == 0 {
			s.giveBack(h, hold.NothingServed)
			released++
		}
	}
	return released, unwritten, nil
}

// Renew extends leases; see hold.Leases.
func (s *Store) Renew(_ context.Context, all []hold.Renewal) (lapsed, unwritten []ids.RequestID, err error) {
	now := s.now()
	for _, r := range all {
		h := s.holds[r.Request]
		switch {
		case h == nil && r.Pin != nil:
			unwritten = append(unwritten, r.Request)
			continue
		case h == nil || h.State == hold.Settled:
			continue
		case h.State != hold.Open:
			lapsed = append(lapsed, r.Request)
			continue
		}
		h.Expires = latest(h.Expires, earliest(h.AdmittedAt.Add(s.Terms.MaxHold), now.Add(s.Terms.Lease)))
		s.keepRenewal(r, now)
	}
	return lapsed, unwritten, nil
}

// keepRenewal keeps the largest count of the first committed attempt.
func (s *Store) keepRenewal(r hold.Renewal, now time.Time) {
	kept, known := s.renewals[r.Request]
	switch {
	case !known:
		s.renewals[r.Request] = renewal{r, now}
		return
	case r.CommittedAttempt == 0:
		return
	case kept.CommittedAttempt != 0 &&
		(kept.CommittedAttempt != r.CommittedAttempt || kept.Hub != r.Hub || kept.Provider != r.Provider):
		return
	}
	r.RelayedTokens = max(r.RelayedTokens, kept.RelayedTokens)
	r.RelayedBytes = max(r.RelayedBytes, kept.RelayedBytes)
	s.renewals[r.Request] = renewal{r, now}
}

// evidence returns what is known of a request of which something was served by a provider
// that can be paid; false for none.
func (s *Store) evidence(r ids.RequestID) (orphan.Case, bool) {
	if w, told := s.reports[r]; told {
		return orphan.Case{
				Request: r, Attempt: w.CommittedAttempt, Hub: w.hub, Provider: w.provider,
				RelayedTokens: w.RelayedTokens, RelayedBytes: w.RelayedBytes, Metered: w.Metered,
				RouteMode: w.RouteMode, RequestedProvider: w.RequestedProvider, FallbackReason: w.FallbackReason,
				FirstContentMS: w.FirstContentMS, ToldAt: w.at,
			}, w.CommittedAttempt > 0 && !w.provider.IsZero() && w.RelayedBytes > 0 &&
				(w.RelayedTokens > 0 || w.Metered != nil && w.Metered.Prompt > 0)
	}
	v, renewed := s.renewals[r]
	return orphan.Case{
		Request: r, Attempt: v.CommittedAttempt, Hub: v.Hub, Provider: v.Provider,
		RelayedTokens: v.RelayedTokens, RelayedBytes: v.RelayedBytes, ToldAt: v.at,
	}, renewed && v.CommittedAttempt > 0 && v.RelayedTokens > 0 && v.RelayedBytes > 0
}

// over returns up to limit open holds that are over and wanted, the oldest first.
func (s *Store) over(limit int, wanted func(*Hold) bool) []*Hold {
	now := s.now()
	var all []*Hold
	for _, h := range s.order {
		if h.State == hold.Open && !h.Expires.After(now) && wanted(h) {
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b *Hold) int { return a.Expires.Compare(b.Expires) })
	return all[:min(len(all), limit)]
}

// ExpireHolds closes open holds that are over and of which nothing is known to have been
// served.
func (s *Store) ExpireHolds(_ context.Context, asOf time.Time, limit int) (int, error) {
	all := s.over(limit, func(h *Hold) bool {
		_, served := s.evidence(h.Request)
		return !served && !h.Expires.After(asOf)
	})
	for _, h := range all {
		s.giveBack(h, hold.OverUnserved)
	}
	return len(all), nil
}

// OpenReviews takes open holds that are over and have evidence; see
// orphan.Store.
func (s *Store) OpenReviews(_ context.Context, limit int) (cases []orphan.Case, failed int, err error) {
	now := s.now()
	for _, h := range s.over(limit, func(h *Hold) bool {
		c, served := s.evidence(h.Request)
		return served && c.ToldAt.After(now.Add(-s.Terms.Orphan))
	}) {
		c, _ := s.evidence(h.Request)
		h.Expires = c.ToldAt.Add(s.Terms.Orphan)
	}
	for _, h := range s.over(limit, func(h *Hold) bool { return s.publications(h.Request) >= orphan.MaxPublications }) {
		s.giveBack(h, hold.ReviewFailed)
		failed++
	}
	for _, h := range s.over(limit-failed, func(h *Hold) bool {
		c, served := s.evidence(h.Request)
		return served && !c.ToldAt.After(now.Add(-s.Terms.Orphan)) && s.publications(h.Request) < orphan.MaxPublications
	}) {
		cases = append(cases, s.review(h, now))
	}
	return cases, failed, nil
}

func (s *Store) publications(r ids.RequestID) int {
	if v := s.reviews[r]; v != nil {
		return v.publications
	}
	return 0
}

// review counts a publication of a hold's usage.
func (s *Store) review(h *Hold, now time.Time) orphan.Case {
	c, _ := s.evidence(h.Request)
	c.Model, c.Price, c.Rates, c.Pinned = h.Model, h.Price, h.Rates, h.Pinned
	c.Bound.Prompt, c.Bound.Completion = h.PromptTokens, h.MaxCompletionTokens
	c.Publication = s.publications(h.Request) + 1
	h.Expires = now.Add(orphan.Gap(c.Publication))
	s.reviews[h.Request] = &review{publications: c.Publication, next: h.Expires}
	return c
}

// SettledReviews takes reviewed requests that are settled and due again; see
// orphan.Store.
func (s *Store) SettledReviews(_ context.Context, limit int) ([]orphan.Publication, error) {
	now := s.now()
	var out []orphan.Publication
	taken := 0
	for _, h := range s.order {
		v := s.reviews[h.Request]
		if v == nil || v.next.IsZero() || v.next.After(now) || h.State == hold.Open || taken == limit {
			continue
		}
		taken++
		place, settled := s.lines[h.Request]
		n := v.publications + 1
		if !settled || n > orphan.MaxPublications {
			v.next = time.Time{}
			continue
		}
		e := s.settled[place].Event
		e.Settled = true
		out = append(out, orphan.Publication{Event: e, Number: n})
		v.publications, v.next = n, time.Time{}
		if n < orphan.MaxPublications {
			v.next = now.Add(orphan.Gap(n))
		}
	}
	return out, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
