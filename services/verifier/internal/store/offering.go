package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/verifier/internal/probe"
)

// Statement is what a provider states of a model beside its window.
type Statement struct {
	Quantization, Engine, GPU, FileRevision string
}

// Offering is an offer as it was last stated.
type Offering struct {
	Offer probe.Offer
	// Rank is j of the provider's j-th model, from 1, in the order in which the models were
	// first seen.
	Rank int
	Statement
	// ChangedAt is when the statement last became another.
	FirstSeen, SeenAt, ChangedAt time.Time
}

// SeenOffer is an offer that is connected now.
type SeenOffer struct {
	Offer probe.Offer
	Statement
}

// MaxModels is how many models a provider may ever have had. A provider that names more
// floods the tables; its further models are not taken up, and so never routed.
const MaxModels = 1_024

// SeeOffers records offers that are connected now, and returns those of providers with too
// many models, which are not recorded. Offers are written in one order, so that two
// replicas that see the same wait for each other in one direction only.
func (s *Store) SeeOffers(ctx context.Context, seen []SeenOffer) (refused []probe.Offer, err error) {
	if len(seen) > MaxBatch {
		return nil, fmt.Errorf("%w: %d offers", ErrBatch, len(seen))
	}
	seen = slices.Clone(seen)
	slices.SortStableFunc(seen, func(a, b SeenOffer) int {
		if c := slices.Compare(a.Offer.Provider[:], b.Offer.Provider[:]); c != 0 {
			return c
		}
		return strings.Compare(a.Offer.Model, b.Offer.Model)
	})
	for len(seen) > 0 {
		n := slices.IndexFunc(seen, func(o SeenOffer) bool { return o.Offer.Provider != seen[0].Offer.Provider })
		if n < 0 {
			n = len(seen)
		}
		more, err := s.seeProvider(ctx, seen[:n])
		if err != nil {
			return refused, fmt.Errorf("record the offers of a provider: %w", err)
		}
		refused, seen = append(refused, more...), seen[n:]
	}
	return refused, nil
}

const (
	insertOffering = `
		INSERT INTO offering (provider_id, model_id, quantization, engine, gpu, file_revision)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (provider_id, model_id) DO NOTHING`
	// An offer that says the same is written once in five minutes.
	updateOffering = `
		UPDATE offering SET quantization = $3, engine = $4, gpu = $5, file_revision = $6, seen_at = clock_timestamp()
		WHERE provider_id = $1 AND model_id = $2 AND ((quantization, engine, gpu, file_revision) <> ($3, $4, $5, $6)
			OR seen_at < clock_timestamp() - interval '5 minutes')`
)

// seeProvider records the offers of one provider.
func (s *Store) seeProvider(ctx context.Context, seen []SeenOffer) (refused []probe.Offer, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		refused = nil
		id := seen[0].Offer.Provider
		if _, err := tx.Exec(ctx, `INSERT INTO provider (provider_id) VALUES ($1) ON CONFLICT DO NOTHING`, id); err != nil {
			return err
		}
		known, models, err := knownModels(ctx, tx, id, seen)
		if err != nil {
			return err
		}
		for _, o := range seen {
			sql := updateOffering
			if !known[o.Offer.Model] {
				if models >= MaxModels {
					refused = append(refused, o.Offer)
					continue
				}
				sql = insertOffering
				known[o.Offer.Model] = true
				models++
			}
			if _, err := tx.Exec(ctx, sql, id, o.Offer.Model, o.Quantization, o.Engine, o.GPU, o.FileRevision); err != nil {
				return err
			}
		}
		return nil
	})
	return refused, err
}

// knownModels returns which of the models are recorded, and how many the provider has. It
// locks the provider's row only where some are not.
func knownModels(ctx context.Context, tx pgx.Tx, id ids.ProviderID, seen []SeenOffer) (map[string]bool, int, error) {
	names := make([]string, len(seen))
	for i, o := range seen {
		names[i] = o.Offer.Model
	}
	known := map[string]bool{}
	for range 2 {
		list, err := collect(ctx, tx, pgx.RowTo[string],
			`SELECT model_id FROM offering WHERE provider_id = $1 AND model_id = ANY ($2)`, id, names)
		if err != nil {
			return nil, 0, err
		}
		for _, name := range list {
			known[name] = true
		}
		if !slices.ContainsFunc(names, func(name string) bool { return !known[name] }) {
			return known, 0, nil
		}
		// Another replica may record some before the lock is had.
		if _, err := tx.Exec(ctx, `SELECT FROM provider WHERE provider_id = $1 FOR UPDATE`, id); err != nil {
			return nil, 0, err
		}
	}
	var models int
	err := tx.QueryRow(ctx, `SELECT models FROM provider WHERE provider_id = $1`, id).Scan(&models)
	return known, models, err
}

const offeringColumns = `provider_id, model_id, rank, quantization, engine, gpu, file_revision, first_seen, seen_at,
	changed_at`

func scanOffering(row pgx.CollectableRow) (o Offering, err error) {
	err = row.Scan(&o.Offer.Provider, &o.Offer.Model, &o.Rank, &o.Quantization, &o.Engine, &o.GPU, &o.FileRevision,
		&o.FirstSeen, &o.SeenAt, &o.ChangedAt)
	o.FirstSeen, o.SeenAt, o.ChangedAt = o.FirstSeen.UTC(), o.SeenAt.UTC(), o.ChangedAt.UTC()
	return o, err
}

// ErrOffer is the error for an offer that was never seen.
var ErrOffer = errors.New("no such offer")

// Offering returns an offer, or ErrOffer.
func (s *Store) Offering(ctx context.Context, o probe.Offer) (Offering, error) {
	list, err := collect(ctx, s.pool, scanOffering, `SELECT `+offeringColumns+` FROM offering
		WHERE provider_id = $1 AND model_id = $2`, o.Provider, o.Model)
	if err != nil {
		return Offering{}, fmt.Errorf("read an offer: %w", err)
	}
	if len(list) == 0 {
		return Offering{}, fmt.Errorf("%w: %v", ErrOffer, o)
	}
	return list[0], nil
}

// Offerings returns the offers that were seen since a time, in the order of provider and
// model, behind after, at most limit.
func (s *Store) Offerings(ctx context.Context, since time.Time, after probe.Offer, limit int) ([]Offering, error) {
	list, err := collect(ctx, s.pool, scanOffering, `SELECT `+offeringColumns+` FROM offering
		WHERE seen_at >= $1 AND (provider_id, model_id) > ($2, $3) ORDER BY provider_id, model_id LIMIT $4`,
		since, [16]byte(after.Provider), after.Model, bounded(limit, MaxBatch))
	if err != nil {
		return nil, fmt.Errorf("list offers: %w", err)
	}
	return list, nil
}
