package rpc_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

const (
	ofAdmin  = hubv1.SuspensionCause_SUSPENSION_CAUSE_ADMIN
	ofRefund = hubv1.SuspensionCause_SUSPENSION_CAUSE_REFUND
	ofCard   = hubv1.SuspensionCause_SUSPENSION_CAUSE_CARD
	ofExit   = hubv1.SuspensionCause_SUSPENSION_CAUSE_EXIT
)

// suspend is the word of settlement on a cause.
func (d *desk) suspend(m member, cause hubv1.SuspensionCause, on bool, revision int64) error {
	_, err := d.deposits.SetSuspension(d.Context(), &hubv1.SetSuspensionRequest{ProviderId: m.id, Cause: cause, On: on,
		Revision: revision, Reason: "settlement said so"})
	return err
}

// causesOf are the causes that a provider reads of itself, the oldest first.
func (d *desk) causesOf(m member) []hubv1.SuspensionCause {
	d.Helper()
	var list []hubv1.SuspensionCause
	for _, s := range d.payee(m).GetSuspensions() {
		list = append(list, s.GetCause())
	}
	return list
}

func (d *desk) wantCauses(what string, m member, want ...hubv1.SuspensionCause) {
	d.Helper()
	if got := d.causesOf(m); !slices.Equal(got, want) {
		d.Errorf("%s: causes: got %v, want %v", what, got, want)
	}
}

func TestTheEndOfOneCauseEndsNoOther(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, order := range [][]hubv1.SuspensionCause{{ofRefund, ofCard}, {ofCard, ofRefund}} {
		m := d.in(active)
		d.must(d.suspend(m, ofRefund, true, 1))
		d.is("a first cause", m, suspended)
		d.clock.Advance(time.Second)
		d.must(d.suspend(m, ofCard, true, 1))
		d.wantCauses("a second cause", m, ofRefund, ofCard)
		d.must(d.suspend(m, order[0], false, 2))
		d.is("one has ended", m, suspended)
		d.wantCauses("one has ended", m, order[1])
		d.must(d.suspend(m, order[1], false, 2))
		d.is("both have ended", m, pending)
		d.wantCauses("both have ended", m)
	}
}

func TestAnOperatorAndSettlementEndWhatTheyBegan(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.must(d.suspend(m, ofRefund, true, 1))
	_, err := d.set(m, pending)
	d.wantReason("an operator lifts a refund's", err, fault.TransitionNotAllowed)
	d.clock.Advance(time.Second)
	_, err = d.set(m, suspended) // although it is suspended
	d.must(err)
	d.wantCauses("an operator, too", m, ofRefund, ofAdmin)
	d.must(d.suspend(m, ofRefund, false, 2))
	d.is("the refund is over", m, suspended)
	_, err = d.set(m, pending)
	d.must(err)
	d.is("both have ended", m, pending)
	d.wantReason("settlement speaks as an operator", d.suspend(m, ofAdmin, true, 3), fault.InvalidValue)
	d.wantReason("no cause", d.suspend(m, 0, true, 3), fault.InvalidValue)
	d.wantReason("an unknown cause", d.suspend(m, 99, true, 3), fault.InvalidValue)
	d.is("nothing of it counts", m, pending)
}

func TestASuspensionUsesTheBenchmarkUpAndEndsAsPending(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.must(d.suspend(m, ofRefund, true, 1))
	d.must(d.suspend(m, ofRefund, false, 2))
	d.sweep()
	p := d.is("cancelled", m, pending)
	if !p.GetQualification().GetCollateralConfirmed() {
		t.Error("collateral: got none, want what it had")
	}
	if p.GetQualification().GetBenchmarkPassed() {
		t.Error("benchmark: got one that counts, want none")
	}
	d.benchmark(m, true)
	d.is("with a fresh benchmark", m, active)
}

func TestOnlyANewerWordOnACauseCounts(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.must(d.suspend(m, ofRefund, true, 5))
	before := d.history(m)
	for _, stale := range []int64{1, 4, 5} {
		d.must(d.suspend(m, ofRefund, false, stale))
	}
	d.must(d.suspend(m, ofRefund, true, 5))
	d.is("after stale words", m, suspended)
	if got := d.history(m); !slices.Equal(got, before) {
		t.Errorf("stale words left entries: got %v, want %v", got, before)
	}
	d.must(d.suspend(m, ofCard, true, 1)) // counts by itself
	d.wantCauses("another cause's first word", m, ofRefund, ofCard)
	d.must(d.suspend(m, ofExit, false, 9)) // ends nothing, and is the last word all the same
	d.must(d.suspend(m, ofExit, true, 8))
	d.wantCauses("an end before its beginning", m, ofRefund, ofCard)
	for _, bad := range []int64{-1, 0, d.clock.Now().Add(25 * time.Hour).UnixMicro()} {
		d.wantReason(fmt.Sprint("revision ", bad), d.suspend(m, ofRefund, false, bad), fault.InvalidValue)
	}
	_, err := d.deposits.SetSuspension(t.Context(), &hubv1.SetSuspensionRequest{ProviderId: m.id, Cause: ofRefund,
		Revision: 6, Reason: strings.Repeat("x", 201)})
	d.wantReason("a long reason", err, fault.InvalidValue)
	d.wantReason("nobody", d.suspend(member{id: "01890000-0000-7000-8000-000000000000"}, ofRefund, true, 1),
		fault.ProviderNotFound)
}

func TestTheHistoryNamesTheCause(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	d.must(d.suspend(m, ofRefund, true, 1))
	d.must(d.suspend(m, ofCard, true, 1))
	d.must(d.suspend(m, ofRefund, false, 2))
	d.must(d.suspend(m, ofCard, false, 2))
	d.wantHistory(m,
		"suspend: pending to suspended by platform (settlement said so)",
		"suspension_cause_begun: suspended by platform (settlement said so)",
		"suspension_cause_ended: suspended by platform (settlement said so)",
		"lift: suspended to pending by platform (settlement said so)")
	got, err := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id})
	d.must(err)
	var named []hubv1.SuspensionCause
	for _, c := range slices.Backward(got.GetList()) {
		named = append(named, c.GetCause())
	}
	if want := []hubv1.SuspensionCause{ofRefund, ofCard, ofRefund, ofCard}; !slices.Equal(named, want) {
		t.Errorf("causes: got %v, want %v", named, want)
	}
}

func TestAProviderReadsWhyItIsSuspended(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	_, err := d.set(m, suspended) // because
	d.must(err)
	d.clock.Advance(time.Second)
	d.must(d.suspend(m, ofRefund, true, 1))
	own := d.own(m)
	shown := own.GetProvider().GetSuspensions()
	if len(shown) != 2 {
		t.Fatalf("suspensions: got %v, want 2", shown)
	}
	if shown[0].GetReason() != "" {
		t.Errorf("an operator's reason: got %q, want none", shown[0].GetReason())
	}
	if shown[1].GetReason() != "settlement said so" {
		t.Errorf("settlement's reason: got %q, want what it said", shown[1].GetReason())
	}
	for _, s := range shown {
		if !strings.Contains(own.GetWarning(), s.GetMeaning()) {
			t.Errorf("warning: got %q, want %q in it", own.GetWarning(), s.GetMeaning())
		}
		if !slices.Contains(own.GetNextSteps(), s.GetMeaning()) {
			t.Errorf("next steps: got %q, want %q among them", own.GetNextSteps(), s.GetMeaning())
		}
	}
	if strings.Contains(own.GetWarning(), "because") {
		t.Errorf("warning: got %q, want it without an operator's reason", own.GetWarning())
	}
}

// A removed provider would otherwise leave its removal by a refund.
func TestACauseOfSettlementsEndsNoRemoval(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.must(d.expel(m, verdictA))
	d.must(d.suspend(m, ofRefund, true, 1))
	d.is("a refund during a removal", m, rejected)
	d.wantCauses("a refund during a removal", m, ofRefund)
	d.must(d.suspend(m, ofRefund, false, 2))
	d.is("the refund is over", m, rejected)
	d.wantReason("its key", d.connects(m.key), fault.AccountFrozen)
	d.must(d.suspend(m, ofRefund, true, 3))
	d.must(d.reinstate(m, verdictA))
	d.is("reinstated while the refund lasts", m, suspended)
	d.must(d.suspend(m, ofRefund, false, 4))
	d.is("the refund is over", m, pending)
}

func TestACauseThatEndsDuringARemovalSuspendsNobodyAfterIt(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.must(d.suspend(m, ofRefund, true, 1))
	d.must(d.expel(m, verdictA))
	d.must(d.suspend(m, ofRefund, false, 2))
	d.must(d.reinstate(m, verdictA))
	d.is("reinstated", m, active)
}

func TestAReviewWaitsForSettlementsCausesAndEndsAnOperators(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(suspended)
	d.must(d.expel(m, verdictA))
	d.must(d.suspend(m, ofRefund, true, 1))
	d.clock.Advance(7 * 24 * time.Hour)
	d.wantReason("during a refund", d.review(m), fault.TransitionNotAllowed)
	d.wantCauses("during a refund", m, ofAdmin, ofRefund)
	d.must(d.suspend(m, ofRefund, false, 2))
	d.must(d.review(m))
	d.is("after the refund", m, underReview)
	d.wantCauses("after the refund", m)
}

func TestAnOperatorStillEndsARemovalOfASuspendedProvider(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(suspended)
	d.must(d.expel(m, verdictA))
	_, err := d.set(m, suspended)
	d.must(err)
	d.is("suspended again", m, suspended)
	d.wantReason("a reversal", d.reinstate(m, verdictA), fault.TransitionNotAllowed)
}

func TestRacesOfCausesLeaveASuspensionWhileOneHolds(t *testing.T) {
	t.Parallel()
	for range 6 {
		d := setup(t)
		m := d.in(active)
		d.must(d.suspend(m, ofRefund, true, 1))
		var group sync.WaitGroup
		begin := make(chan struct{})
		for _, do := range []func() error{
			func() error { return d.suspend(m, ofCard, true, 1) },
			func() error { return d.suspend(m, ofRefund, false, 2) },
			func() error { return d.suspend(m, ofExit, true, 1) },
			func() error { return d.suspend(m, ofExit, false, 2) },
			func() error { return d.suspend(m, ofRefund, true, 1) },
		} {
			group.Go(func() { <-begin; d.orFatal(do()) })
		}
		close(begin)
		group.Wait()
		d.is("after the race", m, suspended)
		d.wantCauses("after the race", m, ofCard)
		d.must(d.suspend(m, ofCard, false, 2))
		d.is("the last has ended", m, pending)
	}
}
