package slice

import (
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/limit"
)

// granted is the state of a turn that left a slice with the account's key.
func (b *bundle) granted(epoch int64) State {
	account, keys := b.world.stateLocked(b.account, time.Now())
	return State{Epoch: epoch, Plain: true, Amount: 1000, Places: 20, Account: account, Keys: keys}
}

// flying returns an account whose slice has an admitted request in the turn under way and another since.
func (b *bundle) flying(t *testing.T) *account {
	t.Helper()
	a := newAccount(b.account.id, wanted, time.Now())
	a.take(time.Now())
	a.answer(b.granted(3), time.Now(), time.Now())
	for n := range 2 {
		r := b.request(100)
		r.ZeroPriced = true
		if _, _, found, _ := a.admit(&r, time.Now()); found != admitted {
			t.Fatalf("got the verdict %d, want an admission", found)
		}
		if n == 0 {
			a.take(time.Now())
		}
	}
	return a
}

func TestAnAnswerLeavesWhatWasAdmittedMeanwhile(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		a := b.flying(t)
		st := b.granted(3)
		st.Account.Open = 7
		same(t, "pins written", a.answer(st, time.Now(), time.Now()).written, 1)
		same(t, "pins left", len(a.pins), 1)
		same(t, "credit", a.decider.Free, 900)
		same(t, "requests under way", a.decider.Open, 8)
		same(t, "places", a.places, 19)
		turn, _ := a.take(time.Now())
		every := limit.Meter{PerMinute: 6000}.Take().Ahead
		same(t, "rate of the key ahead, of both requests", turn.Ahead[b.key][limit.LLM-1], 2*every)
		same(t, "rate of models without a price ahead", turn.ZeroPriced, 2*every)
	})
}

func TestAFailedTurnIsRepeatedWhole(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		a := b.flying(t)
		a.fail(errLost)
		turn, _ := a.take(time.Now())
		same(t, "pins", len(turn.Pins), 2)
		same(t, "keys with rates", len(turn.Ahead), 1)
	})
}

func TestASliceThatEndedDuringATurnWritesWhatWasAdmittedMeanwhile(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		a := b.flying(t)
		got := a.answer(State{Plain: true}, time.Now(), time.Now())
		same(t, "over", got.over, false)
		same(t, "unfinished", got.unfinished, true)
		turn, _ := a.take(time.Now())
		same(t, "pins of the next turn", len(turn.Pins), 1)
		same(t, "slice of the next turn", turn.Epoch, 3)
		same(t, "the next turn closes", turn.Close, true)
		if got := a.answer(State{Plain: true}, time.Now(), time.Now()); !got.over {
			t.Error("with all written: got it unfinished, want it over")
		}
	})
}

func TestWhatASliceShouldHaveFollowsItsUse(t *testing.T) {
	now := time.Unix(1000, 0)
	d := demand{at: now}
	for range 1000 { // a hundred a second
		now = now.Add(10 * time.Millisecond)
		d.fade(now)
		d.add(7)
	}
	credit, places := d.want()
	if want := money.NanoUSD(5 * 100 * 7); credit < want*8/10 || credit > want*11/10 {
		t.Errorf("got a wish for %d, want about %d", credit, want)
	}
	if places != MaxPlaces {
		t.Errorf("got a wish for %d places, want %d", places, MaxPlaces)
	}
	d.add(money.NanoUSD(1) << 62)
	if credit, _ = d.want(); credit != handful*maxDemand {
		t.Errorf("after a huge request: got a wish for %d, want %d", credit, handful*maxDemand)
	}
	d.fade(now.Add(span))
	credit, places = d.want()
	same(t, "credit that is wanted after a time without use", credit, 0)
	same(t, "places that are wanted after a time without use", places, 2*handful)
}

// Every pair of a phase and an event is in the table or cannot come.
func TestTheLifeOfASlice(t *testing.T) {
	const never = phase("")
	events := []event{asked, granted, ended, endedUnwritten, failed, recalled}
	for p, want := range map[phase][]phase{
		wanted:  {opening, never, never, never, never, gone},
		opening: {never, open, gone, never, closing, closing},
		open:    {never, open, gone, closing, open, closing},
		closing: {never, closing, gone, closing, closing, closing},
		gone:    {never, never, never, never, never, gone},
	} {
		for i, e := range events {
			got, ok := p.after(e)
			same(t, fmt.Sprintf("%s after %s", p, e), got, want[i])
			same(t, fmt.Sprintf("%s after %s: in the table", p, e), ok, want[i] != never)
		}
	}
}
