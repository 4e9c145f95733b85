package rpc_test

import (
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func (d *desk) setReference(m member, reference bool) error {
	_, err := d.admin.SetReference(d.Context(), &hubv1.SetReferenceRequest{ProviderId: m.id, Reference: reference,
		Reason: "baseline"})
	return err
}

func TestAReferenceIsNeverActive(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	for range 2 {
		d.must(d.setReference(m, true))
	}
	if !d.read(m).GetReference() {
		t.Error("reference: got false, want true")
	}
	d.seen(m, "node-0001", goodGPU)
	d.must(d.deposit(m, true, 1))
	d.must(d.report(m, true, d.clock.Now(), 1))
	d.sweep()
	changed, err := d.accounts.Qualify(t.Context())
	d.must(err)
	if len(changed) != 0 {
		t.Errorf("activated: got %d, want 0", len(changed))
	}
	d.is("with every fact", m, pending)
	_, err = d.set(m, active)
	d.wantReason("set active by an operator", err, fault.TransitionNotAllowed)
	for _, to := range []hubv1.ProviderStatus{underReview, approved} {
		_, err := d.set(m, to)
		d.must(err)
	}
	d.is("approved with every fact", m, activating)
	d.must(d.expel(m, verdictA))
	d.must(d.reinstate(m, verdictA))
	d.is("reinstated with every fact", m, pending)
	if err := d.connects(m.key); err != nil {
		t.Errorf("a reference connects: got the error %v, want none", err)
	}
	for range 2 {
		d.must(d.setReference(m, false))
	}
	d.is("an ordinary provider again", m, active)
	d.wantReason("a provider that is active", d.setReference(m, true), fault.TransitionNotAllowed)
	d.must(d.report(m, false, time.Time{}, 2))
	d.is("its benchmark is taken away", m, pending)
	d.wantReason("a provider that was active", d.setReference(m, true), fault.TransitionNotAllowed)
	var lines []string
	for _, line := range d.history(m) {
		if strings.HasPrefix(line, "reference") {
			lines = append(lines, strings.Fields(line)[0])
		}
	}
	if got, want := strings.Join(lines, " "), "reference_set: reference_cleared:"; got != want {
		t.Errorf("history: got %q, want %q", got, want)
	}
}

func TestOnlyAPendingProviderBecomesAReference(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, from := range all {
		m := d.in(from)
		err := d.setReference(m, true)
		if want := from != pending; fault.Is(err, fault.TransitionNotAllowed) != want {
			t.Errorf("from %v: refused: got %t, want %t: %v", from, !want, want, err)
		}
		if err := d.setReference(m, false); err != nil {
			t.Errorf("from %v, ordinary: got the error %v, want none", from, err)
		}
	}
	d.wantReason("nobody", d.setReference(member{id: "01890000-0000-7000-8000-000000000000"}, true),
		fault.ProviderNotFound)
}
