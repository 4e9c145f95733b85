package work

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// seenInterval is the pause between two looks at the live view. Until an offer has a
// standing, routers take it for unknown.
const seenInterval = 2 * time.Second

// Seen records which offers of models of the catalog and which references are connected, and
// gives each new offer a standing: the benchmark lane of a model without a benchmark is
// shut. It records first by what the accounts are known.
type Seen struct {
	Store  *store.Store
	Mover  *Mover
	Offers *offers.View
	Clock  clock.Clock
	Log    *slog.Logger
	Haste  Haste

	// told is what was recorded last, so that what stays is written once in five minutes.
	told map[probe.Offer]told
	refs map[string]time.Time
	// identities are by what the connected accounts are known, as it was recorded.
	identities map[ids.ProviderID][]identity.Identity
}

type told struct {
	statement store.Statement
	at        time.Time
	standing  bool
}

// again is how often what stays is recorded again, as the store does.
const again = 5 * time.Minute

// Run looks until ctx ends.
func (s *Seen) Run(ctx context.Context) {
	for range clock.Every(ctx, s.Haste.Of(seenInterval)) {
		warn(ctx, s.Log, "offers could not be recorded", s.Pass(ctx, s.Clock.Now()))
	}
}

// Pass records what is connected now.
func (s *Seen) Pass(ctx context.Context, now time.Time) error {
	if s.told == nil {
		s.told, s.refs = map[probe.Offer]told{}, map[string]time.Time{}
		s.identities = map[ids.ProviderID][]identity.Identity{}
	}
	known := s.Offers.Known()
	// An offer's first standing has what its account inherits.
	if err := s.identify(ctx, known); err != nil {
		return err
	}
	var batch []store.SeenOffer
	for _, o := range known {
		// Hubs pass on whatever a provider calls a model. Nobody can ask for one that the
		// catalog does not have, and its standing would fill tables and reports.
		if _, listed := s.Mover.Models.Find(o.Model); !listed {
			continue
		}
		t := s.told[o.Offer]
		if stated := statementOf(o); t.statement != stated || now.Sub(t.at) >= again {
			batch = append(batch, store.SeenOffer{Offer: o.Offer, Statement: stated})
		}
	}
	for len(batch) > 0 {
		n := min(len(batch), store.MaxBatch)
		if err := s.record(ctx, batch[:n], now); err != nil {
			return err
		}
		batch = batch[n:]
	}
	s.forget(known)
	return s.references(ctx, now)
}

// identify records by what the connected accounts are known, where it has changed since it
// was recorded last. What exceeds the store's bound is not recorded and not tried again.
func (s *Seen) identify(ctx context.Context, known []offers.Offer) error {
	all := map[ids.ProviderID][]identity.Identity{}
	for _, o := range known {
		gather(all, o.Seats)
	}
	gather(all, s.Offers.AllReferences())
	for id, list := range all {
		list = identity.Set(list, maxIdentities)
		if slices.Equal(s.identities[id], list) {
			continue
		}
		whole, err := s.Store.Identify(ctx, id, store.IdentitiesOf(list)...)
		if err != nil {
			return err
		}
		if !whole {
			s.Log.WarnContext(ctx, "a provider has too many identities, and not all are recorded", "provider_id", id)
		}
		s.identities[id] = list
	}
	for id := range s.identities {
		if _, there := all[id]; !there {
			delete(s.identities, id)
		}
	}
	return nil
}

// record records offers, and gives the new ones a standing.
func (s *Seen) record(ctx context.Context, batch []store.SeenOffer, now time.Time) error {
	refused, err := s.Store.SeeOffers(ctx, batch)
	if err != nil {
		return err
	}
	dropped := map[probe.Offer]bool{}
	for _, o := range refused {
		dropped[o] = true
	}
	for _, seen := range batch {
		t := s.told[seen.Offer]
		if !t.standing && !dropped[seen.Offer] {
			// One that fails is tried again with the next look, and keeps no other waiting.
			if _, err := s.Mover.Move(ctx, seen.Offer, "first", standing.Event{Ticked: &standing.Tick{}}); err != nil {
				warn(ctx, s.Log, "an offer could not be given a standing", err)
				continue
			}
		}
		s.told[seen.Offer] = told{seen.Statement, now, true}
	}
	return nil
}

// forget drops what left, so that it is recorded at once when it is back.
func (s *Seen) forget(known []offers.Offer) {
	if len(s.told) <= 2*len(known)+1_000 {
		return
	}
	there := map[probe.Offer]bool{}
	for _, o := range known {
		there[o.Offer] = true
	}
	for o := range s.told {
		if !there[o] {
			delete(s.told, o)
		}
	}
}

func (s *Seen) references(ctx context.Context, now time.Time) error {
	var list []store.Reference
	for _, seat := range s.Offers.AllReferences() {
		key := fmt.Sprint(seat.Host(), " ", seat.Model.ID, " ", seat.Model.Class, " ", seat.Model.Engine, " ",
			seat.Model.Revision, " ", seat.GPU)
		if now.Sub(s.refs[key]) < again {
			continue
		}
		s.refs[key] = now
		list = append(list, store.Reference{Model: seat.Model.ID, Host: seat.Host(), Provider: seat.Provider,
			Class: seat.Model.Class, Engine: seat.Model.Engine, GPU: seat.GPU, FileRevision: seat.Model.Revision})
	}
	for len(list) > 0 {
		n := min(len(list), store.MaxBatch)
		if err := s.Store.SeeReferences(ctx, list[:n]); err != nil {
			clear(s.refs)
			return err
		}
		list = list[n:]
	}
	if len(s.refs) > 10_000 {
		clear(s.refs)
	}
	return nil
}

// statementOf is what an offer states, by the first of its nodes.
func statementOf(o offers.Offer) store.Statement {
	if len(o.Seats) == 0 {
		return store.Statement{}
	}
	m := o.Seats[0].Model
	return store.Statement{Quantization: m.Quantization, Engine: m.Engine, GPU: o.Seats[0].GPU, FileRevision: m.Revision}
}
