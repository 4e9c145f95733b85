package inference

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// SetBillingType says how a request is paid for, as far as that is known.
func SetBillingType(h http.Header, t billingv1.BillingType) {
	if billing := billingName(t); billing != "" {
		h.Set("X-Svc-Billing-Type", billing)
	}
}

// headersOfProvider says who serves.
func (s *session) headersOfProvider(c *routerv1.Candidate) {
	h := s.out.header()
	h.Set("X-Svc-Provider-Id", headerText(c.GetProviderId()))
	h.Set("X-Svc-Provider-Name", headerText(c.GetProviderName()))
	if mode := modeName(c.GetConnectionMode()); mode != "" {
		h.Set("X-Svc-Connection-Mode", mode)
	}
	if c.GetContextLength() > 0 {
		h.Set("X-Svc-Context-Length", strconv.FormatInt(c.GetContextLength(), 10))
	}
	if source := sourceName(c.GetContextSource()); source != "" {
		h.Set("X-Svc-Context-Source", source)
	}
	if reason := FallbackName(s.result.Route.GetFallbackReason()); reason != "" {
		h.Set("X-Svc-Fallback-Reason", reason)
	}
}

func (s *session) setAttempts() {
	attempts := max(int64(len(s.result.Attempts)), int64(s.result.Committed))
	if attempts > 0 && !s.out.begun {
		s.out.header().Set("X-Svc-Attempts", strconv.FormatInt(attempts, 10))
	}
}

func (s *session) setLatency(d time.Duration) {
	s.out.header().Set("X-Svc-Latency-Ms", strconv.FormatInt(d.Milliseconds(), 10))
}

// cost is what the answer costs in dollars, exact, and a JSON number. What a
// plan covers costs nothing.
func (s *session) cost(m *hubv1.DispatchFinished) string { return s.call.charge(m).String() }

func (c *Call) charge(m *hubv1.DispatchFinished) money.NanoUSD {
	if c.Grant.Terms.GetBillingType() == billingv1.BillingType_BILLING_TYPE_PLAN {
		return 0
	}
	charge, err := moneypb.ToRates(c.Grant.Terms.GetRates()).Charge(money.Tokens{
		Prompt: m.GetBillablePromptTokens(), Completion: m.GetBillableCompletionTokens(),
	})
	if err != nil {
		return 0 // out of range: billing-ledger quarantines it
	}
	return charge
}

// maxHeaderText bounds what others say of themselves in our headers.
const maxHeaderText = 128

// headerText makes text of others fit for a header: printable ASCII, bounded.
func headerText(s string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
	return strings.TrimSpace(clean[:min(len(clean), maxHeaderText)])
}

func billingName(t billingv1.BillingType) string {
	switch t {
	case billingv1.BillingType_BILLING_TYPE_PAYG:
		return "payg"
	case billingv1.BillingType_BILLING_TYPE_FREE:
		return "free"
	case billingv1.BillingType_BILLING_TYPE_PLAN:
		return "plan"
	default:
		return ""
	}
}

func modeName(m eventsv1.ConnectionMode) string {
	if m == eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET {
		return "websocket"
	}
	return ""
}

func sourceName(s routerv1.ContextSource) string {
	switch s {
	case routerv1.ContextSource_CONTEXT_SOURCE_REPORTED:
		return "reported"
	case routerv1.ContextSource_CONTEXT_SOURCE_CATALOG:
		return "catalog"
	default:
		return ""
	}
}

// FallbackName is a fallback reason as the API writes it; empty for none.
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
