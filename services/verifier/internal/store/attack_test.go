package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// attack is what a faulty program would do, as the application's role or, where the role's
// grants would hide the constraint, as the owner.
type attack struct {
	asOwner bool
	sql     string
	says    string // one of several, between bars
	args    []any
}

// refused runs attacks, each of which must fail as it says.
func refused(t *testing.T, e *storetest.Env, attacks map[string]attack) {
	t.Helper()
	for name, a := range attacks {
		pool := e.Pools[0]
		if a.asOwner {
			pool = e.Owner
		}
		_, err := pool.Exec(t.Context(), a.sql, a.args...)
		found := false
		for text := range strings.SplitSeq(a.says, "|") {
			found = found || err != nil && strings.Contains(err.Error(), text)
		}
		if !found {
			t.Errorf("%s: got the error %v, want %q", name, err, a.says)
		}
	}
}

// pairs reads a table of two columns.
func pairs(t *testing.T, e *storetest.Env, sql string) []string {
	t.Helper()
	rows, err := e.Pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var pair string
		if err := rows.Scan(&pair); err != nil {
			t.Fatal(err)
		}
		list = append(list, pair)
	}
	slices.Sort(list)
	return list
}

func TestTheDatabaseHasTheStatesOfProbes(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	var want []string
	for _, from := range store.ProbeStates() {
		for _, to := range from.After() {
			want = append(want, string(from)+">"+string(to))
		}
	}
	slices.Sort(want)
	got := pairs(t, e, `SELECT from_state || '>' || to_state FROM probe_transition`)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheDatabaseHasTheLadder(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	var want []string
	for _, from := range ladder.Levels() {
		for _, trigger := range ladder.Triggers() {
			if to, err := from.After(trigger); err == nil {
				want = append(want, string(from)+">"+string(to))
			}
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	got := pairs(t, e, `SELECT from_level || '>' || to_level FROM level_transition`)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheDatabaseRefusesWhatTheQueueWouldNotDo(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	queued, leased, done := e.Plan(t, o), e.Plan(t, o), e.Plan(t, o)
	later := e.Plan(t, o)
	later.DueAt = later.DueAt.AddDate(1, 0, 0)
	e.Queue(t, leased, done)
	ok(e.Stores[0].Take(t.Context(), "a", 2))(t)
	if err := e.Stores[0].Done(t.Context(), "a", done.ID); err != nil {
		t.Fatal(err)
	}
	e.Queue(t, queued, later)
	const lease = `UPDATE probe SET state = 'leased', tries = tries + 1, replica = 'b',
		leased_until = clock_timestamp() + interval '15 minutes' WHERE probe_id = $1`
	refused(t, e, map[string]attack{
		"another's lease":  {sql: lease, says: "nobody else", args: []any{leased.ID}},
		"one that is done": {sql: lease, says: "does not go from done to leased", args: []any{done.ID}},
		"before it is due": {sql: lease, says: "before it is due", args: []any{later.ID}},
		"a long lease": {sql: strings.Replace(lease, "15", "16", 1),
			says: "15 minutes at most", args: []any{queued.ID}},
		"a lease that is over": {sql: strings.Replace(lease, "'15", "'-1", 1),
			says: "15 minutes at most", args: []any{queued.ID}},
		"an uncounted try": {sql: strings.Replace(lease, "+ 1", "+ 0", 1),
			says: "a try is counted", args: []any{queued.ID}},
		"a lease of nobody": {sql: strings.Replace(lease, "'b'", "NULL", 1),
			says: "probe_lease_whole", args: []any{queued.ID}},
		"done without a try": {sql: `UPDATE probe SET state = 'done', ended_at = clock_timestamp() WHERE probe_id = $1`,
			says: "probe_taken", args: []any{queued.ID}},
		"an end ahead of time": {sql: `UPDATE probe SET state = 'void', reason = 'x', ended_at = clock_timestamp() +
			interval '1 second' WHERE probe_id = $1`,
			says: "ahead of time", args: []any{queued.ID}},
		"no end": {sql: `UPDATE probe SET state = 'void', reason = 'x' WHERE probe_id = $1`,
			says: "probe_end_whole", args: []any{queued.ID}},
		"void for no reason": {sql: `UPDATE probe SET state = 'void', ended_at = clock_timestamp() WHERE probe_id = $1`,
			says: "probe_void_reason", args: []any{queued.ID}},
		"another question": {asOwner: true, sql: `UPDATE probe SET plan = '{"x":1}' WHERE probe_id = $1`,
			says: "what a probe asks stays", args: []any{queued.ID}},
		"another, as the role": {sql: `UPDATE probe SET plan = '{"x":1}' WHERE probe_id = $1`,
			says: "permission denied", args: []any{queued.ID}},
		"a probe that goes": {asOwner: true, sql: `DELETE FROM probe WHERE probe_id = $1`,
			says: "kept as they are", args: []any{queued.ID}},
		"all that go": {asOwner: true, sql: `TRUNCATE probe CASCADE`, says: "kept as they are"},
		"one that begins leased": {asOwner: true, sql: `INSERT INTO probe (probe_id, provider_id, model_id, kind,
			flow, purpose, shape, cost_nano_usd, plan, due_at, state)
			SELECT gen_random_uuid(), provider_id, model_id, kind, flow, purpose, shape, 0, plan, due_at, 'leased' FROM
				probe WHERE probe_id = $1`,
			says: "begins in the queue", args: []any{queued.ID}},
		"a visible one with a shape": {sql: `INSERT INTO probe (probe_id, provider_id, model_id, kind, flow, purpose,
			shape, cost_nano_usd, plan, due_at)
			SELECT gen_random_uuid(), provider_id, model_id, kind, 'visible', purpose, shape, 0, plan, due_at FROM probe
				WHERE probe_id = $1`,
			says: "probe_shape_hidden", args: []any{queued.ID}},
		"a benchmark of no run": {sql: `INSERT INTO probe (probe_id, provider_id, model_id, kind, flow, purpose,
			shape, cost_nano_usd, plan, due_at)
			SELECT gen_random_uuid(), provider_id, model_id, kind, flow, 'benchmark', shape, 0, plan, due_at FROM probe
				WHERE probe_id = $1`,
			says: "probe_run", args: []any{queued.ID}},
	})
}

func TestTheDatabaseRefusesAlteredHistory(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Probe(t, o, true, "")
	e.Probe(t, o, true, "")
	args := []any{o.Provider, o.Model}
	const event = `INSERT INTO event (provider_id, model_id, number, event_key, kind, at, m, level, outcome)
		VALUES ($1, $2, %number, 'x', 'ticked', %at, 0, %level, '{}')`
	insert := func(number, at, level string) string {
		return strings.NewReplacer("%number", number, "%at", at, "%level", level).Replace(event)
	}
	level := ok(e.Stores[0].Standing(t.Context(), o))(t).State.Level
	here := "'" + string(level) + "'"
	next := insert("3", "clock_timestamp()", here)
	const piece = `WITH e AS (%event) INSERT INTO evidence (piece_id, provider_id, model_id, number,
		plain_bytes, leaf, link, sealed)
		VALUES (gen_random_uuid(), $1, $2, 3, 1, decode(repeat('11', 32), 'hex'), decode(repeat('22', 32), 'hex'),
			decode(repeat('33', 40), 'hex'))`
	refused(t, e, map[string]attack{
		"an event that is skipped": {sql: insert("4", "clock_timestamp()", here), says: "does not follow", args: args},
		"an event a second time": {sql: insert("2", "clock_timestamp()", here),
			says: "does not follow|event_pkey", args: args},
		"an event ahead of the clock": {sql: insert("3", "clock_timestamp() + interval '1 second'", here),
			says: "ahead of the clock", args: args},
		"an event before the last": {sql: insert("3", "clock_timestamp() - interval '1 second'", here),
			says: "ahead of the clock", args: args},
		"a level that is skipped": {sql: insert("3", "clock_timestamp()", "'penalty'"),
			says: "a level does not go from", args: args},
		"an event alone": {sql: insert("3", "clock_timestamp()", here),
			says: "an event has its evidence", args: args},
		"an event with an infinite M": {sql: strings.Replace(next, ", 0, ", ", 'Infinity', ", 1),
			says: "event_m_check", args: args},
		"an event with no number for M": {sql: strings.Replace(next, ", 0, ", ", 'NaN', ", 1),
			says: "event_m_check", args: args},
		"a judged one of no probe": {sql: strings.Replace(insert("3", "clock_timestamp()", here), "'ticked'", "'judged'", 1),
			says: "event_of_probe", args: args},
		"a piece with another link": {sql: strings.Replace(piece, "%event", next, 1),
			says: "linked to the one before|foreign key", args: args},
		"an event ahead of its standing": {
			sql: `WITH e AS (` + next + `), p AS (SELECT *, decode(repeat('11', 32), 'hex') AS new FROM evidence WHERE
				number = 2)
			INSERT INTO evidence (piece_id, provider_id, model_id, number, plain_bytes, leaf, link, sealed)
			SELECT gen_random_uuid(), $1, $2, 3, 1, new,
				sha256(convert_to('svc evidence link v1 ', 'UTF8') || link || new), sealed FROM p`,
			says: "an event is not ahead of its standing", args: args,
		},
		"a piece without bytes": {
			asOwner: true, says: "begins with its sealed bytes",
			sql: `INSERT INTO evidence (piece_id, provider_id, model_id, number, plain_bytes, leaf, link, cleared_at)
			SELECT gen_random_uuid(), provider_id, model_id, 3, 1, leaf, link, now() FROM evidence WHERE number = 2`,
		},
	})
}

func TestTheDatabaseRefusesAlteredStandings(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Probe(t, o, true, "")
	e.Probe(t, o, true, "")
	refused(t, e, map[string]attack{
		"a standing of another offer": {
			asOwner: true, sql: `UPDATE standing SET number = number + 1, model_id = 'x'`, says: "of one offer",
		},
		"an event that changes":              {asOwner: true, sql: `UPDATE event SET m = 0`, says: "kept as they are"},
		"an event that goes":                 {asOwner: true, sql: `DELETE FROM event`, says: "kept as they are"},
		"an event that goes, the role":       {sql: `DELETE FROM event WHERE number = 2`, says: "kept as they are"},
		"an observation that goes, the role": {sql: `DELETE FROM observation`, says: "kept as they are"},
		"a probe that goes, the role":        {sql: `DELETE FROM probe`, says: "kept as they are"},
		"a piece of no event": {sql: `INSERT INTO evidence (piece_id, provider_id, model_id, number, plain_bytes, leaf,
				link, sealed)
			SELECT gen_random_uuid(), provider_id, model_id, 3, 1, leaf, sha256(convert_to('svc evidence link v1 ', 'UTF8')
				|| link || leaf), sealed FROM evidence WHERE number = 2`, says: "begins with its event"},
		"all events that go": {asOwner: true, sql: `TRUNCATE event CASCADE`, says: "kept as they are"},
		"an observation that changes": {asOwner: true, sql: `UPDATE observation SET exceeded = false`,
			says: "kept as they are"},
		"an observation that goes": {asOwner: true, sql: `DELETE FROM observation`, says: "kept as they are"},
		"a second observation": {sql: `INSERT INTO observation SELECT * FROM observation LIMIT 1`,
			says: "observation_pkey"},
		"an observation of no event": {sql: `INSERT INTO observation (probe_id, family, provider_id, model_id, number,
			exceeded, stratum, at)
			SELECT probe_id, 'visible', provider_id, model_id, 99, true, stratum, at FROM observation LIMIT 1`,
			says: "foreign key"},
		"a standing without its event": {sql: `UPDATE standing SET number = number + 1, m = 0, level = 'normal'`,
			says: "a standing moves with its event"},
		"a standing that stays at its event": {sql: `UPDATE standing SET m = 0`, says: "does not follow"},
		"a standing that skips":              {sql: `UPDATE standing SET number = number + 2`, says: "does not follow"},
		"a standing that goes back": {sql: `UPDATE standing SET number = number + 1, moved_at = moved_at -
			interval '1 second'`,
			says: "back in time"},
		"a standing that goes":      {asOwner: true, sql: `DELETE FROM standing`, says: "kept as they are"},
		"a revision by the program": {sql: `UPDATE standing SET revision = 9`, says: "permission denied"},
		"no trust": {sql: `UPDATE standing SET number = number + 1, trust = 0`,
			says: "standing_trust_check"},
		"trust that is no number": {sql: `UPDATE standing SET number = number + 1, trust = 'NaN'`,
			says: "standing_trust_check"},
		"a standing that begins in the middle": {sql: `INSERT INTO standing (provider_id, model_id, number, state,
			level, benchmark, m, misrep_lane, trust, lane, cap_tokens, moved_at)
			VALUES (gen_random_uuid(), 'x', 2, '\x01', 'normal', 'unproven', 0, 'main', 1, 'shut', 0, clock_timestamp())`,
			says: "begins with its first event"},
	})
}

func TestTheDatabaseRefusesAlteredEvidence(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Probe(t, o, true, "")
	e.Pass(t, 24*time.Hour)
	ok(e.Stores[0].SealDays(t.Context()))(t)
	refused(t, e, map[string]attack{
		"other bytes": {sql: `UPDATE evidence SET sealed = decode(repeat('33', 40), 'hex')`,
			says: "kept as it is"},
		"another leaf":           {asOwner: true, sql: `UPDATE evidence SET leaf = link`, says: "kept as it is"},
		"another leaf, the role": {sql: `UPDATE evidence SET leaf = link`, says: "permission denied"},
		"bytes that go early":    {sql: `UPDATE evidence SET sealed = NULL`, says: "kept for 90 days"},
		"a piece that goes":      {asOwner: true, sql: `DELETE FROM evidence`, says: "kept as they are"},
		"all pieces that go":     {asOwner: true, sql: `TRUNCATE evidence`, says: "kept as they are"},
		"a piece of a sealed day": {sql: `INSERT INTO evidence (piece_id, provider_id, model_id, number, day) SELECT
			piece_id, provider_id, model_id, number, day FROM evidence`,
			says: "permission denied"},
		"a root that changes": {asOwner: true, sql: `UPDATE seal SET root = link`, says: "kept as they are"},
		"a root that goes":    {asOwner: true, sql: `DELETE FROM seal`, says: "kept as they are"},
		"a second root": {sql: `INSERT INTO seal (day, pieces, root, link) SELECT day, pieces, root, link FROM seal`,
			says: "in order"},
		"a root of today": {sql: `INSERT INTO seal (day, pieces, root, link) SELECT (clock_timestamp() AT TIME ZONE
			'UTC')::date, 0, root, link FROM seal`,
			says: "when it is over"},
		"a root of a past day": {sql: `INSERT INTO seal (day, pieces, root, link) SELECT day - 1, 0, root, link FROM seal`,
			says: "in order"},
	})
	e.Probe(t, o, true, "")
	e.Pass(t, 48*time.Hour)
	refused(t, e, map[string]attack{
		"a day that is left out": {sql: `INSERT INTO seal (day, pieces, root, link) SELECT day + 2, 0, root, link FROM
			seal`,
			says: "left out"},
		"a root of too few": {sql: `INSERT INTO seal (day, pieces, root, link) SELECT day + 1, 0, root, link FROM
			seal`,
			says: "every piece"},
		"a root without a link": {sql: `INSERT INTO seal (day, pieces, root, link) SELECT day + 1, 1, root, link FROM
			seal`,
			says: "linked to the one before"},
	})
}

func TestTheDatabaseRefusesVerdictsThatTheRulesWouldNotGive(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t))
	v := penalized(t, e, o)
	other := e.See(t, storetest.Provider(t), "other")
	e.Advance(t, other, "1", standing.Event{Paired: &standing.Pair{}})
	const again = `INSERT INTO verdict (verdict_id, provider_id, model_id, number, kind, cause, at, of_verdict,
		share_basis_points, removes,
			reinstates, counts, needs_operator, summary, body)
		SELECT gen_random_uuid(), %provider, %model, %number, kind, %cause, %at, %of, %share, %removes, false,
			%counts, %waits, 'x', body
		FROM verdict WHERE verdict_id = $1`
	insert := func(changes ...string) attack {
		all := []string{"%provider", "provider_id", "%model", "model_id", "%number", "number", "%cause", "'x'", "%at", "at",
			"%of", "NULL::uuid", "%share", "0", "%removes", "false", "%counts", "0", "%waits", "false"}
		for i := 0; i < len(changes); i += 2 {
			all[slices.Index(all, changes[i])+1] = changes[i+1]
		}
		return attack{sql: strings.NewReplacer(all...).Replace(again), args: []any{v.ID}}
	}
	says := func(a attack, text string) attack { a.says = text; return a }
	refused(t, e, map[string]attack{
		"another time":              says(insert("%at", "at - interval '1 second'"), "the time of its event"),
		"of no event":               says(insert("%number", "9999"), "the time of its event"),
		"the same again":            says(insert("%cause", "cause"), "verdict_once"),
		"a share that is too large": says(insert("%share", "3001"), "verdict_share_basis_points_check"),
		"a removal for nothing":     says(insert("%removes", "true"), "verdict_removal_costs"),
		"money without an operator": says(insert("%share", "3000", "%waits", "true"), "verdict_waits"),
		"a reversal of nothing":     says(insert("%counts", "-1"), "verdict_reversal"),
		"a penalty without effect":  says(insert("%share", "1000"), "with the effects"),
		"about another's penalty": {says: "a penalty of its offer", args: []any{v.ID, other.Provider, other.Model}, sql: `
			INSERT INTO verdict (verdict_id, provider_id, model_id, number, kind, cause, at, of_verdict,
				share_basis_points, removes,
				reinstates, counts, needs_operator, summary, body)
			SELECT gen_random_uuid(), e.provider_id, e.model_id, e.number, 'misrepresentation', 'reverse', e.at, $1, 0,
				false, false, -1,
				false, 'x', '{}' FROM event e WHERE e.provider_id = $2 AND e.model_id = $3`},
		"a verdict that changes": {asOwner: true, sql: `UPDATE verdict SET share_basis_points = 1`,
			says: "kept as they are"},
		"a verdict that goes": {asOwner: true, sql: `DELETE FROM verdict`, says: "kept as they are"},
		"an effect on another": {sql: `INSERT INTO effect (verdict_id, kind, subject, revision) VALUES ($1, 'expel',
			gen_random_uuid(), 1)`,
			says: "about its verdict", args: []any{v.ID}},
		"an effect twice": {sql: `INSERT INTO effect (verdict_id, kind, subject, revision) VALUES ($1, 'open_penalty',
			$1, 1)`,
			says: "effect_once", args: []any{v.ID}},
		"an end of no penalty": {sql: `INSERT INTO penalty_end (verdict_id, state) SELECT verdict_id, 'executed' FROM
			verdict WHERE cause = 'notify'`,
			says: "what ends is a penalty"},
	})
	if _, err := e.Stores[0].Set(t.Context(), store.Penalties, false, "operator:bob", "a doubt"); err != nil {
		t.Fatal(err)
	}
	refused(t, e, map[string]attack{
		"a penalty while they are off": says(insert("%share", "1000"), "penalties are off"),
	})
}

func TestTheDatabaseRefusesEffectsOutOfOrder(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	forge(t, e, o, "1", verdictOf(o, 1, standing.Benchmark, "fail"), verdictOf(o, 2, standing.Benchmark, "pass"))
	const take = `UPDATE effect SET tries = tries + 1, replica = 'a', leased_until = clock_timestamp() + interval
		'5 minutes' `
	refused(t, e, map[string]attack{
		"the second first": {sql: take + `WHERE effect_id = (SELECT max(effect_id) FROM effect)`, says: "go in order"},
		"a long lease": {sql: strings.Replace(take, "5", "6", 1) + `WHERE effect_id = (SELECT min(effect_id) FROM effect)`,
			says: "5 minutes at most"},
		"an uncounted try": {sql: strings.Replace(take, "+ 1", "+ 0", 1) + `WHERE effect_id = (SELECT min(effect_id)
			FROM effect)`,
			says: "a try is counted"},
		"done untried": {sql: `UPDATE effect SET state = 'done', ended_at = clock_timestamp()`,
			says: "effect_end_whole"},
		"done in advance": {sql: `UPDATE effect SET state = 'done', ended_at = clock_timestamp() + interval '1 second'`,
			says: "ahead of time"},
		"refused for nothing": {sql: `UPDATE effect SET state = 'refused', tries = tries, ended_at = clock_timestamp()`,
			says: "effect_end_whole|effect_refused"},
		"another subject": {asOwner: true, sql: `UPDATE effect SET subject = gen_random_uuid()`,
			says: "what an effect says stays"},
		"one that begins as done": {
			asOwner: true, says: "begins as pending",
			sql: `INSERT INTO effect (verdict_id, kind, subject, revision, state)
			SELECT verdict_id, 'expel', subject, revision, 'refused' FROM effect LIMIT 1`,
		},
		"one that goes": {asOwner: true, sql: `DELETE FROM effect`, says: "kept as they are"},
	})
	list := ok(e.Stores[0].TakeEffects(t.Context(), "a", 10))(t)
	if err := e.Stores[0].EffectDone(t.Context(), "a", list[0].ID); err != nil {
		t.Fatal(err)
	}
	refused(t, e, map[string]attack{
		"one that was done": {sql: `UPDATE effect SET state = 'pending', ended_at = NULL WHERE state = 'done'`,
			says: "is done once"},
	})
}
