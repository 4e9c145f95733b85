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
		suspended: {suspended}, rejected: {underReview, rejected},
	}[status] {
		_, err := d.set(m, to)
		d.must(err)
	}
	if status == activating {
		_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
		d.must(err)
	}
	if status == active {
		d.activate(m)
	}
	if got := d.status(m); got != status {
		d.Fatalf("brought: got %v, want %v", got, status)
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
		{"set active", setTo(active), [7]hubv1.ProviderStatus{refused, refused, refused, refused, active, refused, refused}},
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
		{"waiver", confirmed(func() *confirmation { return &confirmation{GpuWaived: yes()} }),
			[7]hubv1.ProviderStatus{pending, underReview, approved, activating, active, suspended, rejected}},
		{"no waiver", confirmed(func() *confirmation { return &confirmation{GpuWaived: no()} }),
			[7]hubv1.ProviderStatus{pending, underReview, approved, activating, pending, suspended, rejected}},
		{"expelled", func(m member) error { return d.expel(m, verdictOf(m)) },
			[7]hubv1.ProviderStatus{rejected, rejected, rejected, rejected, rejected, rejected, rejected}},
		{"reinstated by a verdict that expelled nobody", func(m member) error { return d.reinstate(m, verdictOf(m)) },
			[7]hubv1.ProviderStatus{refused, refused, refused, refused, refused, refused, refused}},
		{"collateral by settlement", func(m member) error { return d.deposit(m, true, 1) },
			[7]hubv1.ProviderStatus{pending, underReview, activating, activating, active, suspended, rejected}},
		{"no collateral by settlement", func(m member) error { return d.deposit(m, false, 1) },
			[7]hubv1.ProviderStatus{pending, underReview, approved, pending, pending, suspended, rejected}},
		{"benchmark by the verifier", func(m member) error { d.benchmark(m, true); return nil },
			[7]hubv1.ProviderStatus{pending, underReview, approved, activating, active, suspended, rejected}},
		{"no benchmark by the verifier", func(m member) error { d.benchmark(m, false); return nil },
			[7]hubv1.ProviderStatus{pending, underReview, approved, activating, pending, suspended, rejected}},
		{"everything", func(m member) error {
			_, err := d.confirm(m, &confirmation{Collateral: yes(), GpuWaived: yes()})
			d.benchmark(m, true)
			return err
		},
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
			if err := a.do(m); err != nil {
				t.Errorf("%s from %v, twice: got the error %v, want none", a.name, from, err)
			} else if d.status(m) != want {
				t.Errorf("%s from %v, twice: d.status(m): got %v, want %v", a.name, from, d.status(m), want)
			}
		}
	}
	if _, err := d.set(d.signUp(), refused); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("no status: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	for _, id := range []string{"", "x", "01890000-0000-7000-8000-000000000000"} {
		if _, err := d.set(member{id: id}, active); !fault.Is(err, fault.ProviderNotFound) {
			t.Errorf("provider %q: got the error %v, want the reason %v", id, err, fault.ProviderNotFound)
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
		"benchmark": func(d *desk, m member) { d.benchmark(m, true) },
		"machine":   func(d *desk, m member) { d.seen(m, "node-0001", goodGPU); d.sweep() },
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
				t.Errorf("%v: after %d: got %v, want %v", order, i+1, d.status(m), want)
			}
		}
		p := d.own(m).GetProvider()
		if ends := p.GetProbationEndsAt().AsTime(); !ends.Equal(d.clock.Now().Add(24 * time.Hour)) {
			t.Errorf("%v: the probation ends %v", order, ends)
		}
		switch q := p.GetQualification(); {
		case !q.GetCollateralConfirmed():
			t.Errorf("%v: q.GetCollateralConfirmed(): got false, want true, with %v", order, q)
		case !q.GetBenchmarkPassed():
			t.Errorf("%v: q.GetBenchmarkPassed(): got false, want true, with %v", order, q)
		case !q.GetGpuEligible():
			t.Errorf("%v: q.GetGpuEligible(): got false, want true, with %v", order, q)
		case q.GetGpuWaived():
			t.Errorf("%v: q.GetGpuWaived(): got true, want false, with %v", order, q)
		case q.GetGpuShortfall() != "":
			t.Errorf(`%v: q.GetGpuShortfall(): got %q, want ""`, order, q.GetGpuShortfall())
		}
	}
}

func TestHostile41_AClaimedMachineAloneActivatesNobody(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	d.seen(m, "node-0001", goodGPU)
	for i, c := range []*hubv1.ConfirmQualificationRequest{{}, {Collateral: yes()}, {Collateral: no()}} {
		p, err := d.confirm(m, c)
		if i == 2 {
			d.benchmark(m, true)
		}
		d.sweep()
		if err != nil {
			t.Errorf("%v: got the error %v, want none", c, err)
		} else if p.GetStatus() != pending {
			t.Errorf("%v: p.GetStatus(): got %v, want %v", c, p.GetStatus(), pending)
		} else if got := d.status(m); got != pending {
			t.Errorf("%v: d.status(m): got %v, want %v", c, got, pending)
		} else if !p.GetQualification().GetGpuEligible() {
			t.Errorf("%v: p.GetQualification().GetGpuEligible(): got false, want true", c)
		}
	}
}

func TestAMachineThatFallsShortActivatesNobody(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
	d.must(err)
	d.benchmark(m, true)
	weak := *goodGPU
	weak.ComputeCapability = "8.9\n7.5"
	d.seen(m, "node-0001", &weak)
	d.sweep()
	switch q := d.own(m).GetProvider().GetQualification(); {
	case d.status(m) != pending:
		t.Errorf("d.status(m): got %v, want %v", d.status(m), pending)
	case q.GetGpuEligible():
		t.Errorf("q.GetGpuEligible(): got true, want false, with %v", q)
	case !strings.Contains(q.GetGpuShortfall(), "7.5"):
		t.Errorf(`q.GetGpuShortfall(): got %q, want "7.5" in it`, q.GetGpuShortfall())
	}
	if p, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: yes()}); err != nil {
		t.Errorf("waived: got the error %v, want none", err)
	} else if p.GetStatus() != active {
		t.Errorf("waived: p.GetStatus(): got %v, want %v", p.GetStatus(), active)
	}
	// Another machine fulfils the rule: the waiver may go.
	d.seen(m, "node-0002", goodGPU)
	if p, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: no()}); err != nil {
		t.Errorf("not waived any more: got the error %v, want none", err)
	} else if p.GetStatus() != active {
		t.Errorf("not waived any more: p.GetStatus(): got %v, want %v", p.GetStatus(), active)
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

func TestAnOperatorActivatesNobodyWhoLacksAFact(t *testing.T) {
	t.Parallel()
	d := setup(t)
	facts := []struct {
		name string
		hold func(m member)
	}{
		{"collateral", func(m member) {
			_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
			d.must(err)
		}},
		{"benchmark", func(m member) { d.benchmark(m, true) }},
		{"GPU rule", func(m member) {
			_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: yes()})
			d.must(err)
		}},
	}
	for i, lacks := range facts {
		m := d.in(underReview)
		for j, fact := range facts {
			if j != i {
				fact.hold(m)
			}
		}
		before := len(d.history(m))
		_, err := d.set(m, active)
		d.wantReason("without "+lacks.name, err, fault.TransitionNotAllowed)
		if !strings.Contains(fmt.Sprint(err), lacks.name) {
			t.Errorf("without %s: got the error %v, want one that names it", lacks.name, err)
		}
		if got := len(d.history(m)); got != before {
			t.Errorf("without %s: lines of history: got %d, want %d", lacks.name, got, before)
		}
		d.is("without "+lacks.name, m, underReview)
		lacks.hold(m)
		_, err = d.set(m, active)
		d.must(err)
		d.is("with every fact", m, active)
		if got := d.history(m); got[len(got)-3] != "approve: under_review to approved by operator (because)" {
			t.Errorf("without %s: history: got %q, want the operator's approval two before its end", lacks.name, got)
		}
	}
}

func TestAnOperatorsWordOnABenchmarkIsRefused(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	for _, word := range []*bool{yes(), no()} {
		_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes(), Benchmark: word, GpuWaived: yes()})
		d.wantReason(fmt.Sprintf("benchmark %t", *word), err, fault.InvalidValue)
		if f, _ := fault.As(err); f == nil || f.Param != "benchmark" {
			t.Errorf("benchmark %t: got %+v, want the field benchmark named", *word, f)
		}
	}
	d.wantHistory(m)
}

func TestAReviewIsAParallelPath(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	for range 2 {
		got, err := d.self.RequestReview(t.Context(), &hubv1.RequestReviewRequest{
			KeyDigest: m.digest, ProviderName: "Better Farm", HardwareSummary: "2 × RTX 4090", ContactEmail: "a@b.test",
		})
		switch {
		case err != nil:
			t.Fatalf("got the error %v, want none", err)
		case got.GetProvider().GetStatus() != underReview:
			t.Fatalf("got.GetProvider().GetStatus(): got %v, want %v", got.GetProvider().GetStatus(), underReview)
		case got.GetProvider().GetName() != "Better Farm":
			t.Fatalf(`got.GetProvider().GetName(): got %q, want "Better Farm"`, got.GetProvider().GetName())
		case !got.GetRequestedAt().AsTime().Equal(start):
			t.Fatalf("got.GetRequestedAt().AsTime(): got %v, want %v", got.GetRequestedAt().AsTime(), start)
		}
	}
	_, err := d.set(m, approved)
	d.must(err)
	_, err = d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
	d.must(err)
	d.seen(m, "node-0001", goodGPU)
	d.benchmark(m, true)
	d.wantHistory(m,
		"request_review: pending to under_review by provider",
		"approve: under_review to approved by operator (because)",
		"collateral_confirmed: approved to activating by operator (seen)",
		"benchmark_confirmed: activating by platform (acme/tiny-1b)",
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
		if p, err := d.set(m, approved); err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if p.GetStatus() != activating {
			t.Errorf("p.GetStatus(): got %v, want %v", p.GetStatus(), activating)
		}
	}
}

func TestARejectedProviderMayAskAgainAfterSevenDays(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(rejected)
	own := d.own(m)
	switch {
	case own.GetCanConnect():
		t.Errorf("own status: own.GetCanConnect(): got true, want false, with %v", own)
	case own.GetShownStatus() != "rejected":
		t.Errorf(`own.GetShownStatus(): got %q, want "rejected"`, own.GetShownStatus())
	case !strings.Contains(strings.Join(own.GetNextSteps(), " "), "2026-03-08"):
		t.Errorf(`own status: strings.Join(…): got %q, want "2026-03-08" in it`, strings.Join(own.GetNextSteps(), " "))
	}
	d.clock.Advance(7*24*time.Hour - time.Second)
	err := d.review(m)
	f, ok := fault.As(err)
	switch {
	case !ok:
		t.Errorf("too early: got the error %v, want a fault", err)
	case f.Reason != fault.TransitionNotAllowed:
		t.Errorf("too early: f.Reason: got %q, want %q", f.Reason, fault.TransitionNotAllowed)
	case !strings.Contains(f.Message, "2026-03-08T00:00:00Z"):
		t.Errorf(`too early: f.Message: got %q, want "2026-03-08T00:00:00Z" in it`, f.Message)
	}
	d.clock.Advance(time.Second)
	if err := d.review(m); err != nil {
		t.Errorf("after seven days: got the error %v, want none", err)
	} else if d.status(m) != underReview {
		t.Errorf("after seven days: d.status(m): got %v, want %v", d.status(m), underReview)
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
		t.Errorf("a second before: got %v, want %v", got, active)
	}
	d.clock.Advance(time.Second)
	if q := d.own(m).GetProvider().GetQualification(); q.GetBenchmarkPassed() {
		t.Errorf("qualification: q.GetBenchmarkPassed(): got true, want false, with %v", q)
	} else if want := d.clock.Now(); !q.GetBenchmarkExpiresAt().AsTime().Equal(want) {
		t.Errorf("qualification: q.GetBenchmarkExpiresAt().AsTime(): got %v, want %v", q.GetBenchmarkExpiresAt().AsTime(),
			want)
	}
	for range 2 {
		d.sweep()
	}
	if got := d.status(m); got != pending {
		t.Errorf("after 30 days: got %v, want %v", got, pending)
	}
	d.benchmark(m, true)
	if ends := d.is("a fresh one", m, active).GetProbationEndsAt(); ends == nil {
		t.Error("a fresh one: the probation ends at: got nil, want a time")
	}
	history := d.history(m)
	if want := []string{
		"probation_passed: active by platform (connected for 100.00 % of the time)",
		"expire_benchmark: active to pending by platform",
	}; !slices.Equal(history[4:6], want) {
		t.Errorf("history: got %q, want %q", history[4:6], want)
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
		t.Fatalf("never there in its probation: got %v, want %v", got, pending)
	}
	if q := d.own(m).GetProvider().GetQualification(); !q.GetCollateralConfirmed() {
		t.Errorf("qualification: q.GetCollateralConfirmed(): got false, want true, with %v", q)
	} else if q.GetBenchmarkPassed() {
		t.Errorf("qualification: q.GetBenchmarkPassed(): got true, want false, with %v", q)
	}
	d.benchmark(m, true)
	d.is("benchmarked again", m, active)
	_, err := d.set(m, suspended)
	d.must(err)
	for range 2 {
		p, err := d.set(m, pending)
		d.sweep()
		if err != nil {
			t.Errorf("lifted: got the error %v, want none", err)
		} else if p.GetStatus() != pending {
			t.Errorf("lifted: p.GetStatus(): got %v, want %v", p.GetStatus(), pending)
		} else if got := d.status(m); got != pending {
			t.Errorf("lifted: d.status(m): got %v, want %v", got, pending)
		}
	}
	// The operator's own words outlive the activation.
	d.benchmark(m, true)
	d.is("benchmarked after the suspension", m, active)
}

func TestABenchmarkIsRenewedWhileItCountsAndItsEndIsTold(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(active)
	d.clock.Advance(23*24*time.Hour - time.Second)
	if w := d.own(m).GetWarning(); w != "" {
		t.Errorf(`more than 7 days before: got %q, want ""`, w)
	}
	d.clock.Advance(time.Second)
	if w := d.own(m).GetWarning(); !strings.Contains(w, "benchmark expires at 2026-03-31T00:00:00Z") {
		t.Errorf(`7 days before: got %q, want "benchmark expires at 2026-03-31T00:00:00Z" in it`, w)
	}
	// The status that it has changes nothing; the verifier's next word renews.
	_, err := d.set(m, active)
	d.must(err)
	if w := d.own(m).GetWarning(); !strings.Contains(w, "benchmark expires at 2026-03-31T00:00:00Z") {
		t.Errorf(`set active again: got %q, want "benchmark expires at 2026-03-31T00:00:00Z" in it`, w)
	}
	d.benchmark(m, true)
	if w := d.own(m).GetWarning(); w != "" {
		t.Errorf(`renewed: d.own(m).GetWarning(): got %q, want ""`, w)
	} else if d.status(m) != active {
		t.Errorf("renewed: d.status(m): got %v, want %v", d.status(m), active)
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
		t.Errorf("hubs told of one change: got %d, want 1", sum)
	}
}
