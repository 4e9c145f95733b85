package apierror

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/openai"
)

// decided is the table of the public API, written down a second time.
var decided = map[int][]fault.Reason{
	400: {"invalid_request", "invalid_value", "duplicate_field", "missing_required_parameter", "context_length_exceeded",
		"invalid_provider", "unsupported_endpoint_for_model", "idempotency_key_missing", "invalid_signature"},
	401: {"missing_api_key", "invalid_api_key", "key_revoked", "key_expired", "wrong_key_type", "invalid_credentials",
		"invalid_session", "session_expired"},
	402: {"insufficient_credits", "plan_allowance_exceeded"},
	403: {"model_not_allowed", "account_frozen", "email_not_confirmed", "origin_not_allowed", "owner_required",
		"role_not_allowed", "fresh_sign_in_required"},
	404: {"unknown_route", "model_not_found", "request_not_found", "account_not_found", "key_not_found",
		"webhook_not_found", "endpoint_not_found", "contact_not_found", "change_not_found",
		"penalty_not_found", "payout_not_found", "proposal_not_found",
		"provider_not_found", "user_not_found", "operator_not_found", "offering_not_found",
		"verdict_not_found", "effect_not_found", "checkout_not_found", "subscription_not_found", "session_not_found",
		"identity_not_found", "issuer_not_found",
		"statement_not_found", "document_not_found", "month_not_closed"},
	405: {"method_not_allowed"},
	409: {"payout_pending", "refund_open",
		"payout_too_frequent", "refund_blocked", "transition_not_allowed", "already_exists",
		"no_reference", "not_calibrated", "earnings_held", "beneficiary_cooling"},
	410: {"evidence_deleted"},
	413: {"request_too_large"},
	415: {"unsupported_encoding"},
	422: {"below_minimum", "account_missing", "insufficient_earnings", "beneficiary_missing", "idempotency_key_reused",
		"idempotency_answer_gone", "too_many_keys", "too_many_webhooks", "too_many_endpoints",
		"too_many_operators", "too_many_changes"},
	429: {"rate_limit_exceeded", "concurrency_limit_exceeded", "benchmark_too_soon"},
	499: {"client_closed"},
	500: {"internal_error"},
	502: {"requested_provider_failed", "upstream_error"},
	503: {"no_provider_online", "requested_provider_unavailable", "providers_busy", "admission_unavailable",
		"service_unavailable", "processor_unavailable", "chain_halted"},
	504: {"timeout"},
	508: {"loop_detected"},
}

var types = map[int]string{
	401: openai.TypeAuthentication, 402: openai.TypeInsufficientQuota, 403: openai.TypePermission,
	404: openai.TypeNotFound,
	429: openai.TypeRateLimit, 500: openai.TypeServer, 502: openai.TypeServer, 503: openai.TypeServer,
	504: openai.TypeServer,
}

func TestEveryReasonHasItsRow(t *testing.T) {
	left := len(Table)
	for status, reasons := range decided {
		for _, reason := range reasons {
			left--
			want := types[status]
			if want == "" {
				want = openai.TypeInvalidRequest
			}
			row, ok := Table[reason]
			switch {
			case !ok:
				t.Errorf("%s: Table[reason]: got none, want one", reason)
			case row.Status != status:
				t.Errorf("%s: row.Status: got %d, want %d", reason, row.Status, status)
			case row.Type != want:
				t.Errorf("%s: row.Type: got %q, want %q", reason, row.Type, want)
			}
			// SDKs retry these on their own; all else is final by its status,
			// and says so.
			retried := status == 429 || status >= 500
			pinned := reason == "requested_provider_failed" || reason == "requested_provider_unavailable" ||
				reason == "loop_detected"
			if row.Final != (!retried || pinned) {
				t.Errorf("%s: final: got %t, want %t", reason, row.Final, !retried || pinned)
			}
		}
	}
	if left != 0 {
		t.Errorf("rows in one table only: got %d, want 0", left)
	}
	for reason, want := range map[fault.Reason]time.Duration{
		"no_provider_online": 5 * time.Second, "requested_provider_unavailable": 5 * time.Second,
		"providers_busy": 2 * time.Second, "rate_limit_exceeded": time.Second, "processor_unavailable": 5 * time.Second,
		"chain_halted": time.Minute,
	} {
		if got := Table[reason].RetryAfter; got != want {
			t.Errorf("%s: retry: got %v, want %v", reason, got, want)
		}
	}
}

func TestEveryKindHasAnAnswer(t *testing.T) {
	want := map[fault.Kind]int{
		fault.Internal: 500, fault.Invalid: 400, fault.Unauthenticated: 401, fault.Denied: 403, fault.NotFound: 404,
		fault.Precondition: 422, fault.Exhausted: 429, fault.Unavailable: 503, fault.Timeout: 504, fault.Canceled: 499,
		fault.Conflict: 409,
	}
	for _, kind := range fault.Kinds() {
		a := Of(fmt.Errorf("call a peer: %w", fault.New(kind, "newer_reason", "words")))
		switch {
		case a.Status != want[kind]:
			t.Errorf("kind %d: a.Status: got %d, want %d", kind, a.Status, want[kind])
		case a.Type == "":
			t.Errorf(`kind %d: a.Type: got "", want some text`, kind)
		case a.Code == "":
			t.Errorf(`kind %d: a.Code: got "", want some text`, kind)
		}
	}
	// Reasons within the fleet are nobody else's business.
	for _, reason := range []fault.Reason{fault.SessionGone, fault.HubDraining, fault.JournalFull, fault.ProviderBusy} {
		if a := Of(fault.New(fault.Unavailable, reason, "hub-7")); a.Status != 503 {
			t.Errorf("%s: a.Status: got %d, want 503", reason, a.Status)
		} else if a.Code != "service_unavailable" {
			t.Errorf(`%s: a.Code: got %q, want "service_unavailable"`, reason, a.Code)
		}
	}
}

func TestOurOwnFaultsHaveAConstantText(t *testing.T) {
	for _, err := range []error{
		errors.New("pq: password is hunter2"),
		fault.Wrap(errors.New("hunter2"), fault.Internal, "anything", "hunter2"),
	} {
		a := Of(err)
		switch {
		case a.Status != 500:
			t.Errorf("a.Status: got %d, want 500", a.Status)
		case a.Code != "internal_error":
			t.Errorf(`a.Code: got %q, want "internal_error"`, a.Code)
		case strings.Contains(a.Message, "hunter2"):
			t.Errorf(`a.Message: got %q, want it without "hunter2"`, a.Message)
		case !a.Internal:
			t.Error("a.Internal: got false, want true")
		}
	}
}

func TestAnAnswerSaysWhenToRetry(t *testing.T) {
	cases := []struct {
		err    error
		header map[string]string
	}{
		{fault.New(fault.Exhausted, fault.RateLimitExceeded, "x").After(1001 * time.Millisecond),
			map[string]string{"Retry-After": "2", "Retry-After-Ms": "1001", "X-Should-Retry": ""}},
		{fault.New(fault.Exhausted, fault.RateLimitExceeded, "x").After(-time.Second), map[string]string{"Retry-After": "1"}},
		{fault.New(fault.Precondition, fault.InsufficientCredits, "x"), map[string]string{"Retry-After": "",
			"X-Should-Retry": "false"}},
		{NotSoon(fault.New(fault.Unavailable, fault.NoProviderOnline, "x")), map[string]string{"Retry-After": "5",
			"X-Should-Retry": "false"}},
		{Finally(fault.New(fault.Unavailable, fault.NoProviderOnline, "x")), map[string]string{"Retry-After": "",
			"X-Should-Retry": "false"}},
		{AfterFallback(fault.New(fault.Unavailable, UpstreamError, "x"), "requested_provider_failed"),
			map[string]string{"X-Svc-Fallback-Reason": "requested_provider_failed"}},
		{AfterFallback(NewRefusal(422, openai.Error{}), "requested_provider_failed"),
			map[string]string{"X-Svc-Fallback-Reason": "requested_provider_failed", "X-Should-Retry": "false"}},
		{AfterFallback(fault.New(fault.Unavailable, UpstreamError, "x"), ""), map[string]string{"X-Svc-Fallback-Reason": ""}},
		{fault.New(fault.Unauthenticated, MissingAPIKey, "x"), map[string]string{"Www-Authenticate": "Bearer"}},
	}
	for _, c := range cases {
		w := httptest.NewRecorder()
		if err := Of(c.err).Write(w, "r1"); err != nil {
			t.Fatal(err)
		}
		for name, want := range c.header {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%v: %s: got %q, want %q", c.err, name, got, want)
			}
		}
		if !strings.HasSuffix(w.Body.String(), `"request_id":"r1"}`) {
			t.Errorf("body: got %q, want the suffix %q", w.Body.String(), `"request_id":"r1"}`)
		}
	}
}

func TestRefusalsKeepTheirStatusWithinReason(t *testing.T) {
	for status, want := range map[int]int{
		400: 400, 404: 404, 413: 413, 422: 422, 451: 451, 409: 400, 401: 502, 402: 502, 403: 502, 407: 502,
		200: 502, 500: 502, 0: 502,
	} {
		a := Of(NewRefusal(status, openai.Error{Message: "no"}))
		switch {
		case a.Status != want:
			t.Errorf("%d: a.Status: got %d, want %d", status, a.Status, want)
		case a.Final != (want != http.StatusBadGateway):
			t.Errorf("%d: a.Final: got %t, want %t", status, a.Final, want != http.StatusBadGateway)
		case a.Message == "":
			t.Errorf(`%d: a.Message: got "", want some text`, status)
		case a.Type == "":
			t.Errorf(`%d: a.Type: got "", want some text`, status)
		}
	}
	if text := NewRefusal(400, openai.Error{Message: "prompt"}).Error(); strings.Contains(text, "prompt") {
		t.Errorf(`the log would hold: got %q, want it without "prompt"`, text)
	}
}
