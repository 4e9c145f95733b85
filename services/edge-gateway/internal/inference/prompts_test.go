package inference

import (
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
)

// A panic may come after the hub has told what is billed of a prompt.
func TestAPromptWhoseHandlingPanicsIsNotReportedAsBilled(t *testing.T) {
	m := failedAttempt(t.Context(), "a")
	m.runner.Hubs = func(string) (hubv1.DispatchServiceClient, error) { panic("a programming error") }
	metrics, err := NewMetrics(noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	m.runner.Metrics = metrics
	m.runner.cfg.MaxAttempts, m.runner.cfg.FirstContentAll = 1, m.runner.cfg.Total
	m.grant = admission.Grant{
		Terms: &billingv1.AdmitResponse{}, Held: true, Candidates: []*routerv1.Candidate{{ProviderId: "p"}},
	}
	m.result = Result{
		Committed: 1, Tokens: 3,
		Usage: &hubv1.DispatchFinished{BillablePromptTokens: 9, BillableCompletionTokens: 3},
	}
	p := &prompt{modelAttempt: m, found: true}
	p.run()
	if p.err == nil {
		t.Error("got no error of a prompt that panicked")
	}
	run := &promptRun{runner: m.runner, req: m.req, all: []*prompt{p}}
	billed, cost := run.total()
	if billed.Prompt != 0 || billed.Completion != 0 || cost != 0 {
		t.Errorf("got %+v billed for %s, want nothing", billed, cost)
	}
	sum := run.sum(p.err, billed)
	if sum.Held || sum.Committed != 0 || sum.Tokens != 0 {
		t.Errorf("got the sum %+v, want no hold and nothing committed", sum)
	}
	run.report(p) // would panic with a report, because the runner has no Reports
}
