package rpc_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// waived is a provider for which the GPU rule is waived, so that collateral and
// benchmark alone decide.
func (d *desk) waived() member {
	d.Helper()
	m := d.signUp()
	_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: yes()})
	d.must(err)
	return m
}

func TestOnlyANewerRevisionChangesAFact(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.waived()
	d.must(d.deposit(m, true, 5))
	d.must(d.report(m, true, d.clock.Now(), 5))
	d.is("both hold", m, active)
	lines := len(d.history(m))
	for _, revision := range []int64{1, 4, 5} {
		d.must(d.deposit(m, false, revision))
		d.must(d.report(m, false, time.Time{}, revision))
		d.must(d.report(m, true, d.clock.Now().Add(-time.Hour), revision))
	}
	d.is("older and equal revisions", m, active)
	if got := len(d.history(m)); got != lines {
		t.Errorf("lines of history: got %d, want %d", got, lines)
	}
	expires := d.read(m).GetQualification().GetBenchmarkExpiresAt().AsTime()
	if want := d.clock.Now().Add(30 * 24 * time.Hour); !expires.Equal(want) {
		t.Errorf("the benchmark expires at: got %v, want %v", expires, want)
	}
	d.must(d.report(m, false, time.Time{}, 6))
	d.is("the benchmark is taken away", m, pending)
	d.must(d.report(m, true, d.clock.Now().Add(-time.Hour), 8))
	d.is("another benchmark", m, active)
	d.must(d.deposit(m, false, 6))
	d.is("collateral is taken away", m, pending)
	last := d.history(m)
	if got := last[len(last)-1]; !strings.HasPrefix(got, "withdraw: active to pending by platform") {
		t.Errorf("the last line: got %q, want a withdrawal by the platform", got)
	}
}

func TestABenchmarkThatIsTooOldOrAheadIsRefused(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.waived()
	now := d.clock.Now()
	for name, at := range map[string]time.Time{
		"no time": {},
		"too old": now.Add(-30*24*time.Hour - time.Millisecond),
	} {
		d.wantReason(name, d.report(m, true, at, 1), fault.InvalidValue)
	}
	for revision, at := range []time.Time{now.Add(-30 * 24 * time.Hour), now.Add(time.Minute), now} {
		if err := d.report(m, true, at, int64(revision)+1); err != nil {
			t.Errorf("passed at %v: got the error %v, want none", at, err)
		}
	}
	// A repeat is no report, however old its benchmark has become.
	d.clock.Advance(31 * 24 * time.Hour)
	if err := d.report(m, true, now, 3); err != nil {
		t.Errorf("the last report again: got the error %v, want none", err)
	}
	tomorrow := d.clock.Now().Add(24 * time.Hour).UnixMicro()
	for _, revision := range []int64{0, -1, tomorrow + 1, math.MaxInt64} {
		d.wantReason("the revision", d.report(m, false, time.Time{}, revision), fault.InvalidValue)
		d.wantReason("the revision", d.deposit(m, true, revision), fault.InvalidValue)
	}
	if err := d.deposit(m, true, tomorrow); err != nil {
		t.Errorf("the largest revision: got the error %v, want none", err)
	}
	nobody := member{id: "01890000-0000-7000-8000-000000000000"}
	d.wantReason("nobody", d.report(nobody, false, time.Time{}, 1), fault.ProviderNotFound)
	d.wantReason("nobody", d.deposit(nobody, true, 1), fault.ProviderNotFound)
}

// The clock of the verifier's database may be ahead of ours.
func TestABenchmarkOfTheFutureIsTakenOnceItIsPast(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.waived()
	at := d.clock.Now().Add(time.Minute + time.Millisecond)
	err := d.report(m, true, at, 1)
	d.wantReason("passed in the future", err, fault.TimeInFuture)
	d.clock.Advance(time.Millisecond)
	if err := d.report(m, true, at, 1); err != nil {
		t.Errorf("the same report a little later: got the error %v, want none", err)
	}
}

func TestAUsedUpBenchmarkCountsAgainByANewerReportAlone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.waived()
	d.must(d.deposit(m, true, 1))
	d.must(d.report(m, true, d.clock.Now(), 3))
	for _, to := range []hubv1.ProviderStatus{suspended, pending} {
		_, err := d.set(m, to)
		d.must(err)
	}
	d.must(d.report(m, true, d.clock.Now(), 3))
	d.must(d.report(m, true, d.clock.Now(), 2))
	d.is("lifted, and reported as before", m, pending)
	d.must(d.report(m, true, d.clock.Now(), 4))
	d.is("reported anew", m, active)
}

func TestSettlementsNewerWordWinsOverTheOperators(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.waived()
	d.must(d.report(m, true, d.clock.Now(), 1))
	d.must(d.deposit(m, true, 1))
	d.is("settlement confirms", m, active)
	_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: no()})
	d.must(err)
	d.is("the operator takes it back", m, pending)
	d.must(d.deposit(m, true, 1))
	d.is("settlement repeats itself", m, pending)
	d.must(d.deposit(m, true, 2))
	d.is("settlement says it again", m, active)
	_, err = d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
	d.must(err)
	d.must(d.deposit(m, false, 3))
	d.is("settlement takes it back", m, pending)
	_, err = d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
	d.must(err)
	d.is("the operator confirms", m, active)
}
