package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// keeps is the schema with a copy of settlement's tables.
	keeps = "settlement_copy"
	// endBound is how long connections of killed processes may take to end, and endPause the pause between two looks.
	endBound = 20 * time.Second
	endPause = 50 * time.Millisecond
)

// Underway counts what settlement has yet to do about payouts, calls and collateral.
func (b *Databases) Underway(ctx context.Context) (int64, error) {
	u, err := b.Unpaid(ctx)
	return u.Payouts + u.Calls + u.Parts + u.Refunds + u.Custody, err
}

// Keep copies all tables and sequences of settlement as they are at one moment, in place of an earlier copy.
func (b *Databases) Keep(ctx context.Context) error {
	err := pgx.BeginTxFunc(ctx, b.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DROP SCHEMA IF EXISTS `+keeps+` CASCADE; CREATE SCHEMA `+keeps+`;
			CREATE TABLE `+keeps+`.schema_sequence (name text, last_value bigint, is_called boolean)`); err != nil {
			return err
		}
		names, err := tables(ctx, tx, "settlement")
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, err := tx.Exec(ctx, `CREATE UNLOGGED TABLE `+pgx.Identifier{keeps, name}.Sanitize()+
				` AS TABLE `+pgx.Identifier{"settlement", name}.Sanitize()); err != nil {
				return fmt.Errorf("table %s: %w", name, err)
			}
		}
		return eachSequence(ctx, tx, func(name string) error {
			_, err := tx.Exec(ctx, `INSERT INTO `+keeps+`.schema_sequence SELECT $1, last_value, is_called FROM `+
				pgx.Identifier{"settlement", name}.Sanitize(), name)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("copy settlement: %w", err)
	}
	return nil
}

func eachSequence(ctx context.Context, tx pgx.Tx, do func(name string) error) error {
	rows, err := tx.Query(ctx, `SELECT sequencename FROM pg_sequences WHERE schemaname = 'settlement' ORDER BY 1`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := do(name); err != nil {
			return fmt.Errorf("sequence %s: %w", name, err)
		}
	}
	return nil
}

// Lost lists the chains with confirmed payouts that the copy does not have.
func (b *Databases) Lost(ctx context.Context) ([]int64, error) {
	rows, err := b.pool.Query(ctx, `SELECT DISTINCT chain_id FROM settlement.payout p WHERE state = 'confirmed'
		AND NOT EXISTS (SELECT FROM `+keeps+`.payout k WHERE k.payout_id = p.payout_id) ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("list payouts that the copy does not have: %w", err)
	}
	chains, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("list payouts that the copy does not have: %w", err)
	}
	return chains, nil
}

// PutBack puts the copy in the place of settlement's rows, whose processes must be dead. No trigger sees it.
func (b *Databases) PutBack(ctx context.Context) error {
	if err := b.disconnect(ctx); err != nil {
		return fmt.Errorf("put settlement's copy back: %w", err)
	}
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		names, err := tables(ctx, tx, keeps)
		if err != nil {
			return err
		}
		all := make([]string, len(names))
		for i, name := range names {
			all[i] = pgx.Identifier{"settlement", name}.Sanitize()
		}
		if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica; TRUNCATE `+
			strings.Join(all, ", ")); err != nil {
			return err
		}
		for i, name := range names {
			if err := putBack(ctx, tx, name, all[i]); err != nil {
				return fmt.Errorf("table %s: %w", name, err)
			}
		}
		if _, err := tx.Exec(ctx, `SELECT setval(format('settlement.%I', name)::regclass, last_value, is_called)
			FROM `+keeps+`.schema_sequence`); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DROP SCHEMA `+keeps+` CASCADE`)
		return err
	})
	if err != nil {
		return fmt.Errorf("put settlement's copy back: %w", err)
	}
	return nil
}

// putBack fills one table, but for the columns that are computed.
func putBack(ctx context.Context, tx pgx.Tx, name, into string) error {
	var columns string
	if err := tx.QueryRow(ctx, `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, into).Scan(
		&columns); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO `+into+` (`+columns+`) OVERRIDING SYSTEM VALUE SELECT `+columns+` FROM `+
		pgx.Identifier{keeps, name}.Sanitize())
	return err
}

// disconnect ends the connections of settlement's processes: one that executes a statement outlives its client.
func (b *Databases) disconnect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endBound)
	defer cancel()
	for {
		var n int
		if err := b.pool.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pg_has_role(usesysid, 'svc_settlement', 'MEMBER')
				AND NOT (SELECT rolsuper FROM pg_roles WHERE oid = usesysid)`).Scan(&n); err != nil {
			return fmt.Errorf("end connections: %w", err)
		}
		if n == 0 {
			return nil
		}
		select {
		case <-time.After(endPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
