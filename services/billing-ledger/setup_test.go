package billingledger_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/usageseal"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	billingledger "svc.internal/services/billing-ledger"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds every wait for something that must happen.
const patience = 90 * time.Second

// lease and orphaned are more than the times of DefaultConfig for which a hold
// stays open, unrenewed and with something served.
const (
	lease    = 70 * time.Second
	orphaned = 11 * time.Minute
)

// catalog is a catalog service that sends what it is given.
type catalog struct {
	catalogv1.UnimplementedCatalogServiceServer
	snapshots chan []*catalogv1.Model
	// end ends the stream under way.
	end chan error
}

func (c *catalog) WatchModels(
	_ *catalogv1.WatchModelsRequest, stream grpc.ServerStreamingServer[catalogv1.WatchModelsResponse],
) error {
	for {
		select {
		case models := <-c.snapshots:
			if err := stream.Send(&catalogv1.WatchModelsResponse{Models: models}); err != nil {
				return err
			}
		case err := <-c.end:
			return err
		case <-stream.Context().Done():
			return nil
		}
	}
}

// fleet is the service with its peers, running.
type fleet struct {
	url       string
	db        *pgxpool.Pool
	bus       *bus.Conn
	catalog   *catalog
	service   *billingledger.Service
	admission billingv1.AdmissionServiceClient
	keys      billingv1.KeyServiceClient
	receipts  billingv1.ReceiptServiceClient
	accounts  billingv1.AccountAdminServiceClient
	terms     billingv1.EnterpriseAdminServiceClient
	ownTerms  billingv1.ConsumerTermsServiceClient
	payables  billingv1.VendorPayableAdminServiceClient
	accruals  billingv1.AccrualServiceClient
	claims    billingv1.IdempotencyServiceClient
	visits    billingv1.VisitorServiceClient
	users     billingv1.UserServiceClient
	self      billingv1.UserSelfServiceClient
	staff     billingv1.OperatorAdminServiceClient
	sessions  billingv1.OperatorServiceClient
	endpoints billingv1.WebhookServiceClient
	demand    billingv1.DemandServiceClient
	seals     billingv1.UsageKeyServiceClient
	house     billingv1.HouseAccountServiceClient
	facts     billingv1.PostingServiceClient
	cards     billingv1.CardServiceClient
	webhooks  billingv1.CardWebhookServiceClient
	sandbox   billingv1.CardSandboxServiceClient
	checkouts billingv1.CheckoutServiceClient
	freezes   billingv1.AccountFreezeAdminServiceClient

	plans         billingv1.PlanServiceClient
	ownLimits     billingv1.ConsumerLimitServiceClient
	subscriptions billingv1.SubscriptionServiceClient
	planInvoices  billingv1.SubscriptionAdminServiceClient

	overviews   billingv1.AccountOverviewAdminServiceClient
	ledgerAdmin billingv1.LedgerAdminServiceClient
	streams     billingv1.StreamAdminServiceClient
	clock       *ahead
	passbooks   billingv1.PassbookServiceClient
	exports     billingv1.PassbookExportServiceClient
	// stop ends Run and waits for it.
	stop func()
}

// ahead is a clock that may be ahead of the machine's.
type ahead struct{ by atomic.Int64 }

func (a *ahead) Now() time.Time { return time.Now().Add(time.Duration(a.by.Load())) }

var (
	price     = "018f0000-0000-7000-8000-000000000001"
	freePrice = "018f0000-0000-7000-8000-000000000002"
	rates     = &moneyv1.Rates{
		Unit:                 moneyv1.Unit_UNIT_TOKEN,
		InputPicoUsdPerToken: 1_000_000, OutputPicoUsdPerToken: 2_000_000,
		PayoutInputPicoUsdPerToken: 700_000, PayoutOutputPicoUsdPerToken: 1_400_000,
	}
)

func models() []*catalogv1.Model {
	return []*catalogv1.Model{
		{ModelId: "acme/large", Category: catalogv1.Category_CATEGORY_LLM, Tier: catalogv1.Tier_TIER_STANDARD, Active: true,
			Price: &catalogv1.PriceVersion{PriceVersionId: price, Rates: rates}},
		{ModelId: "acme/free", Category: catalogv1.Category_CATEGORY_LLM, Active: true,
			Price: &catalogv1.PriceVersion{PriceVersionId: freePrice, Rates: &moneyv1.Rates{}}},
		{ModelId: "acme/retired", Category: catalogv1.Category_CATEGORY_LLM,
			Price: &catalogv1.PriceVersion{PriceVersionId: price, Rates: rates}},
		{ModelId: "acme/broken", Category: catalogv1.Category_CATEGORY_LLM, Active: true,
			Price: &catalogv1.PriceVersion{PriceVersionId: price, Rates: &moneyv1.Rates{OutputPicoUsdPerToken: 1,
				PayoutOutputPicoUsdPerToken: 2}}},
	}
}

// assemble makes the service with its peers; nothing runs yet.
func assemble(t *testing.T, change ...func(*billingledger.Config)) *fleet {
	t.Helper()
	return assembleOn(t, bustest.New(t), change...)
}

func assembleOn(t *testing.T, conn *bus.Conn, change ...func(*billingledger.Config)) *fleet {
	t.Helper()
	return assembleAt(t, conn, pgtest.Database(t, store.Schema, store.Role, store.Migrations), change...)
}

// assembleAt makes the service on the database at url.
func assembleAt(t *testing.T, conn *bus.Conn, url string, change ...func(*billingledger.Config)) *fleet {
	t.Helper()
	f := &fleet{
		url: url, bus: conn, clock: &ahead{},
		catalog: &catalog{snapshots: make(chan []*catalogv1.Model, 10), end: make(chan error)},
	}
	f.db = pgtest.Open(t, f.url, store.Schema, store.Role)
	log := slog.New(slog.DiscardHandler)
	in, err := serve.NewInterceptors(log, noop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		billingledger.Tables().Fault)
	if err != nil {
		t.Fatal(err)
	}
	peers, own := serve.NewInProcess(in), serve.NewInProcess(in)
	catalogv1.RegisterCatalogServiceServer(peers, f.catalog)
	cfg := billingledger.DefaultConfig()
	cfg.Pepper = apikey.Pepper{1, 2, 3}
	// A look that finds the machine busy for half of this is put off.
	cfg.ExpireInterval, cfg.ExpireGrace = 500*time.Millisecond, 0
	cfg.AdmitTimeout = patience
	for _, c := range change {
		c(&cfg)
	}
	f.service, err = billingledger.New(t.Context(), cfg, billingledger.Deps{
		Log: log, Meters: noop.NewMeterProvider(), Clock: f.clock, Random: rand.Reader,
		Bus: f.bus, DB: f.db, Catalog: catalogv1.NewCatalogServiceClient(peers.Client()),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.service.Register(own)
	calls := patient{own.Client()}
	f.overviews = billingv1.NewAccountOverviewAdminServiceClient(calls)
	f.ledgerAdmin = billingv1.NewLedgerAdminServiceClient(calls)
	f.streams = billingv1.NewStreamAdminServiceClient(calls)
	f.admission = billingv1.NewAdmissionServiceClient(calls)
	f.keys = billingv1.NewKeyServiceClient(calls)
	f.receipts = billingv1.NewReceiptServiceClient(calls)
	f.accounts = billingv1.NewAccountAdminServiceClient(calls)
	f.terms = billingv1.NewEnterpriseAdminServiceClient(calls)
	f.ownTerms = billingv1.NewConsumerTermsServiceClient(calls)
	f.payables = billingv1.NewVendorPayableAdminServiceClient(calls)
	f.accruals = billingv1.NewAccrualServiceClient(calls)
	f.claims = billingv1.NewIdempotencyServiceClient(calls)
	f.visits = billingv1.NewVisitorServiceClient(calls)
	f.users = billingv1.NewUserServiceClient(calls)
	f.self = billingv1.NewUserSelfServiceClient(calls)
	f.staff = billingv1.NewOperatorAdminServiceClient(calls)
	f.sessions = billingv1.NewOperatorServiceClient(calls)
	f.endpoints = billingv1.NewWebhookServiceClient(calls)
	f.demand = billingv1.NewDemandServiceClient(calls)
	f.seals = billingv1.NewUsageKeyServiceClient(calls)
	f.house = billingv1.NewHouseAccountServiceClient(calls)
	f.facts = billingv1.NewPostingServiceClient(calls)
	f.cards = billingv1.NewCardServiceClient(calls)
	f.webhooks = billingv1.NewCardWebhookServiceClient(calls)
	f.sandbox = billingv1.NewCardSandboxServiceClient(calls)
	f.checkouts = billingv1.NewCheckoutServiceClient(calls)
	f.freezes = billingv1.NewAccountFreezeAdminServiceClient(calls)
	f.plans = billingv1.NewPlanServiceClient(calls)
	f.ownLimits = billingv1.NewConsumerLimitServiceClient(calls)
	f.subscriptions = billingv1.NewSubscriptionServiceClient(calls)
	f.planInvoices = billingv1.NewSubscriptionAdminServiceClient(calls)
	f.passbooks = billingv1.NewPassbookServiceClient(calls)
	f.exports = billingv1.NewPassbookExportServiceClient(calls)
	return f
}

// patient gives every unary call the time that a busy machine may take for it.
type patient struct{ grpc.ClientConnInterface }

func (p patient) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// start runs it and returns when it is ready.
func start(t *testing.T, change ...func(*billingledger.Config)) *fleet {
	t.Helper()
	f := assemble(t, change...)
	f.run(t)
	f.catalog.snapshots <- models()
	until(t, func() bool { return f.service.Ready(t.Context()) == nil })
	return f
}

func (f *fleet) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.service.Run(ctx) }()
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run returned %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not stop")
		}
	}
	t.Cleanup(f.stop)
}

// pass lets so much time pass for open holds, for what was told of them and for
// their reviews. It acts as the owner with triggers off.
func (f *fleet) pass(t *testing.T, d time.Duration) {
	t.Helper()
	tx, err := pgtest.Owner(t, f.db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`UPDATE hold SET admitted_at = admitted_at - $1::interval, expires_at = expires_at - $1::interval
			WHERE state = 'open'`,
		`UPDATE renewal SET renewed_at = renewed_at - $1::interval`,
		`UPDATE request_report SET recorded_at = recorded_at - $1::interval`,
		`UPDATE work_receipt SET received_at = received_at - $1::interval`,
		`UPDATE orphan_review SET next_at = next_at - $1::interval`,
	} {
		if _, err := tx.Exec(t.Context(), sql, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// until looks again and again; for states that no signal announces.
func until(t *testing.T, reached func() bool) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !reached() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatal("waited too long")
		}
	}
}

// consumer is an account with credit and a key.
type consumer struct{ account, key, text string }

func (f *fleet) consumer(t *testing.T, credit string) consumer {
	t.Helper()
	a, err := f.accounts.CreateAccount(t.Context(), &billingv1.CreateAccountRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	id := a.GetAccount().GetAccountId()
	if credit != "" {
		if _, err := f.accounts.GrantCredit(t.Context(), &billingv1.GrantCreditRequest{
			AccountId: id, AmountUsd: credit, IdempotencyKey: rand.Text(), Memo: "test",
		}); err != nil {
			t.Fatal(err)
		}
	}
	k, err := f.accounts.IssueKey(t.Context(), &billingv1.IssueKeyRequest{AccountId: id, Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	return consumer{id, k.GetKeyId(), k.GetApiKey()}
}

func (f *fleet) balance(t *testing.T, c consumer) string {
	t.Helper()
	a, err := f.accounts.GetAccount(t.Context(), &billingv1.GetAccountRequest{AccountId: c.account})
	if err != nil {
		t.Fatal(err)
	}
	return a.GetAccount().GetBalanceUsdStr() + " held " + a.GetAccount().GetHeldUsdStr()
}

func newRequest(t *testing.T) string {
	t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// order asks for 1,000 prompt and 500 completion tokens: $0.002.
func order(t *testing.T, c consumer) *billingv1.AdmitRequest {
	t.Helper()
	return &billingv1.AdmitRequest{RequestId: newRequest(t), KeyId: c.key, ModelId: "acme/large", PromptTokens: 1000,
		MaxCompletionTokens: 500}
}

func (f *fleet) admit(t *testing.T, req *billingv1.AdmitRequest) *billingv1.AdmitResponse {
	t.Helper()
	resp, err := f.admission.Admit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

const provider = "018f0000-0000-7000-8000-0000000000aa"

// served is the usage of 800 prompt and 300 completion tokens: $0.0014.
func served(request string) *eventsv1.UsageEvent {
	return &eventsv1.UsageEvent{
		RequestId: request, Attempt: 2, HubId: "hub-1", ProviderId: provider, Epoch: 3, ModelId: "acme/large",
		PriceVersionId: price, Rates: rates, Ending: eventsv1.Ending_ENDING_COMPLETED,
		BillablePromptTokens: 800, BillableCompletionTokens: 300, ClaimState: eventsv1.ClaimState_CLAIM_STATE_VALID,
		ClaimedPromptTokens: 800, ClaimedCompletionTokens: 300, RecountedCompletionTokens: 290, DeliveredBytes: 1200,
		EstimatedPromptTokens: 850, Route: &eventsv1.Route{Mode: eventsv1.RouteMode_ROUTE_MODE_AUTO},
		DispatchedAt: timestamppb.Now(), EndedAt: timestamppb.Now(), FirstContentMs: 120,
	}
}

// publish stores an event in the stream under a message id of its own, as the hub
// does that was given the request.
func (f *fleet) publish(t *testing.T, e *eventsv1.UsageEvent) {
	t.Helper()
	e = proto.CloneOf(e)
	if e.GetSettled() || e.GetEvidenceSource() > eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB {
		data, err := proto.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var secret []byte
		if err := f.db.QueryRow(t.Context(), `SELECT secret FROM ledger_secret`).Scan(&secret); err != nil {
			t.Fatal(err)
		}
		f.forge(t, bus.SubjectUsageLedger, usageseal.Derive(secret, "reviews").Seal(data))
		return
	}
	e.LedgerMac = f.ticket(t, e.GetRequestId())
	data, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	f.publishRaw(t, data)
}

// ticket returns the ticket that admission gave for a request; nil for a request that
// is not known.
func (f *fleet) ticket(t *testing.T, request string) []byte {
	t.Helper()
	var account, secret []byte
	err := f.db.QueryRow(t.Context(),
		`SELECT uuid_send(account_id), secret FROM hold, ledger_secret WHERE request_id = $1`, request).
		Scan(&account, &secret)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := ids.ParseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	mac := usage.NewTickets(usageseal.Derive(secret, "tickets").Secret).For(id, ids.AccountID(account))
	return mac[:]
}

// hubKey is the key of hub-1.
var hubKey = usageseal.Key{ID: usageseal.KeyID{1}, Secret: [32]byte{2}}

// publishRaw stores what hub-1 has sealed.
func (f *fleet) publishRaw(t *testing.T, data []byte) {
	t.Helper()
	if _, err := f.seals.HandUsageKey(t.Context(), &billingv1.HandUsageKeyRequest{HubId: "hub-1", KeyId: hubKey.ID[:],
		Key: hubKey.Secret[:]}); err != nil {
		t.Fatal(err)
	}
	f.forge(t, bus.SubjectUsage("hub-1"), hubKey.Seal(data))
}

// forge stores bytes as they are.
func (f *fleet) forge(t *testing.T, subject string, data []byte) {
	t.Helper()
	if err := f.bus.EnsureStream(t.Context(), bus.UsageStream); err != nil {
		t.Fatal(err)
	}
	if _, err := f.bus.PublishStream(t.Context(), subject, rand.Text(), data, nil); err != nil {
		t.Fatal(err)
	}
}

// notices collects what the hub is told is settled.
func (f *fleet) notices(t *testing.T) <-chan string {
	t.Helper()
	out := make(chan string, 1000)
	sub, err := f.bus.Subscribe(bus.SubjectSettled("hub-1"), "", func(_ context.Context, m bus.Message) {
		n := &eventsv1.SettledNotice{}
		if err := proto.Unmarshal(m.Data, n); err != nil {
			t.Error(err)
		}
		for _, id := range n.GetRequestIds() {
			out <- id
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Stop() })
	return out
}

func wait[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("waited too long")
		panic("unreachable")
	}
}

func (f *fleet) sound(t *testing.T) {
	t.Helper()
	report, err := billingledger.Verify(t.Context(), f.db)
	if err != nil {
		t.Fatal(err)
	}
	if report.Drift != 0 {
		t.Errorf("drift: got %d, want 0", report.Drift)
	}
}
