package edgegateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	billingv1 "svc.internal/proto/svc/billing/v1"
)

// overviews has the requests whose ids end in a, of two accounts.
type overviews struct {
	billingv1.UnimplementedAccountOverviewAdminServiceServer
}

func (overviews) GetRequest(
	_ context.Context, req *billingv1.GetRequestRequest,
) (*billingv1.GetRequestResponse, error) {
	if !strings.HasSuffix(req.GetRequestId(), "a") {
		return nil, noReceipt()
	}
	return &billingv1.GetRequestResponse{AccountId: "account-2", KeyId: "key-2", KeyPrefix: "sk-svc-abcde",
		Receipt: &billingv1.Receipt{RequestId: req.GetRequestId(), Status: "settled"}}, nil
}

// books has one account and one entry, and notes nothing.
type books struct {
	billingv1.UnimplementedLedgerAdminServiceServer
}

func (books) ListLedgerAccounts(
	context.Context, *billingv1.ListLedgerAccountsRequest,
) (*billingv1.ListLedgerAccountsResponse, error) {
	return &billingv1.ListLedgerAccountsResponse{Balanced: true,
		List: []*billingv1.LedgerBalance{{AccountKind: "a:bank", Asset: "usd", Amount: "-1.00"}}}, nil
}

// ListLedgerEntries has an entry whose memo is the filter.
func (books) ListLedgerEntries(
	_ context.Context, req *billingv1.ListLedgerEntriesRequest,
) (*billingv1.ListLedgerEntriesResponse, error) {
	return &billingv1.ListLedgerEntriesResponse{List: []*billingv1.LedgerEntry{{EntryId: "e1", Kind: "payout",
		Memo: req.GetAccountKind() + " " + req.GetOwnerId(),
		Legs: []*billingv1.LedgerLeg{{AccountKind: "l:provider:payable", Asset: "usd", Amount: "1.00"}}}}}, nil
}

func (books) ListLedgerInvariants(
	context.Context, *billingv1.ListLedgerInvariantsRequest,
) (*billingv1.ListLedgerInvariantsResponse, error) {
	return &billingv1.ListLedgerInvariantsResponse{List: []*billingv1.LedgerInvariant{{Name: "n", Holds: true}},
		Pass: &billingv1.LedgerPass{Number: 2}}, nil
}

func TestAnOperatorReadsTheLedger(t *testing.T) {
	f := start(t)
	const at = "/api/v1/admin/ledger/"
	wantIn(t, f.wantRead(t, at+"accounts", at+"accounts"), `"account_kind":"a:bank"`, `"balanced":true`)
	wantIn(t, f.wantRead(t, at+"entries", at+"entries?account_kind=l:provider:payable&owner_id=p1"),
		`"memo":"l:provider:payable p1"`, `"legs":[{"account_kind":"l:provider:payable"`)
	wantIn(t, f.wantRead(t, at+"invariants", at+"invariants"), `"holds":true`)
	bob := []string{"Authorization", "Bearer " + bobsToken}
	for _, route := range []string{"accounts", "entries", "invariants"} {
		wantError(t, f.doAt(f.base, http.MethodGet, at+route, "", bob...), http.StatusNotFound, "unknown_route")
		wantError(t, f.do(http.MethodPost, at+route, "{}", bob...), http.StatusMethodNotAllowed, "method_not_allowed")
	}
}

// ownStreams has one stream.
type ownStreams struct {
	billingv1.UnimplementedStreamAdminServiceServer
}

func (ownStreams) ListStreams(context.Context, *billingv1.ListStreamsRequest) (*billingv1.ListStreamsResponse, error) {
	return &billingv1.ListStreamsResponse{List: []*billingv1.StreamState{{Stream: "USAGE", Messages: 3,
		Consumers: []*billingv1.ConsumerState{{Consumer: "billing", Pending: 2}}}}}, nil
}

// Of the fleet's services the hub alone has acts, and the router does not know its hubs.
func TestAServiceThatIsAwayBlanksNothingOfTheHealth(t *testing.T) {
	f := start(t)
	const at = "/api/v1/admin/health"
	body := f.wantRead(t, at, at)
	wantIn(t, body, `"service":"provider-hub","answers":true,"has_database":true`,
		`"service":"settlement","answers":false,"has_database":true`, `"error":"answers with an error"`,
		`"service":"router","answers":true,"has_database":false`,
		`"breakers":{"list":[{"provider_id":"`+providerA+`","model_id":"`+modelID+`","state":"open"}],"total":1,`,
		`"hubs":{"list":[],"error":"answers with an error"}`, `"stream":"USAGE","messages":"3"`,
		`"consumer":"billing","pending":"2"`)
	bob := []string{"Authorization", "Bearer " + bobsToken}
	wantError(t, f.doAt(f.base, http.MethodGet, at, "", bob...), http.StatusNotFound, "unknown_route")
	wantError(t, f.do(http.MethodGet, at, ""), http.StatusUnauthorized, "missing_api_key")
}

// wantRead wants a viewer to read a route in its described form, and returns the answer.
func (f *fleet) wantRead(t *testing.T, template, path string) string {
	t.Helper()
	f.staff.set(bobsToken, "viewer", nil)
	resp := f.do(http.MethodGet, path, "", "Authorization", "Bearer "+bobsToken)
	body := read(t, resp)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: got %d %s, want 200", path, resp.StatusCode, body)
	}
	s := newSchemas(t)
	s.wantShape(t, path, s.answerOf(operation{method: http.MethodGet, template: template}, http.StatusOK), body)
	return body
}

// wantIn wants texts in an answer.
func wantIn(t *testing.T, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("the answer: got %s, want %s in it", body, text)
		}
	}
}

func TestAnOperatorReadsTheRequestOfWhicheverAccount(t *testing.T) {
	f := start(t)
	const template = "/api/v1/admin/requests/{request_id}"
	body := f.wantRead(t, template, "/api/v1/admin/requests/0190-a")
	wantIn(t, body, `"account_id":"account-2"`, `"key_prefix":"sk-svc-abcde"`, `"status":"settled"`, `"refund":null`)
	bob := []string{"Authorization", "Bearer " + bobsToken}
	wantError(t, f.do(http.MethodGet, "/api/v1/admin/requests/0190-b", "", bob...), http.StatusNotFound,
		"request_not_found")
	wantError(t, f.do(http.MethodPost, "/api/v1/admin/requests/0190-a", "{}", bob...), http.StatusMethodNotAllowed,
		"method_not_allowed")
	// A consumer's key opens it on neither listener.
	key := []string{"Authorization", "Bearer " + f.key}
	wantError(t, f.do(http.MethodGet, "/api/v1/admin/requests/0190-a", "", key...), http.StatusUnauthorized,
		"invalid_api_key")
	wantError(t, f.doAt(f.base, http.MethodGet, "/api/v1/admin/requests/0190-a", "", bob...), http.StatusNotFound,
		"unknown_route")
}

func TestAnOperatorReadsWhyAProviderGetsNoRequests(t *testing.T) {
	f := start(t)
	const template = "/api/v1/admin/providers/{provider_id}/routing"
	body := f.wantRead(t, template, "/api/v1/admin/providers/"+providerA+"/routing")
	wantIn(t, body, `"rejects":[{"reason":"full","count":"2"}]`, `"breaker":"open"`)
	body = f.wantRead(t, template, "/api/v1/admin/providers/"+providerB+"/routing")
	wantIn(t, body, `"rejects":[]`, `"models":[]`)
	wantError(t, f.doAt(f.base, http.MethodGet, "/api/v1/admin/providers/"+providerA+"/routing", "",
		"Authorization", "Bearer "+bobsToken), http.StatusNotFound, "unknown_route")
}
