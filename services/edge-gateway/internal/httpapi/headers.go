package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/modeword"
	billingv1 "svc.internal/proto/svc/billing/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/playground"
)

// setRoute writes how the request asked to be routed.
func setRoute(h http.Header, pin admission.Pin) {
	if pin.ProviderID == "" {
		h.Set("X-Svc-Route-Mode", "auto")
		return
	}
	h.Set("X-Svc-Route-Mode", "explicit")
	h.Set("X-Svc-Requested-Provider", pin.ProviderID)
}

// setDeprecation writes when a model leaves, if ever. It is deprecated (RFC 9745) and
// removed (RFC 8594) at the same time, which its users learn at least 30 days before.
func setDeprecation(h http.Header, leaves time.Time) {
	if leaves.IsZero() {
		h.Del("Deprecation")
		h.Del("Sunset")
		return
	}
	h.Set("Deprecation", "@"+strconv.FormatInt(leaves.Unix(), 10))
	h.Set("Sunset", leaves.UTC().Format(http.TimeFormat))
}

// setRate writes how much of the key's rate is left, and nothing for a key without a limit.
func setRate(h http.Header, requests *billingv1.RateLimit) {
	if requests.GetLimit() <= 0 {
		return
	}
	h.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(int(requests.GetLimit())))
	h.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(int(max(requests.GetRemaining(), 0))))
	h.Set("X-Ratelimit-Reset-Requests", (time.Duration(max(requests.GetResetMs(), 0)) * time.Millisecond).String())
}

// setVisit writes who pays for a visitor, and how many visits are left, in place of the
// paying account's own terms.
func setVisit(h http.Header, left playground.Left) {
	h.Set("X-Svc-Billing-Type", "playground")
	for name := range h {
		if strings.HasPrefix(name, "X-Ratelimit-") {
			h.Del(name)
		}
	}
	setVisitsLeft(h, left)
}

// setVisitsLeft writes how many visits are left, if that is known.
func setVisitsLeft(h http.Header, left playground.Left) {
	if left.Limit > 0 {
		h.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(left.Limit))
		h.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(left.Remaining))
		h.Set("X-Ratelimit-Reset-Requests", left.Reset.String())
	}
}

// leftBy returns what a refusal by admission says of the rate; nil when it says nothing,
// or when the key is no longer good.
func leftBy(refusal error) *billingv1.RateLimit {
	f, ok := fault.As(refusal)
	if !ok || f.Kind == fault.Unauthenticated {
		return nil
	}
	limit, errLimit := strconv.ParseInt(f.Meta["limit"], 10, 32)
	remaining, errRemaining := strconv.ParseInt(f.Meta["remaining"], 10, 32)
	reset, errReset := strconv.ParseInt(f.Meta["reset_ms"], 10, 64)
	if errLimit != nil || errRemaining != nil || errReset != nil {
		return nil
	}
	return &billingv1.RateLimit{Limit: int32(limit), Remaining: int32(remaining), ResetMs: reset}
}

// setBillingType writes how a request is paid for, if that is known.
func setBillingType(h http.Header, t billingv1.BillingType) {
	if billing := billingName(t); billing != "" {
		h.Set("X-Svc-Billing-Type", billing)
	}
}

// setServed writes who serves.
func setServed(h http.Header, by inference.Served) {
	c := by.Candidate
	h.Set("X-Svc-Provider-Id", headerText(c.GetProviderId()))
	h.Set("X-Svc-Provider-Name", headerText(c.GetProviderName()))
	if mode := modeword.Of(c.GetConnectionMode()); mode != "" {
		h.Set("X-Svc-Connection-Mode", mode)
	}
	if c.GetContextLength() > 0 {
		h.Set("X-Svc-Context-Length", strconv.FormatInt(c.GetContextLength(), 10))
	}
	if source := sourceName(c.GetContextSource()); source != "" {
		h.Set("X-Svc-Context-Source", source)
	}
	if reason := inference.FallbackName(by.Fallback); reason != "" {
		h.Set("X-Svc-Fallback-Reason", reason)
	}
}

// setFailed writes how many attempts were made, and which provider's engine refused the request.
func setFailed(h http.Header, f inference.Failure) {
	if f.Refused != nil {
		setServed(h, *f.Refused)
	}
	setAttempts(h, f.Attempts)
}

func setAttempts(h http.Header, attempts int) {
	if attempts > 0 {
		h.Set("X-Svc-Attempts", strconv.Itoa(attempts))
	}
}

func setLatency(h http.Header, d time.Duration) {
	h.Set("X-Svc-Latency-Ms", strconv.FormatInt(d.Milliseconds(), 10))
}

// setBilled writes the latency and the cost of an answer.
func setBilled(h http.Header, w inference.Whole) {
	setLatency(h, w.Latency)
	setCost(h, w.Cost)
}

func setCost(h http.Header, cost string) { h.Set("X-Svc-Cost-Usd", cost) }

// maxHeaderText bounds the texts of others in our headers, in bytes.
const maxHeaderText = 128

// headerText makes a text of others fit for a header: printable ASCII, bounded.
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

func sourceName(s routerv1.ContextSource) string {
	switch s {
	case routerv1.ContextSource_CONTEXT_SOURCE_REPORTED:
		return "reported"
	case routerv1.ContextSource_CONTEXT_SOURCE_CATALOG:
		return "catalog"
	case routerv1.ContextSource_CONTEXT_SOURCE_MEASURED:
		return "measured"
	default:
		return ""
	}
}
