package catalog

import (
	"context"
	"crypto/rand"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/catalog/internal/store"
)

// patience bounds what a test waits for in all.
const patience = 90 * time.Second

func TestMain(m *testing.M) { pgtest.Main(m) }

// router answers with the supply and offerings that a test gives it.
type router struct {
	routerv1.UnimplementedRouterServiceServer
	mu        sync.Mutex
	supply    []*routerv1.ModelSupply
	offerings []*routerv1.Offering
	away      bool
	// refused holds a token once it was asked while it was away.
	refused chan struct{}
}

func (r *router) set(change func(*router)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *router) ListSupply(context.Context, *routerv1.ListSupplyRequest) (*routerv1.ListSupplyResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		select {
		case r.refused <- struct{}{}:
		default:
		}
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
	}
	return &routerv1.ListSupplyResponse{Models: r.supply}, nil
}

func (r *router) ListOfferings(
	context.Context, *routerv1.ListOfferingsRequest,
) (*routerv1.ListOfferingsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
	}
	return &routerv1.ListOfferingsResponse{Offerings: r.offerings}, nil
}

// replica is one running catalog.
type replica struct {
	service *Service
	models  catalogv1.CatalogServiceClient
	public  catalogv1.PublicCatalogServiceClient
	admin   catalogv1.CatalogAdminServiceClient
	stop    func()
}

type bundle struct {
	*replica
	router *router
	clock  *clock.Manual
	url    string
	pool   *pgxpool.Pool
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{
		router: &router{refused: make(chan struct{}, 1)},
		clock:  clock.NewManual(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)),
		url:    pgtest.Database(t, Schema, Role, store.Migrations),
	}
	b.pool = pgtest.Open(t, b.url, Schema, Role)
	b.replica = b.start(t)
	return b
}

// start runs one more replica on the same database and router.
func (b *bundle) start(t *testing.T) *replica {
	t.Helper()
	in, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		Tables().Fault)
	if err != nil {
		t.Fatal(err)
	}
	channel := serve.NewInProcess(in)
	routerv1.RegisterRouterServiceServer(channel, b.router)
	cfg := DefaultConfig()
	// The former also bounds a question to the router.
	cfg.SupplyInterval, cfg.ListenRetry = 200*time.Millisecond, 10*time.Millisecond
	r := &replica{
		models: catalogv1.NewCatalogServiceClient(channel.Client()),
		public: catalogv1.NewPublicCatalogServiceClient(channel.Client()),
		admin:  catalogv1.NewCatalogAdminServiceClient(channel.Client()),
	}
	r.service, err = New(t.Context(), cfg, Deps{
		Log: slog.New(slog.DiscardHandler), Meters: noop.NewMeterProvider(), Clock: b.clock, Random: rand.Reader,
		DB: pgtest.Open(t, b.url, Schema, Role), Router: routerv1.NewRouterServiceClient(channel.Client()),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.service.Register(grpc.ServiceRegistrar(channel))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.service.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func wish(id string) *catalogv1.PutModelRequest {
	return &catalogv1.PutModelRequest{
		ModelId: id, Name: "A model", InputPrice: "1", OutputPrice: "3", PayoutInputPrice: "0.9", PayoutOutputPrice: "2.7",
		ContextLength: 8192, MaxOutputTokens: 1024, Capabilities: []string{"stream", "chat"},
	}
}

func (r *replica) put(t *testing.T, req *catalogv1.PutModelRequest) *catalogv1.PutModelResponse {
	t.Helper()
	resp, err := r.admin.PutModel(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// watcher follows one WatchModels stream.
type watcher struct {
	stream grpc.ServerStreamingClient[catalogv1.WatchModelsResponse]
	seen   uint64
}

// watch begins to watch as soon as the catalog can be watched.
func (r *replica) watch(t *testing.T) *watcher {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for r.service.Ready(ctx) != nil {
		select {
		case <-ctx.Done():
			t.Fatal("the catalog never became ready")
		case <-ticker.C:
		}
	}
	stream, err := r.models.WatchModels(ctx, &catalogv1.WatchModelsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return &watcher{stream: stream}
}

// until receives snapshots until one has a model as wanted.
func (w *watcher) until(t *testing.T, id, what string, wanted func(*catalogv1.Model) bool) *catalogv1.Model {
	t.Helper()
	for {
		message, err := w.stream.Recv()
		if err != nil {
			t.Fatalf("still not: %s: %v", what, err)
		}
		if message.GetRevision() <= w.seen {
			t.Fatalf("revision: got %d, want more than %d", message.GetRevision(), w.seen)
		}
		w.seen = message.GetRevision()
		for _, m := range message.GetModels() {
			if m.GetModelId() == id && wanted(m) {
				return m
			}
		}
	}
}

func TestEveryReplicaHearsOfAChangeAtOnce(t *testing.T) {
	b := setup(t)
	other := b.start(t)
	here, there := b.watch(t), other.watch(t)
	put := b.put(t, wish("test/plain"))
	for _, w := range []*watcher{here, there} {
		m := w.until(t, "test/plain", "the model arrives", func(*catalogv1.Model) bool { return true })
		rates := m.GetPrice().GetRates()
		switch {
		case m.GetPrice().GetPriceVersionId() != put.GetPriceVersionId():
			t.Errorf("a replica: m.GetPrice().GetPriceVersionId(): got %q, want %q", m.GetPrice().GetPriceVersionId(),
				put.GetPriceVersionId())
		case rates.GetInputPicoUsdPerToken() != 1_000_000:
			t.Errorf("rates.GetInputPicoUsdPerToken(): got %d, want 1_000_000", rates.GetInputPicoUsdPerToken())
		case rates.GetPayoutOutputPicoUsdPerToken() != 2_700_000:
			t.Errorf("rates.GetPayoutOutputPicoUsdPerToken(): got %d, want 2_700_000", rates.GetPayoutOutputPicoUsdPerToken())
		case m.GetTier() != catalogv1.Tier_TIER_STANDARD:
			t.Errorf("a replica: m.GetTier(): got %v, want %v", m.GetTier(), catalogv1.Tier_TIER_STANDARD)
		case !m.GetActive():
			t.Errorf("a replica: m.GetActive(): got false, want true, with %v", m)
		case m.GetSupply().GetGuaranteedContextBasis() != catalogv1.GuaranteeBasis_GUARANTEE_BASIS_NO_ONLINE_PROVIDERS:
			t.Errorf("a replica: m.GetSupply().GetGuaranteedContextBasis(): got %v, want %v",
				m.GetSupply().GetGuaranteedContextBasis(), catalogv1.GuaranteeBasis_GUARANTEE_BASIS_NO_ONLINE_PROVIDERS)
		}
	}
	retired := wish("test/plain")
	retired.Inactive = true
	b.put(t, retired)
	there.until(t, "test/plain", "the model is out of service", func(m *catalogv1.Model) bool { return !m.GetActive() })
}

func TestSupplyIsPushedWhenItChangesAndForgottenWhenTheRouterStaysAway(t *testing.T) {
	b := setup(t)
	b.put(t, wish("test/plain"))
	w := b.watch(t)
	b.router.set(func(r *router) {
		r.supply = []*routerv1.ModelSupply{{ModelId: "test/plain", OnlineProviders: 3, ReportingProviders: 2,
			MinReportedContextLength: 4096, MaxReportedContextLength: 16384, Quantizations: []string{"q8", "fp16", "q8"}},
			{ModelId: "unknown/elsewhere", OnlineProviders: 1}}
	})
	m := w.until(t, "test/plain", "three providers",
		func(m *catalogv1.Model) bool { return m.GetSupply().GetOnlineProviders() == 3 })
	want := &catalogv1.Supply{OnlineProviders: 3, GuaranteedContextLength: 4096, MaxReportedContextLength: 16384,
		GuaranteedContextBasis: catalogv1.GuaranteeBasis_GUARANTEE_BASIS_PARTIAL, Quantizations: []string{"fp16", "q8"}}
	if !proto.Equal(m.GetSupply(), want) {
		t.Errorf("supply: got %v, want %v", m.GetSupply(), want)
	}
	b.router.set(func(r *router) { r.away = true })
	select { // an answer that was under way has been taken by then
	case <-b.router.refused:
	case <-time.After(patience):
		t.Fatal("the router is not asked any more")
	}
	b.clock.Advance(DefaultConfig().SupplyExpiry)
	w.until(t, "test/plain", "the old answer is forgotten",
		func(m *catalogv1.Model) bool { return m.GetSupply().GetOnlineProviders() == 0 })
	b.router.set(func(r *router) { r.away = false })
	w.until(t, "test/plain", "the router is back",
		func(m *catalogv1.Model) bool { return m.GetSupply().GetOnlineProviders() == 3 })
}

func TestTheSameWishTwiceChangesNothing(t *testing.T) {
	b := setup(t)
	first := b.put(t, wish("test/plain"))
	before := b.count(t, "SELECT revision FROM revision")
	b.clock.Advance(time.Hour)
	again := wish("test/plain")
	again.Capabilities = []string{"chat", "stream", "chat"}
	second := b.put(t, again)
	if !proto.Equal(first, second) {
		t.Errorf("the second answer: got %v, want %v", second, first)
	}
	if after := b.count(t, "SELECT revision FROM revision"); after != before {
		t.Errorf("the revision moved: got %d, want %d", after, before)
	}
}

func TestAChangeOfPriceIsANewVersionAndKeepsTheOld(t *testing.T) {
	b := setup(t)
	first := b.put(t, wish("test/plain"))
	b.clock.Advance(-time.Hour) // another replica's clock may be behind
	dearer := wish("test/plain")
	dearer.InputPrice = "1.000001"
	second := b.put(t, dearer)
	if second.GetPriceVersionId() == first.GetPriceVersionId() {
		t.Fatalf("after the change: second.GetPriceVersionId(): got %q, want any but %q", second.GetPriceVersionId(),
			first.GetPriceVersionId())
	}
	if second.GetModel().GetInputPriceStr() != "1.000001" {
		t.Fatalf(`after the change: second.GetModel().GetInputPriceStr(): got %q, want "1.000001"`,
			second.GetModel().GetInputPriceStr())
	}
	if n := b.count(t,
		"SELECT count(*) FROM price_version WHERE input_pico_usd = 1000000 AND valid_to IS NOT NULL"); n != 1 {
		t.Errorf("old versions kept: got %d, want 1", n)
	}
	if n := b.count(t,
		`SELECT count(*) FROM price_version o JOIN price_version n ON n.valid_from = o.valid_to `+
			`AND n.valid_to IS NULL`); n != 1 {
		t.Errorf("new versions that begin where the old one ends: got %d, want 1", n)
	}
	renamed := proto.CloneOf(dearer)
	renamed.Name = "Another name"
	if third := b.put(t, renamed); third.GetPriceVersionId() != second.GetPriceVersionId() {
		t.Errorf("the price version after a change of name: got %q, want %q", third.GetPriceVersionId(),
			second.GetPriceVersionId())
	}
}

func TestAChangeOfWhatThePriceIsForIsANewVersion(t *testing.T) {
	b := setup(t)
	free := wish("test/plain")
	free.InputPrice, free.OutputPrice, free.PayoutInputPrice, free.PayoutOutputPrice = "", "", "", ""
	first := b.put(t, free)
	free.Category = "image"
	second := b.put(t, free)
	if second.GetPriceVersionId() == first.GetPriceVersionId() {
		t.Errorf("a free model that makes images now: second.GetPriceVersionId(): got %q, want any but %q",
			second.GetPriceVersionId(), first.GetPriceVersionId())
	} else if second.GetModel().GetPricingUnit() != "per_image" {
		t.Errorf(`a free model that makes images now: second.GetModel().GetPricingUnit(): got %q, want "per_image"`,
			second.GetModel().GetPricingUnit())
	}
	free.OutputPrice, free.PayoutOutputPrice = "0.04", "0.036"
	third := b.put(t, free)
	switch got := third.GetModel(); {
	case got.GetOutputPrice() != 0.04:
		t.Errorf("four cents an image: got.GetOutputPrice(): got %v, want 0.04", got.GetOutputPrice())
	case got.GetOutputPriceStr() != "0.04":
		t.Errorf(`four cents an image: got.GetOutputPriceStr(): got %q, want "0.04"`, got.GetOutputPriceStr())
	case got.GetPayoutOutputPriceStr() != "0.036":
		t.Errorf(`four cents an image: got.GetPayoutOutputPriceStr(): got %q, want "0.036"`, got.GetPayoutOutputPriceStr())
	}
	m := b.watch(t).until(t, "test/plain", "the price per image", func(m *catalogv1.Model) bool {
		return m.GetPrice().GetRates().GetOutputPicoUsdPerToken() == 40_000_000_000
	})
	if m.GetCategory() != catalogv1.Category_CATEGORY_IMAGE {
		t.Errorf("services hear: m.GetCategory(): got %v, want %v", m.GetCategory(), catalogv1.Category_CATEGORY_IMAGE)
	} else if m.GetPrice().GetRates().GetUnit() != moneyv1.Unit_UNIT_IMAGE {
		t.Errorf("services hear: m.GetPrice().GetRates().GetUnit(): got %v, want %v", m.GetPrice().GetRates().GetUnit(),
			moneyv1.Unit_UNIT_IMAGE)
	}
}

func TestAnAnnouncementStandsAndCanOnlyBePutOff(t *testing.T) {
	b := setup(t)
	announce := func(at time.Time) (*catalogv1.PutModelResponse, error) {
		req := wish("test/plain")
		req.DeprecatedAt = timestamppb.New(at)
		return b.admin.PutModel(t.Context(), req)
	}
	inTime := b.clock.Now().Add(30 * 24 * time.Hour)
	for name, at := range map[string]time.Time{"too late": inTime.Add(-time.Second), "no moment": time.Date(10000, 1, 1,
		0, 0, 0, 0, time.UTC)} {
		if _, err := announce(at); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, fault.InvalidValue)
		}
	}
	if resp, err := announce(inTime); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if !resp.GetModel().GetDeprecatedAt().AsTime().Equal(inTime) {
		t.Fatalf("resp.GetModel().GetDeprecatedAt().AsTime(): got %v, want %v", resp.GetModel().GetDeprecatedAt().AsTime(),
			inTime)
	}
	b.clock.Advance(time.Hour)
	if resp, err := announce(inTime); err != nil {
		t.Errorf("said again: got the error %v, want none", err)
	} else if !resp.GetModel().GetDeprecatedAt().AsTime().Equal(inTime) {
		t.Errorf("said again: resp.GetModel().GetDeprecatedAt().AsTime(): got %v, want %v",
			resp.GetModel().GetDeprecatedAt().AsTime(), inTime)
	}
	if resp := b.put(t, wish("test/plain")); !resp.GetModel().GetDeprecatedAt().AsTime().Equal(inTime) {
		t.Errorf("left out: got %v, want %v", resp.GetModel().GetDeprecatedAt().AsTime(), inTime)
	}
	if resp, err := announce(inTime.Add(time.Hour)); err != nil {
		t.Errorf("put off: got the error %v, want none", err)
	} else if !resp.GetModel().GetDeprecatedAt().AsTime().Equal(inTime.Add(time.Hour)) {
		t.Errorf("put off: resp.GetModel().GetDeprecatedAt().AsTime(): got %v, want %v",
			resp.GetModel().GetDeprecatedAt().AsTime(), inTime.Add(time.Hour))
	}
	if _, err := announce(inTime); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("brought forward: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}

func TestConcurrentWishesLeaveOneCurrentPrice(t *testing.T) {
	b := setup(t)
	other := b.start(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			req := wish("test/plain")
			req.InputPrice = []string{"1", "2", "3", "4"}[i%4]
			if _, err := []*replica{b.replica, other}[i%2].admin.PutModel(t.Context(), req); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := b.count(t, "SELECT count(*) FROM price_version WHERE valid_to IS NULL"); n != 1 {
		t.Errorf("current prices: got %d, want 1", n)
	}
}

func TestAWishThatCannotStandIsRefusedByField(t *testing.T) {
	b := setup(t)
	b.put(t, wish("test/first"))
	for field, spoil := range map[string]func(*catalogv1.PutModelRequest){
		"model_id":            func(r *catalogv1.PutModelRequest) { r.ModelId = "a/../b" },
		"slug":                func(r *catalogv1.PutModelRequest) { r.Slug = "test-first" },
		"input_price":         func(r *catalogv1.PutModelRequest) { r.InputPrice = "0.0000001" },
		"output_price":        func(r *catalogv1.PutModelRequest) { r.OutputPrice = "1000001" },
		"payout_input_price":  func(r *catalogv1.PutModelRequest) { r.PayoutInputPrice = "1.1" },
		"payout_output_price": func(r *catalogv1.PutModelRequest) { r.PayoutOutputPrice = "" },
		"context_length":      func(r *catalogv1.PutModelRequest) { r.ContextLength = 0 },
		"max_output_tokens":   func(r *catalogv1.PutModelRequest) { r.MaxOutputTokens = 8193 },
		"tier":                func(r *catalogv1.PutModelRequest) { r.Tier = "gold" },
		"payout_cached_input_price": func(r *catalogv1.PutModelRequest) {
			r.PayoutCachedInputPrice = "0.1" // of an open model, which has no vendor
		},
		"supported_parameters": func(r *catalogv1.PutModelRequest) { r.SupportedParameters = []string{"Top P"} },
	} {
		req := wish("test/second")
		spoil(req)
		_, err := b.admin.PutModel(t.Context(), req)
		f, ok := fault.As(err)
		switch {
		case !ok:
			t.Errorf("a bad %s: got the error %v, want a fault", field, err)
		case f.Kind != fault.Invalid:
			t.Errorf("a bad %s: f.Kind: got %d, want %d", field, f.Kind, fault.Invalid)
		case f.Reason != fault.InvalidValue:
			t.Errorf("a bad %s: f.Reason: got %q, want %q", field, f.Reason, fault.InvalidValue)
		case f.Param != field:
			t.Errorf("a bad %s: f.Param: got %q, want %q", field, f.Param, field)
		}
	}
	if n := b.count(t, "SELECT count(*) FROM model"); n != 1 {
		t.Errorf("got %d models stored, want only the first", n)
	}
}

func TestAnybodyCanReadTheCatalogPageByPage(t *testing.T) {
	b := setup(t)
	free := wish("c")
	free.InputPrice, free.OutputPrice, free.PayoutInputPrice, free.PayoutOutputPrice = "", "", "", ""
	b.put(t, free)
	b.put(t, wish("a/b"))
	b.put(t, wish("B"))
	var got []string
	for page := int32(1); page <= 3; page++ {
		resp, err := b.public.ListModels(t.Context(), &catalogv1.ListModelsRequest{Page: page, PageSize: 2})
		if err != nil || resp.GetCode() != 0 || resp.GetMsg() != "success" || resp.GetData().GetTotal() != 3 ||
			resp.GetData().GetPage() != page {
			t.Fatalf("page %d: %v, %v", page, resp, err)
		}
		for _, m := range resp.GetData().GetList() {
			got = append(got, m.GetId())
		}
	}
	switch {
	case len(got) != 3:
		t.Errorf("the pages hold: len(got): got %d, want 3, in %v", len(got), got)
	case got[0] != "B":
		t.Errorf(`the pages hold: got[0]: got %q, want "B"`, got[0])
	case got[1] != "a/b":
		t.Errorf(`the pages hold: got[1]: got %q, want "a/b"`, got[1])
	case got[2] != "c":
		t.Errorf(`the pages hold: got[2]: got %q, want "c"`, got[2])
	}
	resp, err := b.public.ListModels(t.Context(), &catalogv1.ListModelsRequest{Page: math.MaxInt32, PageSize: 200})
	if err != nil {
		t.Errorf("a page far beyond the end: got the error %v, want none", err)
	} else if len(resp.GetData().GetList()) != 0 {
		t.Errorf("a page far beyond the end: len(resp.GetData().GetList()): got %d, want 0, in %v",
			len(resp.GetData().GetList()), resp)
	}
	for _, bad := range []*catalogv1.ListModelsRequest{{Page: -1}, {PageSize: 201}, {PageSize: -1}} {
		if _, err := b.public.ListModels(t.Context(), bad); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%v: got the error %v, want the reason %v", bad, err, fault.InvalidValue)
		}
	}
}

func TestAModelIsReadAloneAsInTheList(t *testing.T) {
	b := setup(t)
	b.put(t, wish("a/b/c"))
	b.put(t, wish("a/b"))
	list, err := b.public.ListModels(t.Context(), &catalogv1.ListModelsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range list.GetData().GetList() {
		got, err := b.public.GetModel(t.Context(), &catalogv1.GetModelRequest{ModelId: want.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		if whole := (&catalogv1.GetModelResponse{Msg: "success", Data: want}); !proto.Equal(got, whole) {
			t.Errorf("%s: got %v, want %v", want.GetId(), got, whole)
		}
	}
	for _, id := range []string{"", "a", "a/b/", "A/B"} {
		if _, err := b.public.GetModel(t.Context(), &catalogv1.GetModelRequest{ModelId: id}); !fault.Is(err,
			fault.ModelNotFound) {
			t.Errorf("%q: got the error %v, want the reason %s", id, err, fault.ModelNotFound)
		}
	}
}

func TestAWatchEndsWithTheServiceAndIsRefusedBeforeIt(t *testing.T) {
	b := setup(t)
	w := b.watch(t)
	b.stop()
	for {
		_, err := w.stream.Recv()
		if err == nil {
			continue
		}
		if !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("the watch ended: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
		}
		break
	}
	idle, err := New(t.Context(), DefaultConfig(), Deps{Log: slog.New(slog.DiscardHandler),
		Meters: noop.NewMeterProvider(), Clock: b.clock, DB: b.pool})
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Ready(t.Context()); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("ready before it ran: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
}

func TestALostListenerIsReplacedAndMissesNothing(t *testing.T) {
	b := setup(t)
	other := b.start(t)
	w := other.watch(t)
	owner := pgtest.Owner(t, b.pool)
	const cut = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() ` +
		`AND query LIKE 'LISTEN%'`
	for n, deadline := 0, time.After(patience); n < 2; {
		var now int
		if err := owner.QueryRow(t.Context(), cut).Scan(&now); err != nil {
			t.Fatal(err)
		}
		n += now
		select {
		case <-deadline:
			t.Fatal("nobody listens")
		default:
		}
	}
	b.put(t, wish("test/plain"))
	w.until(t, "test/plain", "the other replica hears of it", func(*catalogv1.Model) bool { return true })
}

func TestAChangeByHandIsPushedToo(t *testing.T) {
	b := setup(t)
	b.put(t, wish("test/plain"))
	w := b.watch(t)
	if _, err := pgtest.Owner(t, b.pool).Exec(t.Context(), "UPDATE model SET deprecated_at = '2026-12-31'"); err != nil {
		t.Fatal(err)
	}
	m := w.until(t, "test/plain", "it is deprecated", func(m *catalogv1.Model) bool { return m.GetDeprecatedAt() != nil })
	if got := m.GetDeprecatedAt().AsTime().Format(time.DateOnly); got != "2026-12-31" {
		t.Errorf(`deprecated: got %q, want "2026-12-31"`, got)
	}
	b.put(t, wish("test/plain"))
	resp, err := b.public.ListModels(t.Context(), &catalogv1.ListModelsRequest{})
	if err != nil || resp.GetData().GetList()[0].GetDeprecatedAt() == nil {
		t.Errorf("putting the model took the date back: %v, %v", resp, err)
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
