package edgegateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// passbooks is a ledger's view for users: it answers with whom it was asked for.
type passbooks struct {
	billingv1.UnimplementedPassbookServiceServer
	billingv1.UnimplementedPassbookExportServiceServer
	// pieces has one for each of the first pieces of an endless export.
	pieces chan struct{}
}

func (passbooks) ListLedger(
	ctx context.Context, req *billingv1.ListLedgerRequest,
) (*billingv1.ListLedgerResponse, error) {
	who, _ := serve.User(ctx)
	return &billingv1.ListLedgerResponse{Lines: []*billingv1.LedgerLine{{Text: who.Account, Kind: req.GetKind()}},
		NextCursor: req.GetCursor()}, nil
}

func (passbooks) GetInvoice(
	ctx context.Context, req *billingv1.GetInvoiceRequest,
) (*billingv1.GetInvoiceResponse, error) {
	who, _ := serve.User(ctx)
	return &billingv1.GetInvoiceResponse{Invoice: &billingv1.Document{Number: req.GetNumber(), Title: who.Account}}, nil
}

func (passbooks) GetBalance(context.Context, *billingv1.GetBalanceRequest) (*billingv1.GetBalanceResponse, error) {
	return &billingv1.GetBalanceResponse{}, nil
}

func (passbooks) GetUsage(context.Context, *billingv1.GetUsageRequest) (*billingv1.GetUsageResponse, error) {
	return &billingv1.GetUsageResponse{}, nil
}

func (passbooks) ListUsedRequests(
	context.Context, *billingv1.ListUsedRequestsRequest,
) (*billingv1.ListUsedRequestsResponse, error) {
	return &billingv1.ListUsedRequestsResponse{}, nil
}

func (passbooks) ListCreditReceipts(
	context.Context, *billingv1.ListCreditReceiptsRequest,
) (*billingv1.ListCreditReceiptsResponse, error) {
	return &billingv1.ListCreditReceiptsResponse{}, nil
}

func (passbooks) GetCreditReceipt(
	context.Context, *billingv1.GetCreditReceiptRequest,
) (*billingv1.GetCreditReceiptResponse, error) {
	return nil, fault.New(fault.NotFound, fault.DocumentNotFound, "there is no such document")
}

func (passbooks) ListInvoices(
	context.Context, *billingv1.ListInvoicesRequest,
) (*billingv1.ListInvoicesResponse, error) {
	return &billingv1.ListInvoicesResponse{}, nil
}

func (passbooks) ExportLedger(
	req *billingv1.ExportLedgerRequest, stream grpc.ServerStreamingServer[billingv1.ExportLedgerResponse],
) error {
	if req.GetKind() == "none" {
		return fault.New(fault.Invalid, fault.InvalidValue, "kind must be one").On("kind")
	}
	for i, piece := range []string{"at,kind\r\n", req.GetAccountId() + "," + req.GetFrom() + "\r\n"} {
		if err := stream.Send(&billingv1.ExportLedgerResponse{Csv: []byte(piece), Rows: int64(i)}); err != nil {
			return err
		}
	}
	return nil
}

func (p passbooks) ExportUsage(
	req *billingv1.ExportUsageRequest, stream grpc.ServerStreamingServer[billingv1.ExportUsageResponse],
) error {
	if req.GetModel() == "endless" {
		return endless(stream, p.pieces)
	}
	return stream.Send(&billingv1.ExportUsageResponse{Csv: []byte(req.GetAccountId() + "," + req.GetModel() + "\r\n"),
		Rows: 1})
}

func (passbooks) GetDocumentPage(
	_ context.Context, req *billingv1.GetDocumentPageRequest,
) (*billingv1.GetDocumentPageResponse, error) {
	return &billingv1.GetDocumentPageResponse{Html: []byte(req.GetAccountId() + " " + req.GetNumber()),
		ContentSecurityPolicy: "default-src 'none'"}, nil
}

// asAnn are the headers of a user who is signed in.
func asAnn() []string { return []string{"Authorization", "Bearer " + sessionToken} }

func TestAUserReadsItsOwnLedger(t *testing.T) {
	f := start(t)
	const want = `{"lines":[{"entry_id":"","kind":"usage","text":"account-1","at":null,"amount_usd_str":"",` +
		`"balance_usd_str":"","subject":"","subject_id":"","link":""}],"next_cursor":"c","as_of":null}`
	got := wantJSON(t, f.do(http.MethodGet, "/api/v1/consumer/ledger?kind=usage&cursor=c", "", asAnn()...), 200, nil)
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, path := range []string{"balance", "ledger", "ledger.csv", "usage", "usage.csv", "usage/requests", "receipts",
		"receipts/R-2026-000001", "receipts/R-2026-000001.html", "invoices", "invoices/I-2026-000001"} {
		wantError(t, f.do(http.MethodGet, "/api/v1/consumer/"+path, ""), 401, "missing_api_key")
		wantError(t, f.do(http.MethodGet, "/api/v1/consumer/"+path, "", "Authorization", "Bearer "+f.key), 401,
			"wrong_key_type")
	}
}

func TestAUserExportsItsOwnLedgerAndUsage(t *testing.T) {
	f := start(t)
	for path, want := range map[string]string{
		"ledger.csv?from=2026-03-01": "at,kind\r\naccount-1,2026-03-01\r\n",
		"usage.csv?model=acme/large": "account-1,acme/large\r\n",
	} {
		resp := f.do(http.MethodGet, "/api/v1/consumer/"+path, "", asAnn()...)
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if string(body) != want {
			t.Errorf("%s: got %q, want %q", path, body, want)
		}
		if got := resp.Trailer.Get("X-Svc-Rows"); got != "1" {
			t.Errorf("%s: trailer: got %q, want 1", path, got)
		}
	}
	for path, code := range map[string]string{
		"ledger.csv?kind=none":                        "invalid_value",
		"ledger.csv?from=a&from=b":                    "invalid_value",
		"ledger.csv?kind=" + strings.Repeat("x", 256): "invalid_value",
		"ledger.csv?account_id=other":                 "invalid_request",
		"usage.csv?model=%ff":                         "invalid_value",
		"ledger?limit=1&limit=2":                      "invalid_request",
		"ledger?limit=99999999999":                    "invalid_request",
	} {
		wantError(t, f.do(http.MethodGet, "/api/v1/consumer/"+path, "", asAnn()...), 400, code)
	}
}

func TestADocumentIsAPageWithoutScript(t *testing.T) {
	f := start(t)
	resp := f.do(http.MethodGet, "/api/v1/consumer/invoices/I-2026-000001.html", "", asAnn()...)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if string(body) != "account-1 I-2026-000001" {
		t.Errorf("got %q, want the caller's page", body)
	}
	if got := resp.Header.Get("Content-Security-Policy"); got != "default-src 'none'" {
		t.Errorf("policy: got %q, want that of the page", got)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("type: got %q, want HTML", got)
	}
	got := wantJSON(t, f.do(http.MethodGet, "/api/v1/consumer/invoices/C-2026-000001", "", asAnn()...), 200, nil)
	if !strings.Contains(got, `"number":"C-2026-000001","title":"account-1"`) {
		t.Errorf("got %s, want the caller's credit note", got)
	}
	for _, path := range []string{"receipts/I-2026-000001.html", "invoices/R-2026-000001.html", "receipts/x.html"} {
		wantError(t, f.do(http.MethodGet, "/api/v1/consumer/"+path, "", asAnn()...), 404, "document_not_found")
	}
}
