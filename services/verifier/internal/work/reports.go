package work

import (
	"context"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/events"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
)

// Reports reads what routers are to know. It implements events.Reports. The revision of a
// report is the sum of the revisions of the provider's offers: each of them only grows, and
// no offer is ever removed.
type Reports struct{ Store *store.Store }

// beyond is a model's id behind that of every model.
const beyond = "\U0010FFFF"

// Report returns the report of one provider.
func (r Reports) Report(ctx context.Context, provider ids.ProviderID) (events.Report, error) {
	report := events.Report{Provider: provider}
	err := r.each(ctx, probe.Offer{Provider: provider}, func(o store.Opinion) bool {
		if o.Offer.Provider != provider {
			return false
		}
		add(&report, o)
		return true
	})
	return report, err
}

// ReportsAfter returns reports in the order of their providers, behind after, at most limit.
func (r Reports) ReportsAfter(ctx context.Context, after ids.ProviderID, limit int) ([]events.Report, error) {
	var list []events.Report
	from := probe.Offer{Provider: after, Model: beyond}
	if after.IsZero() {
		from = probe.Offer{}
	}
	err := r.each(ctx, from, func(o store.Opinion) bool {
		if n := len(list); n == 0 || list[n-1].Provider != o.Offer.Provider {
			if n == limit {
				return false
			}
			list = append(list, events.Report{Provider: o.Offer.Provider})
		}
		add(&list[len(list)-1], o)
		return true
	})
	return list, err
}

// each calls take for each opinion behind an offer until take returns false.
func (r Reports) each(ctx context.Context, after probe.Offer, take func(store.Opinion) bool) error {
	for {
		list, err := r.Store.Opinions(ctx, after, store.MaxBatch)
		if err != nil {
			return err
		}
		for _, o := range list {
			if !take(o) {
				return nil
			}
			after = o.Offer
		}
		if len(list) < store.MaxBatch {
			return nil
		}
	}
}

func add(r *events.Report, o store.Opinion) {
	r.Revision += o.Revision
	r.Opinions = append(r.Opinions, events.Opinion{
		Model: o.Offer.Model, Trust: o.Trust, Lane: o.Lane, CapTokens: o.CapTokens, GraceUntil: o.GraceUntil,
		Revision: o.Revision,
	})
}
