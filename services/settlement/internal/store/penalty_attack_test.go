package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/services/settlement/internal/penalty"
)

func TestTheDatabaseHasTheTransitionsOfTheDomain(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var want, got []string
	for _, from := range penalty.States() {
		for _, trigger := range penalty.Triggers() {
			if to, err := from.After(trigger); err == nil && to != from {
				want = append(want, string(from)+">"+string(to))
			}
		}
	}
	rows, err := e.pool.Query(t.Context(), `SELECT from_state || '>' || to_state FROM penalty_transition`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var pair string
		if err := rows.Scan(&pair); err != nil {
			t.Fatal(err)
		}
		got = append(got, pair)
	}
	slices.Sort(want)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each attack is what a faulty program would do, as the application's role or, where the
// role's grants would hide the constraint, as the owner.
func TestTheDatabaseRefusesWhatTheDomainWouldNotDo(t *testing.T) {
	t.Parallel()
	e := setup(t)
	p := e.open(t)
	upheld := e.appealed(t)
	if _, err := e.keepers[0].Resolve(t.Context(), upheld.ID, true, "it holds"); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		id      penalty.ID
		asOwner bool
		sql     string
		says    string
	}{
		"a state that is skipped": {p.ID, false, `UPDATE penalty SET state = 'upheld', revision = 2, appeal_text = 'x',
			appealed_at = opened_at, resolution = 'x', resolved_at = opened_at WHERE penalty_id = $1`, "does not go from"},
		"a final state that is left": {upheld.ID, false, `UPDATE penalty SET state = 'appealed', revision = 4,
			resolution = NULL, resolved_at = NULL WHERE penalty_id = $1`, "does not go from"},
		"an execution before the end": {p.ID, true, `UPDATE penalty SET state = 'executed', revision = 2,
			executed_at = clock.clock_timestamp() WHERE penalty_id = $1`, "penalty_executed_in_time"},
		"a time ahead of the clock": {p.ID, true, `UPDATE penalty SET state = 'executed', revision = 2,
			executed_at = clock_timestamp() + interval '100 years' WHERE penalty_id = $1`, "ahead of time"},
		"a late appeal": {p.ID, true, `UPDATE penalty SET state = 'appealed', revision = 2, appeal_text = 'x',
			appealed_at = appeal_until WHERE penalty_id = $1`, "an appeal is in time|ahead of time"},
		"an appeal without a text": {p.ID, false, `UPDATE penalty SET state = 'appealed', revision = 2,
			appealed_at = opened_at WHERE penalty_id = $1`, "penalty_appeal_whole"},
		"a revision that is skipped": {p.ID, false, `UPDATE penalty SET state = 'reversed', revision = 3, resolution = 'x',
			resolved_at = opened_at WHERE penalty_id = $1`, "does not follow"},
		"a change without an entry": {p.ID, false, `UPDATE penalty SET state = 'reversed', revision = 2, resolution = 'x',
			resolved_at = opened_at WHERE penalty_id = $1`, "changes with an entry"},
		"another share": {p.ID, true, `UPDATE penalty SET share_basis_points = 1 WHERE penalty_id = $1`, "stays"},
		"another share, as the role": {p.ID, false, `UPDATE penalty SET share_basis_points = 1 WHERE penalty_id = $1`,
			"permission denied"},
		"another end": {p.ID, true, `UPDATE penalty SET appeal_until = appeal_until - interval '1 hour'
			WHERE penalty_id = $1`, "stays"},
		"another appeal": {upheld.ID, false, `UPDATE penalty SET state = 'executed', revision = 4, appeal_text = 'y',
			executed_at = opened_at WHERE penalty_id = $1`, "an appeal stays"},
		"another resolution": {upheld.ID, false, `UPDATE penalty SET state = 'executed', revision = 4, resolution = 'y',
			executed_at = opened_at WHERE penalty_id = $1`, "a resolution stays"},
		"a penalty that is deleted": {p.ID, true, `DELETE FROM penalty WHERE penalty_id = $1`, "kept"},
		"an entry that is deleted":  {p.ID, true, `DELETE FROM penalty_change WHERE penalty_id = $1`, "kept"},
		"an entry that changes": {p.ID, true, `UPDATE penalty_change SET actor = 'platform' WHERE penalty_id = $1`,
			"kept"},
		"an entry, as the role":      {p.ID, false, `DELETE FROM penalty_change WHERE penalty_id = $1`, "permission denied"},
		"an operator without a name": {p.ID, false, entryOf("reversed", "reverse", "operator:", "x"), "actor"},
		"an operator without reason": {p.ID, false, entryOf("reversed", "reverse", "operator", ""), "penalty_change_actor"},
		"a provider that reverses":   {p.ID, false, entryOf("reversed", "reverse", "provider", "x"), "penalty_change_actor"},
		"an operator that expires":   {p.ID, false, entryOf("executed", "expire", "operator", "x"), "penalty_change_actor"},
		"an entry that is ahead":     {p.ID, false, entryOf("reversed", "reverse", "operator", "x"), "ahead of its penalty"},
		"a second opening":           {p.ID, false, entryOf("proposed", "open", "verifier", ""), "penalty_change_opening"},
		"another window": {p.ID, true, `UPDATE penalty SET opened_at = opened_at WHERE penalty_id = $1`,
			"does not go"},
	} {
		pool := e.pool
		if tc.asOwner {
			pool = e.owner
		}
		_, err := pool.Exec(t.Context(), tc.sql, tc.id)
		refused := false
		for text := range strings.SplitSeq(tc.says, "|") {
			refused = refused || err != nil && strings.Contains(err.Error(), text)
		}
		if !refused {
			t.Errorf("%s: got the error %v, want %q", name, err, tc.says)
		}
	}
	if got := e.now(t, p.ID); got != p {
		t.Errorf("after all: got %+v, want %+v", got, p)
	}
}

// entryOf is the statement that adds a second entry to a history.
func entryOf(to, cause, by, reason string) string {
	return `INSERT INTO penalty_change VALUES ($1, 2, 'proposed', '` +
		strings.Join([]string{to, cause, by, reason}, `', '`) + `', now())`
}

func TestTheDatabaseRefusesAPenaltyThatDoesNotBeginAsProposed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	const insert = `INSERT INTO penalty (penalty_id, provider_id, model_id, kind, share_basis_points, removes, summary,
		evidence_hash, %c) VALUES (gen_random_uuid(), gen_random_uuid(), 'm', 'benchmark', 1000, false, 's',
		decode(repeat('00', 32), 'hex'), %v)`
	for column, value := range map[string]string{
		"state": "'executed'", "revision": "2", "opened_at": "'2020-01-01'", "appeal_until": "'2020-01-03'",
	} {
		sql := strings.NewReplacer("%c", column, "%v", value).Replace(insert)
		switch _, err := e.pool.Exec(t.Context(), sql); {
		case err == nil:
			t.Errorf("%s, as the role: got the error %v, want permission denied", column, err)
		case !strings.Contains(err.Error(), "permission denied"):
			t.Errorf("%s, as the role: got the error %v, want permission denied", column, err)
		}
	}
	sql := strings.NewReplacer("%c", "state", "%v", "'executed'").Replace(insert)
	switch _, err := e.owner.Exec(t.Context(), sql); {
	case err == nil:
		t.Errorf("executed: got the error %v, want a refusal", err)
	case !strings.Contains(err.Error(), "begins as proposed"):
		t.Errorf("executed: got the error %v, want a refusal", err)
	}
	// The database's clock counts, whatever a program says.
	if _, err := e.owner.Exec(t.Context(), `WITH p AS (`+strings.NewReplacer("%c", "opened_at", "%v",
		"'2020-01-01'").Replace(insert)+` RETURNING penalty_id, opened_at) INSERT INTO penalty_change
		SELECT penalty_id, 1, '', 'proposed', 'open', 'verifier', '', opened_at FROM p`); err != nil {
		t.Fatal(err)
	}
	var opened time.Time
	if err := e.owner.QueryRow(t.Context(), `SELECT opened_at FROM penalty`).Scan(&opened); err != nil {
		t.Fatal(err)
	}
	if opened.Year() < 2024 {
		t.Errorf("opened: got %s, want the database's time", opened)
	}
}
