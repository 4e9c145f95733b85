package providerapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// figures is what a ledger counted, who a hub says is active, and who a router says is online.
type figures struct {
	billingv1.StatsServiceClient
	hubv1.PublicProviderServiceClient
	stats  *billingv1.GetStatsResponse
	active []*hubv1.ActiveProvider
	online []*routerv1.OnlineProvider
	err    error
	asked  int
	// hubErr and routerErr are those of a hub and of a router.
	hubErr, routerErr error
}

func (f *figures) GetStats(
	context.Context, *billingv1.GetStatsRequest, ...grpc.CallOption,
) (*billingv1.GetStatsResponse, error) {
	f.asked++
	return f.stats, f.err
}

func (f *figures) ListActiveProviders(
	context.Context, *hubv1.ListActiveProvidersRequest, ...grpc.CallOption,
) (*hubv1.ListActiveProvidersResponse, error) {
	return &hubv1.ListActiveProvidersResponse{Providers: f.active, Total: int32(len(f.active))}, f.hubErr
}

func (r *router) ListOnlineProviders(
	context.Context, *routerv1.ListOnlineProvidersRequest, ...grpc.CallOption,
) (*routerv1.ListOnlineProvidersResponse, error) {
	return &routerv1.ListOnlineProvidersResponse{Providers: r.figures.online}, r.figures.routerErr
}

func ptr[T any](v T) *T { return &v }

// measured is a service with a busy model and provider, and with ones that have nothing to show.
func measured(t *testing.T) *bundle {
	b := setup(t)
	gone := openModel("gone", "llm", 0)
	gone.Active = false
	b.models.list = []*catalogv1.PublicModel{openModel("idle", "image", 0), openModel("busy", "llm", 2), gone}
	busy := &billingv1.RequestFigures{Requests: ptr[int64](40), Tokens: ptr[int64](900), SuccessRate: ptr(0.97499),
		RetriedShare: ptr(0.1), TtftMsP50: ptr(123.456), TtftMsP95: ptr(400.0), TokensPerSecondP50: ptr(51.04)}
	b.figures.stats = &billingv1.GetStatsResponse{
		MadeAt: timestamppb.New(b.clock.Now()), Requests_1H: ptr[int64](4), RequestsPrevious_24H: ptr[int64](20),
		Last_24H: busy,
		Days: []*billingv1.DayFigures{
			{Day: "2026-11-20", Figures: &billingv1.RequestFigures{Requests: ptr[int64](9)}},
			{Day: "2026-11-21", Figures: busy}},
		Models: []*billingv1.ModelFigures{{ModelId: "busy", Figures: busy}},
		Providers: []*billingv1.ProviderFigures{
			{ProviderId: "p2", Figures: busy}, {ProviderId: "stranger", Figures: busy}},
	}
	b.figures.active = []*hubv1.ActiveProvider{
		{ProviderId: "p1", Name: "One", Region: "eu"}, {ProviderId: "p2", Name: "Two", Uptime_30D: ptr(0.5)}}
	b.figures.online = []*routerv1.OnlineProvider{
		{ProviderId: "p2", ProviderName: "Two", Models: 3,
			ConnectionMode: eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET},
		{ProviderId: "vendor", Vendor: true, Models: 9},
	}
	return b
}

type figuresCall func(*API, context.Context, Call) (Answer, error)

func (b *bundle) shown(t *testing.T, call figuresCall) string {
	t.Helper()
	a, err := call(b.API, t.Context(), with("", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(a.JSON)
}

func TestFiguresOfTheServiceJoinItsPeers(t *testing.T) {
	b := measured(t)
	for name, c := range map[string]struct {
		call figuresCall
		want string
	}{
		"service": {(*API).ServiceStats, `{"code":0,"msg":"success","data":{"made_at":"2026-11-21T12:00:00Z",` +
			`"models_total":2,"models_callable":1,"providers_active":2,"providers_online":1,"requests_1h":4,` +
			`"requests_24h":40,"requests_previous_24h":20,"tokens_24h":900,"success_rate_24h":0.975,` +
			`"retried_share_24h":0.1,"ttft_ms_p50":123.5,"ttft_ms_p95":400,"tokens_per_second_p50":51,"days":[` +
			`{"day":"2026-11-20","requests":9,"success_rate":null,"ttft_ms_p50":null},` +
			`{"day":"2026-11-21","requests":40,"success_rate":0.975,"ttft_ms_p50":123.5}]}}`},
		"models": {(*API).ModelStats, `{"code":0,"msg":"success","data":{"list":[` +
			`{"model_id":"busy","model_name":"Name","category":"llm","kind":"open","callable":true,"online_providers":2,` +
			`"requests_24h":40,"tokens_24h":900,"success_rate_24h":0.975,"ttft_ms_p50":123.5,"ttft_ms_p95":400,` +
			`"tokens_per_second_p50":51},` +
			`{"model_id":"idle","model_name":"Name","category":"image","kind":"open","callable":false,` +
			`"online_providers":0,"requests_24h":null,"tokens_24h":null,"success_rate_24h":null,"ttft_ms_p50":null,` +
			`"ttft_ms_p95":null,"tokens_per_second_p50":null}],"total":2}}`},
		"providers": {(*API).ProviderStats, `{"code":0,"msg":"success","data":{"online":1,"active":2,` +
			`"by_mode":{"websocket":1},"by_region":{"unknown":1},"list":[` +
			`{"provider_id":"p2","provider_name":"Two","region":"","connection_mode":"websocket","online":true,` +
			`"models_online":3,"uptime_30d":0.5,"success_rate_24h":0.975,"ttft_ms_p50":123.5,` +
			`"tokens_per_second_p50":51,"requests_24h":40},` +
			`{"provider_id":"p1","provider_name":"One","region":"eu","connection_mode":null,"online":false,` +
			`"models_online":0,"uptime_30d":null,"success_rate_24h":null,"ttft_ms_p50":null,` +
			`"tokens_per_second_p50":null,"requests_24h":null}],"total":2}}`},
	} {
		if got := b.shown(t, c.call); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
	if b.figures.asked != 1 {
		t.Errorf("the ledger was asked for three answers: got %d times, want 1", b.figures.asked)
	}
}

// What fewer than five paying consumers did is null, and never 0, which would say that nobody came.
func TestWithheldFiguresOfTheServiceAreNull(t *testing.T) {
	for name, withheld := range map[string]*billingv1.RequestFigures{"absent": nil, "without figures": {}} {
		b := measured(t)
		b.figures.stats.Requests_1H, b.figures.stats.RequestsPrevious_24H = nil, nil
		b.figures.stats.Last_24H, b.figures.stats.Days[0].Figures = withheld, withheld
		service := b.shown(t, (*API).ServiceStats)
		for _, want := range []string{`"requests_1h":null,"requests_24h":null,"requests_previous_24h":null,"tokens_24h":null,`,
			`"days":[{"day":"2026-11-20","requests":null,"success_rate":null,"ttft_ms_p50":null},` +
				`{"day":"2026-11-21","requests":40,`} {
			if !strings.Contains(service, want) {
				t.Errorf("%s: got %s, want %s in it", name, service, want)
			}
		}
	}
}

// A 0 is of at least five consumers, whose requests are too few for a number.
func TestAZeroOfTheServiceIsShown(t *testing.T) {
	b := measured(t)
	b.figures.stats.Requests_1H = ptr[int64](0)
	if got, want := b.shown(t, (*API).ServiceStats), `"requests_1h":0,`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
}

// An older router or hub does not know the question. Its figures are left out, and those of
// the ledger are there.
func TestARouterOrAHubTakesOnlyItsOwnFiguresAway(t *testing.T) {
	old := fault.New(fault.Internal, fault.InternalError, "unknown method")
	for name, c := range map[string]struct {
		router, hub              error
		service, list, providers string
	}{
		"an old router": {router: old, service: `"providers_active":2,"providers_online":null,`,
			providers: `{"online":null,"active":2,"by_mode":null,"by_region":null,`,
			list: `{"provider_id":"p2","provider_name":"Two","region":"","connection_mode":null,"online":null,` +
				`"models_online":null,"uptime_30d":0.5,"success_rate_24h":0.975,`},
		"an old hub": {hub: old, service: `"providers_active":null,"providers_online":1,`,
			providers: `{"online":1,"active":null,"by_mode":{"websocket":1},"by_region":{"unknown":1},`,
			list: `{"provider_id":"p2","provider_name":"Two","region":"","connection_mode":"websocket","online":true,` +
				`"models_online":3,"uptime_30d":null,"success_rate_24h":0.975,`},
		"both": {router: old, hub: old, service: `"providers_active":null,"providers_online":null,`,
			providers: `{"online":null,"active":null,"by_mode":null,"by_region":null,`, list: `"list":[],"total":null}`},
	} {
		b := measured(t)
		b.figures.routerErr, b.figures.hubErr = c.router, c.hub
		service := b.shown(t, (*API).ServiceStats)
		if !strings.Contains(service, c.service) {
			t.Errorf("%s: the service: got %s, want %s in it", name, service, c.service)
		}
		if want := `"requests_24h":40,"requests_previous_24h":20,`; !strings.Contains(service, want) {
			t.Errorf("%s: the ledger's figures: got %s, want %s in it", name, service, want)
		}
		if got, want := b.shown(t, (*API).ModelStats), `"requests_24h":40,"tokens_24h":900,`; !strings.Contains(got, want) {
			t.Errorf("%s: models: got %s, want %s in it", name, got, want)
		}
		providers := b.shown(t, (*API).ProviderStats)
		for _, want := range []string{c.providers, c.list} {
			if !strings.Contains(providers, want) {
				t.Errorf("%s: providers: got %s, want %s in it", name, providers, want)
			}
		}
	}
}

func TestFiguresAreKeptAndOutliveTheirPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := measured(t)
		b.shown(t, (*API).ServiceStats)
		b.figures.err = errors.New("away")
		b.clock.Advance(testConfig.DemandFor)
		for range 10 {
			synctest.Wait()
			a, err := b.ServiceStats(t.Context(), with("", ""))
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Header.Get("Age"); got != "60" {
				t.Errorf("Age while the ledger is away: got %q, want 60", got)
			}
		}
		if b.figures.asked != 2 {
			t.Errorf("a ledger that is away was asked: got %d times, want 2", b.figures.asked)
		}
		b.clock.Advance(time.Hour)
		if _, err := b.ServiceStats(t.Context(), with("", "")); apierror.Of(err).Status != 503 {
			t.Errorf("an hour later: got %v, want 503", err)
		}
		b.figures.err = nil
		b.clock.Advance(refreshRetry)
		b.shown(t, (*API).ServiceStats)
	})
}

func TestListsOfFiguresAreBounded(t *testing.T) {
	b := measured(t)
	for n := range 2500 {
		b.models.list = append(b.models.list, openModel(fmt.Sprintf("m%04d", n), "llm", 1))
		b.figures.active = append(b.figures.active, &hubv1.ActiveProvider{ProviderId: fmt.Sprintf("q%04d", n)})
	}
	for name, call := range map[string]figuresCall{"models": (*API).ModelStats, "providers": (*API).ProviderStats} {
		body := b.shown(t, call)
		if got := strings.Count(body, `"requests_24h"`); got != statsRows {
			t.Errorf("%s: got %d rows, want %d", name, got, statsRows)
		}
		if want := `"total":2502}`; !strings.Contains(body, want) {
			t.Errorf("%s: got a body without %s", name, want)
		}
	}
}
