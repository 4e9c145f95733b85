package slash_test

import (
	"slices"
	"testing"
	"time"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/slash"
)

var (
	over   = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	lapses = over.Add(28 * 24 * time.Hour)
)

// part is one on a chain.
func part(s slash.State) slash.Part {
	p := slash.Part{ID: contract.Word{1}, Chain: chain.Base, Amount: chain.NewAmount(5), State: s}
	if s != slash.Opened && s != slash.Missed {
		p.AppealUntil, p.LapsesAt = over, lapses
	}
	return p
}

func TestThePenaltyDecidesHowItsPartsEnd(t *testing.T) {
	t.Parallel()
	type pair struct {
		part slash.State
		of   penalty.State
	}
	// Before the end of the time to appeal on the chain, and from it on.
	before := map[pair]slash.Action{
		{slash.Escrowed, penalty.Appealed}: slash.Appeal, {slash.Escrowed, penalty.Upheld}: slash.Appeal,
		{slash.Escrowed, penalty.Reversed}: slash.Appeal,
		{slash.Appealed, penalty.Executed}: slash.Uphold, {slash.Appealed, penalty.Reversed}: slash.Reverse,
	}
	after := map[pair]slash.Action{
		{slash.Escrowed, penalty.Executed}: slash.Execute,
		{slash.Appealed, penalty.Executed}: slash.Uphold, {slash.Appealed, penalty.Reversed}: slash.Reverse,
	}
	for _, s := range slash.States() {
		for _, of := range penalty.States() {
			for _, c := range []struct {
				when string
				now  time.Time
				want map[pair]slash.Action
			}{{"before", over.Add(-time.Second), before}, {"after", over, after}, {"unknown", time.Time{}, before}} {
				want := c.want[pair{s, of}]
				if s == slash.Opened {
					want = slash.Propose
					if of == penalty.Reversed {
						want = slash.Drop
					}
				}
				if got := part(s).Due(of, c.now); got != want {
					t.Errorf("%s of a penalty that is %s, %s: got %q, want %q", s, of, c.when, got, want)
				}
			}
		}
	}
}

func TestAPartThatNobodyEndsLapses(t *testing.T) {
	t.Parallel()
	for _, s := range slash.States() {
		want := s == slash.Escrowed || s == slash.Appealed
		for _, of := range penalty.States() {
			if got := part(s).Due(of, lapses) == slash.LapseNow; got != want {
				t.Errorf("%s of a penalty that is %s: got lapse %t, want %t", s, of, got, want)
			}
			if part(s).Due(of, lapses.Add(-time.Second)) == slash.LapseNow {
				t.Errorf("%s of a penalty that is %s: it lapses a second early", s, of)
			}
		}
	}
}

func TestAPenaltyWaitsForTheClocksOfItsParts(t *testing.T) {
	t.Parallel()
	running := map[slash.State]bool{slash.Opened: true, slash.Escrowed: true, slash.Appealed: true}
	for _, s := range slash.States() {
		if got := part(s).ClockRuns(over.Add(-time.Second)); got != running[s] {
			t.Errorf("%s, before the end: got %t, want %t", s, got, running[s])
		}
		if got, want := part(s).ClockRuns(over), running[s] && s != slash.Escrowed; got != want {
			t.Errorf("%s, at the end: got %t, want %t", s, got, want)
		}
		byCard := slash.Part{State: s, Card: slash.Cent}
		if got := byCard.ClockRuns(over.Add(-time.Second)); got != (s == slash.Appealed) {
			t.Errorf("%s by card: got %t, want %t: a card has no clock of its own", s, got, s == slash.Appealed)
		}
	}
}

func TestAPartByCardEndsWithItsPenalty(t *testing.T) {
	t.Parallel()
	want := map[penalty.State]slash.Action{penalty.Executed: slash.PostForfeited, penalty.Reversed: slash.PostWon}
	for _, of := range penalty.States() {
		p := slash.Part{State: slash.Opened, Card: slash.Cent}
		if got := p.Due(of, over); got != slash.PostSlashed {
			t.Errorf("opened, of a penalty that is %s: got %q, want %q", of, got, slash.PostSlashed)
		}
		p.State = slash.Escrowed
		if got := p.Due(of, over); got != want[of] {
			t.Errorf("in escrow, of a penalty that is %s: got %q, want %q", of, got, want[of])
		}
		for _, s := range []slash.State{slash.Executed, slash.Reversed, slash.Missed} {
			if p.State = s; p.Due(of, over) != slash.None {
				t.Errorf("%s, of a penalty that is %s: got %q, want nothing", s, of, p.Due(of, over))
			}
		}
	}
}

func TestAPartFollowsTheEventsOfItsContract(t *testing.T) {
	t.Parallel()
	to := map[contract.Kind]slash.State{contract.SlashProposed: slash.Escrowed, contract.SlashAppealed: slash.Appealed,
		contract.SlashExecuted: slash.Executed, contract.SlashReversed: slash.Reversed, contract.SlashLapsed: slash.Lapsed}
	for _, s := range slash.States() {
		for kind, want := range to {
			e := position.Event{Event: contract.Event{Kind: kind, Amount: chain.NewAmount(5), Until: over}}
			next, ok, err := part(s).After(e)
			switch follows := slices.Contains(s.Next(), want); {
			case ok != follows || (err == nil) != follows:
				t.Errorf("%s, %s: got %t and the error %v, want %t", s, kind, ok, err, follows)
			case follows && next.State != want:
				t.Errorf("%s, %s: got %s, want %s", s, kind, next.State, want)
			}
		}
		_, ok, err := part(s).After(position.Event{Event: contract.Event{Kind: contract.Deposited}})
		if ok {
			t.Errorf("%s, a deposit: got that the part follows it, want that it does not", s)
		}
		if err != nil {
			t.Errorf("%s, a deposit: got the error %v, want none", s, err)
		}
	}
	otherwise := position.Event{Event: contract.Event{Kind: contract.SlashProposed, Amount: chain.NewAmount(6)}}
	_, ok, err := part(slash.Opened).After(otherwise)
	if ok {
		t.Error("proposed with another amount: got that the part follows it, want that it does not")
	}
	if err == nil {
		t.Error("proposed with another amount: got no error, want one")
	}
	proposed := otherwise
	proposed.Amount, proposed.Until = chain.NewAmount(5), over
	next, _, err := part(slash.Opened).After(proposed)
	if err != nil {
		t.Fatal(err)
	}
	if !next.AppealUntil.Equal(over) {
		t.Errorf("proposed: got appeals until %v, want until %v", next.AppealUntil, over)
	}
	if !next.LapsesAt.Equal(lapses) {
		t.Errorf("proposed: got that it lapses at %v, want at %v", next.LapsesAt, lapses)
	}
}

func TestAPartTakesTheTimesOfAnEventThatIsMinedAgain(t *testing.T) {
	t.Parallel()
	then, later := over.Add(time.Hour), lapses.Add(time.Hour)
	for name, c := range map[string]struct {
		state            slash.State
		kind             contract.Kind
		amount           uint64
		fits             bool
		appeal, lapsesAt time.Time
	}{
		"the proposal":                        {slash.Escrowed, contract.SlashProposed, 5, true, then, later},
		"the proposal of another amount":      {slash.Escrowed, contract.SlashProposed, 6, false, over, lapses},
		"the appeal":                          {slash.Appealed, contract.SlashAppealed, 0, true, over, then},
		"the proposal of what is appealed":    {slash.Appealed, contract.SlashProposed, 5, true, over, lapses},
		"the execution of what was executed":  {slash.Executed, contract.SlashExecuted, 5, true, over, lapses},
		"the appeal of what was not appealed": {slash.Executed, contract.SlashAppealed, 0, true, over, lapses},
	} {
		was := part(c.state)
		was.AppealUntil, was.LapsesAt = over, lapses
		e := position.Event{Event: contract.Event{Kind: c.kind, Amount: chain.NewAmount(c.amount),
			Depositor: was.Depositor, Until: then}}
		got, fits := was.Again(e)
		if fits != c.fits {
			t.Errorf("%s: got that it fits: %t, want %t", name, fits, c.fits)
		}
		if got.State != c.state {
			t.Errorf("%s: got %s, want that it stays %s", name, got.State, c.state)
		}
		if !got.AppealUntil.Equal(c.appeal) {
			t.Errorf("%s: got appeals until %v, want until %v", name, got.AppealUntil, c.appeal)
		}
		if !got.LapsesAt.Equal(c.lapsesAt) {
			t.Errorf("%s: got that it lapses at %v, want at %v", name, got.LapsesAt, c.lapsesAt)
		}
	}
}

func TestStatesOfPartsEndWhereNothingFollows(t *testing.T) {
	t.Parallel()
	for _, s := range slash.States() {
		// What was missed is final unless a chain shows that it was not.
		if got, want := s.Final(), len(s.Next()) == 0 || s == slash.Missed; got != want {
			t.Errorf("%s: got final %t, want %t: %v follow", s, got, want, s.Next())
		}
	}
}
