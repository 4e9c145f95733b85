package penalty

import (
	"context"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/paging"
)

// allowed are the pairs of the specification. All else is refused.
var allowed = map[State]map[Trigger]State{
	Proposed: {Appeal: Appealed, Expire: Executed, Reverse: Reversed},
	Appealed: {Uphold: Upheld, Reverse: Reversed},
	Upheld:   {Reverse: Reversed, Execute: Executed},
}

func TestOnlyTheTransitionsOfTheSpecificationMoveAPenalty(t *testing.T) {
	t.Parallel()
	for _, from := range States() {
		for _, trigger := range Triggers() {
			to, err := from.After(trigger)
			want, moves := allowed[from][trigger]
			switch {
			case moves && to != want:
				t.Errorf("%s, %s: got %q and the error %v, want %s", from, trigger, to, err, want)
			case !moves && err == nil && to != from:
				t.Errorf("%s, %s: got %s, want no move", from, trigger, to)
			case !moves && err != nil && !fault.Is(err, fault.TransitionNotAllowed):
				t.Errorf("%s, %s: got the error %v, want %s", from, trigger, err, fault.TransitionNotAllowed)
			}
		}
	}
}

func TestNoTriggerLeadsOutOfAFinalState(t *testing.T) {
	t.Parallel()
	for _, s := range States() {
		leaves := false
		for _, trigger := range Triggers() {
			to, err := s.After(trigger)
			leaves = leaves || err == nil && to != s
		}
		if leaves == s.Final() {
			t.Errorf("%s is final: got %t, want %t", s, s.Final(), !leaves)
		}
	}
}

var (
	opened   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	until    = opened.Add(Window)
	provider = ids.ProviderID{1}
)

func proposed() *Penalty {
	return &Penalty{Draft: Draft{ProviderID: provider}, State: Proposed, Revision: 1, OpenedAt: opened, AppealUntil: until}
}

func TestThePenaltyIsOpenToAppealForExactlyFortyEightHours(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		at    time.Time
		state State // after an appeal and, separately, after carryOut
		due   State
	}{
		{until.Add(-time.Microsecond), Appealed, Proposed},
		{until, Proposed, Executed},
		{until.Add(time.Microsecond), Proposed, Executed},
	} {
		p := proposed()
		if _, err := p.appeal(provider, "no", tc.at); fault.Is(err, fault.TransitionNotAllowed) != (tc.state == Proposed) {
			t.Errorf("an appeal %s from the end: got the error %v, want the state %s", tc.at.Sub(until), err, tc.state)
		}
		if p.State != tc.state {
			t.Errorf("an appeal %s from the end: got %s, want %s", tc.at.Sub(until), p.State, tc.state)
		}
		p = proposed()
		if _, err := p.carryOut(tc.at); err != nil {
			t.Errorf("carried out %s from the end: got the error %v, want none", tc.at.Sub(until), err)
		}
		if p.State != tc.due {
			t.Errorf("carried out %s from the end: got %s, want %s", tc.at.Sub(until), p.State, tc.due)
		}
	}
}

func TestAnAppealStopsTheClock(t *testing.T) {
	t.Parallel()
	p := proposed()
	if _, err := p.appeal(provider, "no", opened); err != nil {
		t.Fatal(err)
	}
	switch e, err := p.carryOut(until.AddDate(1, 0, 0)); {
	case err != nil:
		t.Errorf("carried out a year later: got the error %v, want none", err)
	case e.Cause != "":
		t.Errorf("carried out a year later: got %+v, want nothing", e)
	}
	if p.State != Appealed {
		t.Errorf("a year later: got %s, want %s", p.State, Appealed)
	}
}

// said applies triggers to a proposed penalty, all of them in time except an expiry.
func said(t *testing.T, triggers ...Trigger) *Penalty {
	t.Helper()
	p := proposed()
	for _, trigger := range triggers {
		at := opened
		if trigger == Expire {
			at = until
		}
		if _, err := p.take(trigger, "operator", "first", at); err != nil {
			t.Fatalf("%s in %v: got the error %v, want none", trigger, triggers, err)
		}
	}
	return p
}

func TestARepeatedTriggerChangesNothingAndADifferentOneIsRefused(t *testing.T) {
	t.Parallel()
	for _, history := range [][]Trigger{
		{Appeal}, {Reverse}, {Expire}, {Appeal, Reverse}, {Appeal, Uphold}, {Appeal, Uphold, Execute},
		{Appeal, Uphold, Reverse},
	} {
		for _, again := range Triggers() {
			p := said(t, history...)
			before := *p
			_, moves := allowed[p.State][again]
			if moves {
				continue
			}
			e, err := p.take(again, "operator", "second", until.Add(time.Hour))
			repeated := false
			for _, took := range history {
				repeated = repeated || took == again
			}
			if again == Uphold && p.State == Reversed {
				repeated = false // the later word took its place
			}
			if repeated != (err == nil) {
				t.Errorf("%v, then %s: got the error %v, want one: %t", history, again, err, !repeated)
			}
			if e != (Entry{}) {
				t.Errorf("%v, then %s: got the entry %+v, want none", history, again, e)
			}
			if *p != before {
				t.Errorf("%v, then %s: got %+v, want %+v", history, again, *p, before)
			}
		}
	}
}

func TestEachMoveRaisesTheRevisionByOneAndSaysWhoAndWhy(t *testing.T) {
	t.Parallel()
	p := proposed()
	if _, err := p.appeal(provider, "text", opened); err != nil {
		t.Fatal(err)
	}
	e, err := p.take(Uphold, "operator:alice", "replayed", opened.Add(time.Hour))
	want := Entry{Revision: 3, From: Appealed, To: Upheld, Cause: "uphold", Actor: "operator:alice", Reason: "replayed",
		At: opened.Add(time.Hour)}
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case e != want:
		t.Errorf("got %+v, want %+v", e, want)
	}
	e, err = p.carryOut(opened.Add(2 * time.Hour))
	want = Entry{Revision: 4, From: Upheld, To: Executed, Cause: "execute", Actor: ByPlatform, Reason: reasonExecuted,
		At: opened.Add(2 * time.Hour)}
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case e != want:
		t.Errorf("got %+v, want %+v", e, want)
	}
	if !p.ExecutedAt.Equal(want.At) {
		t.Errorf("executed at: got %s, want %s", p.ExecutedAt, want.At)
	}
}

func TestAPenaltyOfAnotherProviderIsNotFound(t *testing.T) {
	t.Parallel()
	p := proposed()
	_, err := p.appeal(ids.ProviderID{2}, "no", opened)
	if !fault.Is(err, NotFound) {
		t.Errorf("got the error %v, want %s", err, NotFound)
	}
	if p.State != Proposed {
		t.Errorf("got %s, want %s", p.State, Proposed)
	}
}

func draft() Draft {
	return Draft{ProviderID: provider, ModelID: "acme/tiny-1b", Kind: Benchmark, ShareBasisPoints: 1_000, Summary: "slow"}
}

func TestADraftOutOfItsBoundsIsRefusedByItsField(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field  string
		change func(*Draft)
		ok     bool
	}{
		{"", func(*Draft) {}, true},
		{"kind", func(d *Draft) { d.Kind = "mood" }, false},
		{"share_basis_points", func(d *Draft) { d.ShareBasisPoints = 0 }, false},
		{"", func(d *Draft) { d.ShareBasisPoints = MaxShare }, true},
		{"share_basis_points", func(d *Draft) { d.ShareBasisPoints = MaxShare + 1 }, false},
		{"model_id", func(d *Draft) { d.ModelID = "" }, false},
		{"model_id", func(d *Draft) { d.ModelID = strings.Repeat("m", maxModel+1) }, false},
		{"", func(d *Draft) { d.Summary = strings.Repeat("é", maxSummary) }, true},
		{"summary", func(d *Draft) { d.Summary = strings.Repeat("é", maxSummary+1) }, false},
		{"summary", func(d *Draft) { d.Summary = "two\nlines" }, false},
		{"summary", func(d *Draft) { d.Summary = "" }, false},
		{"", func(d *Draft) { d.Family = strings.Repeat("f", 32) }, true},
		{"family", func(d *Draft) { d.Family = strings.Repeat("f", 33) }, false},
		{"family", func(d *Draft) { d.Family = "two words" }, false},
	} {
		d := draft()
		tc.change(&d)
		err := d.check()
		switch f, ok := fault.As(err); {
		case ok == tc.ok:
			t.Errorf("%+v: got the error %v, want one on %q", d, err, tc.field)
		case ok && f.Param != tc.field:
			t.Errorf("%+v: got the error %v, want one on %q", d, err, tc.field)
		}
	}
}

func TestAnAppealHasOneToFourThousandCharacters(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"":                                 false,
		" \n\t":                            false,
		"a\x00b":                           false,
		"a\xffb":                           false,
		"Two\nlines\tof\r\ntext, «quoted»": true,
		strings.Repeat("é", maxAppeal):     true,
		strings.Repeat("é", maxAppeal+1):   false,
	} {
		if err := checkAppeal(text); (err == nil) != ok {
			t.Errorf("%.20q: got the error %v, want one: %t", text, err, !ok)
		}
	}
}

func TestOnlyAUUIDOfVersionSevenIsAPenaltysID(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"0192f0c0-0000-7000-8000-000000000001": true,
		"0192f0c0-0000-4000-8000-000000000001": false,
		"0192f0c0-0000-7000-c000-000000000001": false,
		"00000000-0000-0000-0000-000000000000": false,
		"":                                     false,
	} {
		if _, err := ParseID(text); (err == nil) != ok {
			t.Errorf("%q: got the error %v, want one: %t", text, err, !ok)
		}
	}
}

func TestAPageIsBounded(t *testing.T) {
	t.Parallel()
	k := NewKeeper(nothing{}, nil)
	for _, tc := range []struct {
		number, length int
		ok             bool
	}{
		{0, 0, true}, {1, paging.MaxLength, true}, {1, paging.MaxLength + 1, false}, {1, -1, false}, {-1, 1, false},
	} {
		_, err := k.OfProvider(t.Context(), provider, tc.number, tc.length)
		if fault.Is(err, fault.InvalidValue) == tc.ok {
			t.Errorf("page %d of %d: got the error %v, want one: %t", tc.number, tc.length, err, !tc.ok)
		}
	}
}

// nothing is a store without penalties.
type nothing struct{ Store }

func (nothing) OfProvider(context.Context, ids.ProviderID, int, int) ([]Penalty, int, error) {
	return nil, 0, nil
}
