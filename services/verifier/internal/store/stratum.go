package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/quant"
)

// StratumKey identifies a stratum in the database.
type StratumKey [sha256.Size]byte

// StratumID returns the key of a stratum: the SHA-256 of its parts, each with its length.
func StratumID(t calibration.Stratum) StratumKey {
	b := []byte("svc stratum v1 ")
	for _, part := range []string{t.Model, string(t.Files[:]), string([]byte{byte(t.Class)}), t.Engine, t.GPU} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	return sha256.Sum256(b)
}

// Stratum is a stratum with what the guard against common causes says of it.
type Stratum struct {
	Key     StratumKey
	Stratum calibration.Stratum
	// CheckedAt is when the guard last found nothing, the zero time before the first check.
	CheckedAt time.Time
	// SuspectedSince is since when a common cause is suspected, for Suspicion; the zero time
	// while none is.
	SuspectedSince time.Time
	Suspicion      string
	FirstSeen      time.Time
	// Apart is how far the X of two references was apart at the last answer that both scored;
	// 0 where none was in the last ComparedFor.
	Apart float64
	// Judged reports whether offers are judged by the stratum: a reference served it within a
	// day, or a calibration of it counts.
	Judged bool
}

// counts is the condition that a calibration c counts: it is not older than two of the
// intervals after which a reference's is made anew. Where no reference made it anew, what
// honest hosts do today is not known.
const counts = `c.made_at > clock_timestamp() - interval '60 days'`

// judged is the condition that offers are judged by a stratum t. No other stratum brakes its
// model: a provider states its engine and GPU itself, so accounts that agree on an engine
// that nobody else has are a stratum of their own, in which they are all the owners.
const judged = `(EXISTS (SELECT FROM reference f WHERE (f.model_id, f.class, f.engine, f.gpu)
		= (t.model_id, t.class, t.engine, t.gpu) AND f.seen_at > clock_timestamp() - interval '1 day')
	OR EXISTS (SELECT FROM calibration c WHERE c.stratum = t.stratum AND ` + counts + `))`

// ComparedFor is how long two references count as apart without another comparison. Of two
// that still serve the stratum, one probe in fifty makes one; a stratum that nobody offers any
// more must not stop the ladder of its model for ever.
const ComparedFor = 7 * 24 * time.Hour

// compared records how far two references were apart. The answer that was judged last
// counts.
const compared = `UPDATE stratum SET apart = $2, compared_at = $3
	WHERE stratum = $1 AND (compared_at IS NULL OR compared_at <= $3)`

// ErrStratum is the error for a stratum that was never recorded.
var ErrStratum = errors.New("no such stratum")

// KeepStratum records a stratum. One that stands already stays as it is.
func (s *Store) KeepStratum(ctx context.Context, t calibration.Stratum) (StratumKey, error) {
	key := StratumID(t)
	if _, err := s.pool.Exec(ctx, `INSERT INTO stratum (stratum, model_id, files, class, engine, gpu)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (stratum) DO NOTHING`,
		key[:], t.Model, t.Files[:], int16(t.Class), t.Engine, t.GPU); err != nil {
		return StratumKey{}, fmt.Errorf("record a stratum: %w", err)
	}
	return key, nil
}

// Suspect records that a common cause is suspected in a stratum: the ladder of its model
// stands still. It returns since when, and reports whether this call was the first to say so.
// It fails with ErrStratum.
func (s *Store) Suspect(ctx context.Context, key StratumKey, why string) (since time.Time, fresh bool, err error) {
	err = s.pool.QueryRow(ctx, `UPDATE stratum SET suspected_since = clock_timestamp(), suspicion = $2
		WHERE stratum = $1 AND suspected_since IS NULL RETURNING suspected_since`, key[:], cut(why, 200)).Scan(&since)
	if fresh = err == nil; errors.Is(err, pgx.ErrNoRows) {
		since, err = s.suspected(ctx, key)
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("suspect a common cause: %w", err)
	}
	return since.UTC(), fresh, nil
}

// suspected returns since when a common cause is suspected; the zero time while none is.
func (s *Store) suspected(ctx context.Context, key StratumKey) (time.Time, error) {
	var since *time.Time
	err := s.pool.QueryRow(ctx, `SELECT suspected_since FROM stratum WHERE stratum = $1`, key[:]).Scan(&since)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrStratum
	}
	return timeOf(since), err
}

// Cleared records that the guard found nothing in a stratum as it was at a time, and ends a
// suspicion. What came up since then stays: another replica may have seen it. It fails with
// ErrStratum.
func (s *Store) Cleared(ctx context.Context, key StratumKey, asOf time.Time) error {
	cleared, err := exec(ctx, s.pool, `UPDATE stratum SET checked_at = greatest(checked_at, $2), suspected_since = NULL,
			suspicion = NULL
		WHERE stratum = $1 AND (suspected_since IS NULL OR suspected_since < $2)
			AND (compared_at IS NULL OR compared_at <= $2)`, key[:], asOf)
	if err == nil && !cleared {
		_, err = s.suspected(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("clear a stratum: %w", err)
	}
	return nil
}

// Strata returns the strata of a model, all for an empty name, in the order of their keys,
// behind after, at most limit.
func (s *Store) Strata(ctx context.Context, model string, after StratumKey, limit int) ([]Stratum, error) {
	list, err := collect(ctx, s.pool, scanStratum, `SELECT stratum, model_id, files, class, engine, gpu, checked_at,
			suspected_since, coalesce(suspicion, ''), first_seen, `+judged+`,
			CASE WHEN compared_at > clock_timestamp() - $4::interval THEN apart ELSE 0 END
		FROM stratum t WHERE ($1 = '' OR model_id = $1) AND stratum > $2 ORDER BY stratum LIMIT $3`,
		model, after[:], bounded(limit, MaxBatch), ComparedFor)
	if err != nil {
		return nil, fmt.Errorf("list strata: %w", err)
	}
	return list, nil
}

func scanStratum(row pgx.CollectableRow) (t Stratum, err error) {
	var key, files []byte
	var class int16
	var checked, suspected *time.Time
	err = row.Scan(&key, &t.Stratum.Model, &files, &class, &t.Stratum.Engine, &t.Stratum.GPU, &checked, &suspected,
		&t.Suspicion, &t.FirstSeen, &t.Judged, &t.Apart)
	copy(t.Key[:], key)
	copy(t.Stratum.Files[:], files)
	t.Stratum.Class = quant.Class(class)
	t.CheckedAt, t.SuspectedSince, t.FirstSeen = timeOf(checked), timeOf(suspected), t.FirstSeen.UTC()
	return t, err
}

// Exceedance is what the observations of one provider in a stratum say.
type Exceedance struct {
	Provider [16]byte
	// Observed and Exceeded count its observations of all families but those that were
	// visible.
	Observed, Exceeded int
}

// Exceedances returns what was observed in a stratum since a time, by provider, for the
// guard against common causes.
func (s *Store) Exceedances(ctx context.Context, key StratumKey, since time.Time) ([]Exceedance, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (e Exceedance, err error) {
		err = row.Scan(&e.Provider, &e.Observed, &e.Exceeded)
		return e, err
	}, `SELECT provider_id, count(*), count(*) FILTER (WHERE exceeded) FROM observation
		WHERE stratum = $1 AND at >= $2 AND family <> 'visible' GROUP BY provider_id ORDER BY provider_id LIMIT $3`,
		key[:], since, maxProviders)
	if err != nil {
		return nil, fmt.Errorf("read the observations of a stratum: %w", err)
	}
	return list, nil
}

// maxProviders bounds the providers of a stratum that are looked at.
const maxProviders = 100_000
