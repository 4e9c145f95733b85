package rpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/services/provider-hub/internal/presence"
	"svc.internal/services/provider-hub/internal/provider"
)

// lives lets time pass in which a hub runs, and the member's node is connected or not.
func (d *desk) lives(m member, connected bool, hours int) {
	d.Helper()
	account, err := d.accounts.Holder(context.Background(), apikey.Digest(m.digest))
	d.must(err)
	d.epoch++
	c := presence.Connection{Epoch: d.epoch, Provider: account.ID, Node: "node-0001", Started: d.clock.Now(),
		EndedBy: presence.ByProvider}
	d.write(presencePage())
	for range hours {
		d.clock.Advance(time.Hour)
		d.write(presencePage())
	}
	if c.Ended = d.clock.Now(); connected {
		d.write(presence.Page{Connections: []presence.Connection{c}})
	}
}

// judged is the last judgement of a probation in the history.
func (d *desk) judged(m member) (last string) {
	d.Helper()
	for _, line := range d.history(m) {
		if strings.HasPrefix(line, "fail_probation") || strings.HasPrefix(line, "probation_passed") {
			last = line
		}
	}
	return last
}

// An activation of 20 hours, a removal of 50, and the 4 hours that were left. The first 5
// minutes are excused, because no hub ran before.
func TestAProbationThatARemovalInterruptedIsJudgedByAllItsParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, behind bool
		want           string
	}{
		"away for 20 hours, then there for 4": {false, true, "fail_probation: active to pending by platform " +
			"(connected for 16.72 % of the time)"},
		"there for 20 hours, then away for 4": {true, false,
			"probation_passed: active by platform (connected for 83.33 % of the time)"},
	} {
		d := setup(t)
		m := d.in(active)
		d.lives(m, c.before, 20)
		d.must(d.expel(m, verdictA))
		d.lives(m, false, 50)
		d.must(d.reinstate(m, verdictA))
		d.is(name, m, active)
		d.lives(m, c.behind, 4)
		d.sweep()
		if got := d.judged(m); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestTwoRemovalsInterruptOneProbation(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	for _, verdict := range []string{verdictA, verdictB} {
		d.lives(m, false, 7)
		d.must(d.expel(m, verdict))
		d.lives(m, false, 30)
		d.must(d.reinstate(m, verdict))
	}
	ends := d.is("reinstated twice", m, active).GetProbationEndsAt().AsTime()
	if want := d.clock.Now().Add(10 * time.Hour); !ends.Equal(want) {
		t.Errorf("the probation ends at: got %v, want %v", ends, want)
	}
	d.lives(m, true, 10)
	d.sweep()
	const want = "fail_probation: active to pending by platform (connected for 41.81 % of the time)"
	if got := d.judged(m); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// The next activation is like any other.
	d.benchmark(m, true)
	d.lives(m, true, 24)
	d.sweep()
	const again = "probation_passed: active by platform (connected for 100.00 % of the time)"
	if got := d.judged(m); got != again {
		t.Errorf("another activation: got %q, want %q", got, again)
	}
}

// The verdict comes between the end of the probation and the sweep that judges it.
func TestARemovalSparesNoProviderItsJudgement(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.lives(m, false, 25)
	d.must(d.expel(m, verdictA))
	d.must(d.reinstate(m, verdictA))
	d.clock.Advance(time.Second)
	d.sweep()
	d.is("away for the whole probation", m, pending)
}

func TestWhatWasLeftOfAProbationCountsFor7Days(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after time.Duration
		want  time.Duration
	}{
		"a second before": {provider.RestKept - time.Second, 4 * time.Hour},
		"behind":          {provider.RestKept, provider.Probation},
	} {
		d := setup(t)
		m := d.in(active)
		d.clock.Advance(20 * time.Hour)
		d.must(d.expel(m, verdictA))
		d.must(d.deposit(m, false, 1))
		d.clock.Advance(12 * 24 * time.Hour) // the time of the removal does not count
		d.must(d.reinstate(m, verdictA))
		d.is(name+", without collateral", m, pending)
		d.clock.Advance(c.after)
		d.must(d.deposit(m, true, 2))
		ends := d.is(name, m, active).GetProbationEndsAt().AsTime()
		if want := d.clock.Now().Add(c.want); !ends.Equal(want) {
			t.Errorf("%s: the probation ends at: got %v, want %v", name, ends, want)
		}
	}
}
