package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/acts/acttable"
)

// action is what an operator did; operator_action lists the same.
type action string

const (
	setPenalties     action = "set_penalties"
	setProbes        action = "set_probes"
	approvedVerdict  action = "approve_verdict"
	refusedVerdict   action = "refuse_verdict"
	voided           action = "void_observations"
	beganCalibration action = "start_calibration"
	beganBenchmark   action = "run_benchmark"
	retriedEffect    action = "retry_effect"
)

const insertAct = `INSERT INTO operator_action (actor, action, subject, detail) VALUES ($1, $2, $3, $4)`

// addAct adds an operator's act in the caller's transaction. Callers skip it when nothing changed.
func addAct(ctx context.Context, tx pgx.Tx, by string, did action, subject string, detail map[string]any) error {
	if _, err := tx.Exec(ctx, insertAct, by, string(did), subject, detail); err != nil {
		return fmt.Errorf("insert the audit entry of %s: %w", did, err)
	}
	return nil
}

// actTable is the table of what operators did.
var actTable = acttable.Table{Subject: "subject"}

// Acts implements acts.Store.
func (s *Store) Acts(ctx context.Context, f acts.Filter) ([]acts.Act, error) {
	return actTable.Find(ctx, s.pool, f)
}
