package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/provider"
)

// Change implements provider.Store. The row is locked, so that two callers at once cannot
// both leave the status that they saw. Each move is an update of its own, because the
// database checks moves one by one.
func (s *Store) Change(
	ctx context.Context, id ids.ProviderID, apply func(*provider.Account) ([]provider.Entry, error),
) (provider.Account, error) {
	var a provider.Account
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var err error
		a, err = locked(ctx, tx, id)
		if err != nil {
			return err
		}
		before := a
		entries, err := apply(&a)
		if err != nil {
			return err
		}
		return keepChange(ctx, tx, before, &a, entries)
	})
	return a, missing(owned(err), "change provider")
}

// keepChange writes what apply made of an account whose row is locked.
func keepChange(
	ctx context.Context, tx pgx.Tx, before provider.Account, a *provider.Account, entries []provider.Entry,
) error {
	if *a == before && len(entries) == 0 {
		return nil
	}
	if err := allowPayouts(ctx, tx, a.ID, entries); err != nil {
		return err
	}
	if err := keep(ctx, tx, before, a, entries); err != nil {
		return err
	}
	if before.Proposed == a.Proposed {
		return nil
	}
	return keepProposals(ctx, tx, a, before.Proposed)
}

// locked reads an account whose row nobody else changes. The lock is taken first, because
// a statement that waits for the lock reads what was there when the statement began.
func locked(ctx context.Context, tx pgx.Tx, id ids.ProviderID) (provider.Account, error) {
	if _, err := tx.Exec(ctx, `SELECT FROM provider WHERE provider_id = $1 FOR UPDATE`, id); err != nil {
		return provider.Account{}, err
	}
	return scanKept(tx.QueryRow(ctx, `SELECT `+accountColumns+` FROM provider p WHERE p.provider_id = $1`, id))
}

// Proposals and changes of where earnings go, and whose wallet owns the account, have two bounds: one of
// what keys ask for, and one of what the account's user changes. A key may have leaked, and whoever has
// it keeps no user from a change. A user's confirmation counts in neither, because the proposal does. Each
// condition is the one of an index.
const (
	askedByKeys = `(what IN ('beneficiary_proposed', 'owner_proposed')
		OR what = 'beneficiary' AND changed_by = 'provider')`
	setByUser = `what = 'beneficiary_set'`
)

// addressBound returns the condition of the entries that an entry is counted with; empty for an entry
// that counts against no bound.
func addressBound(e provider.Entry) (counted string) {
	switch e.What {
	case provider.BeneficiaryProposed, provider.OwnerProposed:
		return askedByKeys
	case provider.BeneficiaryChanged:
		if e.By == provider.ByProvider {
			return askedByKeys
		}
	case provider.BeneficiarySet:
		return setByUser
	}
	return ""
}

// oldestCounted returns the statement that reads when the first entry was made of as many as a bound
// allows ($3, less one) of a provider ($1) since a time ($2).
func oldestCounted(counted string) string {
	return `SELECT changed_at FROM provider_status_change WHERE provider_id = $1 AND changed_at > $2 AND ` + counted + `
		ORDER BY changed_at DESC OFFSET $3 LIMIT 1`
}

// allowPayouts refuses more proposals and changes of where earnings go, and whose wallet
// owns the account, than a day may have.
func allowPayouts(ctx context.Context, tx pgx.Tx, id ids.ProviderID, entries []provider.Entry) error {
	for _, e := range entries {
		counted := addressBound(e)
		if counted == "" {
			continue
		}
		oldest, err := timeOf(tx.QueryRow(ctx, oldestCounted(counted), id, e.At.Add(-provider.OftenWithin),
			provider.MaxChanges-1))
		if err != nil {
			return err
		}
		if !oldest.IsZero() {
			return provider.TooOften("where earnings go changes", oldest, e.At)
		}
	}
	return nil
}

// timeOf reads a time; zero for no row.
func timeOf(row pgx.Row) (at time.Time, err error) {
	if err = row.Scan(&at); errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return at, err
}

// keep writes an account that apply has changed.
func keep(
	ctx context.Context, tx pgx.Tx, before provider.Account, a *provider.Account, entries []provider.Entry,
) error {
	b := &pgx.Batch{}
	keepSuspensions(b, a, before.Suspensions)
	// First, because no status that follows is active while the account is a reference.
	b.Queue(`UPDATE provider SET reference = $2 WHERE provider_id = $1 AND reference <> $2`, a.ID, a.Reference)
	for _, e := range entries {
		b.Queue(`
			INSERT INTO provider_status_change (provider_id, from_status, to_status, what, changed_by, reason, changed_at,
				old_address, new_address, key_id, proposal_id, verdict_id, cause)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
			a.ID, e.From, e.To, e.What, e.By, e.Reason, e.At, nullText(e.Payout.From), nullText(e.Payout.To),
			nullID(e.Payout.Key), nullID(e.Proposal), nullID(e.Verdict), nullText(string(e.Cause)))
		if e.From != e.To {
			b.Queue(`UPDATE provider SET status = $2 WHERE provider_id = $1`, a.ID, e.To)
		}
	}
	rest := restOf(a.Rest)
	b.Queue(`
		UPDATE provider SET name = $2, contact_email = $3, hardware_summary = $4, review_requested_at = $5, rejected_at = $6,
			collateral_at = $7, benchmark_at = $8, gpu_waived_at = $9, gpu_waived_once = false,
			active_since = $10, probation_ends_at = $11,
			owner_address = $12, owner_proven_at = $13, beneficiary_address = $14, beneficiary_at = $15,
			benchmark_revision = $16, collateral_revision = $17, probation_left_ms = $18,
			probation_left_until = $19, probation_up_ms = $20, probation_total_ms = $21, account_id = $22
		WHERE provider_id = $1`,
		a.ID, a.Name, a.Contact.Email, a.Contact.Hardware, null(a.ReviewRequestedAt), null(a.RejectedAt),
		null(a.Facts.CollateralAt), null(a.Facts.BenchmarkAt), null(a.Facts.GPUWaivedAt), null(a.ActiveSince),
		null(a.ProbationEndsAt),
		nullText(a.Owner), null(a.OwnerProvenAt), nullText(a.Beneficiary), null(a.BeneficiaryAt),
		a.Facts.BenchmarkRevision, a.Facts.CollateralRevision, rest.left, null(a.Rest.Until), rest.up, rest.total,
		nullText(a.Payee.AccountID))
	return tx.SendBatch(ctx, b).Close()
}

// History implements provider.Store.
func (s *Store) History(ctx context.Context, id ids.ProviderID, offset, limit int) ([]provider.Entry, int, error) {
	var total int
	err := s.pool.QueryRow(ctx, `SELECT count(*) FROM provider_status_change WHERE provider_id = $1`, id).Scan(&total)
	if err != nil {
		return nil, 0, fmt.Errorf("count status changes: %w", err)
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+entryColumns+`
		FROM provider_status_change c WHERE provider_id = $1
		ORDER BY change_id DESC OFFSET $2 LIMIT $3`, id, offset, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list status changes: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, 0, fmt.Errorf("list status changes: %w", err)
	}
	return list, total, nil
}

// entryColumns are the columns of scanEntry, of provider_status_change as c.
const entryColumns = `
	c.changed_at, c.what, c.from_status, c.to_status, c.changed_by, c.reason, coalesce(c.old_address, ''),
	coalesce(c.new_address, ''), c.key_id, c.proposal_id, c.verdict_id, coalesce(c.cause, '')`

func scanEntry(row pgx.CollectableRow) (e provider.Entry, err error) {
	var key *ids.KeyID
	var proposal *ids.ProposalID
	var verdict *provider.VerdictID
	err = row.Scan(&e.At, &e.What, &e.From, &e.To, &e.By, &e.Reason, &e.Payout.From, &e.Payout.To, &key, &proposal,
		&verdict, &e.Cause)
	if key != nil {
		e.Payout.Key = *key
	}
	if proposal != nil {
		e.Proposal = *proposal
	}
	if verdict != nil {
		e.Verdict = *verdict
	}
	return e, err
}

// LeftActive implements provider.Store. All entries of a change have one time, and a fact
// that is withdrawn has its entry before the status that rested on it.
func (s *Store) LeftActive(ctx context.Context, id ids.ProviderID) ([]provider.Entry, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+entryColumns+`
		FROM (SELECT * FROM provider_status_change
			WHERE provider_id = $1 AND from_status = 'active' AND to_status <> 'active'
			ORDER BY change_id DESC LIMIT 1) l
		JOIN provider_status_change c ON c.provider_id = l.provider_id AND c.changed_at = l.changed_at
			AND c.change_id <= l.change_id
		ORDER BY c.change_id`, id)
	if err != nil {
		return nil, fmt.Errorf("read why a provider is active no longer: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read why a provider is active no longer: %w", err)
	}
	return list, nil
}

// Overdue implements provider.Store.
func (s *Store) Overdue(ctx context.Context, now, expired time.Time, limit int) (due provider.Overdue, err error) {
	if due.Probations, err = s.due(ctx, `
		SELECT provider_id FROM provider
		WHERE status = 'active' AND probation_ends_at <= $1 ORDER BY probation_ends_at LIMIT $2`, now, limit); err != nil {
		return provider.Overdue{}, err
	}
	if due.Benchmarks, err = s.due(ctx, `
		SELECT provider_id FROM provider
		WHERE status = 'active' AND NOT vendor AND (benchmark_at <= $1 OR benchmark_at IS NULL)
		ORDER BY benchmark_at LIMIT $2`,
		expired, limit); err != nil {
		return provider.Overdue{}, err
	}
	if due.Qualified, err = s.Qualified(ctx, expired, limit); err != nil {
		return provider.Overdue{}, err
	}
	due.Proposals, err = s.settling(ctx, limit)
	return due, err
}

// Qualified implements provider.Store.
func (s *Store) Qualified(ctx context.Context, expired time.Time, limit int) ([]ids.ProviderID, error) {
	return s.due(ctx, `
		SELECT provider_id FROM provider p
		WHERE status IN ('pending', 'activating') AND NOT reference AND collateral_at IS NOT NULL AND benchmark_at > $1
			AND (gpu_waived_at IS NOT NULL
				OR EXISTS (SELECT FROM provider_node n WHERE n.provider_id = p.provider_id AND n.gpu_eligible))
		UNION ALL SELECT provider_id FROM provider WHERE vendor AND status IN ('pending', 'activating')
		LIMIT $2`, expired, limit)
}

func (s *Store) due(ctx context.Context, sql string, at time.Time, limit int) ([]ids.ProviderID, error) {
	rows, err := s.pool.Query(ctx, sql, at, limit)
	if err != nil {
		return nil, fmt.Errorf("read the providers that are due: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[ids.ProviderID])
	if err != nil {
		return nil, fmt.Errorf("read the providers that are due: %w", err)
	}
	return list, nil
}
