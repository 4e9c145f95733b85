package edgegateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	billingv1 "svc.internal/proto/svc/billing/v1"
)

// receipts has the receipts of account-1 whose ids end in a.
type receipts struct {
	billingv1.UnimplementedReceiptServiceServer
}

func (receipts) GetReceipt(_ context.Context, req *billingv1.GetReceiptRequest) (*billingv1.GetReceiptResponse, error) {
	if req.GetAccountId() != "account-1" || !strings.HasSuffix(req.GetRequestId(), "a") {
		return nil, noReceipt()
	}
	return &billingv1.GetReceiptResponse{Receipt: &billingv1.Receipt{RequestId: req.GetRequestId(), Status: "settled"}},
		nil
}

// receiptURL is a request of account-1, and foreignURL one of another account.
const (
	receiptURL = "/api/v1/requests/01890000-0000-7000-8000-00000000000a"
	foreignURL = "/api/v1/requests/01890000-0000-7000-8000-00000000000b"
)

func TestAUsersSessionReadsTheReceiptsOfTheUsersAccount(t *testing.T) {
	f := start(t)
	byKey := wantJSON(t, f.do(http.MethodGet, receiptURL, "", bearer(f.key)...), http.StatusOK, nil)
	resp := f.do(http.MethodGet, receiptURL, "", bearer(sessionToken)...)
	if bySession := wantJSON(t, resp, http.StatusOK, nil); bySession != byKey {
		t.Errorf("by a session: got %s, want as by a key: %s", bySession, byKey)
	}
	if got := resp.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: got %q, want no-store", got)
	}
}

// Nobody finds out by an id whether another account has made a request.
func TestAReceiptOfAnotherAccountLooksAsAnUnknownOne(t *testing.T) {
	f := start(t)
	for name, c := range map[string]struct{ token, foreign string }{
		"a key": {f.key, foreignURL}, "a session": {sessionToken, foreignURL},
		"a session of another account": {bobToken, receiptURL},
	} {
		var bodies []string
		for _, path := range []string{c.foreign, "/api/v1/requests/01890000-0000-7000-8000-0000000000cc",
			"/api/v1/requests/x"} {
			resp := f.do(http.MethodGet, path+"?account_id=account-1", "", append(bearer(c.token), "X-Svc-Account",
				"account-1")...)
			e := wantError(t, resp, http.StatusNotFound, "request_not_found")
			bodies = append(bodies, e.Error.Message)
		}
		for _, body := range bodies[1:] {
			if body != bodies[0] {
				t.Errorf("%s: an unknown request: got %q, want %q as of another account's", name, body, bodies[0])
			}
		}
	}
}

func TestNoOtherCredentialReadsAReceipt(t *testing.T) {
	f := start(t)
	for name, c := range map[string]struct {
		credential []string
		code       string
	}{
		"nothing": {nil, "missing_api_key"},
		"the cookie of a page of ours": {[]string{"Cookie", "svc_refresh=" + refreshToken, "Sec-Fetch-Site", "same-origin"},
			"missing_api_key"},
		"a session that was ended":  {bearer(endedToken), "session_expired"},
		"a session that nobody had": {bearer("stale"), "invalid_api_key"},
		"a provider key":            {f.asProvider(), "wrong_key_type"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, f.do(http.MethodGet, receiptURL, "", c.credential...), http.StatusUnauthorized, c.code)
		})
	}
}
