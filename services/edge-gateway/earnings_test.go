package edgegateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// earned is a settlement that knows providerA's earnings.
type earned struct {
	settlementv1.UnimplementedEarningServiceServer
	mu       sync.Mutex
	exported *settlementv1.ExportEarningsRequest
	// broken ends an export in its middle.
	broken bool
}

func (e *earned) GetEarnings(
	_ context.Context, req *settlementv1.GetEarningsRequest,
) (*settlementv1.GetEarningsResponse, error) {
	if req.GetProviderId() != providerA {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "another provider").On("provider_id")
	}
	if req.GetDays() > 92 {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "days must be at most 92").On("days")
	}
	var days []*settlementv1.PeriodEarning
	for range req.GetDays() {
		days = append(days, &settlementv1.PeriodEarning{Since: "2026-03-01", SettledNanoUsd: 3_000_000_000,
			HeldNanoUsd: 1_000_000_000})
	}
	return &settlementv1.GetEarningsResponse{ByDay: days, SettledNanoUsd: 1_500_000_000, HeldNanoUsd: 1, PendingNanoUsd: 7,
		BatchedThrough: "2026-03-01", Months: []*settlementv1.PlanEarning{
			{Month: "2026-03", State: "settlement_pending", EarnedNanoUsd: 7}},
		Today: &settlementv1.PeriodEarning{Since: "2026-03-02", UnbatchedNanoUsd: 4_000_000_000},
		SevenDays: &settlementv1.PeriodEarning{Since: "2026-02-24", UnbatchedNanoUsd: 4_000_000_000,
			SettledNanoUsd: 3_000_000_000, HeldNanoUsd: -1_000_000_000, PendingNanoUsd: 2_000_000_000}}, nil
}

func (e *earned) ListStatements(
	_ context.Context, req *settlementv1.ListStatementsRequest,
) (*settlementv1.ListStatementsResponse, error) {
	return &settlementv1.ListStatementsResponse{NextBefore: req.GetBefore(), List: []*settlementv1.StatementSummary{
		{Day: "2026-03-01", ChainId: 8453, AmountNanoUsd: 5, Lines: int64(req.GetPageSize())}}}, nil
}

func (e *earned) GetStatement(
	_ context.Context, req *settlementv1.GetStatementRequest,
) (*settlementv1.GetStatementResponse, error) {
	if req.GetProviderId() != providerA || req.GetDay() != "2026-03-01" {
		return nil, fault.New(fault.NotFound, fault.StatementNotFound, "no such statement").On("day")
	}
	nothing := int64(0)
	return &settlementv1.GetStatementResponse{Statement: []byte(`{"day":"2026-03-01"}`), Summary: []byte{1},
		PostedNanoUsd: &nothing}, nil
}

func (e *earned) ListSigners(
	context.Context, *settlementv1.ListSignersRequest,
) (*settlementv1.ListSignersResponse, error) {
	return &settlementv1.ListSignersResponse{Signers: []*settlementv1.Signer{
		{Name: "statement", Address: append([]byte{1}, make([]byte, 19)...)},
	}}, nil
}

func (e *earned) GetPlanPool(
	_ context.Context, req *settlementv1.GetPlanPoolRequest,
) (*settlementv1.GetPlanPoolResponse, error) {
	if req.GetMonth() != "2026-02" {
		return nil, fault.New(fault.NotFound, fault.MonthNotClosed, "the month is not closed").On("month")
	}
	return &settlementv1.GetPlanPoolResponse{Month: "2026-02", PoolNanoUsd: 5, EarnedNanoUsd: 10, PaidNanoUsd: 5,
		Providers: 2, Through: "2026-03-02"}, nil
}

func (e *earned) ExportEarnings(
	req *settlementv1.ExportEarningsRequest, stream grpc.ServerStreamingServer[settlementv1.ExportEarningsResponse],
) error {
	e.mu.Lock()
	e.exported = req
	broken := e.broken
	e.mu.Unlock()
	if req.GetTo() == "" {
		return fault.New(fault.Invalid, fault.InvalidValue, "to must be a day").On("to")
	}
	for i, piece := range []string{"at,kind\r\n", "a,b\r\n", "c,d\r\n"} {
		if broken && i == 2 {
			return fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
		}
		if err := stream.Send(&settlementv1.ExportEarningsResponse{Csv: []byte(piece), Rows: int64(i)}); err != nil {
			return err
		}
	}
	return nil
}

func TestAProviderReadsWhereItsEarningsStand(t *testing.T) {
	f := start(t)
	const want = `{"settled_usd_str":"1.50","held_usd_str":"0.000000001","settlement_pending_usd_str":"0.000000007",` +
		`"months":[{"month":"2026-03","state":"settlement_pending","earned_usd_str":"0.000000007",` +
		`"held_usd_str":"0.00","paid_usd_str":"0.00"}],"payable_usd_str":"0.00","in_flight_usd_str":"0.00",` +
		`"paid_usd_str":"0.00","converted_usd_str":"0.00","owed_usd_str":"0.00",` +
		`"batched_through":"2026-03-01","blocked":false,` +
		`"today":{"since":"2026-03-02","earned_usd_str":"4.00","unbatched_usd_str":"4.00","settled_usd_str":"0.00",` +
		`"held_usd_str":"0.00","settlement_pending_usd_str":"0.00"},` +
		`"last_7_days":{"since":"2026-02-24","earned_usd_str":"8.00","unbatched_usd_str":"4.00","settled_usd_str":"3.00",` +
		`"held_usd_str":"-1.00","settlement_pending_usd_str":"2.00"}}` // an older settlement tells no other period
	resp := f.do(http.MethodGet, "/api/v1/provider/earnings", "", f.asProvider()...)
	if got := wantJSON(t, resp, 200, nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantError(t, f.do(http.MethodGet, "/api/v1/provider/earnings", ""), 401, "missing_api_key")
}

func TestAProviderReadsItsEarningsByDay(t *testing.T) {
	f := start(t)
	const want = `"by_day":[{"day":"2026-03-01","earned_usd_str":"4.00","unbatched_usd_str":"0.00",` +
		`"settled_usd_str":"3.00","held_usd_str":"1.00","settlement_pending_usd_str":"0.00"}]`
	resp := f.do(http.MethodGet, "/api/v1/provider/earnings?days=1", "", f.asProvider()...)
	if got := wantJSON(t, resp, 200, nil); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	for _, days := range []string{"0", "-1", "93", "x", "1&days=2"} {
		resp := f.do(http.MethodGet, "/api/v1/provider/earnings?days="+days, "", f.asProvider()...)
		wantError(t, resp, 400, "invalid_value")
	}
}

func TestAStatementIsTheBytesThatAreSigned(t *testing.T) {
	f := start(t)
	const want = `{"statement":{"day":"2026-03-01"},"summary_keccak256":"0x01","signature":"","signer":"",` +
		`"posted_usd_str":"0.00","entry_id":""}`
	got := wantJSON(t, f.do(http.MethodGet, "/api/v1/provider/statements/2026-03-01", "", f.asProvider()...), 200, nil)
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, day := range []string{"2026-03-02", "x", "%ff", strings.Repeat("9", 17)} {
		wantError(t, f.do(http.MethodGet, "/api/v1/provider/statements/"+day, "", f.asProvider()...), 404,
			"statement_not_found")
	}
}

func TestStatementsAreListedInPages(t *testing.T) {
	f := start(t)
	const want = `{"list":[{"day":"2026-03-01","chain_id":8453,"amount_usd_str":"0.000000005","posted_usd_str":null,` +
		`"lines":10,"blocked":false,"signed":false}],"next_before":"2026-03-02"}`
	if got := wantJSON(t, f.do(http.MethodGet, "/api/v1/provider/statements?before=2026-03-02&page_size=10", "",
		f.asProvider()...), 200, nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWhoSignsIsPublic(t *testing.T) {
	f := start(t)
	const want = `{"signers":[{"name":"statement","address":"0x0100000000000000000000000000000000000000"}]}`
	if got := wantJSON(t, f.do(http.MethodGet, "/api/v1/stats/signers", ""), 200, nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestThePoolOfAClosedMonthIsPublic(t *testing.T) {
	f := start(t)
	const want = `{"month":"2026-02","pool_usd_str":"0.000000005","earned_usd_str":"0.00000001",` +
		`"paid_usd_str":"0.000000005","factor":0.5,"providers":2,"through":"2026-03-02","closed_at":null}`
	if got := wantJSON(t, f.do(http.MethodGet, "/api/v1/stats/plan-pool/2026-02", ""), 200, nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantError(t, f.do(http.MethodGet, "/api/v1/stats/plan-pool/2026-03", ""), 404, "month_not_closed")
}

const csvURL = "/api/v1/provider/earnings.csv?from=2026-03-01&to=2026-03-02"

func TestAnExportEndsWithTheNumberOfItsRows(t *testing.T) {
	f := start(t)
	resp := f.do(http.MethodGet, csvURL, "", f.asProvider()...)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if string(body) != "at,kind\r\na,b\r\nc,d\r\n" {
		t.Errorf("got %q, want the three pieces", body)
	}
	if got := resp.Trailer.Get("X-Svc-Rows"); got != "2" {
		t.Errorf("trailer: got %q, want 2", got)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/csv; charset=utf-8" {
		t.Errorf("type: got %q, want a CSV", got)
	}
	if got := f.earned.exported.GetProviderId(); got != providerA {
		t.Errorf("asked: got the provider %s, want %s", got, providerA)
	}
	if got := f.earned.exported.GetFrom(); got != "2026-03-01" {
		t.Errorf("asked: got from %q, want 2026-03-01", got)
	}
	wantError(t, f.do(http.MethodGet, "/api/v1/provider/earnings.csv?from=2026-03-01", "", f.asProvider()...), 400,
		"invalid_value")
}

func TestAnExportThatBreaksOffIsCut(t *testing.T) {
	f := start(t)
	f.earned.broken = true
	resp := f.do(http.MethodGet, csvURL, "", f.asProvider()...)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("half an export: got its end, want an error")
	}
}
