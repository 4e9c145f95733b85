package inference

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// This file makes the report of a model attempt; reports.go has the queue in which reports wait.

// report returns the gateway's own report of a model attempt.
func (m *modelAttempt) report() *billingv1.RequestReport {
	result := &m.result
	report := &billingv1.RequestReport{
		RequestId:        m.id,
		Outcome:          billingv1.Outcome_OUTCOME_COMPLETED,
		CommittedAttempt: result.Committed,
		RelayedTokens:    result.Tokens,
		RelayedBytes:     result.Bytes,
		HttpStatus:       http.StatusOK,
		Route:            result.Route,
		Stream:           m.req.Answer.Stream,
		Attempts:         result.Attempts,
		ReceivedAt:       timestamppb.New(m.req.ReceivedAt),
		FirstContentMs:   result.FirstContent.Milliseconds(),
		TotalMs:          m.since().Milliseconds(),
		Ticket:           m.grant.Terms.GetTicket(),
	}
	if result.Usage != nil {
		report.Metered = &billingv1.Metered{
			PromptTokens:     result.Usage.GetBillablePromptTokens(),
			CompletionTokens: result.Usage.GetBillableCompletionTokens(),
		}
	}
	if result.Err != nil {
		a := apierror.Of(result.Err)
		report.Outcome, report.ErrorCode = outcome(a), a.KnownCode()
		if !m.out.sink.Begun() || a.Status == apierror.StatusClientClosed {
			report.HttpStatus = int32(a.Status)
		}
	}
	return report
}

func outcome(a apierror.Answer) billingv1.Outcome {
	switch {
	case a.Status == apierror.StatusClientClosed:
		return billingv1.Outcome_OUTCOME_CLIENT_GONE
	case a.Status == http.StatusGatewayTimeout:
		return billingv1.Outcome_OUTCOME_TIMEOUT
	case a.Status < http.StatusInternalServerError:
		return billingv1.Outcome_OUTCOME_REFUSED
	}
	return billingv1.Outcome_OUTCOME_FAILED
}

// reportNow sends the report of a model attempt at once and reports whether the request may advance to the
// next. The next must find the hold released. A report that was not taken is sent later. Then a request under
// a claim does not advance, because billing-ledger decides by the reports that it has whether a repeat of the
// request has been billed.
func (m *modelAttempt) reportNow(continuedAs string) bool {
	ctx := context.WithoutCancel(m.client)
	report := m.report()
	report.ContinuedAs = continuedAs
	err := m.runner.Reports.Send(ctx, []*billingv1.RequestReport{report})
	switch {
	case err == nil:
		return true
	case m.req.Claim != nil:
		m.runner.Log.DebugContext(ctx, "a request does not go on, since its report was not taken", "error", err)
		return false
	}
	m.runner.Log.DebugContext(ctx, "a report is sent later", "error", err)
	m.runner.Reports.Add(report)
	return true
}

// reportLater has the report of a request's last model attempt sent with others. The report of a prompt names
// the request of the next prompt.
func (m *modelAttempt) reportLater(continuedAs string) {
	report := m.report()
	report.ContinuedAs = continuedAs
	m.runner.Reports.Add(report)
	if m.runner.Admission.Contended(m.req.KeyID) {
		m.runner.Reports.Hurry()
	}
}

// FallbackName returns a fallback reason as the API writes it; empty for none.
func FallbackName(r eventsv1.FallbackReason) string {
	switch r {
	case eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE:
		return "requested_provider_unavailable"
	case eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED:
		return "requested_provider_failed"
	default:
		return ""
	}
}
