package settlement

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/usageseal"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds every wait for something that must happen.
const patience = 90 * time.Second

// ledger answers for billing-ledger with the accruals a test gives it.
type ledger struct {
	billingv1.UnimplementedAccrualServiceServer
	accruals []*billingv1.Accrual
	mu       sync.Mutex
	settled  []*billingv1.SettledRequest
}

// ListSettled gives all in one page.
func (l *ledger) ListSettled(
	_ context.Context, req *billingv1.ListSettledRequest,
) (*billingv1.ListSettledResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.GetWatermark() != "" {
		return &billingv1.ListSettledResponse{Watermark: req.GetWatermark()}, nil
	}
	return &billingv1.ListSettledResponse{Settled: l.settled, Watermark: "end"}, nil
}

// ListAccruals gives one row a page, so that paging is walked.
func (l *ledger) ListAccruals(
	_ context.Context, req *billingv1.ListAccrualsRequest,
) (*billingv1.ListAccrualsResponse, error) {
	i := len(req.GetPageToken())
	if i >= len(l.accruals) {
		return &billingv1.ListAccrualsResponse{}, nil
	}
	return &billingv1.ListAccrualsResponse{
		Accruals: l.accruals[i : i+1], NextPageToken: req.GetPageToken() + "x",
	}, nil
}

type bundle struct {
	service *Service
	client  settlementv1.ReconciliationServiceClient
	ledger  *ledger
	bus     *bus.Conn
	pool    *pgxpool.Pool
	now     time.Time
	clock   *clock.Manual

	penalties    settlementv1.PenaltyServiceClient
	penaltyAdmin settlementv1.PenaltyAdminServiceClient
	earnings     settlementv1.EarningServiceClient
	earningAdmin settlementv1.EarningAdminServiceClient
}

func setup(t *testing.T, change ...func(*Config, *Deps)) *bundle {
	t.Helper()
	b := &bundle{
		ledger: &ledger{}, bus: bustest.New(t), now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		pool: pgtest.Pool(t, Schema, Role, store.Migrations),
	}
	b.clock = clock.NewManual(b.now)
	in, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		Tables().Fault)
	if err != nil {
		t.Fatal(err)
	}
	channel := serve.NewInProcess(in)
	billingv1.RegisterAccrualServiceServer(channel, b.ledger)
	cfg, deps := DefaultConfig(), Deps{
		Log: slog.New(slog.DiscardHandler), Meters: noop.NewMeterProvider(), Clock: b.clock,
		Bus: b.bus, DB: b.pool, Accruals: billingv1.NewAccrualServiceClient(channel.Client()),
	}
	for _, c := range change {
		c(&cfg, &deps)
	}
	b.service, err = New(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	b.service.Register(grpc.ServiceRegistrar(channel))
	b.client = settlementv1.NewReconciliationServiceClient(channel.Client())
	b.penalties = settlementv1.NewPenaltyServiceClient(channel.Client())
	b.penaltyAdmin = settlementv1.NewPenaltyAdminServiceClient(channel.Client())
	b.earnings = settlementv1.NewEarningServiceClient(channel.Client())
	b.earningAdmin = settlementv1.NewEarningAdminServiceClient(channel.Client())
	if err := b.bus.EnsureStream(t.Context(), bus.UsageStream); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b
}

// usage is an event of 7 prompt and 3 completion tokens that pays 10 nano-USD.
func (b *bundle) usage(t *testing.T) *eventsv1.UsageEvent {
	t.Helper()
	request, err := ids.NewRequest(b.now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &eventsv1.UsageEvent{
		RequestId: request.String(), Attempt: 1, HubId: "hub", ModelId: "m",
		ProviderId:           "0192f0c0-0000-7000-8000-000000000001",
		PriceVersionId:       "0192f0c0-0000-7000-8000-000000000002",
		BillablePromptTokens: 7, BillableCompletionTokens: 3,
		Rates: &moneyv1.Rates{InputPicoUsdPerToken: 1_000, OutputPicoUsdPerToken: 2_000,
			PayoutInputPicoUsdPerToken: 900, PayoutOutputPicoUsdPerToken: 1_500},
	}
}

// hubKey is the key of "hub".
var hubKey = usageseal.Key{ID: usageseal.KeyID{1}, Secret: [32]byte{2}}

// publish stores an event as its author does: a hub seals its own, and the ledger
// has a subject of its own.
func (b *bundle) publish(t *testing.T, msgID string, payload []byte) {
	t.Helper()
	e := &eventsv1.UsageEvent{}
	if err := proto.Unmarshal(payload, e); err == nil &&
		(e.GetSettled() || e.GetEvidenceSource() > eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB) {
		b.forge(t, bus.SubjectUsageLedger, msgID, payload)
		return
	}
	if err := b.service.ring.Take(t.Context(), "hub", hubKey); err != nil {
		t.Fatal(err)
	}
	b.forge(t, bus.SubjectUsage("hub"), msgID, hubKey.Seal(payload))
}

// forge stores bytes as they are.
func (b *bundle) forge(t *testing.T, subject, msgID string, payload []byte) {
	t.Helper()
	if _, err := b.bus.PublishStream(t.Context(), subject, msgID, payload, nil); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, e *eventsv1.UsageEvent) []byte {
	t.Helper()
	payload, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// settled publishes one more event and waits until its line stands: all before
// it has been handled then.
func (b *bundle) settled(t *testing.T) {
	t.Helper()
	b.recorded(t, b.usage(t))
}

// recorded publishes an event and waits until its line stands.
func (b *bundle) recorded(t *testing.T, last *eventsv1.UsageEvent) {
	t.Helper()
	b.publish(t, last.GetRequestId(), encode(t, last))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for b.count(t, "SELECT count(*) FROM earning_line WHERE request_id = '"+last.GetRequestId()+"'") == 0 {
		select {
		case <-ctx.Done():
			t.Fatal("the last event was never recorded")
		case <-ticker.C:
		}
	}
}

func (b *bundle) count(t *testing.T, query string) int {
	t.Helper()
	var n int
	if err := b.pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARequestEarnsOnceHoweverOftenItIsReported(t *testing.T) {
	t.Parallel()
	b := setup(t)
	event := b.usage(t)
	for _, msgID := range []string{"a", "b", "c"} {
		b.publish(t, msgID, encode(t, event))
	}
	b.settled(t)
	if n := b.count(t, "SELECT count(*) FROM earning_line"); n != 2 {
		t.Errorf("lines for two requests: got %d, want 2", n)
	}
	if n := b.count(t, "SELECT sum(payout_nano_usd)::int FROM earning_line"); n != 20 {
		t.Errorf("got %d nano-USD earned, want 20", n)
	}
	if n := b.count(t, "SELECT count(*) FROM quarantine"); n != 0 {
		t.Errorf("honest repeats set aside: got %d, want 0", n)
	}
}

func TestWhatCannotBecomeALineIsSetAsideAndHoldsNothingUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(t, "garbage", []byte{0xff, 0xff})
	overpaid := b.usage(t)
	overpaid.Rates.PayoutOutputPicoUsdPerToken = 9_999_999
	b.publish(t, "overpaid", encode(t, overpaid))
	b.settled(t)
	if n := b.count(t, "SELECT count(*) FROM quarantine"); n != 2 {
		t.Errorf("got %d events set aside, want 2", n)
	}
	if n := b.count(t, "SELECT count(*) FROM earning_line"); n != 1 {
		t.Errorf("got %d lines, want only the good one", n)
	}
}

func TestWhatIsNotOfItsUnitIsSetAsideAndTheRestEarnsInIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	audio := b.usage(t)
	audio.Rates = &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_AUDIO_MINUTE, InputPicoUsdPerToken: 60_000_000_000,
		PayoutInputPicoUsdPerToken: 54_000_000_000}
	audio.BillablePromptTokens, audio.BillableCompletionTokens = 1_500, 0
	image := b.usage(t)
	image.Rates = &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_IMAGE, OutputPicoUsdPerToken: 2_000,
		PayoutOutputPicoUsdPerToken: 1_000}
	image.BillablePromptTokens = 0
	mixed := b.usage(t)
	mixed.Rates = image.GetRates()
	for name, e := range map[string]*eventsv1.UsageEvent{"audio": audio, "image": image, "mixed": mixed} {
		b.publish(t, name, encode(t, e))
	}
	b.settled(t)
	if n := b.count(t,
		"SELECT payout_nano_usd FROM earning_line WHERE unit = 2 AND prompt_tokens = 1500"); n != 1_350_000 {
		t.Errorf("1.5 s of audio earn: got %d, want 1_350_000", n)
	}
	if n := b.count(t, "SELECT payout_nano_usd FROM earning_line WHERE unit = 1 AND completion_tokens = 3"); n != 3 {
		t.Errorf("three images earn: got %d, want 3", n)
	}
	if n := b.count(t, "SELECT count(*) FROM quarantine WHERE request_id = '"+mixed.GetRequestId()+"'"); n != 1 {
		t.Errorf("images with a prompt: set aside: got %d, want 1", n)
	}
}

func TestLinesAreOnlyEverAdded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.settled(t)
	for _, statement := range []string{
		"UPDATE earning_line SET payout_nano_usd = 0", "DELETE FROM earning_line", "TRUNCATE earning_line",
		"UPDATE earning_correction SET payout_nano_usd = 0", "DELETE FROM earning_correction",
		"UPDATE earning_ruling SET settled = false", "DELETE FROM earning_ruling",
		"UPDATE earning_confirmation SET evidence_source = 'hub'", "DELETE FROM earning_confirmation",
		"UPDATE quarantine SET reason = ''", "DELETE FROM quarantine",
	} {
		if _, err := b.pool.Exec(t.Context(), statement); err == nil {
			t.Errorf("the application role may %s", statement)
		}
	}
}

func TestReconciliationFindsWhatDiffersFromTheLedger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.settled(t)
	accrual := &billingv1.Accrual{Day: "2026-11-21", ProviderId: "0192f0c0-0000-7000-8000-000000000001", PayoutNanoUsd: 10,
		Requests: 1}
	b.ledger.accruals = []*billingv1.Accrual{accrual}
	report, err := b.client.Reconcile(t.Context(), &settlementv1.ReconcileRequest{})
	switch {
	case err != nil:
		t.Fatalf("equal sides: got the error %v, want none", err)
	case !report.GetEqual():
		t.Fatalf("equal sides: report.GetEqual(): got false, want true, with %v", report)
	case report.GetCompared() != 1:
		t.Fatalf("equal sides: report.GetCompared(): got %d, want 1", report.GetCompared())
	case report.GetLinesUsdStr() != "0.00000001":
		t.Fatalf(`equal sides: report.GetLinesUsdStr(): got %q, want "0.00000001"`, report.GetLinesUsdStr())
	}
	b.ledger.accruals = append(b.ledger.accruals,
		&billingv1.Accrual{Day: "2026-11-20", ProviderId: accrual.GetProviderId(), PayoutNanoUsd: 1, Requests: 1})
	report, err = b.client.Reconcile(t.Context(), &settlementv1.ReconcileRequest{})
	switch {
	case err != nil:
		t.Errorf("a credit without a line: got the error %v, want none", err)
	case report.GetEqual():
		t.Errorf("a credit without a line: report.GetEqual(): got true, want false, with %v", report)
	case report.GetDifferencesTotal() != 1:
		t.Errorf("a credit without a line: report.GetDifferencesTotal(): got %d, want 1", report.GetDifferencesTotal())
	case report.GetDifferences()[0].GetDay() != "2026-11-20":
		t.Errorf(`a credit without a line: report.GetDifferences()[0].GetDay(): got %q, want "2026-11-20"`,
			report.GetDifferences()[0].GetDay())
	}
	if _, err := b.client.Reconcile(t.Context(), &settlementv1.ReconcileRequest{FirstDay: "yesterday"}); !fault.Is(err,
		fault.InvalidValue) {
		t.Errorf("a day that is none: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	if _, err := b.client.Reconcile(t.Context(), &settlementv1.ReconcileRequest{FirstDay: "0001-01-01"}); !fault.Is(err,
		fault.InvalidValue) {
		t.Errorf("all days that ever: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}
