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
	pending     = hubv1.ProviderStatus_PROVIDER_STATUS_PENDING
	underReview = hubv1.ProviderStatus_PROVIDER_STATUS_UNDER_REVIEW
	approved    = hubv1.ProviderStatus_PROVIDER_STATUS_APPROVED
	activating  = hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVATING
	active      = hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE
	suspended   = hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED
	rejected    = hubv1.ProviderStatus_PROVIDER_STATUS_REJECTED
	refused     = hubv1.ProviderStatus_PROVIDER_STATUS_UNSPECIFIED
)

var all = []hubv1.ProviderStatus{pending, underReview, approved, activating, active, suspended, rejected}

// in brings a new provider into a status, by RPCs alone.
func (d *desk) in(status hubv1.ProviderStatus) member {
	d.Helper()
	m := d.signUp()
	for _, to := range map[hubv1.ProviderStatus][]hubv1.ProviderStatus{
		underReview: {underReview}, approved: {underReview, approved}, activating: {underReview, approved},
		active: {active}, suspended: {suspended}, rejected: {underReview, rejected},
	}[status] {
		_, err := d.set(m, to)
		d.must(err)
	}
	if status == activating {
		_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
		d.must(err)
	}
	if got := d.status(m); got != status {
		d.Fatalf("brought to %v instead of %v", got, status)
	}
	return m
}

func (d *desk) review(m member) error {
	_, err := d.self.RequestReview(d.Context(), &hubv1.RequestReviewRequest{KeyDigest: m.digest})
	return err
}

func TestEveryTransitionIsAllowedOrRefusedThroughTheRPCs(t *testing.T) {
	t.Parallel()
	d := setup(t)
	setTo := func(to hubv1.ProviderStatus) func(member) error {
		return func(m member) error {
			_, err := d.set(m, to)
			return err
		}
	}
	confirmed := func(c func() *hubv1.ConfirmQualificationRequest) func(member) error {
		return func(m member) error {
			_, err := d.confirm(m, c())
			return err
		}
	}
	type confirmation = hubv1.ConfirmQualificationRequest
	actions := []struct {
		name string
		do   func(member) error
		// to is where it leads from each status, in the order of all.
		to [7]hubv1.ProviderStatus
	}{
		{"set pending", setTo(pending), [7]hubv1.ProviderStatus{pending, refused, pending, pending, pending, pending,
			refused}},
		{"set under review", setTo(underReview), [7]hubv1.ProviderStatus{underReview, underReview, refused, refused,
			refused, refused, refused}},
		{"set approved", setTo(approved), [7]hubv1.ProviderStatus{refused, approved, approved, activating, active, refused,
			refused}},
		{"set activating", setTo(activating), [7]hubv1.ProviderStatus{refused, refused, refused, activating, refused, refused,
			refused}},
		{"set active", setTo(active), [7]hubv1.ProviderStatus{active, active, active, active, active, refused, refused}},
		{"set suspended", setTo(suspended), [7]hubv1.ProviderStatus{suspended, suspended, suspended, suspended, suspended,
			suspended, suspended}},
		{"set rejected", setTo(rejected), [7]hubv1.ProviderStatus{refused, rejected, refused, refused, refused, refused,
			rejected}},
		{"request review", d.review, [7]hubv1.ProviderStatus{underReview, underReview, refused, refused, refused, refused,
			refused}},
		{"collateral", confirmed(func() *confirmation { return &confirmation{Collateral: yes()} }),
			[7]hubv1.ProviderStatus{pending, underReview, activating, activating, active, suspended, rejected}},
		{"no collateral", confirmed(func() *confirmation { return &confirmation{Collateral: no()} }),
			[7]hubv1.ProviderStatus{pending, underReview, approved, pending, pending, suspended, rejected}},
		{"benchmark", confirmed(func() *confirmation { return &confirmation{Benchmark: yes()} }),
			[7]hubv1.ProviderStatus{pending, underReview, approved, activating, active, suspended, rejected}},
		{"no benchmark", confirmed(func() *confirmation { return &confirmation{Benchmark: no()} }),
			[7]hubv1.ProviderStatus{pending, underReview, approved, activating, pending, suspended, rejected}},
		{"waiver", confirmed(func() *confirmation { return &confirmation{GpuWaived: yes()} }),
			[7]hubv1.ProviderStatus{pending, underReview, approved, activating, active, suspended, rejected}},
		{"no waiver", confirmed(func() *confirmation { return &confirmation{GpuWaived: no()} }),
			[7]hubv1.ProviderStatus{pending, underReview, approved, activating, pending, suspended, rejected}},
		{"everything",
			confirmed(func() *confirmation { return &confirmation{Collateral: yes(), Benchmark: yes(), GpuWaived: yes()} }),
			[7]hubv1.ProviderStatus{active, underReview, active, active, active, suspended, rejected}},
	}
	for _, a := range actions {
		for i, from := range all {
			m, want := d.in(from), a.to[i]
			err := a.do(m)
			got := d.status(m)
			switch {
			case want == refused && (!fault.Is(err, fault.TransitionNotAllowed) || got != from):
				t.Errorf("%s from %v: %v, %v; want it refused", a.name, from, got, err)
			case want != refused && (err != nil || got != want):
				t.Errorf("%s from %v: %v, %v; want %v", a.name, from, got, err, want)
			}
			// The same once more changes nothing.
			if want == refused {
				continue
			}
			if err := a.do(m); err != nil || d.status(m) != want {
				t.Errorf("%s from %v, twice: %v, %v", a.name, from, d.status(m), err)
			}
		}
	}
	if _, err := d.set(d.signUp(), refused); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("no status: %v", err)
	}
	for _, id := range []string{"", "x", "01890000-0000-7000-8000-000000000000"} {
		if _, err := d.set(member{id: id}, active); !fault.Is(err, fault.ProviderNotFound) {
			t.Errorf("provider %q: %v", id, err)
		}
	}
}

func TestActivationFollowsByItselfWhateverComesLast(t *testing.T) {
	t.Parallel()
	facts := map[string]func(*desk, member){
		"collateral": func(d *desk, m member) {
			_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
			d.must(err)
		},
		"benchmark": func(d *desk, m member) {
			_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Benchmark: yes()})
			d.must(err)
		},
		"machine": func(d *desk, m member) { d.seen(m, "node-0001", goodGPU); d.sweep() },
	}
	for _, order := range [][]string{
		{"collateral", "benchmark", "machine"}, {"collateral", "machine", "benchmark"},
		{"benchmark", "collateral", "machine"},
		{"benchmark", "machine", "collateral"}, {"machine", "collateral", "benchmark"},
		{"machine", "benchmark", "collateral"},
	} {
		d := setup(t)
		m := d.signUp()
		for i, fact := range order {
			d.clock.Advance(time.Minute)
			facts[fact](d, m)
			if want := []hubv1.ProviderStatus{pending, pending, active}[i]; d.status(m) != want {
				t.Errorf("%v: after %d it is %v", order, i+1, d.status(m))
			}
		}
		p := d.own(m).GetProvider()
		if ends := p.GetProbationEndsAt().AsTime(); !ends.Equal(d.clock.Now().Add(24 * time.Hour)) {
			t.Errorf("%v: the probation ends %v", order, ends)
		}
		if q := p.GetQualification(); !q.GetCollateralConfirmed() || !q.GetBenchmarkPassed() || !q.GetGpuEligible() ||
			q.GetGpuWaived() || q.GetGpuShortfall() != "" {
			t.Errorf("%v: %v", order, q)
		}
	}
}

func TestHostile41_AClaimedMachineAloneActivatesNobody(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	d.seen(m, "node-0001", goodGPU)
	for _, c := range []*hubv1.ConfirmQualificationRequest{{}, {Collateral: yes()}, {Collateral: no(), Benchmark: yes()}} {
		p, err := d.confirm(m, c)
		d.sweep()
		if err != nil || p.GetStatus() != pending || d.status(m) != pending || !p.GetQualification().GetGpuEligible() {
			t.Errorf("%v: %v, %v", c, p, err)
		}
	}
}

func TestAMachineThatFallsShortActivatesNobody(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes(), Benchmark: yes()})
	d.must(err)
	weak := *goodGPU
	weak.ComputeCapability = "8.9\n7.5"
	d.seen(m, "node-0001", &weak)
	d.sweep()
	if q := d.own(m).GetProvider().GetQualification(); d.status(m) != pending || q.GetGpuEligible() ||
		!strings.Contains(q.GetGpuShortfall(), "7.5") {
		t.Errorf("%v, %v", d.status(m), q)
	}
	if p, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: yes()}); err != nil ||
		p.GetStatus() != active {
		t.Errorf("waived: %v, %v", p, err)
	}
	// Another machine fulfils the rule: the waiver may go.
	d.seen(m, "node-0002", goodGPU)
	if p, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: no()}); err != nil || p.GetStatus() != active {
		t.Errorf("not waived any more: %v, %v", p, err)
	}
}

// history is what happened to a provider, oldest first.
func (d *desk) history(m member) []string {
	d.Helper()
	got, err := d.admin.ListStatusChanges(d.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id})
	d.must(err)
	var lines []string
	for _, c := range slices.Backward(got.GetList()) {
		short := func(s hubv1.ProviderStatus) string {
			return strings.ToLower(strings.TrimPrefix(s.String(), "PROVIDER_STATUS_"))
		}
		line := fmt.Sprintf("%s: %s by %s", c.GetWhat(), short(c.GetFrom()), c.GetBy())
		if c.GetFrom() != c.GetTo() {
			line = fmt.Sprintf("%s: %s to %s by %s", c.GetWhat(), short(c.GetFrom()), short(c.GetTo()), c.GetBy())
		}
		if c.GetReason() != "" {
			line += " (" + c.GetReason() + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func (d *desk) wantHistory(m member, want ...string) {
	d.Helper()
	if got := d.history(m); !slices.Equal(got, want) {
		d.Errorf("history:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestActiveAsShorthandIsAuditedStepByStep(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	for range 2 {
		p, err := d.set(m, active)
		if err != nil || p.GetStatus() != active || !p.GetQualification().GetGpuWaived() || p.GetProbationEndsAt() == nil {
			t.Fatalf("%v, %v", p, err)
		}
	}
	d.wantHistory(m,
		"collateral_confirmed: pending by operator (because)",
		"benchmark_confirmed: pending by operator (because)",
		"gpu_waived: pending by operator (because)",
		"qualify: pending to active by platform")
}

func TestAReviewIsAParallelPath(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	for range 2 {
		got, err := d.self.RequestReview(t.Context(), &hubv1.RequestReviewRequest{
			KeyDigest: m.digest, ProviderName: "Better Farm", HardwareSummary: "2 × RTX 4090", ContactEmail: "a@b.test",
		})
		if err != nil || got.GetProvider().GetStatus() != underReview || got.GetProvider().GetName() != "Better Farm" ||
			!got.GetRequestedAt().AsTime().Equal(start) {
			t.Fatalf("%v, %v", got, err)
		}
	}
	_, err := d.set(m, approved)
	d.must(err)
	_, err = d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
	d.must(err)
	d.seen(m, "node-0001", goodGPU)
	_, err = d.confirm(m, &hubv1.ConfirmQualificationRequest{Benchmark: yes()})
	d.must(err)
	d.wantHistory(m,
		"request_review: pending to under_review by provider",
		"approve: under_review to approved by operator (because)",
		"collateral_confirmed: approved to activating by operator (seen)",
		"benchmark_confirmed: activating by operator (seen)",
		"qualify: activating to active by platform")
}

func TestAnApprovalWithCollateralThereGoesOnByItself(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
	d.must(err)
	d.must(d.review(m))
	for range 2 {
		if p, err := d.set(m, approved); err != nil || p.GetStatus() != activating {
			t.Errorf("%v, %v", p, err)
		}
	}
}

func TestARejectedProviderMayAskAgainAfterSevenDays(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(rejected)
	own := d.own(m)
	if own.GetCanConnect() || own.GetShownStatus() != "rejected" ||
		!strings.Contains(strings.Join(own.GetNextSteps(), " "), "2026-03-08") {
		t.Errorf("own status %v", own)
	}
	d.clock.Advance(7*24*time.Hour - time.Second)
	err := d.review(m)
	f, ok := fault.As(err)
	if !ok || f.Reason != fault.TransitionNotAllowed || !strings.Contains(f.Message, "2026-03-08T00:00:00Z") {
		t.Errorf("too early: %v", err)
	}
	d.clock.Advance(time.Second)
	if err := d.review(m); err != nil || d.status(m) != underReview {
		t.Errorf("after seven days: %v, %v", d.status(m), err)
	}
}

func TestABenchmarkCountsForThirtyDays(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	// Somebody is watching, and the provider is there.
	d.seen(m, "node-0001", goodGPU)
	for range 2 {
		d.clock.Advance(24 * time.Hour)
		d.write(presencePage())
		d.sweep()
	}
	d.clock.Advance(28*24*time.Hour - time.Second)
	d.write(presencePage())
	d.sweep()
	if got := d.status(m); got != active {
		t.Errorf("a second before: %v", got)
	}
	d.clock.Advance(time.Second)
	if q := d.own(m).GetProvider().GetQualification(); q.GetBenchmarkPassed() ||
		!q.GetBenchmarkExpiresAt().AsTime().Equal(d.clock.Now()) {
		t.Errorf("qualification %v", q)
	}
	for range 2 {
		d.sweep()
	}
	if got := d.status(m); got != pending {
		t.Errorf("after 30 days: %v", got)
	}
	if p, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Benchmark: yes()}); err != nil ||
		p.GetStatus() != active || p.GetProbationEndsAt() == nil {
		t.Errorf("a fresh one: %v, %v", p, err)
	}
	history := d.history(m)
	if want := []string{
		"probation_passed: active by platform (connected for 100.00 % of the time)",
		"expire_benchmark: active to pending by platform",
	}; !slices.Equal(history[4:6], want) {
		t.Errorf("history %v", history)
	}
}

func TestAFailedProbationAndALiftedSuspensionNeedAFreshBenchmark(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.write(presencePage())
	d.clock.Advance(24 * time.Hour)
	d.write(presencePage())
	for range 3 {
		d.sweep()
	}
	if got := d.status(m); got != pending {
		t.Fatalf("never there in its probation: %v", got)
	}
	if q := d.own(m).GetProvider().GetQualification(); !q.GetCollateralConfirmed() || q.GetBenchmarkPassed() {
		t.Errorf("qualification %v", q)
	}
	_, err := d.set(m, active)
	d.must(err)
	_, err = d.set(m, suspended)
	d.must(err)
	for range 2 {
		p, err := d.set(m, pending)
		d.sweep()
		if err != nil || p.GetStatus() != pending || d.status(m) != pending {
			t.Errorf("lifted: %v, %v", p, err)
		}
	}
	// The waiver was that activation's.
	if p, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Benchmark: yes()}); err != nil ||
		p.GetStatus() != pending || p.GetQualification().GetGpuWaived() {
		t.Errorf("benchmarked: %v, %v", p, err)
	}
	if p, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: yes()}); err != nil ||
		p.GetStatus() != active {
		t.Errorf("waived: %v, %v", p, err)
	}
}

func TestAWaiverThatCameWithAnActivationEndsWithIt(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*desk, member){
		"fail_probation": func(d *desk, _ member) {
			d.write(presencePage())
			d.clock.Advance(24 * time.Hour)
			d.write(presencePage())
			d.sweep()
		},
		"expire_benchmark": func(d *desk, _ member) {
			d.clock.Advance(30 * 24 * time.Hour) // without any hub the probation is passed
			d.sweep()
		},
		"lift": func(d *desk, m member) {
			for _, to := range []hubv1.ProviderStatus{suspended, pending} {
				_, err := d.set(m, to)
				d.must(err)
			}
		},
	}
	for name, end := range ends {
		for _, lasting := range []bool{false, true} {
			d := setup(t)
			m := d.in(active)
			if lasting { // an operator's word of its own
				_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: yes()})
				d.must(err)
			}
			end(d, m)
			if q := d.own(m).GetProvider().GetQualification(); d.status(m) != pending || q.GetGpuWaived() != lasting {
				t.Errorf("%s, lasting %v: %v, %v", name, lasting, d.status(m), q)
			}
			if h := d.history(m); !lasting && !strings.HasPrefix(h[len(h)-1], "gpu_waiver_withdrawn: pending") {
				t.Errorf("%s: history %v", name, h)
			}
		}
	}
}

func TestABenchmarkIsRenewedWhileItCountsAndItsEndIsTold(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.clock.Advance(23*24*time.Hour - time.Second)
	if w := d.own(m).GetWarning(); w != "" {
		t.Errorf("more than 7 days before: %q", w)
	}
	d.clock.Advance(time.Second)
	if w := d.own(m).GetWarning(); !strings.Contains(w, "benchmark expires at 2026-03-31T00:00:00Z") {
		t.Errorf("7 days before: %q", w)
	}
	// The shorthand changes nothing of who is active; a confirmation renews.
	for _, renew := range []func() error{
		func() error { _, err := d.set(m, active); return err },
		func() error { _, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Benchmark: yes()}); return err },
	} {
		d.must(renew())
	}
	if w := d.own(m).GetWarning(); w != "" || d.status(m) != active {
		t.Errorf("renewed: %v, %q", d.status(m), w)
	}
	if q := d.own(m).GetProvider().GetQualification(); !q.GetBenchmarkExpiresAt().AsTime().Equal(
		d.clock.Now().Add(30 * 24 * time.Hour)) {
		t.Errorf("expires %v", q.GetBenchmarkExpiresAt().AsTime())
	}
}

func TestASweepReturnsOnlyWhatItChanged(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.in(active)
	d.clock.Advance(24 * time.Hour)
	var group sync.WaitGroup
	told := make(chan int, 8)
	for range 8 {
		group.Go(func() {
			changed, err := d.accounts.Sweep(t.Context())
			if err != nil {
				t.Error(err)
			}
			told <- len(changed)
		})
	}
	group.Wait()
	sum := 0
	for range 8 {
		sum += <-told
	}
	if sum != 1 {
		t.Errorf("%d hubs were told of one change", sum)
	}
}
