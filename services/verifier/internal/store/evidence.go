package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
)

// Pieces returns the evidence of an offer from one event to another, in order, at most limit.
func (s *Store) Pieces(ctx context.Context, o probe.Offer, from, to int64, limit int) ([]keep.Piece, error) {
	list, err := collect(ctx, s.pool, scanPiece, `
		SELECT v.piece_id, v.provider_id, v.model_id, v.number, v.day, v.recorded_at, v.plain_bytes, v.leaf, b.link, v.link,
			v.sealed IS NULL
		FROM evidence v LEFT JOIN evidence b
			ON b.provider_id = v.provider_id AND b.model_id = v.model_id AND b.number = v.number - 1
		WHERE v.provider_id = $1 AND v.model_id = $2 AND v.number BETWEEN $3 AND $4 ORDER BY v.number LIMIT $5`,
		o.Provider, o.Model, from, to, bounded(limit, MaxBatch))
	if err != nil {
		return nil, fmt.Errorf("list the evidence of an offer: %w", err)
	}
	return list, nil
}

func scanPiece(row pgx.CollectableRow) (p keep.Piece, err error) {
	var leaf, previous, link []byte
	err = row.Scan(&p.ID, &p.Offer.Provider, &p.Offer.Model, &p.Number, &p.Day, &p.RecordedAt, &p.PlainBytes, &leaf,
		&previous, &link, &p.Cleared)
	copy(p.Leaf[:], leaf)
	copy(p.Previous[:], previous)
	copy(p.Link[:], link)
	p.RecordedAt = p.RecordedAt.UTC()
	return p, err
}

// Span returns the offer of a verdict, and the first and the last event of its evidence. It
// fails with ErrVerdict.
func (s *Store) Span(ctx context.Context, id probe.VerdictID) (o probe.Offer, first, last int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT provider_id, model_id, first_number, number FROM verdict WHERE verdict_id =
		$1`, id).
		Scan(&o.Provider, &o.Model, &first, &last)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrVerdict
	}
	if err != nil {
		return probe.Offer{}, 0, 0, fmt.Errorf("find the evidence of a verdict: %w", err)
	}
	return o, first, last, nil
}

// SealedPiece returns the sealed bytes of a piece. It fails with keep.ErrCleared
// and keep.ErrPiece.
func (s *Store) SealedPiece(ctx context.Context, id replay.ID) ([]byte, error) {
	var sealed []byte
	err := s.pool.QueryRow(ctx, `SELECT sealed FROM evidence WHERE piece_id = $1`, id).Scan(&sealed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, keep.ErrPiece
	case err != nil:
		return nil, fmt.Errorf("read a piece of evidence: %w", err)
	case sealed == nil:
		return nil, keep.ErrCleared
	}
	return sealed, nil
}

const sealColumns = `day, pieces, root, link, sealed_at`

func scanSeal(row pgx.CollectableRow) (d keep.DaySeal, err error) {
	var root, link []byte
	err = row.Scan(&d.Day, &d.Pieces, &root, &link, &d.SealedAt)
	copy(d.Root[:], root)
	copy(d.Link[:], link)
	d.SealedAt = d.SealedAt.UTC()
	return d, err
}

// Seals returns the seals of days, the last first, before a day (the zero time for the
// last), at most limit.
func (s *Store) Seals(ctx context.Context, before time.Time, limit int) ([]keep.DaySeal, error) {
	list, err := collect(ctx, s.pool, scanSeal, `SELECT `+sealColumns+` FROM seal
		WHERE ($1::date IS NULL OR day < $1) ORDER BY day DESC LIMIT $2`, timeOrNull(before), bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the seals of days: %w", err)
	}
	return list, nil
}

// SealDays seals the days that are over and not sealed: every one with evidence, and
// yesterday. A second call, or another replica's, seals nothing more. While it works no
// piece is added, so that no root lacks one.
func (s *Store) SealDays(ctx context.Context) (sealed []keep.DaySeal, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		sealed = nil
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('verifier.seal'), 0)`); err != nil {
			return err
		}
		last, days, err := unsealed(ctx, tx)
		if err != nil {
			return err
		}
		for _, day := range days {
			d, err := sealDay(ctx, tx, day, last.Link)
			if err != nil {
				return err
			}
			sealed, last = append(sealed, d), d
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("seal days of evidence: %w", err)
	}
	return sealed, nil
}

// maxSealedDays bounds the days of one call; the next call seals further ones.
const maxSealedDays = 400

// unsealed returns the last seal and the days behind it that are to be sealed, in order.
func unsealed(ctx context.Context, tx pgx.Tx) (last keep.DaySeal, days []time.Time, err error) {
	list, err := collect(ctx, tx, scanSeal, `SELECT `+sealColumns+` FROM seal ORDER BY day DESC LIMIT 1`)
	if err != nil {
		return keep.DaySeal{}, nil, err
	}
	if len(list) > 0 {
		last = list[0]
	}
	days, err = collect(ctx, tx, pgx.RowTo[time.Time], `
		WITH yesterday AS (SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date - 1 AS day)
		SELECT day FROM (SELECT DISTINCT v.day FROM evidence v, yesterday y WHERE v.day <= y.day AND ($1::date IS NULL
			OR v.day > $1)
			UNION SELECT y.day FROM yesterday y WHERE $1::date IS NULL OR y.day > $1) AS d ORDER BY day LIMIT $2`,
		timeOrNull(last.Day), maxSealedDays)
	return last, days, err
}

func sealDay(ctx context.Context, tx pgx.Tx, day time.Time, previous archive.Link) (keep.DaySeal, error) {
	leaves, err := leavesOf(ctx, tx, day)
	if err != nil {
		return keep.DaySeal{}, err
	}
	root, err := archive.RootOf(leaves)
	if err != nil {
		return keep.DaySeal{}, err
	}
	link := archive.Next(previous, archive.Leaf(root))
	list, err := collect(ctx, tx, scanSeal, `INSERT INTO seal (day, pieces, root, link) VALUES ($1, $2, $3, $4)
		RETURNING `+sealColumns, day, len(leaves), root[:], link[:])
	if err != nil {
		return keep.DaySeal{}, err
	}
	return list[0], nil
}

func leavesOf(ctx context.Context, db querier, day time.Time) ([]archive.Leaf, error) {
	return collect(ctx, db, func(row pgx.CollectableRow) (leaf archive.Leaf, err error) {
		var b []byte
		err = row.Scan(&b)
		copy(leaf[:], b)
		return leaf, err
	}, `SELECT leaf FROM evidence WHERE day = $1 ORDER BY provider_id, model_id, number`, day)
}

// Leaves returns the leaves of a day in the order of its root.
func (s *Store) Leaves(ctx context.Context, day time.Time) ([]archive.Leaf, error) {
	list, err := leavesOf(ctx, s.pool, day)
	if err != nil {
		return nil, fmt.Errorf("read the leaves of a day: %w", err)
	}
	return list, nil
}

// LeafIndex returns the place of a piece among the leaves of its day.
func (s *Store) LeafIndex(ctx context.Context, p keep.Piece) (int, error) {
	var n int
	err := s.pool.QueryRow(ctx, `SELECT count(*) FROM evidence
		WHERE day = $1 AND (provider_id, model_id, number) < ($2, $3,
			$4)`, p.Day, p.Offer.Provider, p.Offer.Model, p.Number).
		Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("find a piece in its day: %w", err)
	}
	return n, nil
}

// A chain is broken behind a number that is not the next, at a link that is not the hash of
// the one before and the leaf, and at its end where the standing counts further.
const selectBreaks = `
WITH chain AS (
	SELECT provider_id, model_id, number, leaf, link,
		lag(number, 1, 0::bigint) OVER w AS before, lag(link, 1, decode(repeat('00', 32), 'hex')) OVER w AS previous
	FROM evidence WHERE ($1::uuid IS NULL OR provider_id = $1) AND ($2::text = '' OR model_id = $2)
	WINDOW w AS (PARTITION BY provider_id, model_id ORDER BY number)
)
SELECT provider_id, model_id, number, why FROM (
	SELECT provider_id, model_id, before + 1 AS number, 'missing' AS why FROM chain WHERE number <> before + 1
	UNION ALL
	SELECT provider_id, model_id, number, 'link' FROM chain WHERE number = before + 1
		AND link <> sha256(convert_to('svc evidence link v1 ', 'UTF8') || previous || leaf)
	UNION ALL
	SELECT s.provider_id, s.model_id, s.number, 'ahead' FROM standing s
	WHERE ($1::uuid IS NULL OR s.provider_id = $1) AND ($2::text = '' OR s.model_id = $2)
		AND s.number <> (SELECT coalesce(max(v.number), 0) FROM evidence v
			WHERE v.provider_id = s.provider_id AND v.model_id = s.model_id)
) AS broken ORDER BY provider_id, model_id, number, why LIMIT $3`

// Breaks returns where the chain of an offer is broken, at most MaxPage places; of all
// offers for the zero offer. A whole chain has none, whether or not its bytes are cleared.
func (s *Store) Breaks(ctx context.Context, o probe.Offer) ([]keep.Break, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (b keep.Break, err error) {
		err = row.Scan(&b.Offer.Provider, &b.Offer.Model, &b.Number, &b.Why)
		return b, err
	}, selectBreaks, o.Provider, o.Model, MaxPage)
	if err != nil {
		return nil, fmt.Errorf("look for breaks in the evidence: %w", err)
	}
	return list, nil
}

const clearEvidence = `
UPDATE evidence SET sealed = NULL, cleared_at = clock_timestamp() WHERE piece_id IN (
	SELECT v.piece_id FROM evidence v
	WHERE v.sealed IS NOT NULL AND v.recorded_at <= (SELECT clock_timestamp()) - $1::interval
		AND NOT EXISTS (SELECT FROM verdict d
			WHERE d.provider_id = v.provider_id AND d.model_id = v.model_id AND (d.share_basis_points > 0 OR d.needs_operator)
				AND v.number BETWEEN d.first_number AND d.number
				AND penalty_ended_at(d.verdict_id) > (SELECT clock_timestamp()) - $2::interval)
	ORDER BY v.recorded_at, v.piece_id LIMIT $3 FOR UPDATE SKIP LOCKED)`

// ClearEvidence deletes the sealed bytes of pieces whose time is over, at most limit, and
// returns how many it deleted. Leaf and link stay, so that the chain stays whole.
func (s *Store) ClearEvidence(ctx context.Context, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, clearEvidence, keep.Retention, keep.PenaltyRetention, bounded(limit, MaxBatch))
	if err != nil {
		return 0, fmt.Errorf("clear evidence: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// ForgetShapes removes the hours of shapes that no week holds any more.
func (s *Store) ForgetShapes(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, forgetShapes); err != nil {
		return fmt.Errorf("forget the shapes of old hours: %w", err)
	}
	return nil
}
