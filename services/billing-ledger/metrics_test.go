package billingledger

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"svc.internal/pkg/telemetry"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestSettledAmountsAreCountedByWhoPays(t *testing.T) {
	tel, err := telemetry.Start(telemetry.Config{LogLevel: "info", LogFormat: "text"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMetrics(tel.Meters.Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	m.booked(usage.Line{Source: usage.PayAsYouGo, Charged: 100, Payout: 90})
	m.booked(usage.Line{Source: usage.PayAsYouGo, Charged: 10, Payout: 9, Shortfall: 3})
	m.booked(usage.Line{Source: usage.Plan, Payout: 1_000})
	m.booked(usage.Line{Source: usage.Orphan, Payout: 5})
	answer := httptest.NewRecorder()
	tel.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text := answer.Body.String()
	for _, want := range []string{
		`svc_billing_charged_nano_usd_total{source="payg"} 110`,
		`svc_billing_payouts_nano_usd_total{source="payg"} 99`,
		`svc_billing_payouts_nano_usd_total{source="orphan"} 5`,
		`svc_billing_shortfalls_nano_usd_total{source="payg"} 3`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("got no line %q in\n%s", want, text)
		}
	}
	// The pool of a month pays what plans cover.
	if never := `svc_billing_payouts_nano_usd_total{source="plan"}`; strings.Contains(text, never) {
		t.Errorf("got a line %q, want none", never)
	}
}
