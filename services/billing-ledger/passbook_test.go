package billingledger_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
)

// asUser is the context of a gateway's call for the user of an account.
func asUser(t *testing.T, account string) context.Context {
	t.Helper()
	return metadata.NewOutgoingContext(t.Context(), serve.UserMetadata(serve.Caller{User: "u", Account: account}))
}

// spending is a fleet with an account that was given $5 and used three requests, as its
// passbook has it, and another account.
func spending(t *testing.T) (f *fleet, c, other consumer) {
	t.Helper()
	f = start(t, func(cfg *billingledger.Config) {
		cfg.Passbook.FoldInterval, cfg.Passbook.FoldLag = 20*time.Millisecond, 0
	})
	c, other = f.consumer(t, "5.00"), f.consumer(t, "1.00")
	settled := f.notices(t)
	for range 3 {
		req := order(t, c)
		f.admit(t, req)
		f.publish(t, served(req.GetRequestId()))
		wait(t, settled)
	}
	until(t, func() bool { return len(f.ledger(t, c).GetLines()) == 4 && len(f.ledger(t, other).GetLines()) == 1 })
	return f, c, other
}

func (f *fleet) ledger(t *testing.T, c consumer) *billingv1.ListLedgerResponse {
	t.Helper()
	resp, err := f.passbooks.ListLedger(asUser(t, c.account), &billingv1.ListLedgerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestAConsumerSeesWhatItPaidAndUsed(t *testing.T) {
	t.Parallel()
	f, c, _ := spending(t)
	lines := f.ledger(t, c).GetLines()
	if lines[0].GetLink() != "/api/v1/requests/"+lines[0].GetEntryId() {
		t.Errorf("usage: got the link %q, want the receipt of %s", lines[0].GetLink(), lines[0].GetEntryId())
	}
	if got := lines[0].GetText(); got != "Usage of acme/large" {
		t.Errorf("usage: got the text %q, want the model in it", got)
	}
	if got := lines[3].GetSubject(); got != "grant" {
		t.Errorf("the first line: got the subject %q, want grant", got)
	}
	balance, err := f.passbooks.GetBalance(asUser(t, c.account), &billingv1.GetBalanceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if balance.GetCreditUsdStr() != lines[0].GetBalanceUsdStr() {
		t.Errorf("balance: got %s, want %s as the last line has it", balance.GetCreditUsdStr(), lines[0].GetBalanceUsdStr())
	}
	if balance.DaysLeft == nil {
		t.Error("days left: got none, want a number")
	}
	if got := balance.GetLimits(); got == nil {
		t.Error("limits of the balance: got none, want some")
	}
	usage, err := f.passbooks.GetUsage(asUser(t, c.account), &billingv1.GetUsageRequest{By: "key"})
	if err != nil {
		t.Fatal(err)
	}
	if got := usage.GetGroups(); len(got) != 1 || got[0].GetOf() != c.key || got[0].GetRequests() != 3 {
		t.Errorf("usage by key: got %v, want three requests of %s", got, c.key)
	}
	receipts, err := f.passbooks.ListCreditReceipts(asUser(t, c.account), &billingv1.ListCreditReceiptsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := receipts.GetReceipts(); len(got) != 1 || got[0].GetTotalUsdStr() != "5.00" {
		t.Errorf("receipts: got %v, want one of $5", got)
	}
	f.sound(t)
}

func TestAnotherAccountsPassbookIsNotFound(t *testing.T) {
	t.Parallel()
	f, c, other := spending(t)
	first, err := f.passbooks.ListUsedRequests(asUser(t, c.account), &billingv1.ListUsedRequestsRequest{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	cursor := first.GetNextCursor()
	rest, err := f.passbooks.ListUsedRequests(asUser(t, c.account), &billingv1.ListUsedRequestsRequest{Limit: 2,
		Cursor: cursor})
	if err != nil {
		t.Fatal(err)
	}
	if len(rest.GetRequests()) != 1 || rest.GetNextCursor() != "" {
		t.Errorf("second page: got %d requests and the cursor %q, want the last one", len(rest.GetRequests()),
			rest.GetNextCursor())
	}
	receipts, err := f.passbooks.ListCreditReceipts(asUser(t, c.account), &billingv1.ListCreditReceiptsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	number := receipts.GetReceipts()[0].GetNumber()
	for name, tc := range map[string]struct {
		call func() error
		want fault.Reason
	}{
		"a cursor of another account": {func() error {
			_, err := f.passbooks.ListUsedRequests(asUser(t, other.account),
				&billingv1.ListUsedRequestsRequest{Cursor: cursor})
			return err
		}, fault.InvalidValue},
		"a cursor of another list": {func() error {
			_, err := f.passbooks.ListLedger(asUser(t, c.account), &billingv1.ListLedgerRequest{Cursor: cursor})
			return err
		}, fault.InvalidValue},
		"a receipt": {func() error {
			_, err := f.passbooks.GetCreditReceipt(asUser(t, other.account),
				&billingv1.GetCreditReceiptRequest{Number: number})
			return err
		}, fault.DocumentNotFound},
		"a receipt's page": {func() error {
			_, err := f.exports.GetDocumentPage(t.Context(), &billingv1.GetDocumentPageRequest{AccountId: other.account,
				Number: number})
			return err
		}, fault.DocumentNotFound},
		"a receipt for an invoice": {func() error {
			_, err := f.passbooks.GetInvoice(asUser(t, c.account), &billingv1.GetInvoiceRequest{Number: number})
			return err
		}, fault.DocumentNotFound},
		"nobody": {func() error {
			_, err := f.passbooks.GetBalance(t.Context(), &billingv1.GetBalanceRequest{})
			return err
		}, fault.InvalidSession},
		"no account": {func() error {
			_, err := f.passbooks.GetBalance(asUser(t, newRequest(t)), &billingv1.GetBalanceRequest{})
			return err
		}, fault.AccountNotFound},
	} {
		if err := tc.call(); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want %v", name, err, tc.want)
		}
	}
	foreign, err := f.passbooks.ListUsedRequests(asUser(t, other.account), &billingv1.ListUsedRequestsRequest{Key: c.key})
	if err != nil {
		t.Fatal(err)
	}
	if got := foreign.GetRequests(); len(got) != 0 {
		t.Errorf("by another account's key: got %d requests, want 0", len(got))
	}
}

func TestParametersOfPassbooksHaveBounds(t *testing.T) {
	t.Parallel()
	f := assemble(t)
	c := f.consumer(t, "1.00")
	ctx := asUser(t, c.account)
	long := strings.Repeat("x", 256)
	for name, call := range map[string]func() error{
		"limit": func() error {
			_, err := f.passbooks.ListLedger(ctx, &billingv1.ListLedgerRequest{Limit: 201})
			return err
		},
		"a negative limit": func() error {
			_, err := f.passbooks.ListCreditReceipts(ctx, &billingv1.ListCreditReceiptsRequest{Limit: -1})
			return err
		},
		"kind": func() error {
			_, err := f.passbooks.ListLedger(ctx, &billingv1.ListLedgerRequest{Kind: "gas"})
			return err
		},
		"days": func() error {
			_, err := f.passbooks.GetUsage(ctx, &billingv1.GetUsageRequest{From: "2024-01-01", To: "2026-01-01"})
			return err
		},
		"group": func() error {
			_, err := f.passbooks.GetUsage(ctx, &billingv1.GetUsageRequest{By: long})
			return err
		},
		"model": func() error {
			_, err := f.passbooks.GetUsage(ctx, &billingv1.GetUsageRequest{Model: long})
			return err
		},
		"key": func() error {
			_, err := f.passbooks.ListUsedRequests(ctx, &billingv1.ListUsedRequestsRequest{Key: long})
			return err
		},
		"cursor": func() error {
			_, err := f.passbooks.ListInvoices(ctx, &billingv1.ListInvoicesRequest{Cursor: rand.Text()})
			return err
		},
		"an export": func() error {
			stream, err := f.exports.ExportUsage(t.Context(), &billingv1.ExportUsageRequest{AccountId: c.account,
				From: "2024-01-01"})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	} {
		if err := call(); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %v", name, err, fault.InvalidValue)
		}
	}
}

func TestAnExportHasEveryLine(t *testing.T) {
	t.Parallel()
	f, c, _ := spending(t)
	stream, err := f.exports.ExportLedger(t.Context(), &billingv1.ExportLedgerRequest{AccountId: c.account})
	if err != nil {
		t.Fatal(err)
	}
	var whole []byte
	var rows int64
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		whole, rows = append(whole, piece.GetCsv()...), piece.GetRows()
	}
	if rows != 4 {
		t.Errorf("got %d rows, want 4", rows)
	}
	if got := strings.Count(string(whole), "\r\n"); got != 5 {
		t.Errorf("got %d lines, want 5 with the header", got)
	}
}
