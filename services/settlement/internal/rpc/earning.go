package rpc

import (
	"bytes"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/batch"
)

// The words for a month of plans where a provider looks.
const (
	settlementPending = "settlement_pending"
	monthPaid         = "paid"
)

const (
	// maxMonths bounds the months of an answer.
	maxMonths = 24
	// defaultPage and maxPage are the sizes of pages of days.
	defaultPage, maxPage = 30, 100
)

// EarningStore reads batches.
type EarningStore interface {
	batch.Lines
	Overview(ctx context.Context, provider ids.ProviderID, months int) (batch.Overview, error)
	Statement(ctx context.Context, provider ids.ProviderID, day time.Time) (batch.Stating, bool, error)
	Statements(ctx context.Context, provider ids.ProviderID, before time.Time, limit int) ([]batch.Listed, error)
	PlanMonth(ctx context.Context, month string) (batch.ClosedMonth, bool, error)
	DaysEarned(ctx context.Context, provider ids.ProviderID, first, last time.Time) ([]batch.DayParts, error)
}

// Earnings implements EarningService.
type Earnings struct {
	settlementv1.UnimplementedEarningServiceServer
	Store  EarningStore
	Ledger billingv1.AccrualServiceClient
	Clock  clock.Clock
	// Signer is nil where there is none.
	Signer signerv1.SignerServiceClient
}

// ListSigners returns the addresses of the platform's keys.
func (s *Earnings) ListSigners(
	ctx context.Context, _ *settlementv1.ListSignersRequest,
) (*settlementv1.ListSignersResponse, error) {
	out := &settlementv1.ListSignersResponse{}
	if s.Signer == nil {
		return out, nil
	}
	keys, err := s.Signer.ListKeys(ctx, &signerv1.ListKeysRequest{})
	if err != nil {
		return nil, err
	}
	for _, key := range keys.GetKeys() {
		out.Signers = append(out.Signers, &settlementv1.Signer{Name: key.GetName(), Address: key.GetAddress()})
	}
	return out, nil
}

// GetEarnings says where the earnings of a provider stand: the balances are the ledger's, now.
func (s *Earnings) GetEarnings(
	ctx context.Context, req *settlementv1.GetEarningsRequest,
) (*settlementv1.GetEarningsResponse, error) {
	provider, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	if req.GetDays() < 0 || req.GetDays() > batch.MaxDays {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "days must be at most %d", batch.MaxDays).On("days")
	}
	now, err := s.Ledger.GetProviderBalances(ctx, &billingv1.GetProviderBalancesRequest{ProviderId: provider.String()})
	if err != nil {
		return nil, err
	}
	known, err := s.Store.Overview(ctx, provider, maxMonths)
	if err != nil {
		return nil, err
	}
	resp := &settlementv1.GetEarningsResponse{
		SettledNanoUsd: now.GetAccruedNanoUsd() - now.GetHeldNanoUsd(), HeldNanoUsd: now.GetHeldNanoUsd(),
		PayableNanoUsd: now.GetPayableNanoUsd(), InFlightNanoUsd: now.GetInFlightNanoUsd(),
		PaidNanoUsd: now.GetPaidNanoUsd(), ConvertedNanoUsd: now.GetConvertedNanoUsd(), OwedNanoUsd: now.GetOwedNanoUsd(),
		Blocked: known.Blocked,
	}
	if !known.Through.IsZero() {
		resp.BatchedThrough = known.Through.Format(time.DateOnly)
	}
	for _, p := range slices.Backward(now.GetPending()) {
		resp.PendingNanoUsd += p.GetAmountNanoUsd()
		resp.Months = append(resp.Months, &settlementv1.PlanEarning{Month: p.GetMonth(), State: settlementPending,
			EarnedNanoUsd: p.GetAmountNanoUsd(), HeldNanoUsd: p.GetHeldNanoUsd()})
	}
	for _, m := range known.Months {
		resp.Months = append(resp.Months, &settlementv1.PlanEarning{Month: m.Month, State: monthPaid,
			EarnedNanoUsd: int64(m.Earned), HeldNanoUsd: int64(m.Withheld), PaidNanoUsd: int64(m.Paid)})
	}
	resp.Months = resp.Months[:min(len(resp.Months), maxMonths)]
	return resp, s.addPeriods(ctx, provider, resp, known.Through, int(req.GetDays()))
}

// addPeriods adds what the provider earned today, in the last 7 and 30 days, and on each of the last length days.
// through was read before, so no day that it has is missing among what is read now.
func (s *Earnings) addPeriods(
	ctx context.Context, provider ids.ProviderID, resp *settlementv1.GetEarningsResponse, through time.Time, length int,
) error {
	today := s.Clock.Now().UTC().Truncate(24 * time.Hour)
	days, err := s.Store.DaysEarned(ctx, provider, today.AddDate(0, 0, 1-max(length, batch.PeriodDays)), today)
	if err != nil {
		return err
	}
	resp.Today = periodToProto(batch.PeriodOf(days, today, 1))
	resp.SevenDays = periodToProto(batch.PeriodOf(days, today, 7))
	resp.ThirtyDays = periodToProto(batch.PeriodOf(days, today, batch.PeriodDays))
	for _, d := range batch.ByDay(days, through, today, length) {
		resp.ByDay = append(resp.ByDay, periodToProto(batch.Period{Since: d.Day, Parts: d.Parts}))
	}
	return nil
}

func periodToProto(p batch.Period) *settlementv1.PeriodEarning {
	return &settlementv1.PeriodEarning{Since: p.Since.Format(time.DateOnly), UnbatchedNanoUsd: int64(p.Unbatched),
		SettledNanoUsd: int64(p.Settled), HeldNanoUsd: int64(p.Held), PendingNanoUsd: int64(p.Pending)}
}

// ListStatements is one page of a provider's statements, newest first.
func (s *Earnings) ListStatements(
	ctx context.Context, req *settlementv1.ListStatementsRequest,
) (*settlementv1.ListStatementsResponse, error) {
	provider, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	before, size, err := pageOfDays(req.GetBefore(), req.GetPageSize())
	if err != nil {
		return nil, err
	}
	list, err := s.Store.Statements(ctx, provider, before, size+1)
	if err != nil {
		return nil, err
	}
	resp := &settlementv1.ListStatementsResponse{}
	if len(list) > size {
		list = list[:size]
		resp.NextBefore = list[size-1].Day.Format(time.DateOnly)
	}
	for _, l := range list {
		resp.List = append(resp.List, &settlementv1.StatementSummary{Day: l.Day.Format(time.DateOnly), ChainId: l.Chain,
			AmountNanoUsd: int64(l.Amount), PostedNanoUsd: l.Posted, Lines: l.Lines, Blocked: l.Blocked, Signed: l.Signed})
	}
	return resp, nil
}

// GetStatement returns the statement of a provider's day.
func (s *Earnings) GetStatement(
	ctx context.Context, req *settlementv1.GetStatementRequest,
) (*settlementv1.GetStatementResponse, error) {
	provider, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	day, err := dayFromProto("day", req.GetDay())
	if err != nil {
		return nil, err
	}
	st, found, err := s.Store.Statement(ctx, provider, day)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fault.New(fault.NotFound, fault.StatementNotFound,
			"there is no statement of this day: it is not batched yet, or had nothing of the provider").On("day")
	}
	resp := &settlementv1.GetStatementResponse{Statement: st.Statement, Summary: st.Summary, Signature: st.Signature,
		Signer: st.Signer, PostedNanoUsd: st.Posted}
	if !st.Entry.IsZero() {
		resp.EntryId = st.Entry.String()
	}
	return resp, nil
}

// ExportEarnings streams the CSV of a period.
func (s *Earnings) ExportEarnings(
	req *settlementv1.ExportEarningsRequest, stream grpc.ServerStreamingServer[settlementv1.ExportEarningsResponse],
) error {
	provider, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return err
	}
	from, err := dayFromProto("from", req.GetFrom())
	if err != nil {
		return err
	}
	to, err := dayFromProto("to", req.GetTo())
	if err != nil {
		return err
	}
	if to.Before(from) || to.Sub(from) >= batch.MaxExportDays*24*time.Hour {
		return fault.New(fault.Invalid, fault.InvalidValue, "to must be from, or at most %d days later",
			batch.MaxExportDays-1).On("to")
	}
	return batch.Export(stream.Context(), s.Store, provider, from, to, func(piece []byte, rows int64) error {
		// A reader in this process may still have the message when the piece is written anew.
		return stream.Send(&settlementv1.ExportEarningsResponse{Csv: bytes.Clone(piece), Rows: rows})
	})
}

// GetPlanPool returns a closed month of plans.
func (s *Earnings) GetPlanPool(
	ctx context.Context, req *settlementv1.GetPlanPoolRequest,
) (*settlementv1.GetPlanPoolResponse, error) {
	if _, err := time.Parse("2006-01", req.GetMonth()); err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "month must be a month, YYYY-MM").On("month")
	}
	m, found, err := s.Store.PlanMonth(ctx, req.GetMonth())
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fault.New(fault.NotFound, fault.MonthNotClosed, "the month is not closed").On("month")
	}
	return &settlementv1.GetPlanPoolResponse{Month: m.Month, PoolNanoUsd: int64(m.Pool), EarnedNanoUsd: int64(m.Earned),
		PaidNanoUsd: int64(m.Paid), Providers: m.Providers, Through: m.Through.Format(time.DateOnly),
		ClosedAt: timestamppb.New(m.At)}, nil
}

func dayFromProto(field, text string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() < 2000 {
		return time.Time{}, fault.New(fault.Invalid, fault.InvalidValue, "%s must be a day since 2000, YYYY-MM-DD",
			field).On(field)
	}
	return day, nil
}

// pageOfDays reads which page of days is asked for: those before a day, all where it is empty.
func pageOfDays(before string, size int32) (time.Time, int, error) {
	if size < 0 || size > maxPage {
		return time.Time{}, 0, fault.New(fault.Invalid, fault.InvalidValue, "page_size must be at most %d",
			maxPage).On("page_size")
	}
	if size == 0 {
		size = defaultPage
	}
	if before == "" {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), int(size), nil
	}
	day, err := dayFromProto("before", before)
	return day, int(size), err
}
