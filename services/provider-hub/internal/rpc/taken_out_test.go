package rpc_test

import (
	"strings"
	"testing"
	"time"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// An operator's own reason is "because" or "seen" in these tests.
func TestAProviderReadsWhyItWasTakenOutOfService(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes func(d *desk, m member)
		want  string
	}{
		"by the verifier": {func(d *desk, m member) { d.benchmark(m, false) },
			"the benchmark counts no longer (acme/tiny-1b)."},
		"by settlement": {func(d *desk, m member) { d.must(d.deposit(m, false, 1)) },
			"the collateral is confirmed no longer (final on chain)."},
		"by an operator": {func(d *desk, m member) {
			_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: no()})
			d.must(err)
		}, "the collateral is confirmed no longer."},
		"by an operator who sets the status": {func(d *desk, m member) {
			_, err := d.set(m, pending)
			d.must(err)
		}, "what was confirmed was withdrawn."},
		"by its probation": {func(d *desk, m member) {
			d.lives(m, false, 24)
			d.sweep()
		}, "the probation was failed (connected for 0.00 % of the time)."},
		"by time": {func(d *desk, m member) {
			d.clock.Advance(30 * 24 * time.Hour)
			d.sweep() // without any hub the probation is passed
			d.sweep()
		}, "the benchmark expired."},
	} {
		d := setup(t)
		m := d.in(active)
		if got := d.own(m).GetWarning(); got != "" {
			t.Errorf("%s, while it serves: got %q, want no warning", name, got)
		}
		c.takes(d, m)
		d.is(name, m, pending)
		history, err := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id, PageSize: 1})
		d.must(err)
		at := history.GetList()[0].GetChangedAt().AsTime().Format(time.RFC3339)
		if got, want := d.own(m).GetWarning(), "Taken out of service at "+at+": "+c.want; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		d.activate(m)
		if got := d.own(m).GetWarning(); got != "" {
			t.Errorf("%s, active again: got %q, want no warning", name, got)
		}
	}
}

func TestOnlyWhatEndedAnActivationIsSaidToHaveTakenAProviderOut(t *testing.T) {
	t.Parallel()
	d := setup(t)
	never, removed, suspends := d.in(pending), d.in(active), d.in(active)
	d.must(d.expel(removed, verdictA))
	_, err := d.set(suspends, suspended)
	d.must(err)
	_, err = d.set(suspends, pending)
	d.must(err)
	for name, m := range map[string]member{"never active": never, "removed": removed, "lifted": suspends} {
		if got := d.own(m).GetWarning(); strings.Contains(got, "Taken out") {
			t.Errorf("%s: got %q, want nothing of that kind", name, got)
		}
	}
}
