package cardapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"

	billingv1 "svc.internal/proto/svc/billing/v1"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var page = template.Must(template.New("page").Parse(pageText))

// Policy is the Content-Security-Policy of a page: no script and nothing from elsewhere,
// in no frame, and its forms go to this site alone.
var Policy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}()

// view is what the template shows.
type view struct {
	Style       template.CSS
	Description string
	Total       string
	ReturnURL   string
	// Open, Paid, Expired and ChargedBack are the states, of which one holds.
	Open, Paid, Expired, ChargedBack bool
	Declined, Subscribed, Lost       bool
	Refunded                         string
	Expires                          string
}

func render(s *billingv1.SandboxSession) ([]byte, error) {
	v := view{
		Style:       template.CSS(pageStyle), //nolint:gosec // the style is this package's own
		Description: s.GetDescription(), Total: dollars(s.GetTotalCents()), ReturnURL: s.GetReturnUrl(),
		Open:        s.GetState() == billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_OPEN,
		Paid:        s.GetState() == billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_PAID,
		Expired:     s.GetState() == billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_EXPIRED,
		ChargedBack: s.GetState() == billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_CHARGED_BACK,
		Declined:    s.GetDeclined(), Subscribed: s.GetSubscribed(), Lost: s.GetDisputeLost(),
		Expires: s.GetExpiresAt().AsTime().UTC().Format("15:04 UTC"),
	}
	if s.GetRefundedCents() > 0 {
		v.Refunded = dollars(s.GetRefundedCents())
	}
	var text bytes.Buffer
	if err := page.Execute(&text, v); err != nil {
		return nil, fmt.Errorf("render a page of the sandbox: %w", err)
	}
	return text.Bytes(), nil
}

func dollars(cents int64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }
