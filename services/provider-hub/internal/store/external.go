package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/provider"
)

// endpointColumns are the columns of scanEndpoint, of external_endpoint as e.
const endpointColumns = `
	e.endpoint_id, e.provider_id, e.name, e.base_url, e.key_sealed, e.key_seal, e.revision, e.state, e.last_error,
	e.checked_at, e.created_at, e.updated_at, e.disabled_at, e.disabled_reason,
	coalesce((SELECT o.shared FROM external_origin o WHERE o.origin = e.origin AND o.provider_id = e.provider_id), false),
	coalesce((SELECT l.hub_id FROM external_lease l WHERE l.endpoint_id = e.endpoint_id AND l.expires_at > now()), ''),
	(SELECT json_agg(m ORDER BY m.place) FROM external_endpoint_model m WHERE m.endpoint_id = e.endpoint_id)`

// endpointModel is a model of an endpoint as JSON has it.
type endpointModel struct {
	ID            string   `json:"model_id"`
	Local         string   `json:"local_model"`
	ContextLength int64    `json:"context_length"`
	Quantization  string   `json:"quantization"`
	Capabilities  []string `json:"capabilities"`
	Capacity      int      `json:"capacity"`
	Listed        bool     `json:"listed"`
}

func scanEndpoint(row pgx.Row) (external.Endpoint, error) {
	var e external.Endpoint
	var by []byte
	var checked, disabled *time.Time
	var models []endpointModel
	err := row.Scan(&e.ID, &e.Provider, &e.Name, &e.BaseURL, &e.Sealed.Box, &by, &e.Revision, &e.State, &e.Failure,
		&checked, &e.CreatedAt, &e.UpdatedAt, &disabled, &e.DisabledReason, &e.OriginShared, &e.HubID, &models)
	if err != nil {
		return external.Endpoint{}, err
	}
	copy(e.Sealed.By[:], by)
	e.CheckedAt, e.DisabledAt = zero(checked), zero(disabled)
	for _, m := range models {
		e.Models = append(e.Models, external.Model(m))
	}
	return e, nil
}

func collectEndpoint(row pgx.CollectableRow) (external.Endpoint, error) { return scanEndpoint(row) }

// noEndpoint turns an empty result into endpoint_not_found, and returns faults as they are.
func noEndpoint(err error, attempted string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return external.NotFound()
	}
	return missing(err, attempted)
}

// CreateEndpoint implements external.Store. The provider's row is locked, so that endpoints
// made at the same time are counted too.
func (s *Store) CreateEndpoint(
	ctx context.Context, e external.Endpoint, idempotencyKey string, by external.Author,
) (got external.Endpoint, fresh bool, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		fresh = false
		status, err := s.lockStatus(ctx, tx, e.Provider)
		if err != nil {
			return err
		}
		got, err = scanEndpoint(tx.QueryRow(ctx, `SELECT `+endpointColumns+` FROM external_endpoint e
			WHERE e.provider_id = $1 AND e.idempotency_key = $2`, e.Provider, nullText(idempotencyKey)))
		if err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err := status.Admits(); err != nil {
			return err
		}
		fresh = true
		if err := insertEndpoint(ctx, tx, e, idempotencyKey); err != nil {
			return err
		}
		if err := enterEndpoint(ctx, tx, e, status, by); err != nil {
			return err
		}
		got, err = readEndpoint(ctx, tx, e.Provider, e.ID)
		return err
	})
	return got, fresh, missing(err, "insert an external endpoint")
}

// insertEndpoint inserts an endpoint with its models. No hub calls the endpoint yet.
func insertEndpoint(ctx context.Context, tx pgx.Tx, e external.Endpoint, idempotencyKey string) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO external_endpoint (endpoint_id, provider_id, place, name, base_url, key_sealed, key_seal,
			idempotency_key, created_at, updated_at)
		SELECT $1, $2, n, $3, $4, $5, $6, $7, $8, $8 FROM generate_series(1, $9::int) n
		WHERE NOT EXISTS (SELECT FROM external_endpoint o WHERE o.provider_id = $2 AND o.place = n)
		ORDER BY n LIMIT 1`,
		e.ID, e.Provider, e.Name, e.BaseURL, e.Sealed.Box, sealName(e.Sealed), nullText(idempotencyKey), e.CreatedAt,
		external.MaxEndpoints)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return external.TooMany()
	}
	if _, err := tx.Exec(ctx, `INSERT INTO external_lease (endpoint_id) VALUES ($1)`, e.ID); err != nil {
		return err
	}
	return insertModels(ctx, tx, e)
}

func sealName(s external.Sealed) []byte {
	if s.IsZero() {
		return nil
	}
	return s.By[:]
}

// lockStatus locks a provider's row and returns its status.
func (s *Store) lockStatus(ctx context.Context, tx pgx.Tx, id ids.ProviderID) (status provider.Status, err error) {
	err = tx.QueryRow(ctx, `SELECT status FROM provider WHERE provider_id = $1 FOR UPDATE`, id).Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", errNoProvider()
	}
	return status, err
}

func insertModels(ctx context.Context, tx pgx.Tx, e external.Endpoint) error {
	b := &pgx.Batch{}
	for i, m := range e.Models {
		b.Queue(`
			INSERT INTO external_endpoint_model (endpoint_id, place, model_id, local_model, context_length, quantization,
				capabilities, capacity)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			e.ID, i+1, m.ID, m.Local, m.ContextLength, m.Quantization, m.Capabilities, m.Capacity)
	}
	return tx.SendBatch(ctx, b).Close()
}

// enterEndpoint leaves an entry in the history of the provider. A trigger keeps an
// operator's entry with the acts of operators, too.
func enterEndpoint(
	ctx context.Context, tx pgx.Tx, e external.Endpoint, status provider.Status, by external.Author,
) error {
	actor := by.Operator
	if actor == "" {
		actor = string(provider.ByProvider)
	}
	reason := e.ID.String()
	if by.Reason != "" {
		reason += ": " + by.Reason
	}
	if runes := []rune(reason); len(runes) > 200 {
		reason = string(runes[:200])
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO provider_status_change (provider_id, from_status, to_status, what, changed_by, changed_at, reason)
		VALUES ($1, $2, $2, $3, $4, now(), $5)`, e.Provider, status, by.What, actor, reason)
	if err != nil {
		return fmt.Errorf("enter a change of an external endpoint: %w", err)
	}
	return nil
}

// querier is a transaction or a pool.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readEndpoint(ctx context.Context, db querier, holder ids.ProviderID, id external.ID) (external.Endpoint, error) {
	return scanEndpoint(db.QueryRow(ctx, `SELECT `+endpointColumns+` FROM external_endpoint e
		WHERE e.endpoint_id = $1 AND ($2::uuid IS NULL OR e.provider_id = $2)`, id, nullID(holder)))
}

// Endpoint implements external.Store.
func (s *Store) Endpoint(ctx context.Context, holder ids.ProviderID, id external.ID) (external.Endpoint, error) {
	e, err := readEndpoint(ctx, s.pool, holder, id)
	return e, noEndpoint(err, "read an external endpoint")
}

// Endpoints implements external.Store.
func (s *Store) Endpoints(
	ctx context.Context, holder ids.ProviderID, offset, limit int,
) ([]external.Endpoint, int, error) {
	var total int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM external_endpoint WHERE $1::uuid IS NULL OR provider_id = $1`,
		nullID(holder)).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count external endpoints: %w", err)
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+endpointColumns+` FROM (SELECT * FROM external_endpoint WHERE $1::uuid IS NULL OR provider_id = $1
			ORDER BY created_at, endpoint_id OFFSET $2 LIMIT $3) e
		ORDER BY e.created_at, e.endpoint_id`, nullID(holder), offset, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list external endpoints: %w", err)
	}
	list, err := pgx.CollectRows(rows, collectEndpoint)
	if err != nil {
		return nil, 0, fmt.Errorf("list external endpoints: %w", err)
	}
	return list, total, nil
}

// ChangeEndpoint implements external.Store.
func (s *Store) ChangeEndpoint(
	ctx context.Context, holder ids.ProviderID, id external.ID, by external.Author,
	apply func(*external.Endpoint) error,
) (got external.Endpoint, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		e, status, err := s.lockEndpoint(ctx, tx, holder, id)
		if err != nil {
			return err
		}
		if by.Operator == "" {
			if err := status.Admits(); err != nil {
				return err
			}
		}
		was := e
		if err := apply(&e); err != nil {
			return err
		}
		if !e.DisabledAt.Equal(was.DisabledAt) || e.OriginShared != was.OriginShared {
			if err := rule(ctx, tx, e); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `
			UPDATE external_endpoint SET name = $2, base_url = $3, key_sealed = $4, key_seal = $5, revision = revision + 1,
				state = 'new', last_error = '', updated_at = $6, disabled_at = $7, disabled_reason = $8
			WHERE endpoint_id = $1`,
			id, e.Name, e.BaseURL, e.Sealed.Box, sealName(e.Sealed), e.UpdatedAt, null(e.DisabledAt),
			e.DisabledReason); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM external_endpoint_model WHERE endpoint_id = $1`, id); err != nil {
			return err
		}
		if err := insertModels(ctx, tx, e); err != nil {
			return err
		}
		if err := enterEndpoint(ctx, tx, e, status, by); err != nil {
			return err
		}
		got, err = readEndpoint(ctx, tx, holder, id)
		return err
	})
	return got, noEndpoint(err, "change an external endpoint")
}

// rule stores an operator's decision on an endpoint, for its origin and so for the other endpoints of
// the provider there. A provider that is disabled at the origin no longer holds it. A provider that may
// no longer share the origin does not hold it until its next good probe.
func rule(ctx context.Context, tx pgx.Tx, e external.Endpoint) error {
	if _, err := tx.Exec(ctx, `
		UPDATE external_origin o SET disabled_at = $2, disabled_reason = $3, shared = $4,
			held_since = CASE WHEN $2::timestamptz IS NULL AND ($4 OR NOT o.shared) THEN o.held_since END
		FROM external_endpoint e
		WHERE e.endpoint_id = $1 AND o.origin = e.origin AND o.provider_id = e.provider_id`,
		e.ID, null(e.DisabledAt), e.DisabledReason, e.OriginShared); err != nil {
		return fmt.Errorf("rule on the origin of an external endpoint: %w", err)
	}
	if _, err := tx.Exec(ctx, `
		UPDATE external_endpoint o SET disabled_at = $2, disabled_reason = $3, revision = o.revision + 1, state = 'new',
			last_error = ''
		FROM external_endpoint e
		WHERE e.endpoint_id = $1 AND o.origin = e.origin AND o.provider_id = e.provider_id AND o.endpoint_id <> $1
			AND (o.disabled_at IS NULL) <> ($2::timestamptz IS NULL)`,
		e.ID, null(e.DisabledAt), e.DisabledReason); err != nil {
		return fmt.Errorf("rule on the other endpoints at an origin: %w", err)
	}
	return nil
}

// lockEndpoint locks the row of an endpoint's provider, and reads the endpoint.
func (s *Store) lockEndpoint(
	ctx context.Context, tx pgx.Tx, holder ids.ProviderID, id external.ID,
) (external.Endpoint, provider.Status, error) {
	e, err := readEndpoint(ctx, tx, holder, id)
	if err != nil {
		return external.Endpoint{}, "", err
	}
	status, err := s.lockStatus(ctx, tx, e.Provider)
	if err != nil {
		return external.Endpoint{}, "", err
	}
	e, err = readEndpoint(ctx, tx, holder, id) // as it is under the lock
	return e, status, err
}

// DeleteEndpoint implements external.Store.
func (s *Store) DeleteEndpoint(ctx context.Context, holder ids.ProviderID, id external.ID, by external.Author) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		e, status, err := s.lockEndpoint(ctx, tx, holder, id)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM external_endpoint WHERE endpoint_id = $1`, id); err != nil {
			return err
		}
		return enterEndpoint(ctx, tx, e, status, by)
	})
	return noEndpoint(err, "delete an external endpoint")
}

// Found implements external.Store.
func (s *Store) Found(ctx context.Context, id external.ID, revision int64, f external.Finding) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE external_endpoint SET state = $3, last_error = $4, checked_at = $5
			WHERE endpoint_id = $1 AND revision = $2`, id, revision, f.State, f.Failure, f.At)
		if err != nil || tag.RowsAffected() == 0 || f.Listed == nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE external_endpoint_model SET listed = NOT listed
			WHERE endpoint_id = $1 AND listed <> (model_id = ANY ($2::text[]))`, id, f.Listed)
		return err
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.ConstraintName == "external_origin_has_one_provider" {
		return external.ErrOriginTaken
	}
	if err != nil {
		return fmt.Errorf("keep the state of an external endpoint: %w", err)
	}
	return nil
}

// Reseal implements external.Store. Each key is replaced only while it is the one that was
// read.
func (s *Store) Reseal(
	ctx context.Context, current [8]byte, after external.ID, limit int, reseal func(external.Endpoint) *external.Sealed,
) (last external.ID, more bool, err error) {
	rows, err := s.pool.Query(ctx, `SELECT `+endpointColumns+` FROM external_endpoint e
		WHERE e.key_seal <> $1 AND ($2::uuid IS NULL OR e.endpoint_id > $2) ORDER BY e.endpoint_id LIMIT $3`,
		current[:], nullID(after), limit)
	if err != nil {
		return after, false, fmt.Errorf("read keys of external endpoints: %w", err)
	}
	list, err := pgx.CollectRows(rows, collectEndpoint)
	if err != nil {
		return after, false, fmt.Errorf("read keys of external endpoints: %w", err)
	}
	for _, e := range list {
		after = e.ID
		sealed := reseal(e)
		if sealed == nil {
			continue
		}
		if _, err := s.pool.Exec(ctx, `UPDATE external_endpoint SET key_sealed = $3, key_seal = $4
			WHERE endpoint_id = $1 AND key_sealed = $2`, e.ID, e.Sealed.Box, sealed.Box, sealed.By[:]); err != nil {
			return after, false, fmt.Errorf("seal a key of an external endpoint: %w", err)
		}
	}
	return after, len(list) == limit, nil
}
