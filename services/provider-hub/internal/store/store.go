// Package store keeps providers, their keys, machines and connections, and the sequence
// of session epochs in PostgreSQL, schema hub, as role svc_hub.
//
// No statement runs for a consumer's request: a key is looked up once for each connection
// of an agent. Lists are pages. A look-up of many keys takes at most as many as one hub
// has sockets.
package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/provider"
)

// Schema and Role are where the tables live and who uses them.
const (
	Schema = "hub"
	Role   = "svc_hub"
)

// Migrations create the schema, with the functions and views beside them.
//
//go:embed migrations/*.sql functions/*.sql views/*.sql
var Migrations embed.FS

// Store holds the tables of this service. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	lull *pg.Lull
}

// New returns a store on pool.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool, lull: pg.NewLull(pool)} }

// DueAccountEvents is for the loop that publishes events of accounts; see pg.Lull.Until.
func (s *Store) DueAccountEvents() *clock.Still {
	return s.lull.Until(`SELECT min(due_at) FROM account_event`)
}

// accountColumns are the columns of scanAccount, of provider as p. A machine counts from
// when it was last seen for as long as nodes are kept. Machines are looked up row by row,
// because PostgreSQL would read everybody's machines for an EXISTS.
const accountColumns = `
	p.provider_id, p.name, p.status, p.region, p.created_at, coalesce(p.owner_address, ''), p.owner_proven_at,
	coalesce(p.beneficiary_address, ''), p.beneficiary_at,
	coalesce(p.account_id, ''), p.beneficiary_since, p.beneficiary_at_signup, p.owner_bound_at,
	(SELECT json_agg(s) FROM provider_suspension s WHERE s.provider_id = p.provider_id),
	(SELECT json_agg(d) FROM (` + proposalColumns + ` WHERE n.provider_id = p.provider_id) d),
	p.contact_email, p.hardware_summary, p.review_requested_at, p.rejected_at, p.collateral_at, p.benchmark_at,
	p.gpu_waived_at,
	p.active_since, p.probation_ends_at, p.uptime_24h, p.uptime_30d,
	p.benchmark_revision, p.collateral_revision, p.reference, p.first_active_at IS NOT NULL OR p.status = 'active',
	p.vendor,
	p.probation_left_ms, p.probation_left_until, p.probation_up_ms, p.probation_total_ms,
	coalesce((SELECT e.from_status FROM provider_expulsion e WHERE e.provider_id = p.provider_id AND e.over_at IS NULL
		ORDER BY e.expulsion_id LIMIT 1), ''),
	coalesce((SELECT e.reason FROM provider_expulsion e WHERE e.provider_id = p.provider_id AND e.over_at IS NULL
		AND e.reversed_at IS NULL ORDER BY e.expulsion_id DESC LIMIT 1), ''),
	coalesce((SELECT true FROM provider_node n WHERE n.provider_id = p.provider_id AND n.gpu_eligible LIMIT 1), false),
	coalesce((SELECT n.gpu_shortfall FROM provider_node n WHERE n.provider_id = p.provider_id
		ORDER BY n.last_seen_at DESC LIMIT 1), 'no machine has connected')`

// scanAccount reads an account as it counts now.
func scanAccount(row pgx.Row, more ...any) (provider.Account, error) {
	a, err := scanKept(row, more...)
	return a.Settled(), err
}

// scanKept reads an account as it is kept, without the proposals that fell due since.
func scanKept(row pgx.Row, more ...any) (provider.Account, error) {
	var a provider.Account
	var proposed []proposal
	var causes []suspension
	var payeeSince, bound *time.Time
	var proven, paid, reviewed, rejected, collateral, benchmark, waived, since, probation, until *time.Time
	var rest keptRest
	into := append([]any{
		&a.ID, &a.Name, &a.Status, &a.Region, &a.CreatedAt, &a.Owner, &proven, &a.Beneficiary, &paid,
		&a.Payee.AccountID, &payeeSince, &a.Payee.AtSignUp, &bound, &causes, &proposed,
		&a.Contact.Email, &a.Contact.Hardware, &reviewed, &rejected, &collateral, &benchmark, &waived,
		&since, &probation, &a.Uptime24h, &a.Uptime30d,
		&a.Facts.BenchmarkRevision, &a.Facts.CollateralRevision, &a.Reference, &a.WasActive, &a.Vendor,
		&rest.left, &until, &rest.up, &rest.total,
		&a.Removal.From, &a.Removal.Reason, &a.Facts.GPUEligible, &a.Facts.GPUShortfall,
	}, more...)
	if err := row.Scan(into...); err != nil {
		return provider.Account{}, err
	}
	a.OwnerProvenAt, a.BeneficiaryAt = zero(proven), zero(paid)
	a.Payee.Since, a.Payee.BoundAt = zero(payeeSince), zero(bound)
	a.Suspensions = suspensions(causes)
	var err error
	if a.Proposed, err = proposals(proposed); err != nil {
		return provider.Account{}, err
	}
	a.ReviewRequestedAt, a.RejectedAt = zero(reviewed), zero(rejected)
	a.Facts.CollateralAt, a.Facts.BenchmarkAt, a.Facts.GPUWaivedAt = zero(collateral), zero(benchmark), zero(waived)
	a.ActiveSince, a.ProbationEndsAt = zero(since), zero(probation)
	a.Rest = rest.of(zero(until))
	if a.Facts.GPUEligible {
		a.Facts.GPUShortfall = ""
	}
	return a, nil
}

// Create implements provider.Store.
func (s *Store) Create(ctx context.Context, a provider.Account, idempotencyKey string) (provider.Account, error) {
	var got provider.Account
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		key := nullText(idempotencyKey)
		tag, err := tx.Exec(ctx, `
			INSERT INTO provider (provider_id, name, status, region, idempotency_key, created_at)
			VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (idempotency_key) DO NOTHING`,
			a.ID, a.Name, a.Status, a.Region, key, a.CreatedAt)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			detail := map[string]any{"name": a.Name, "region": a.Region}
			if err := addAct(ctx, tx, createdProvider, a.ID.String(), detail); err != nil {
				return err
			}
			got, err = scanAccount(tx.QueryRow(ctx, `SELECT `+accountColumns+` FROM provider p WHERE p.provider_id = $1`, a.ID))
			return err
		}
		got, err = scanAccount(tx.QueryRow(ctx, `SELECT `+accountColumns+` FROM provider p WHERE p.idempotency_key = $1`,
			key))
		return err
	})
	if err != nil {
		return provider.Account{}, fmt.Errorf("insert provider: %w", err)
	}
	return got, nil
}

// Get implements provider.Store.
func (s *Store) Get(ctx context.Context, id ids.ProviderID) (provider.Account, error) {
	a, err := scanAccount(s.pool.QueryRow(ctx, `SELECT `+accountColumns+` FROM provider p WHERE p.provider_id = $1`, id))
	return a, missing(err, "read provider")
}

// List implements provider.Store.
func (s *Store) List(ctx context.Context, offset, limit int) ([]provider.Account, int, error) {
	var total int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM provider`).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count providers: %w", err)
	}
	// The page is cut before anything else is read of its rows.
	rows, err := s.pool.Query(ctx, `
		SELECT `+accountColumns+`
		FROM (SELECT * FROM provider ORDER BY created_at, provider_id OFFSET $1 LIMIT $2) p
		ORDER BY p.created_at, p.provider_id`, offset, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list providers: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (provider.Account, error) { return scanAccount(row) })
	if err != nil {
		return nil, 0, fmt.Errorf("list providers: %w", err)
	}
	return list, total, nil
}

// missing turns an empty result into provider_not_found, and returns faults as they are.
func missing(err error, attempted string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoProvider()
	}
	if _, ok := fault.As(err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", attempted, err)
}

func errNoProvider() error {
	return fault.New(fault.NotFound, fault.ProviderNotFound, "no such provider")
}
