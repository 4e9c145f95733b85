package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/collateral"
	"svc.internal/services/settlement/internal/position"
)

// Positions keeps positions, what is known of collateral by card, and what follows from both; it implements
// position.Store and position.CardStore.
type Positions struct {
	*Store
	Terms position.Terms
}

const positionColumns = `p.chain_id, p.subject, p.depositor, p.free, p.escrow, p.refund_at, p.exit_at,
	p.booked, p.counted, p.block, p.log_index`

// nullTime reads a time that may be null, and writes a zero time as null.
type nullTime struct{ at time.Time }

// Scan reads the time.
func (t *nullTime) Scan(from any) error {
	t.at, _ = from.(time.Time)
	return nil
}

// Value is the time for PostgreSQL.
func (t nullTime) Value() (driver.Value, error) {
	if t.at.IsZero() {
		return nil, nil
	}
	return t.at, nil
}

// locked runs do in a transaction that has the row of a provider locked, and survives a crash.
func (s Positions) locked(ctx context.Context, id ids.ProviderID, do func(pgx.Tx) error) error {
	return pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, durably); err != nil {
			return err
		}
		if _, err := LockProvider(ctx, tx, id); err != nil {
			return err
		}
		return do(tx)
	})
}

func scanPosition(row pgx.CollectableRow) (position.Position, error) {
	var p position.Position
	var subject, depositor []byte
	var refund, exit nullTime
	err := row.Scan(&p.Chain, &subject, &depositor, &p.Free, &p.Escrow, &refund, &exit, &p.Booked, &p.Counted,
		&p.Last.Block, &p.Last.Index)
	copy(p.Subject[:], subject)
	copy(p.Depositor[:], depositor)
	p.RefundAt, p.ExitAt = refund.at, exit.at
	return p, err
}

// holdings reads what stands behind a provider.
func (s Positions) holdings(ctx context.Context, tx pgx.Tx, id ids.ProviderID) (h position.Holdings, err error) {
	chains := make([]int64, len(s.Terms.Chains))
	for i, r := range s.Terms.Chains {
		chains[i] = int64(r.Chain)
	}
	rows, err := tx.Query(ctx, `
		SELECT `+positionColumns+` FROM unnest($2::bigint[]) AS c(id) CROSS JOIN LATERAL (
			(SELECT * FROM position WHERE provider_id = $1 AND chain_id = c.id AND counted
				ORDER BY free + escrow DESC, depositor LIMIT $3)
			UNION
			(SELECT * FROM position WHERE provider_id = $1 AND chain_id = c.id AND counted AND exit_at IS NULL
				ORDER BY free + escrow DESC, depositor LIMIT $3)
			ORDER BY chain_id, depositor) AS p`, id, chains, position.MaxCounted)
	if err != nil {
		return h, err
	}
	if h.Positions, err = pgx.CollectRows(rows, scanPosition); err != nil {
		return h, err
	}
	err = tx.QueryRow(ctx, `SELECT free_nano_usd, owed_nano_usd, reversed, stale FROM card_collateral
		WHERE provider_id = $1`, id).Scan(&h.Card.Free, &h.Card.Owed, &h.Card.Reversed, &h.Card.Stale)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return h, err
	}
	err = tx.QueryRow(ctx, `SELECT coalesce((SELECT chain_id FROM collateral_choice WHERE provider_id = $1), 0),
		EXISTS (SELECT FROM collateral_refund WHERE provider_id = $1 AND state IN ('asked', 'paying'))`,
		id).Scan(&h.Choice, &h.Refunding)
	return h, err
}

// assess writes what follows from what stands behind a provider, whose row is locked.
func (s Positions) assess(ctx context.Context, tx pgx.Tx, id ids.ProviderID) error {
	h, err := s.holdings(ctx, tx, id)
	if err != nil {
		return fmt.Errorf("read what stands behind %s: %w", id, err)
	}
	now := s.Terms.Assess(h)
	if err := writeFact(ctx, tx, id, now); err != nil {
		return fmt.Errorf("write the collateral of %s: %w", id, err)
	}
	for _, cause := range collateral.Causes() {
		if err := writeCause(ctx, tx, id, cause, slices.Contains(now.Causes, cause)); err != nil {
			return fmt.Errorf("write the suspension of %s: %w", id, err)
		}
	}
	if now.Reversed != h.Card.Reversed {
		if err := changeCard(ctx, tx, id, `reversed = false`); err != nil {
			return err
		}
	}
	if now.Settlement == 0 {
		return nil
	}
	actor := "platform"
	if now.Settlement == h.Choice {
		actor = "provider"
	}
	return setSettlementChain(ctx, tx, id, now.Settlement, actor)
}

// writeFact writes what the hub is told of a provider's collateral, where that changes. A fact of the source
// development stays until something real is there.
func writeFact(ctx context.Context, tx pgx.Tx, id ids.ProviderID, now position.Assessment) error {
	if now.Confirmed {
		_, err := tx.Exec(ctx, `
			INSERT INTO provider_collateral AS c (provider_id, confirmed, source) VALUES ($1, true, $2)
			ON CONFLICT (provider_id) DO UPDATE SET confirmed = true, source = $2, revision = c.revision + 1,
				told_at = NULL, tried_at = NULL
			WHERE NOT c.confirmed OR c.source <> $2`, id, now.Source)
		return err
	}
	_, err := tx.Exec(ctx, `
		UPDATE provider_collateral SET confirmed = false, revision = revision + 1, told_at = NULL, tried_at = NULL
		WHERE provider_id = $1 AND confirmed AND source <> 'development'`, id)
	return err
}

// writeCause writes whether a cause holds, where that changes. A cause that never held has no row.
func writeCause(ctx context.Context, tx pgx.Tx, id ids.ProviderID, cause collateral.Cause, holds bool) error {
	if !holds {
		_, err := tx.Exec(ctx, `
			UPDATE provider_suspension SET holds = false, revision = revision + 1, told_at = NULL, tried_at = NULL
			WHERE provider_id = $1 AND cause = $2 AND holds`, id, cause)
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO provider_suspension AS c (provider_id, cause, holds) VALUES ($1, $2, true)
		ON CONFLICT (provider_id, cause) DO UPDATE SET holds = true, revision = c.revision + 1, told_at = NULL,
			tried_at = NULL
		WHERE NOT c.holds`, id, cause)
	return err
}

// changeCard changes what is known of a provider's collateral by card, and its version.
func changeCard(ctx context.Context, tx pgx.Tx, id ids.ProviderID, set string, args ...any) error {
	_, err := tx.Exec(ctx, `UPDATE card_collateral SET version = version + 1, `+set+` WHERE provider_id = $1`,
		append([]any{id}, args...)...)
	if err != nil {
		return fmt.Errorf("change the collateral by card of %s: %w", id, err)
	}
	return nil
}

// Choose sets the settlement chain that a provider wants. It reports false where the provider's collateral is not
// confirmed on that chain.
func (s Positions) Choose(ctx context.Context, id ids.ProviderID, to chain.ID) (allowed bool, err error) {
	err = s.locked(ctx, id, func(tx pgx.Tx) error {
		h, err := s.holdings(ctx, tx, id)
		if err != nil {
			return err
		}
		now := s.Terms.Assess(h)
		allowed = slices.Contains(now.Chains, to) || len(now.Chains) == 0 && now.Settlement == to
		if !allowed {
			return nil
		}
		if _, err := tx.Exec(ctx, `INSERT INTO collateral_choice (provider_id, chain_id) VALUES ($1, $2)
			ON CONFLICT (provider_id) DO UPDATE SET chain_id = $2`, id, to); err != nil {
			return err
		}
		return s.assess(ctx, tx, id)
	})
	if err != nil {
		return false, fmt.Errorf("choose the settlement chain of %s: %w", id, err)
	}
	return allowed, nil
}

// View reads what stands behind a provider.
func (s Positions) View(ctx context.Context, id ids.ProviderID) (v position.View, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			if v.Holdings, err = s.holdings(ctx, tx, id); err != nil {
				return err
			}
			v.Assessment, v.Told.ProviderID = s.Terms.Assess(v.Holdings), id
			return tx.QueryRow(ctx, `
				SELECT coalesce(c.confirmed, false), coalesce(c.source, ''), coalesce(p.settlement_chain_id, 8453),
					(SELECT coalesce(sum(nano_usd), 0)::bigint FROM penalty_part WHERE provider_id = $1
						AND chain_id IS NULL AND state IN ('opened', 'escrowed')),
					(SELECT coalesce(sum(cents), 0)::bigint * 10000000 FROM collateral_refund_part JOIN collateral_refund r
						USING (refund_id) WHERE r.provider_id = $1 AND chain_id IS NULL
						AND collateral_refund_part.state NOT IN ('done', 'cancelled', 'reversed'))
				FROM (VALUES (1)) AS one LEFT JOIN provider_collateral c ON c.provider_id = $1
					LEFT JOIN provider p ON p.provider_id = $1`, id).Scan(&v.Told.Confirmed, &v.Told.Source, &v.Paid,
				&v.CardEscrow, &v.CardLeaving)
		})
	if err != nil {
		return position.View{}, fmt.Errorf("read what stands behind %s: %w", id, err)
	}
	return v, nil
}

// Backlog counts what should not last.
func (s Positions) Backlog(ctx context.Context) (b position.Backlog, err error) {
	err = s.pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM position_event WHERE units <> 0 AND entry_id IS NULL
			AND at < clock_timestamp() - interval '15 minutes'),
		(SELECT count(*) FROM penalty_part WHERE state IN ('opened', 'escrowed', 'appealed') AND attempt > 3),
		(SELECT count(*) FROM collateral_refund WHERE state = 'paying' AND paying_at < clock_timestamp() - interval '1 day'),
		(SELECT count(*) FROM collateral_refund_part WHERE state = 'bank'),
		(SELECT count(*) FROM collateral_refund_part p JOIN collateral_refund r USING (refund_id)
			WHERE p.state = 'taken_back' AND r.paying_at < clock_timestamp() - interval '15 minutes'),
		(SELECT count(*) FROM penalty_part p JOIN penalty USING (penalty_id) WHERE p.state = 'lapsed'
			AND penalty.state = 'executed'),
		(SELECT count(*) FROM penalty_part p JOIN penalty USING (penalty_id) WHERE p.state = 'missed'
			AND p.due_at > clock_timestamp() - interval '7 days' AND penalty.state <> 'reversed'),
		(`+partsVanished("count(*)")+`)`).Scan(&b.Unposted, &b.StuckParts, &b.OverdueRefunds, &b.ByBank, &b.TakenBack,
		&b.Lapsed, &b.Missed, &b.Vanished)
	if err != nil {
		return b, fmt.Errorf("count what waits of collateral: %w", err)
	}
	return b, nil
}
