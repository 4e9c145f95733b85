package keep_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// is reports a difference.
func is[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// noticed probes an offer until it is given notice, and returns the verdict.
func noticed(t *testing.T, e *storetest.Env, o probe.Offer) standing.Verdict {
	t.Helper()
	for range 100 {
		e.Pass(t, 30*time.Minute)
		if out := e.Probe(t, o, true, ""); len(out.Verdicts) > 0 {
			return out.Verdicts[0]
		}
	}
	t.Fatal("there never was a notice")
	return standing.Verdict{}
}

// read returns the evidence of a verdict.
func read(t *testing.T, e *storetest.Env, id probe.VerdictID) []replay.Sealed {
	t.Helper()
	var list []replay.Sealed
	if err := e.Keepers[1].Each(t.Context(), id, func(s replay.Sealed) error {
		list = append(list, s)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAVerdictFollowsFromWhatWasKept(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	v := noticed(t, e, o)
	list := read(t, e, v.ID)
	report, err := replay.Verify(list, v.ID)
	if err != nil {
		t.Errorf("replay: got the error %v, want none", err)
	}
	is(t, "the evidence begins at M = 0", report.Whole, true)
	is(t, "pieces", len(list), len(report.Rows))
	for i := 1; i < len(list); i++ {
		is(t, "the link before", list[i].Previous, list[i-1].Link)
	}
}

// alter changes a column of an event's piece as a superuser would, past every trigger.
func alter(t *testing.T, e *storetest.Env, set, where string, args ...any) {
	t.Helper()
	e.Exec(t, `ALTER TABLE evidence DISABLE TRIGGER USER`)
	e.Exec(t, `UPDATE evidence SET `+set+` WHERE `+where, args...)
	e.Exec(t, `ALTER TABLE evidence ENABLE TRIGGER USER`)
}

func TestEvidenceThatIsAlteredOnDiskIsFound(t *testing.T) {
	t.Parallel()
	const flip = ` = set_byte(%c, %n, get_byte(%c, %n) # 1)`
	for name, tc := range map[string]struct {
		set string
		// chain reports whether the chain shows it, and read whether reading does.
		chain, read bool
	}{
		"the version of a piece": {strings.NewReplacer("%c", "sealed", "%n", "0").Replace("sealed" + flip), false, true},
		"a byte of its nonce":    {strings.NewReplacer("%c", "sealed", "%n", "5").Replace("sealed" + flip), false, true},
		"a byte of its text":     {strings.NewReplacer("%c", "sealed", "%n", "200").Replace("sealed" + flip), false, true},
		"its last byte": {
			strings.NewReplacer("%c", "sealed", "%n", "length(sealed) - 1").Replace("sealed" + flip), false, true,
		},
		"bytes that are missing": {`sealed = substr(sealed, 1, 100)`, false, true},
		"another piece's bytes":  {`sealed = (SELECT sealed FROM evidence WHERE number = 1)`, false, true},
		"a byte of its leaf":     {strings.NewReplacer("%c", "leaf", "%n", "31").Replace("leaf" + flip), true, true},
		"a byte of its link":     {strings.NewReplacer("%c", "link", "%n", "0").Replace("link" + flip), true, true},
		"leaf and link that match": {`leaf = decode(repeat('11', 32), 'hex'), link =
			sha256(convert_to('svc evidence link v1 ', 'UTF8')
			|| (SELECT link FROM evidence WHERE number = 1) || decode(repeat('11', 32), 'hex'))`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := storetest.New(t)
			o := e.See(t, storetest.Provider(t))
			v := noticed(t, e, o)
			if err := e.Keepers[0].CheckChains(t.Context(), probe.Offer{}); err != nil {
				t.Fatal(err)
			}
			alter(t, e, tc.set, `number = 2`)
			err := e.Keepers[0].Each(t.Context(), v.ID, func(replay.Sealed) error { return nil })
			is(t, "found by reading", errors.Is(err, archive.ErrAltered), tc.read)
			err = e.Keepers[0].CheckChains(t.Context(), o)
			is(t, "found in the chain", errors.Is(err, keep.ErrBroken), tc.chain)
		})
	}
}

func TestAPieceThatIsTakenAwayIsFound(t *testing.T) {
	t.Parallel()
	for name, which := range map[string]string{
		"the first": "number = 1", "one in the middle": "number = 2", "the last": "number = 3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := storetest.New(t)
			o := e.See(t, storetest.Provider(t))
			for range 3 {
				e.Probe(t, o, false, "")
			}
			e.Pass(t, 24*time.Hour)
			if _, err := e.Keepers[0].Tend(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.Exec(t, `ALTER TABLE evidence DISABLE TRIGGER USER`)
			e.Exec(t, `DELETE FROM evidence WHERE `+which)
			e.Exec(t, `ALTER TABLE evidence ENABLE TRIGGER USER`)
			if err := e.Keepers[0].CheckChains(t.Context(), o); !errors.Is(err, keep.ErrBroken) {
				t.Errorf("the chain: got the error %v, want %v", err, keep.ErrBroken)
			}
			if err := e.Keepers[0].CheckSeals(t.Context(), 10); !errors.Is(err, keep.ErrBroken) {
				t.Errorf("the seals: got the error %v, want %v", err, keep.ErrBroken)
			}
		})
	}
}

func TestAChainThatIsMadeAnewIsFoundByTheRoots(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Probe(t, o, false, "")
	e.Pass(t, 24*time.Hour)
	if _, err := e.Keepers[0].Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	alter(t, e, `leaf = decode(repeat('11', 32), 'hex'), link = sha256(convert_to('svc evidence link v1 ', 'UTF8')
		|| decode(repeat('00', 32), 'hex') || decode(repeat('11', 32), 'hex'))`, `true`)
	if err := e.Keepers[0].CheckChains(t.Context(), o); err != nil {
		t.Errorf("the chain: got the error %v, want none, because it was made anew", err)
	}
	if err := e.Keepers[0].CheckSeals(t.Context(), 10); !errors.Is(err, keep.ErrBroken) {
		t.Errorf("the seals: got the error %v, want %v", err, keep.ErrBroken)
	}
}

func TestASealThatIsMadeAnewIsFoundByTheNext(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	for range 3 {
		e.Probe(t, o, false, "")
		e.Pass(t, 24*time.Hour)
		if _, err := e.Keepers[0].Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Keepers[0].CheckSeals(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	e.Exec(t, `ALTER TABLE seal DISABLE TRIGGER USER`)
	e.Exec(t, `UPDATE seal SET link = decode(repeat('22', 32), 'hex') WHERE day = '2026-11-22'`)
	if err := e.Keepers[0].CheckSeals(t.Context(), 10); !errors.Is(err, keep.ErrBroken) {
		t.Errorf("got the error %v, want %v", err, keep.ErrBroken)
	}
}

func TestADayIsSealedOnceByTheDatabasesUTC(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	midnight := storetest.Start.Truncate(24 * time.Hour).Add(24 * time.Hour)
	e.Set(t, midnight.Add(-time.Microsecond))
	e.Probe(t, o, false, "")
	done, err := e.Keepers[0].Tend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Yesterday had nothing; today is not over.
	is(t, "seals before midnight", len(done.Sealed), 1)
	is(t, "pieces of yesterday", done.Sealed[0].Pieces, 0)
	e.Set(t, midnight)
	e.Probe(t, o, false, "")
	var sealed [2]keep.Tended
	tend := func(i int) func() error {
		return func() (err error) {
			sealed[i], err = e.Keepers[i].Tend(context.Background())
			return err
		}
	}
	if err := errors.Join(storetest.Race(tend(0), tend(1))...); err != nil {
		t.Fatal(err)
	}
	all := append(sealed[0].Sealed, sealed[1].Sealed...)
	is(t, "seals at midnight", len(all), 1)
	is(t, "day", all[0].Day, midnight.AddDate(0, 0, -1))
	is(t, "pieces", all[0].Pieces, 1)
	if err := e.Keepers[0].CheckSeals(t.Context(), 10); err != nil {
		t.Errorf("the seals: got the error %v, want none", err)
	}
}

func TestDaysThatWereMissedAreSealedInOrder(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	for range 3 {
		e.Probe(t, o, false, "")
		e.Pass(t, 48*time.Hour)
	}
	done, err := e.Keepers[0].Tend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var days []string
	for _, d := range done.Sealed {
		days = append(days, d.Day.Format("02"))
	}
	is(t, "days", strings.Join(days, " "), "21 23 25 26")
	if err := e.Keepers[0].CheckSeals(t.Context(), 10); err != nil {
		t.Errorf("the seals: got the error %v, want none", err)
	}
}

func TestAPieceIsProvenToBeInTheRootOfItsDay(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o, other := e.See(t, storetest.Provider(t)), e.See(t, storetest.Provider(t))
	for range 3 {
		e.Probe(t, o, false, "")
		e.Probe(t, other, false, "")
	}
	if _, err := e.Keepers[0].Prove(t.Context(), o, 2); !errors.Is(err, keep.ErrNotSealed) {
		t.Errorf("today: got the error %v, want %v", err, keep.ErrNotSealed)
	}
	e.Pass(t, 24*time.Hour)
	if _, err := e.Keepers[0].Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := e.Keepers[0].Prove(t.Context(), o, 2)
	if err != nil {
		t.Fatal(err)
	}
	is(t, "size", p.Size, 6)
	if err := archive.Includes(archive.Root(p.Root), archive.Leaf(p.Leaf), p.Index, p.Size, p.Path); err != nil {
		t.Errorf("the proof: got the error %v, want none", err)
	}
	if _, err := e.Keepers[0].Prove(t.Context(), o, 9); !errors.Is(err, keep.ErrPiece) {
		t.Errorf("no piece: got the error %v, want %v", err, keep.ErrPiece)
	}
}

// cleared returns how many pieces a round clears.
func cleared(t *testing.T, e *storetest.Env) int {
	t.Helper()
	done, err := e.Keepers[0].Tend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done.Cleared
}

func TestBytesAreKeptFor90Days(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	v := noticed(t, e, o)
	pieces := e.Count(t, `SELECT count(*) FROM evidence`)
	var last time.Time
	if err := e.Owner.QueryRow(t.Context(), `SELECT max(recorded_at) FROM evidence`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	e.Set(t, last.Add(keep.Retention-time.Microsecond))
	is(t, "pieces cleared before the last is 90 days old", cleared(t, e), pieces-1)
	page, err := e.Keepers[0].Evidence(t.Context(), v.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	is(t, "pieces that are read", len(page.Pieces), 1)
	is(t, "pieces that are left out", page.Cleared, pieces-1)
	e.Pass(t, time.Microsecond)
	is(t, "pieces cleared then", cleared(t, e), 1)
	is(t, "pieces cleared again", cleared(t, e), 0)
	if err := e.Keepers[0].CheckChains(t.Context(), o); err != nil {
		t.Errorf("the chain: got the error %v, want none, because leaf and link stay", err)
	}
	if err := e.Keepers[0].CheckSeals(t.Context(), 10); err != nil {
		t.Errorf("the seals: got the error %v, want none", err)
	}
	if _, err := e.Stores[0].SealedPiece(t.Context(), page.Pieces[0].ID); !errors.Is(err, keep.ErrCleared) {
		t.Errorf("a cleared piece: got the error %v, want %v", err, keep.ErrCleared)
	}
}

// fined gives an offer the events of a benchmark that it passes and then fails twice, by the
// rules, and returns the verdict that takes money.
func fined(t *testing.T, e *storetest.Env, o probe.Offer) standing.Verdict {
	t.Helper()
	for i, name := range []string{"run:0", "run:1", "run:2"} {
		facts := battery.Facts{
			First: battery.Speed{Answers: []battery.Timing{{Tokens: 256, Took: time.Second}}}, Small: true, Quick: true,
			Uncalibrated: true, Asked: 100, Answered: 100, StatedTokens: 4_096, MeasuredTokens: 4_096,
		}
		if i > 0 {
			facts.MeasuredTokens = 1_024
		}
		run := standing.RunJudged{Run: probe.RunID{byte(i + 1)}, Facts: facts}
		out := e.Advance(t, o, store.EventKey(name), standing.Event{Run: &run})
		if len(out.Verdicts) != 1 {
			t.Fatalf("%s: got %d verdicts, want 1", name, len(out.Verdicts))
		}
		if out.Verdicts[0].Effects.Slash > 0 {
			return out.Verdicts[0]
		}
	}
	t.Fatal("nothing was taken")
	return standing.Verdict{}
}

func TestEvidenceOfAPenaltyIsKeptFor180DaysAfterItsEnd(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t))
	v := fined(t, e, o)
	span := e.Count(t, `SELECT number - first_number + 1 FROM verdict WHERE verdict_id = $1`, v.ID)
	all := e.Count(t, `SELECT count(*) FROM evidence`)
	e.Pass(t, 400*24*time.Hour)
	is(t, "cleared while the penalty is open", cleared(t, e), all-span)
	e.Advance(t, o, "penalty", standing.Event{Penalty: &standing.PenaltyMoved{Verdict: v.ID, Final: standing.Executed}})
	e.Pass(t, keep.PenaltyRetention-time.Microsecond)
	is(t, "cleared within 180 days", cleared(t, e), 1) // the end's own piece
	e.Pass(t, time.Microsecond)
	is(t, "cleared after 180 days", cleared(t, e), span)
	is(t, "pieces with bytes", e.Count(t, `SELECT count(*) FROM evidence WHERE sealed IS NOT NULL`), 0)
}

func TestEvidenceOfAPenaltyThatAnOperatorRefusesEndsWithTheWord(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t))
	waiting := standing.Verdict{
		ID: probe.VerdictID{15: 9}, Offer: o, Kind: standing.Misrepresentation, Trigger: string(ladder.Convict),
		Effects: ladder.Effects{Tell: true, NeedsOperator: true}, NeedsOperator: true, Summary: "It waits.",
	}
	forge := func(key store.EventKey, event standing.Event, verdicts ...standing.Verdict) {
		t.Helper()
		if _, err := e.Stores[0].Advance(t.Context(), o, key, func(
			now time.Time, s standing.State, p store.ProviderStanding,
		) (standing.Event, standing.World, standing.State, standing.Outcome, error) {
			w := storetest.World(o, key, p)
			for i := range verdicts {
				verdicts[i].At = now
			}
			return event, w, s, standing.Outcome{Verdicts: verdicts, Published: s.Publish(now, w)}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	forge("1", standing.Event{Asked: &standing.Ask{}}, waiting)
	e.Pass(t, 400*24*time.Hour)
	is(t, "cleared while it waits", cleared(t, e), 0)
	forge("2", standing.Event{Operator: &standing.Approval{Verdict: waiting.ID, By: "operator:alice", Refused: true}})
	e.Pass(t, keep.PenaltyRetention-time.Microsecond)
	is(t, "cleared within 180 days of the word", cleared(t, e), 1)
	e.Pass(t, time.Microsecond)
	is(t, "cleared after them", cleared(t, e), 1)
}

func TestPagesOfEvidenceAreBounded(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	pair := standing.Event{Paired: &standing.Pair{}}
	for i := range keep.MaxPage + 5 {
		key, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		e.Advance(t, o, store.EventKey(key), pair)
	}
	page, err := e.Keepers[0].Pieces(t.Context(), o, 1, 1_000)
	if err != nil {
		t.Fatal(err)
	}
	is(t, "pieces of the first page", len(page.Pieces), keep.MaxPage)
	is(t, "the next page", page.Next, keep.MaxPage+1)
	page, err = e.Keepers[0].Pieces(t.Context(), o, page.Next, 1_000)
	if err != nil {
		t.Fatal(err)
	}
	is(t, "pieces of the last page", len(page.Pieces), 5)
	is(t, "no next page", page.Next, 0)
	if _, err := e.Keepers[0].Evidence(t.Context(), probe.VerdictID{1}, 0); !errors.Is(err, store.ErrVerdict) {
		t.Errorf("no verdict: got the error %v, want %v", err, store.ErrVerdict)
	}
}
