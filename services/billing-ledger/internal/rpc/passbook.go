package rpc

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/document"
	"svc.internal/services/billing-ledger/internal/passbook"
)

// Passbooks shows users their own accounts.
type Passbooks struct {
	billingv1.UnimplementedPassbookServiceServer
	Store     passbook.Store
	Documents document.Store
	Cursors   *passbook.Cursors
	Spending  *account.Spending
	// Clock says from when a period without ends is counted.
	Clock clock.Clock
}

// ofUser returns the account of the user for whom a call is made.
func ofUser(ctx context.Context) (ids.AccountID, error) {
	if who, ok := serve.User(ctx); ok {
		if id, err := ids.ParseAccount(who.Account); err == nil {
			return id, nil
		}
	}
	return ids.AccountID{}, fault.New(fault.Unauthenticated, fault.InvalidSession, "sign in")
}

// pageSize reads the length of a page.
func pageSize(limit int32) (int, error) {
	switch {
	case limit < 0 || limit > passbook.MaxPage:
		return 0, fault.New(fault.Invalid, fault.InvalidValue, "limit must be at most %d", passbook.MaxPage).On("limit")
	case limit == 0:
		return passbook.DefaultPage, nil
	default:
		return int(limit), nil
	}
}

// walk reads which page of one of the caller's lists a request asks for. The walk has one line
// more than the page, because that line shows that there is another page.
func (s *Passbooks) walk(
	ctx context.Context, list passbook.List, limit int32, cursor string,
) (ids.AccountID, passbook.Walk, error) {
	id, err := ofUser(ctx)
	if err != nil {
		return id, passbook.Walk{}, err
	}
	size, err := pageSize(limit)
	if err != nil {
		return id, passbook.Walk{}, err
	}
	place, err := s.Cursors.Read(list, id, cursor)
	return id, passbook.Walk{Behind: place, Limit: size + 1}, err
}

// page cuts a list down to its page, and returns the cursor of the next one.
func page[T any](s *Passbooks, list passbook.List, id ids.AccountID, w passbook.Walk, found []T,
	place func(T) passbook.Place,
) ([]T, string) {
	if len(found) < w.Limit {
		return found, ""
	}
	found = found[:w.Limit-1]
	return found, s.Cursors.Of(list, id, place(found[len(found)-1]))
}

// GetBalance reads where the account's credit stands.
func (s *Passbooks) GetBalance(
	ctx context.Context, _ *billingv1.GetBalanceRequest,
) (*billingv1.GetBalanceResponse, error) {
	id, err := ofUser(ctx)
	if err != nil {
		return nil, err
	}
	st, err := s.Store.Standing(ctx, id)
	switch {
	case errors.Is(err, account.ErrNotFound):
		return nil, account.NotFound()
	case err != nil:
		return nil, err
	}
	limits, err := s.Spending.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	burn := passbook.BurnOf(st.Now, st.OpenedAt, st.Charged, st.Available())
	resp := &billingv1.GetBalanceResponse{
		CreditUsdStr: st.Credit.String(), HeldUsdStr: st.Held.String(), AvailableUsdStr: st.Available().String(),
		DebtUsdStr: st.Owed.String(), BurnUsdPerDayStr: burn.PerDay.String(), Frozen: st.Frozen,
		AsOf: timestamppb.New(st.AsOf), Limits: spendLimitsToProto(limits), Freezes: freezesToProto(st.Freezes),
		Debts: debtsToProto(st.Debts),
	}
	for _, f := range st.Freezes {
		resp.FreezeCauses = append(resp.FreezeCauses, f.Cause.Text())
	}
	if burn.DaysLeft >= 0 {
		resp.DaysLeft = &burn.DaysLeft
	}
	return resp, nil
}

func kindFromProto(kind string) (passbook.Filter, error) {
	f := passbook.Filter{Kind: passbook.KindOf(kind)}
	if kind != "" && f.Kind == "" {
		return f, fault.New(fault.Invalid, fault.InvalidValue, "kind must be a kind of the lines of a ledger").On("kind")
	}
	return f, nil
}

func filterFromProto(from, to, kind string, now time.Time) (passbook.Filter, error) {
	f, err := kindFromProto(kind)
	if err != nil {
		return f, err
	}
	f.Period, err = passbook.PeriodOf(from, to, now)
	return f, err
}

// ListLedger lists lines.
func (s *Passbooks) ListLedger(
	ctx context.Context, req *billingv1.ListLedgerRequest,
) (*billingv1.ListLedgerResponse, error) {
	id, w, err := s.walk(ctx, passbook.Ledger, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	f, err := filterFromProto(req.GetFrom(), req.GetTo(), req.GetKind(), s.Clock.Now())
	if err != nil {
		return nil, err
	}
	asOf, err := s.Store.AsOf(ctx)
	if err != nil {
		return nil, err
	}
	lines, err := s.Store.Lines(ctx, id, f, w)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListLedgerResponse{AsOf: timestamppb.New(asOf)}
	lines, resp.NextCursor = page(s, passbook.Ledger, id, w, lines,
		func(l passbook.Line) passbook.Place { return l.Place })
	for _, l := range lines {
		resp.Lines = append(resp.Lines, lineToProto(l))
	}
	return resp, nil
}

func lineToProto(l passbook.Line) *billingv1.LedgerLine {
	m := &billingv1.LedgerLine{
		EntryId: l.ID(), Kind: string(l.Kind), Text: l.Text(), At: timestamppb.New(l.At),
		AmountUsdStr: l.Amount.String(), BalanceUsdStr: l.Balance.String(), Link: l.Link(),
	}
	subject, of := l.About()
	m.Subject, m.SubjectId = string(subject), of
	return m
}

// GetUsage sums up usage.
func (s *Passbooks) GetUsage(ctx context.Context, req *billingv1.GetUsageRequest) (*billingv1.GetUsageResponse, error) {
	id, err := ofUser(ctx)
	if err != nil {
		return nil, err
	}
	by, err := passbook.GroupOf(req.GetBy())
	if err != nil {
		return nil, err
	}
	period, err := passbook.DaysOf(req.GetFrom(), req.GetTo(), s.Clock.Now())
	if err != nil {
		return nil, err
	}
	f, err := passbook.UsageFilterOf(period, req.GetKey(), req.GetModel())
	if err != nil {
		return nil, err
	}
	asOf, err := s.Store.AsOf(ctx)
	if err != nil {
		return nil, err
	}
	sums, total, more, err := s.Store.Sums(ctx, id, f, by)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.GetUsageResponse{Total: groupToProto(passbook.Sum{Counts: total}), Truncated: more,
		AsOf: timestamppb.New(asOf)}
	for _, sum := range sums {
		resp.Groups = append(resp.Groups, groupToProto(sum))
	}
	return resp, nil
}

func groupToProto(sum passbook.Sum) *billingv1.UsageGroup {
	return &billingv1.UsageGroup{
		Of: sum.Of, Name: sum.Name, Requests: float64(sum.Requests), PromptTokens: float64(sum.Prompt),
		CompletionTokens: float64(sum.Completion), Images: float64(sum.Images), AudioSeconds: float64(sum.AudioMS) / 1000,
		ChargedUsdStr: sum.Charged.String(), CoveredUsdStr: sum.Covered.String(),
	}
}

func usageFilterFromProto(from, to, key, model string, now time.Time) (passbook.UsageFilter, error) {
	period, err := passbook.PeriodOf(from, to, now)
	if err != nil {
		return passbook.UsageFilter{}, err
	}
	return passbook.UsageFilterOf(period, key, model)
}

// ListUsedRequests lists settled requests.
func (s *Passbooks) ListUsedRequests(
	ctx context.Context, req *billingv1.ListUsedRequestsRequest,
) (*billingv1.ListUsedRequestsResponse, error) {
	id, w, err := s.walk(ctx, passbook.Requests, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	f, err := usageFilterFromProto(req.GetFrom(), req.GetTo(), req.GetKey(), req.GetModel(), s.Clock.Now())
	if err != nil {
		return nil, err
	}
	asOf, err := s.Store.AsOf(ctx)
	if err != nil {
		return nil, err
	}
	served, err := s.Store.Served(ctx, id, f, w)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListUsedRequestsResponse{AsOf: timestamppb.New(asOf)}
	served, resp.NextCursor = page(s, passbook.Requests, id, w, served,
		func(r passbook.Served) passbook.Place { return r.Place })
	for _, r := range served {
		resp.Requests = append(resp.Requests, &billingv1.UsedRequest{
			RequestId: r.Request.String(), At: timestamppb.New(r.At), KeyId: r.Key.String(), Model: r.Model,
			ProviderId: r.Provider.String(), BillingType: string(r.Source), PromptTokens: float64(r.Prompt),
			CompletionTokens: float64(r.Completion), Images: float64(r.Images), AudioSeconds: float64(r.AudioMS) / 1000,
			ChargedUsdStr: r.Charged.String(), CoveredUsdStr: r.Covered.String(), Link: passbook.RequestLink(r.Request.String()),
		})
	}
	return resp, nil
}

// PassbookExports writes files for the gateway.
type PassbookExports struct {
	billingv1.UnimplementedPassbookExportServiceServer
	Store     passbook.Store
	Documents document.Store
	Exports   *passbook.Exports
	Clock     clock.Clock
}

// ExportLedger writes lines.
func (s *PassbookExports) ExportLedger(
	req *billingv1.ExportLedgerRequest, stream grpc.ServerStreamingServer[billingv1.ExportLedgerResponse],
) error {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return account.NotFound()
	}
	f, err := filterFromProto(req.GetFrom(), req.GetTo(), req.GetKind(), s.Clock.Now())
	if err != nil {
		return err
	}
	return s.Exports.Do(stream.Context(), id, func(ctx context.Context) error {
		return passbook.ExportLines(ctx, s.Store, id, f, until(ctx, func(piece []byte, rows int64) error {
			return stream.Send(&billingv1.ExportLedgerResponse{Csv: bytes.Clone(piece), Rows: rows})
		}))
	})
}

// ExportUsage writes settled requests.
func (s *PassbookExports) ExportUsage(
	req *billingv1.ExportUsageRequest, stream grpc.ServerStreamingServer[billingv1.ExportUsageResponse],
) error {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return account.NotFound()
	}
	f, err := usageFilterFromProto(req.GetFrom(), req.GetTo(), req.GetKey(), req.GetModel(), s.Clock.Now())
	if err != nil {
		return err
	}
	return s.Exports.Do(stream.Context(), id, func(ctx context.Context) error {
		return passbook.ExportServed(ctx, s.Store, id, f, until(ctx, func(piece []byte, rows int64) error {
			return stream.Send(&billingv1.ExportUsageResponse{Csv: bytes.Clone(piece), Rows: rows})
		}))
	})
}

// until sends pieces until ctx ends, also while the reader takes none: the send that then still
// waits ends with the stream, which ends with its handler.
func until(ctx context.Context, send func(piece []byte, rows int64) error) func([]byte, int64) error {
	return func(piece []byte, rows int64) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// A reader in this process may still have the message when the piece is written anew.
		message, sent := bytes.Clone(piece), make(chan error, 1)
		go func() { sent <- send(message, rows) }()
		select {
		case err := <-sent:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// GetDocumentPage reads a document as a page.
func (s *PassbookExports) GetDocumentPage(
	ctx context.Context, req *billingv1.GetDocumentPageRequest,
) (*billingv1.GetDocumentPageResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, document.NotFound()
	}
	d, err := documentOf(ctx, s.Documents, id, req.GetNumber())
	if err != nil {
		return nil, err
	}
	html, err := d.HTML()
	if err != nil {
		return nil, err
	}
	return &billingv1.GetDocumentPageResponse{Html: html, ContentSecurityPolicy: document.Policy}, nil
}

// documentOf finds a document of an account among some series, all where none is named.
func documentOf(
	ctx context.Context, from document.Store, id ids.AccountID, number string, of ...document.Series,
) (document.Document, error) {
	n, err := document.ParseNumber(number)
	if err != nil || len(of) > 0 && !slices.Contains(of, n.Series) {
		return document.Document{}, document.NotFound()
	}
	d, found, err := from.Document(ctx, id, n)
	if err == nil && !found {
		err = document.NotFound()
	}
	return d, err
}
