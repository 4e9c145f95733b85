package rpc_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/session"
)

// The verdicts of most tests.
const (
	verdictA = "01890000-0000-4000-8000-00000000000a"
	verdictB = "01890000-0000-4000-8000-00000000000b"
)

// verdictOf is a verdict against a provider that no other one has.
func verdictOf(m member) string { return "a" + m.id[1:] }

func (d *desk) expel(m member, verdict string) error {
	_, err := d.verdicts.Expel(d.Context(), &hubv1.ExpelRequest{ProviderId: m.id, VerdictId: verdict,
		Reason: "other weights than stated"})
	return err
}

func (d *desk) reinstate(m member, verdict string) error {
	_, err := d.verdicts.Reinstate(d.Context(), &hubv1.ReinstateRequest{ProviderId: m.id, VerdictId: verdict,
		Reason: "the appeal was won"})
	return err
}

// report is the verifier's word on a benchmark.
func (d *desk) report(m member, passed bool, at time.Time, revision int64) error {
	r := &hubv1.ReportBenchmarkRequest{ProviderId: m.id, Passed: passed, Revision: revision, Reason: "acme/tiny-1b"}
	if !at.IsZero() {
		r.PassedAt = timestamppb.New(at)
	}
	_, err := d.verdicts.ReportBenchmark(d.Context(), r)
	return err
}

// deposit is the word of settlement on collateral.
func (d *desk) deposit(m member, confirmed bool, revision int64) error {
	_, err := d.deposits.SetCollateral(d.Context(), &hubv1.SetCollateralRequest{ProviderId: m.id, Confirmed: confirmed,
		Revision: revision, Reason: "final on chain", Source: hubv1.CollateralSource_COLLATERAL_SOURCE_CONTRACT})
	return err
}

// connects is whether a key lets an agent in.
func (d *desk) connects(key string) error {
	_, err := d.registry.Admit(context.Background(), session.Credential{Key: key})
	return err
}

// read reads a provider, whatever its keys.
func (d *desk) read(m member) *hubv1.Provider {
	d.Helper()
	got, err := d.directory.GetProvider(d.Context(), &hubv1.GetProviderRequest{ProviderId: m.id})
	d.must(err)
	return got.GetProvider()
}

// is fails unless a provider has a status, whatever its keys.
func (d *desk) is(what string, m member, want hubv1.ProviderStatus) *hubv1.Provider {
	d.Helper()
	got := d.read(m)
	if got.GetStatus() != want {
		d.Errorf("%s: status: got %v, want %v", what, got.GetStatus(), want)
	}
	return got
}

// passedProbation is a provider that is active for good.
func (d *desk) passedProbation() member {
	d.Helper()
	m := d.in(active)
	d.clock.Advance(24 * time.Hour) // without any hub the probation is passed
	d.sweep()
	if ends := d.is("passed its probation", m, active).GetProbationEndsAt(); ends != nil {
		d.Fatalf("the probation ends at: got %v, want nil", ends.AsTime())
	}
	return m
}

func (d *desk) wantReason(what string, err error, want fault.Reason) {
	d.Helper()
	if !fault.Is(err, want) {
		d.Errorf("%s: got the error %v, want the reason %v", what, err, want)
	}
}

func TestReinstateGivesBackExactlyWhatItsExpelTook(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.passedProbation()
	good := d.issue(m, "good")
	before, since, operators := d.issue(m, "revoked before"), d.issue(m, "revoked since"), d.issue(m, "by an operator")
	d.must(d.revoke(m, before.GetKeyId()))
	expiring := d.issue(m, "expires meanwhile")
	digest := apikey.Sum(expiring.GetApiKey())
	rotated, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: digest[:],
		OverlapSeconds: 3600})
	d.must(err)

	d.must(d.expel(m, verdictA))
	d.is("expelled", m, rejected)
	for name, key := range map[string]string{"first": m.key, "good": good.GetApiKey(), "rotated": rotated.GetApiKey()} {
		d.wantReason("expelled, with the key "+name, d.connects(key), fault.AccountFrozen)
	}
	d.must(d.revoke(m, since.GetKeyId()))
	_, err = d.admin.RevokeProviderKey(t.Context(), &hubv1.RevokeProviderKeyRequest{KeyId: operators.GetKeyId()})
	d.must(err)
	d.clock.Advance(2 * time.Hour)

	d.must(d.reinstate(m, verdictA))
	p := d.is("reinstated", m, active)
	if p.GetProbationEndsAt() != nil {
		t.Errorf("the probation ends at: got %v, want nil", p.GetProbationEndsAt().AsTime())
	}
	for name, key := range map[string]string{"first": m.key, "good": good.GetApiKey(), "rotated": rotated.GetApiKey()} {
		if err := d.connects(key); err != nil {
			t.Errorf("reinstated, with the key %s: got the error %v, want none", name, err)
		}
	}
	for name, key := range map[string]string{"revoked before": before.GetApiKey(), "revoked since": since.GetApiKey(),
		"revoked by an operator": operators.GetApiKey(), "expired": expiring.GetApiKey()} {
		d.wantReason("reinstated, with the key "+name, d.connects(key), fault.KeyRevoked)
	}
	// Each of them once more changes nothing, and an Expel that comes late does not, either.
	d.must(d.reinstate(m, verdictA))
	d.must(d.expel(m, verdictA))
	d.is("expelled again by the verdict that was reversed", m, active)
	if err := d.connects(m.key); err != nil {
		t.Errorf("expelled again by the verdict that was reversed: got the error %v, want none", err)
	}
}

func TestAnExpulsionIsAuditedInThePlatformsName(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.passedProbation()
	seen := len(d.history(m))
	for range 2 {
		d.must(d.expel(m, verdictA))
	}
	for range 2 {
		d.must(d.reinstate(m, verdictA))
	}
	got, err := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id})
	d.must(err)
	var lines []string
	for _, c := range got.GetList()[:len(got.GetList())-seen] {
		lines = append(lines, c.GetWhat()+" by "+c.GetBy()+": "+c.GetReason())
	}
	want := []string{
		"qualify by platform: ",
		"reinstate by platform: verdict " + verdictA + ": the appeal was won",
		"expel by platform: verdict " + verdictA + ": other weights than stated",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("history: got %q, want %q", lines, want)
	}
}

func TestEveryVerdictOfARemovalMustBeReversed(t *testing.T) {
	t.Parallel()
	for _, order := range [][2]string{{verdictA, verdictB}, {verdictB, verdictA}} {
		d := setup(t)
		m := d.passedProbation()
		d.must(d.expel(m, verdictA))
		issued, err := d.admin.IssueProviderKey(t.Context(), &hubv1.IssueProviderKeyRequest{ProviderId: m.id})
		d.must(err)
		d.must(d.expel(m, verdictB))
		d.must(d.reinstate(m, order[0]))
		d.is("the other verdict stands", m, rejected)
		d.wantReason("the other verdict stands", d.connects(m.key), fault.AccountFrozen)
		if w := d.own(m).GetWarning(); !strings.HasPrefix(w, "Removed from the network: other weights") {
			t.Errorf("the other verdict stands: warning: got %q", w)
		}
		d.must(d.expel(m, order[0])) // late
		d.must(d.reinstate(m, order[0]))
		d.is("the other verdict still stands", m, rejected)
		d.must(d.reinstate(m, order[1]))
		d.is("both are reversed", m, active)
		for name, key := range map[string]string{"A revoked": m.key, "B revoked": issued.GetApiKey()} {
			if err := d.connects(key); err != nil {
				t.Errorf("both are reversed, with the key that %s: got the error %v, want none", name, err)
			}
		}
	}
}

func TestReinstateIsRefusedUnlessItsVerdictKeepsTheProviderRejected(t *testing.T) {
	t.Parallel()
	d := setup(t)
	other := d.in(active)
	d.must(d.expel(other, verdictOf(other)))
	for name, prepare := range map[string]func(m member){
		"the review that came after 7 days": func(m member) { d.clock.Advance(7 * 24 * time.Hour); d.must(d.review(m)) },
		"an operator who suspended it":      func(m member) { _, err := d.set(m, suspended); d.must(err) },
		"an operator who suspended it and lifted that": func(m member) {
			for _, to := range []hubv1.ProviderStatus{suspended, pending} {
				_, err := d.set(m, to)
				d.must(err)
			}
		},
	} {
		m := d.in(active)
		verdict := verdictOf(m)
		d.must(d.expel(m, verdict))
		prepare(m)
		d.wantReason("behind "+name, d.reinstate(m, verdict), fault.TransitionNotAllowed)
		if err := d.connects(m.key); err == nil {
			t.Errorf("behind %s: the key lets an agent in", name)
		}
		d.must(d.expel(m, verdict)) // it is over
		if p := d.read(m); p.GetStatus() == rejected {
			t.Errorf("behind %s: the same verdict expels again", name)
		}
	}
	m := d.in(active)
	d.wantReason("a verdict that is not known", d.reinstate(other, verdictB), fault.TransitionNotAllowed)
	d.is("a verdict that is not known", other, rejected)
	d.wantReason("another provider's verdict", d.expel(m, verdictOf(other)), fault.TransitionNotAllowed)
	d.wantReason("another provider's verdict", d.reinstate(m, verdictOf(other)), fault.TransitionNotAllowed)
	d.is("another provider's verdict", m, active)
	for _, bad := range []string{"", "x", "00000000-0000-0000-0000-000000000000"} {
		d.wantReason("verdict "+bad, d.expel(m, bad), fault.InvalidValue)
		d.wantReason("verdict "+bad, d.reinstate(m, bad), fault.InvalidValue)
	}
	nobody := member{id: "01890000-0000-7000-8000-000000000000"}
	d.wantReason("nobody", d.expel(nobody, verdictB), fault.ProviderNotFound)
	d.wantReason("nobody", d.reinstate(nobody, verdictB), fault.ProviderNotFound)
}

func TestReinstateReturnsToWhatRejectedOrSuspendedBefore(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for from, want := range map[hubv1.ProviderStatus]hubv1.ProviderStatus{
		pending: pending, underReview: pending, approved: pending, activating: pending, active: active,
		suspended: suspended, rejected: rejected,
	} {
		m := d.in(from)
		d.must(d.expel(m, verdictOf(m)))
		d.must(d.reinstate(m, verdictOf(m)))
		d.sweep()
		if p := d.is(fmt.Sprintf("expelled from %v and reinstated", from), m, want); p.GetStatus() == suspended {
			_, err := d.set(m, pending)
			d.must(err)
		}
		if label := d.own(m).GetLabel(); label == "Removed" {
			t.Errorf("expelled from %v and reinstated: label: got %q", from, label)
		}
		if from == suspended || from == rejected {
			continue
		}
		if err := d.connects(m.key); err != nil {
			t.Errorf("expelled from %v and reinstated: got the error %v, want none", from, err)
		}
	}
}

func TestARemovalNeitherShortensNorRepeatsAProbation(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.clock.Advance(20 * time.Hour)
	d.must(d.expel(m, verdictA))
	d.clock.Advance(50 * time.Hour)
	d.must(d.reinstate(m, verdictA))
	ends := d.is("reinstated in its probation", m, active).GetProbationEndsAt().AsTime()
	if want := d.clock.Now().Add(4 * time.Hour); !ends.Equal(want) {
		t.Errorf("the probation ends at: got %v, want %v", ends, want)
	}
	// What was missing at the reversal may come later; the next activation is like any other.
	late := d.passedProbation()
	d.must(d.expel(late, verdictB))
	_, err := d.confirm(late, &hubv1.ConfirmQualificationRequest{Collateral: no()})
	d.must(err)
	d.must(d.reinstate(late, verdictB))
	d.is("without collateral", late, pending)
	d.must(d.deposit(late, true, 1))
	if ends := d.is("with collateral", late, active).GetProbationEndsAt(); ends != nil {
		t.Errorf("the probation ends at: got %v, want nil", ends.AsTime())
	}
	d.must(d.deposit(late, false, 2))
	d.must(d.deposit(late, true, 3))
	if ends := d.is("another activation", late, active).GetProbationEndsAt(); ends == nil {
		t.Error("another activation: the probation ends at: got nil, want a time")
	}
	// A provider that never was active has its probation.
	first := d.in(pending)
	d.must(d.expel(first, verdictOf(first)))
	_, err = d.confirm(first, &hubv1.ConfirmQualificationRequest{Collateral: yes(), GpuWaived: yes()})
	d.must(err)
	d.benchmark(first, true)
	d.must(d.reinstate(first, verdictOf(first)))
	if ends := d.is("never active", first, active).GetProbationEndsAt(); ends == nil {
		t.Error("never active: the probation ends at: got nil, want a time")
	}
}

func TestARemovedProviderSeesWhyAndMayOnlyReadAndAskAgain(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.passedProbation()
	_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: yes()})
	d.must(err)
	d.must(d.expel(m, verdictA))
	if err := fmt.Sprint(d.connects(m.key)); !strings.Contains(err, "removed from the network") {
		t.Errorf(`connects: got the error %q, want "removed from the network" in it`, err)
	}
	got := d.own(m)
	if got.GetLabel() != "Removed" {
		t.Errorf(`label: got %q, want "Removed"`, got.GetLabel())
	}
	if got.GetShownStatus() != "rejected" {
		t.Errorf(`shown status: got %q, want "rejected"`, got.GetShownStatus())
	}
	if got.GetCanConnect() {
		t.Error("can connect: got true, want false")
	}
	if want := "Removed from the network: other weights than stated."; got.GetWarning() != want {
		t.Errorf("warning: got %q, want %q", got.GetWarning(), want)
	}
	steps := strings.Join(got.GetNextSteps(), " ")
	for _, part := range []string{"appeal", d.clock.Now().Add(7 * 24 * time.Hour).Format(time.RFC3339)} {
		if !strings.Contains(steps, part) {
			t.Errorf("next steps: got %q, want %q in it", steps, part)
		}
	}
	_, err = d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest})
	d.wantReason("rotate", err, fault.AccountFrozen)
	_, err = d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: m.id})
	d.wantReason("issue", err, fault.AccountFrozen)
	_, err = d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest,
		BeneficiaryAddress: newPurse(9).address})
	d.wantReason("another address", err, fault.AccountFrozen)
	issued, err := d.admin.IssueProviderKey(t.Context(), &hubv1.IssueProviderKeyRequest{ProviderId: m.id})
	d.must(err)
	d.wantReason("with a key that an operator issued", d.connects(issued.GetApiKey()), fault.AccountFrozen)
	d.wantReason("asked again at once", d.review(m), fault.TransitionNotAllowed)
	d.clock.Advance(7 * 24 * time.Hour)
	for range 2 {
		d.must(d.review(m))
	}
	d.is("asked again after 7 days", m, underReview)
	another := &hubv1.RequestReviewRequest{KeyDigest: m.digest, ContactEmail: "thief@svc.test"}
	_, err = d.self.RequestReview(t.Context(), another)
	d.wantReason("another application with the revoked key", err, fault.KeyRevoked)
	_, err = d.set(m, approved)
	d.must(err)
	d.sweep()
	d.is("approved: the benchmark is from before the removal", m, activating)
	// The key that the verdict revoked is revoked for ever, though it reads.
	d.wantReason("with the revoked key", d.connects(m.key), fault.KeyRevoked)
	d.wantReason("asked again with the revoked key", d.review(m), fault.KeyRevoked)
	_, err = d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest})
	d.wantReason("rotate the revoked key", err, fault.KeyRevoked)
	if label := d.own(m).GetLabel(); label != "Activating" {
		t.Errorf(`label: got %q, want "Activating"`, label)
	}
	if err := d.connects(issued.GetApiKey()); err != nil {
		t.Errorf("with the key that an operator issued: got the error %v, want none", err)
	}
}

func TestAKeyThatAVerdictRevokedAsksForNoReviewBehindTheRemoval(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(underReview)
	d.must(d.expel(m, verdictA))
	_, err := d.set(m, suspended) // an operator ends the removal
	d.must(err)
	_, err = d.set(m, pending)
	d.must(err)
	d.wantReason("pending", d.review(m), fault.KeyRevoked)
	d.is("asked with the revoked key", m, pending)
	issued, err := d.admin.IssueProviderKey(t.Context(), &hubv1.IssueProviderKeyRequest{ProviderId: m.id})
	d.must(err)
	digest := apikey.Sum(issued.GetApiKey())
	_, err = d.self.RequestReview(t.Context(), &hubv1.RequestReviewRequest{KeyDigest: digest[:]})
	d.must(err)
	d.is("asked with a good key", m, underReview)
	_, err = d.set(m, rejected)
	d.must(err)
	d.clock.Advance(7 * 24 * time.Hour)
	d.wantReason("rejected by an operator since", d.review(m), fault.KeyRevoked)
}

func TestAWalletDoesNotConnectARemovedProvider(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(3)
	m := d.signUpWith(p)
	d.activate(m)
	d.must(d.expel(m, verdictA))
	_, err := d.enter(p)
	d.wantReason("removed", err, fault.AccountFrozen)
	d.must(d.reinstate(m, verdictA))
	if _, err := d.enter(p); err != nil {
		t.Errorf("reinstated: got the error %v, want none", err)
	}
}

func TestTheLastKeyRuleCountsTheKeysThatARemovalTook(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.passedProbation()
	second := d.issue(m, "second")
	d.must(d.expel(m, verdictA))
	d.must(d.revoke(m, second.GetKeyId()))
	d.must(d.revoke(m, second.GetKeyId()))
	d.wantReason("the last one", d.revoke(m, d.keys(m)[1].GetKeyId()), fault.TransitionNotAllowed)
	d.must(d.reinstate(m, verdictA))
	if err := d.connects(m.key); err != nil {
		t.Errorf("the last key: got the error %v, want none", err)
	}
	d.wantReason("revoked while it was removed", d.connects(second.GetApiKey()), fault.KeyRevoked)
}

func TestKeysOfARemovalAreKeptUntilItIsOver(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m, gone := d.passedProbation(), d.passedProbation()
	d.must(d.expel(m, verdictA))
	d.must(d.expel(gone, verdictB))
	_, err := d.set(gone, suspended)
	d.must(err)
	d.clock.Advance(36 * 24 * time.Hour)
	d.sweep()
	if n := len(d.keys(gone)); n != 0 {
		t.Errorf("keys of a removal that is over: got %d, want 0", n)
	}
	d.must(d.reinstate(m, verdictA))
	if err := d.connects(m.key); err != nil {
		t.Errorf("reinstated after 36 days: got the error %v, want none", err)
	}
}

// shutOut reports whether an error says that a key, or its provider, may do nothing.
func shutOut(err error) bool {
	return fault.Is(err, fault.AccountFrozen) || fault.Is(err, fault.KeyRevoked)
}

func TestRacesWithAnExpulsionEndAsIfOneCameAfterTheOther(t *testing.T) {
	t.Parallel()
	for range 8 {
		d := setup(t)
		m := d.passedProbation()
		user := d.issue(m, "the user revokes it")
		other := d.issue(m, "rotated")
		digest := apikey.Sum(other.GetApiKey())
		var rotated *hubv1.RotateOwnKeyResponse
		var group sync.WaitGroup
		begin := make(chan struct{})
		race := func(f func()) {
			group.Go(func() { <-begin; f() })
		}
		for _, verdict := range []string{verdictA, verdictA, verdictB} {
			race(func() { d.orFatal(d.expel(m, verdict)) })
		}
		race(func() {
			got, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: digest[:]})
			rotated = got
			if err != nil && !shutOut(err) {
				t.Errorf("rotate: got the error %v, want none or that the provider or the key is shut out", err)
			}
		})
		race(func() { d.orFatal(d.revoke(m, user.GetKeyId())) })
		race(func() {
			for _, to := range []hubv1.ProviderStatus{suspended, pending} {
				if _, err := d.set(m, to); err != nil && !fault.Is(err, fault.TransitionNotAllowed) {
					t.Errorf("set %v: got the error %v, want none or the reason %v", to, err, fault.TransitionNotAllowed)
				}
			}
		})
		close(begin)
		group.Wait()
		p := d.read(m)
		if p.GetStatus() == active {
			t.Errorf("status: got %v, want another", p.GetStatus())
		}
		if p.GetStatus() != rejected { // the operator suspended it and lifted that afterwards
			if err := d.connects(m.key); err == nil {
				t.Error("a key that a verdict revoked lets an agent in")
			}
			continue
		}
		d.wantReason("removed", d.connects(m.key), fault.AccountFrozen)
		if rotated != nil {
			d.wantReason("removed, with a rotated key", d.connects(rotated.GetApiKey()), fault.AccountFrozen)
		}
		for _, verdict := range []string{verdictA, verdictB} {
			if err := d.reinstate(m, verdict); err != nil && !fault.Is(err, fault.TransitionNotAllowed) {
				t.Errorf("reinstate: got the error %v, want none or the reason %v", err, fault.TransitionNotAllowed)
			}
		}
		d.wantReason("the key that the user revoked", d.connects(user.GetApiKey()), fault.KeyRevoked)
	}
}

// orFatal is must for goroutines.
func (d *desk) orFatal(err error) {
	if err != nil {
		d.Errorf("got the error %v, want none", err)
	}
}

func TestRacesOfReversalsGiveTheKeysBackOnce(t *testing.T) {
	t.Parallel()
	for range 8 {
		d := setup(t)
		m := d.passedProbation()
		revoked := d.issue(m, "an operator revokes it")
		d.must(d.expel(m, verdictA))
		d.must(d.expel(m, verdictB))
		var group sync.WaitGroup
		begin := make(chan struct{})
		for _, verdict := range []string{verdictA, verdictB, verdictA, verdictB} {
			group.Go(func() { <-begin; d.orFatal(d.reinstate(m, verdict)) })
		}
		group.Go(func() {
			<-begin
			_, err := d.admin.RevokeProviderKey(t.Context(), &hubv1.RevokeProviderKeyRequest{KeyId: revoked.GetKeyId()})
			d.orFatal(err)
		})
		close(begin)
		group.Wait()
		d.is("reversed", m, active)
		if err := d.connects(m.key); err != nil {
			t.Errorf("reversed: got the error %v, want none", err)
		}
		d.wantReason("revoked by an operator at the same time", d.connects(revoked.GetApiKey()), fault.KeyRevoked)
		activations := 0
		for _, line := range d.history(m) {
			if strings.HasPrefix(line, "qualify") {
				activations++
			}
		}
		if activations != 2 {
			t.Errorf("activations: got %d, want 2", activations)
		}
	}
}
