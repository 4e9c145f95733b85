package settlement

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

const earner = "0192f0c0-0000-7000-8000-000000000001"

// GetProviderBalances gives the earner an open month of plans.
func (l *ledger) GetProviderBalances(
	_ context.Context, _ *billingv1.GetProviderBalancesRequest,
) (*billingv1.GetProviderBalancesResponse, error) {
	return &billingv1.GetProviderBalancesResponse{AccruedNanoUsd: 10, HeldNanoUsd: 4, PayableNanoUsd: 7,
		Pending: []*billingv1.MonthEarned{{Month: "2026-10", AmountNanoUsd: 3}, {Month: "2026-11", AmountNanoUsd: 5,
			HeldNanoUsd: 1}}}, nil
}

func TestAProviderReadsItsBalancesWithTheWordsSettlementPending(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got, err := b.earnings.GetEarnings(t.Context(), &settlementv1.GetEarningsRequest{ProviderId: earner})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetSettledNanoUsd() != 6 {
		t.Errorf("settled: got %d, want the 6 that are not held", got.GetSettledNanoUsd())
	}
	if got.GetPendingNanoUsd() != 8 {
		t.Errorf("pending: got %d, want 8", got.GetPendingNanoUsd())
	}
	months := got.GetMonths()
	if len(months) != 2 {
		t.Fatalf("months: got %d, want 2", len(months))
	}
	if months[0].GetMonth() != "2026-11" {
		t.Errorf("first month: got %s, want the newest", months[0].GetMonth())
	}
	if months[0].GetState() != "settlement_pending" {
		t.Errorf("state: got %s, want settlement_pending", months[0].GetState())
	}
}

func TestAProviderReadsWhatItEarnedTodayAndOfLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	today := b.now.Truncate(24 * time.Hour)
	for back, amount := range map[int]int64{0: 5, 6: 70, 7: 900, 29: 11_000, 30: 130_000} {
		if _, err := b.pool.Exec(t.Context(), `INSERT INTO earning_line (day, request_id, provider_id, attempt, model_id,
				price_version_id, prompt_tokens, completion_tokens, payout_nano_usd)
			VALUES ($1, gen_random_uuid(), $2, 1, 'm', gen_random_uuid(), 1, 1, $3)`, today.AddDate(0, 0, -back), earner,
			amount); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.earnings.GetEarnings(t.Context(), &settlementv1.GetEarningsRequest{ProviderId: earner})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		period *settlementv1.PeriodEarning
		since  string
		want   int64
	}{
		{got.GetToday(), "2026-11-21", 5}, {got.GetSevenDays(), "2026-11-15", 75},
		{got.GetThirtyDays(), "2026-10-23", 11_975},
	} {
		if tc.period.GetSince() != tc.since {
			t.Errorf("since: got %s, want %s", tc.period.GetSince(), tc.since)
		}
		if tc.period.GetUnbatchedNanoUsd() != tc.want {
			t.Errorf("since %s: got %d, want %d", tc.since, tc.period.GetUnbatchedNanoUsd(), tc.want)
		}
	}
}

func TestAProviderReadsWhatItEarnedOnEachDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	today := b.now.Truncate(24 * time.Hour)
	for back, amount := range map[int]int64{0: 5, 2: 70, 29: 900, 30: 11_000} {
		if _, err := b.pool.Exec(t.Context(), `INSERT INTO earning_line (day, request_id, provider_id, attempt, model_id,
				price_version_id, prompt_tokens, completion_tokens, payout_nano_usd)
			VALUES ($1, gen_random_uuid(), $2, 1, 'm', gen_random_uuid(), 1, 1, $3)`, today.AddDate(0, 0, -back), earner,
			amount); err != nil {
			t.Fatal(err)
		}
	}
	for asked, want := range map[int32]string{0: "[]", 1: "[2026-11-21:5]",
		3: "[2026-11-19:70 2026-11-20:0 2026-11-21:5]"} {
		got, err := b.earnings.GetEarnings(t.Context(), &settlementv1.GetEarningsRequest{ProviderId: earner, Days: asked})
		if err != nil {
			t.Fatal(err)
		}
		said := []string{}
		for _, d := range got.GetByDay() {
			said = append(said, fmt.Sprint(d.GetSince(), ":", d.GetUnbatchedNanoUsd()))
		}
		if got := fmt.Sprint(said); got != want {
			t.Errorf("%d days: got %s, want %s", asked, got, want)
		}
	}
	got, err := b.earnings.GetEarnings(t.Context(), &settlementv1.GetEarningsRequest{ProviderId: earner, Days: 92})
	if err != nil {
		t.Fatal(err)
	}
	if days := got.GetByDay(); len(days) != 30 {
		t.Errorf("no batch: got %d days, want the 30 whose lines are summed", len(days))
	} else if first := days[0].GetUnbatchedNanoUsd(); first != 900 {
		t.Errorf("the first of 30 days: got %d, want 900", first)
	}
	for _, days := range []int32{-1, 93} {
		_, err := b.earnings.GetEarnings(t.Context(), &settlementv1.GetEarningsRequest{ProviderId: earner, Days: days})
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%d days: got the error %v, want %s", days, err, fault.InvalidValue)
		}
	}
}

func TestAStatementIsReadAsItStands(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, sql := range []string{
		`INSERT INTO batch_day (day, seal, lines) VALUES ('2026-11-20', decode(repeat('00', 32), 'hex'), 0)`,
		`INSERT INTO batch VALUES ('2026-11-20', 8453, decode(repeat('00', 32), 'hex'), 5, 1)`,
		`INSERT INTO batch_share (day, chain_id, index, provider_id, beneficiary, earned, given, blocked, amount, lines, csv,
			statement, summary) VALUES ('2026-11-20', 8453, 0, '` + earner + `', decode(repeat('00', 20), 'hex'), 5, 0, false, 5,
			0, decode(repeat('00', 32), 'hex'), '{}', decode(repeat('22', 32), 'hex'))`,
	} {
		if _, err := b.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.earnings.GetStatement(t.Context(), &settlementv1.GetStatementRequest{ProviderId: earner,
		Day: "2026-11-20"})
	if err != nil {
		t.Fatal(err)
	}
	if string(got.GetStatement()) != "{}" {
		t.Errorf("statement: got %s, want {}", got.GetStatement())
	}
	list, err := b.earnings.ListStatements(t.Context(), &settlementv1.ListStatementsRequest{ProviderId: earner})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(list.GetList()); n != 1 {
		t.Errorf("list: got %d, want 1", n)
	}
	for name, tc := range map[string]struct {
		day  string
		want fault.Reason
	}{
		"a day without one": {"2026-11-19", fault.StatementNotFound}, "no day": {"x", fault.InvalidValue},
		"a day of another age": {"1900-01-01", fault.InvalidValue},
	} {
		_, err := b.earnings.GetStatement(t.Context(), &settlementv1.GetStatementRequest{ProviderId: earner, Day: tc.day})
		if !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, tc.want)
		}
	}
	_, err = b.earnings.ListStatements(t.Context(), &settlementv1.ListStatementsRequest{ProviderId: earner, PageSize: 101})
	if !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a page of 101: got the error %v, want the reason %s", err, fault.InvalidValue)
	}
	_, err = b.earnings.GetPlanPool(t.Context(), &settlementv1.GetPlanPoolRequest{Month: "2026-10"})
	if !fault.Is(err, fault.MonthNotClosed) {
		t.Errorf("an open month: got the error %v, want the reason %s", err, fault.MonthNotClosed)
	}
}

func TestAnExportHasABound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, tc := range map[string]struct {
		from, to string
		refused  bool
	}{
		"366 days": {"2024-01-01", "2024-12-31", false}, "367 days": {"2024-01-01", "2025-01-01", true},
		"backwards": {"2024-01-02", "2024-01-01", true}, "no day": {"", "2024-01-01", true},
	} {
		stream, err := b.earnings.ExportEarnings(t.Context(), &settlementv1.ExportEarningsRequest{ProviderId: earner,
			From: tc.from, To: tc.to})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if refused := fault.Is(err, fault.InvalidValue); refused != tc.refused {
			t.Errorf("%s: got the error %v, want a refusal: %t", name, err, tc.refused)
		} else if !refused && !errors.Is(err, io.EOF) {
			t.Errorf("%s: got the error %v, want %v", name, err, io.EOF)
		}
	}
}

func TestOnlyADayThatWaitsIsLetGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, tc := range map[string]struct {
		req  *settlementv1.AllowDayRequest
		want fault.Reason
	}{
		"a day that is not there": {&settlementv1.AllowDayRequest{Day: "2026-11-20", Reason: "x"},
			fault.TransitionNotAllowed},
		"no reason": {&settlementv1.AllowDayRequest{Day: "2026-11-20"}, fault.InvalidValue},
		"no day":    {&settlementv1.AllowDayRequest{Reason: "x"}, fault.InvalidValue},
		"a reason that moves a terminal": {&settlementv1.AllowDayRequest{Day: "2026-11-20", Reason: "\x1b[2J"},
			fault.InvalidValue},
	} {
		if _, err := b.earningAdmin.AllowDay(t.Context(), tc.req); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, tc.want)
		}
	}
}
