package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
)

type calibrationRun struct{}

// CalibrationRunID names a run of challenges to honest hosts.
type CalibrationRunID = ids.Of[calibrationRun]

// CalibrationState is where a run of a calibration stands.
type CalibrationState string

// The states. Finished and Abandoned are final.
const (
	CalibrationRunning   CalibrationState = "running"
	CalibrationFinished  CalibrationState = "finished"
	CalibrationAbandoned CalibrationState = "abandoned"
)

// CalibrationRun is a run of challenges to honest hosts.
type CalibrationRun struct {
	ID      CalibrationRunID
	Stratum Stratum
	State   CalibrationState
	// Reason is why the run was abandoned.
	Reason             string
	StartedAt, EndedAt time.Time
	// Samples counts what was measured.
	Samples int
}

// Sample is what one challenge of a run measured.
type Sample struct {
	Family evidence.Family
	// Number names the challenge within the run, family and class, from 1.
	Number int
	Host   string
	// Cheaper reports whether the host serves the next cheaper class, for the family's power.
	Cheaper bool
	// Body is what package calibrate keeps of it, at most 4,096 bytes.
	Body []byte
}

// ErrCalibrationRun is the error for a run that is not running.
var ErrCalibrationRun = errors.New("the run of the calibration is not running")

// StartCalibration begins a run of a stratum, or returns the run that is under way. fresh
// reports which. It fails with ErrStratum.
func (s *Store) StartCalibration(ctx context.Context, key StratumKey) (id CalibrationRunID, fresh bool, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		// Of two that begin at once the second waits here and finds the first's run.
		known, err := exec(ctx, tx, `SELECT FROM stratum WHERE stratum = $1 FOR UPDATE`, key[:])
		if err != nil || !known {
			return errors.Join(err, notKnown(known, ErrStratum))
		}
		err = tx.QueryRow(ctx, `SELECT run_id FROM calibration_run WHERE stratum = $1 AND state =
			'running'`, key[:]).Scan(&id)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
			return err
		}
		if id, err = ids.New[calibrationRun](now, rand.Reader); err != nil {
			return err
		}
		fresh = true
		if _, err = tx.Exec(ctx, `INSERT INTO calibration_run (run_id, stratum) VALUES ($1, $2)`, id, key[:]); err != nil {
			return err
		}
		return auditCalibration(ctx, tx, key, id)
	})
	if err != nil {
		return CalibrationRunID{}, false, fmt.Errorf("begin a calibration: %w", err)
	}
	return id, fresh, nil
}

// auditCalibration keeps that an operator began a run, unless the run is due by itself.
func auditCalibration(ctx context.Context, tx pgx.Tx, key StratumKey, id CalibrationRunID) error {
	if !actor.InOperatorsCall(ctx) {
		return nil
	}
	var model string
	if err := tx.QueryRow(ctx, `SELECT model_id FROM stratum WHERE stratum = $1`, key[:]).Scan(&model); err != nil {
		return err
	}
	return addAct(ctx, tx, actor.OfOperator(ctx), beganCalibration, model, map[string]any{"run_id": id.String()})
}

func notKnown(known bool, err error) error {
	if known {
		return nil
	}
	return err
}

// AddSamples records what challenges of a run measured. A challenge that is recorded
// already stays as it is. It fails with ErrCalibrationRun and ErrBatch.
func (s *Store) AddSamples(ctx context.Context, run CalibrationRunID, samples ...Sample) error {
	if len(samples) > MaxBatch {
		return fmt.Errorf("%w: %d samples", ErrBatch, len(samples))
	}
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for _, p := range samples {
			batch.Queue(`INSERT INTO calibration_sample (run_id, family, number, host, cheaper, body)
				VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (run_id, family, cheaper, number) DO NOTHING`,
				run, p.Family.String(), p.Number, p.Host, p.Cheaper, p.Body)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	switch {
	case pg.IsCheck(err, "calibration_run_running"):
		return ErrCalibrationRun
	case err != nil:
		return fmt.Errorf("record %d samples of a calibration: %w", len(samples), err)
	}
	return nil
}

// Samples returns what a run measured for a family, in the order of class and number. There
// are at most calibration.MaxChallenges of each class.
func (s *Store) Samples(ctx context.Context, run CalibrationRunID, f evidence.Family) ([]Sample, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (p Sample, err error) {
		p.Family = f
		err = row.Scan(&p.Number, &p.Host, &p.Cheaper, &p.Body)
		return p, err
	}, `SELECT number, host, cheaper, body FROM calibration_sample WHERE run_id = $1 AND family = $2
		ORDER BY cheaper, number LIMIT $3`, run, f.String(), 2*calibration.MaxChallenges)
	if err != nil {
		return nil, fmt.Errorf("read the samples of a calibration: %w", err)
	}
	return list, nil
}

// Fitted is a calibration that a run ends with.
type Fitted struct {
	Calibration calibration.Calibration
	// Penal reports whether it reaches as far as a penalty.
	Penal bool
}

// FinishCalibration ends a run with its calibrations, all or none, which count from now on.
// It fails with ErrCalibrationRun.
func (s *Store) FinishCalibration(ctx context.Context, run CalibrationRunID, fitted ...Fitted) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, durably); err != nil {
			return err
		}
		for _, f := range fitted {
			if err := keepCalibration(ctx, tx, run, f); err != nil {
				return err
			}
		}
		err := endCalibration(ctx, tx, run, CalibrationFinished, nil)
		crash.At("verifier.calibration.before_commit")
		return err
	})
	if pg.IsCheck(err, "calibration_run_running") {
		err = ErrCalibrationRun
	}
	if err != nil {
		return fmt.Errorf("finish a calibration: %w", err)
	}
	crash.At("verifier.calibration.committed")
	return nil
}

func keepCalibration(ctx context.Context, tx pgx.Tx, run CalibrationRunID, f Fitted) error {
	body, err := f.Calibration.Encode()
	if err != nil {
		return err
	}
	hash, err := f.Calibration.Hash()
	if err != nil {
		return err
	}
	key := StratumID(f.Calibration.Stratum)
	_, err = tx.Exec(ctx, `INSERT INTO calibration (calibration, stratum, family, run_id, body, penal)
		VALUES ($1, $2, $3, $4, $5, $6)`, hash[:], key[:], f.Calibration.Family.String(), run, body, f.Penal)
	return err
}

// AbandonCalibration ends a run without a calibration. It fails with ErrCalibrationRun.
func (s *Store) AbandonCalibration(ctx context.Context, run CalibrationRunID, reason string) error {
	text := cut(reason, 200)
	if err := endCalibration(ctx, s.pool, run, CalibrationAbandoned, &text); err != nil {
		return fmt.Errorf("abandon a calibration: %w", err)
	}
	return nil
}

func endCalibration(
	ctx context.Context, db querier, run CalibrationRunID, state CalibrationState, reason *string,
) error {
	ok, err := exec(ctx, db, `UPDATE calibration_run SET state = $2, reason = $3 WHERE run_id = $1 AND state =
		'running'`,
		run, state, reason)
	if err != nil {
		return err
	}
	return notKnown(ok, ErrCalibrationRun)
}

// CalibrationRuns returns runs, the last begun first, before a run (zero for the last), at
// most limit.
func (s *Store) CalibrationRuns(ctx context.Context, before CalibrationRunID, limit int) ([]CalibrationRun, error) {
	return s.calibrationRuns(ctx, `$1::uuid IS NULL OR r.run_id < $1`, before, limit)
}

// RunningCalibrations returns the runs that have no end, the last begun first, at most
// limit.
func (s *Store) RunningCalibrations(ctx context.Context, limit int) ([]CalibrationRun, error) {
	return s.calibrationRuns(ctx, `r.state = 'running' AND $1::uuid IS NULL`, CalibrationRunID{}, limit)
}

func (s *Store) calibrationRuns(
	ctx context.Context, which string, id CalibrationRunID, limit int,
) ([]CalibrationRun, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (r CalibrationRun, err error) {
		var key, files []byte
		var ended *time.Time
		t := &r.Stratum.Stratum
		err = row.Scan(&r.ID, &key, &t.Model, &files, &t.Class, &t.Engine, &t.GPU, &r.State, &r.Reason, &r.StartedAt, &ended,
			&r.Samples)
		copy(r.Stratum.Key[:], key)
		copy(t.Files[:], files)
		r.StartedAt, r.EndedAt = r.StartedAt.UTC(), timeOf(ended)
		return r, err
	}, `SELECT r.run_id, r.stratum, t.model_id, t.files, t.class, t.engine, t.gpu, r.state, coalesce(r.reason, ''),
			r.started_at, r.ended_at, (SELECT count(*) FROM calibration_sample p WHERE p.run_id = r.run_id)
		FROM calibration_run r JOIN stratum t USING (stratum) WHERE `+which+` ORDER BY r.run_id DESC LIMIT $2`,
		id, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list runs of calibrations: %w", err)
	}
	return list, nil
}

// Calibrated is a calibration as it is kept.
type Calibrated struct {
	Hash        calibration.Hash
	Stratum     StratumKey
	Calibration calibration.Calibration
	Penal       bool
	MadeAt      time.Time
}

// Calibrations returns the calibrations that count now: the last of each stratum and family
// of a model, of all models for an empty name, behind a stratum, at most limit.
func (s *Store) Calibrations(ctx context.Context, model string, after StratumKey, limit int) ([]Calibrated, error) {
	list, err := collect(ctx, s.pool, scanCalibrated, `
		SELECT DISTINCT ON (c.stratum, c.family) c.calibration, c.stratum, c.body, c.penal, c.made_at
		FROM calibration c JOIN stratum t USING (stratum) WHERE ($1::text = '' OR t.model_id = $1) AND c.stratum > $2
			AND `+counts+`
		ORDER BY c.stratum, c.family, c.made_at DESC LIMIT $3`, model, after[:], bounded(limit, MaxBatch))
	if err != nil {
		return nil, fmt.Errorf("list calibrations: %w", err)
	}
	return list, nil
}

func scanCalibrated(row pgx.CollectableRow) (c Calibrated, err error) {
	var hash, key, body []byte
	if err := row.Scan(&hash, &key, &body, &c.Penal, &c.MadeAt); err != nil {
		return Calibrated{}, err
	}
	copy(c.Hash[:], hash)
	copy(c.Stratum[:], key)
	c.MadeAt = c.MadeAt.UTC()
	c.Calibration, err = calibration.Decode(body)
	return c, err
}
