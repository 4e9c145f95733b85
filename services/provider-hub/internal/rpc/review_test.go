package rpc_test

import (
	"strings"
	"testing"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// A provider with all facts that is in review is not active, and is told so.
func TestAReviewThatLacksOnlyADecisionIsNotShownAsActive(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	d.must(d.review(m))
	d.seen(m, "node-0001", goodGPU)
	d.benchmark(m, true)
	_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
	d.must(err)
	d.is("with all facts", m, underReview)
	own := d.own(m)
	if own.GetStep() != 4 {
		t.Errorf("step: got %d, want 4", own.GetStep())
	}
	if own.GetStepLabel() != "Review" {
		t.Errorf(`step label: got %q, want "Review"`, own.GetStepLabel())
	}
	if next := strings.Join(own.GetNextSteps(), " "); !strings.Contains(next, "operators") {
		t.Errorf(`next steps: got %q, want "operators" in it`, next)
	}
}

// The reason of a rejection is "because" in these tests.
func TestAProviderReadsWhyItWasRejected(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(rejected)
	if got, want := d.own(m).GetWarning(), "Rejected at 2026-03-01T00:00:00Z: because."; got != want {
		t.Errorf("rejected: got %q, want %q", got, want)
	}
	d.clock.Advance(7 * 24 * 3600e9)
	d.must(d.review(m))
	if got := d.own(m).GetWarning(); got != "" {
		t.Errorf("in review again: got %q, want no warning", got)
	}
	suspended := d.in(suspended)
	if got := d.own(suspended).GetWarning(); strings.Contains(got, "because") {
		t.Errorf("an operator's reason of a suspension: got %q, want it without %q", got, "because")
	}
}
