package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/pg"
)

// Setting is what an operator turns on and off for the whole installation.
type Setting string

// The settings.
const (
	// Penalties begin turned off. Without them the ladder ends before money.
	Penalties Setting = "penalties"
	// Probes begin turned on.
	Probes Setting = "probes"
)

// Switch is a setting as it stands, with who changed it last.
type Switch struct {
	Name     Setting
	Enabled  bool
	Revision int64
	// Actor is "platform", "operator" or "operator:<name>".
	Actor, Reason string
	ChangedAt     time.Time
}

// Errors of settings.
var (
	// ErrNotCalibrated is the error for penalties that are turned on while no calibration
	// reaches that far.
	ErrNotCalibrated = errors.New("nothing is calibrated far enough for a penalty")
	// ErrSetting is the error for a setting that there is not.
	ErrSetting = errors.New("no such setting")
)

const switchColumns = `c.name, c.enabled, c.revision, c.actor, c.reason, c.changed_at`

func scanSwitch(row pgx.CollectableRow) (w Switch, err error) {
	err = row.Scan(&w.Name, &w.Enabled, &w.Revision, &w.Actor, &w.Reason, &w.ChangedAt)
	w.ChangedAt = w.ChangedAt.UTC()
	return w, err
}

// Setting returns a setting as it stands.
func (s *Store) Setting(ctx context.Context, name Setting) (Switch, error) {
	w, err := readSwitch(ctx, s.pool, name)
	if err != nil {
		return Switch{}, fmt.Errorf("read a setting: %w", err)
	}
	return w, nil
}

func readSwitch(ctx context.Context, db querier, name Setting) (Switch, error) {
	list, err := collect(ctx, db, scanSwitch, `SELECT `+switchColumns+` FROM setting s
		JOIN setting_change c USING (name, revision) WHERE s.name = $1`, name)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: %q", ErrSetting, name)
	}
	if err != nil {
		return Switch{}, err
	}
	return list[0], nil
}

// setActions are the actions by which settings change.
var setActions = map[Setting]action{Penalties: setPenalties, Probes: setProbes}

// Set turns a setting on or off and records who did it and why. It changes nothing where
// the setting stands so already. Whoever turns penalties off waits for the verdicts under
// way; none comes after that. It fails with ErrNotCalibrated and ErrSetting.
func (s *Store) Set(ctx context.Context, name Setting, enabled bool, by, reason string) (w Switch, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, durably); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT FROM setting WHERE name = $1 FOR UPDATE`, name); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			WITH s AS (UPDATE setting SET enabled = $2, revision = revision + 1 WHERE name = $1 AND enabled <> $2
				RETURNING name, revision, enabled, changed_at)
			INSERT INTO setting_change (name, revision, enabled, actor, reason, changed_at)
			SELECT name, revision, enabled, $3, $4, changed_at FROM s`, name, enabled, by, reason)
		if err != nil {
			return err
		}
		if tag.RowsAffected() > 0 && actor.IsOperator(by) {
			if err := addAct(ctx, tx, by, setActions[name], string(name), map[string]any{"enabled": enabled,
				"reason": reason}); err != nil {
				return err
			}
		}
		w, err = readSwitch(ctx, tx, name)
		return err
	})
	switch {
	case pg.IsCheck(err, "setting_calibrated"):
		return Switch{}, ErrNotCalibrated
	case err != nil:
		return Switch{}, fmt.Errorf("change a setting: %w", err)
	}
	return w, nil
}

// SettingChanges returns the history of a setting, the last change first, before a revision
// (0 for the last), at most limit.
func (s *Store) SettingChanges(ctx context.Context, name Setting, before int64, limit int) ([]Switch, error) {
	list, err := collect(ctx, s.pool, scanSwitch, `SELECT `+switchColumns+` FROM setting_change c
		WHERE c.name = $1 AND ($2 = 0 OR c.revision < $2) ORDER BY c.revision DESC LIMIT $3`, name, before,
		bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the changes of a setting: %w", err)
	}
	return list, nil
}
