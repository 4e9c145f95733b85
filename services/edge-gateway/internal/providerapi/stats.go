package providerapi

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/modeword"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

const (
	// statsRows bounds the models and the providers of an answer: those with the most requests.
	statsRows = 1000
	// Names of the answers.
	statsOfService   = "service"
	statsOfModels    = "models"
	statsOfProviders = "providers"
)

// serviceStats are the figures of the whole service. A figure is null where it would rest on
// too few requests or consumers, because it would tell what one of them did, and where the
// service that knows it does not answer or is too old.
type serviceStats struct {
	MadeAt             time.Time  `json:"made_at"`
	ModelsTotal        int        `json:"models_total"`
	ModelsCallable     int        `json:"models_callable"`
	ProvidersActive    *int32     `json:"providers_active"`
	ProvidersOnline    *int       `json:"providers_online"`
	Requests1h         *int64     `json:"requests_1h"`
	Requests24h        *int64     `json:"requests_24h"`
	RequestsBefore     *int64     `json:"requests_previous_24h"`
	Tokens24h          *int64     `json:"tokens_24h"`
	SuccessRate        *float64   `json:"success_rate_24h"`
	RetriedShare       *float64   `json:"retried_share_24h"`
	TTFTp50            *float64   `json:"ttft_ms_p50"`
	TTFTp95            *float64   `json:"ttft_ms_p95"`
	TokensPerSecondP50 *float64   `json:"tokens_per_second_p50"`
	Days               []dayStats `json:"days"`
}

type dayStats struct {
	Day         string   `json:"day"`
	Requests    *int64   `json:"requests"`
	SuccessRate *float64 `json:"success_rate"`
	TTFTp50     *float64 `json:"ttft_ms_p50"`
}

// modelStats are the figures of a model in service. Those of requests are all null where too
// few consumers used the model, because they would tell what one of them did.
type modelStats struct {
	ModelID            string   `json:"model_id"`
	ModelName          string   `json:"model_name"`
	Category           string   `json:"category"`
	Kind               string   `json:"kind"`
	Callable           bool     `json:"callable"`
	OnlineProviders    int32    `json:"online_providers"`
	Requests24h        *int64   `json:"requests_24h"`
	Tokens24h          *int64   `json:"tokens_24h"`
	SuccessRate        *float64 `json:"success_rate_24h"`
	TTFTp50            *float64 `json:"ttft_ms_p50"`
	TTFTp95            *float64 `json:"ttft_ms_p95"`
	TokensPerSecondP50 *float64 `json:"tokens_per_second_p50"`
}

// providerStats are the figures of a provider that is active or online. Its mode is known
// while it is online. Figures are null as those of models are.
type providerStats struct {
	ProviderID         string   `json:"provider_id"`
	ProviderName       string   `json:"provider_name"`
	Region             string   `json:"region"`
	ConnectionMode     *string  `json:"connection_mode"`
	Online             *bool    `json:"online"`
	ModelsOnline       *int32   `json:"models_online"`
	Uptime30d          *float64 `json:"uptime_30d"`
	SuccessRate        *float64 `json:"success_rate_24h"`
	TTFTp50            *float64 `json:"ttft_ms_p50"`
	TokensPerSecondP50 *float64 `json:"tokens_per_second_p50"`
	Requests24h        *int64   `json:"requests_24h"`
}

// seen is what the peers say. What the router or the hub does not say is nil.
type seen struct {
	figures *billingv1.GetStatsResponse
	models  []*catalogv1.PublicModel
	online  *routerv1.ListOnlineProvidersResponse
	active  *hubv1.ListActiveProvidersResponse
}

// statsPeers are asked for the figures.
type statsPeers struct {
	ledger billingv1.StatsServiceClient
	models catalogv1.PublicCatalogServiceClient
	router routerv1.RouterServiceClient
	hub    hubv1.PublicProviderServiceClient
}

// answers makes the answers of all calls. A router or a hub that is away, or too old to know
// the question, takes only its own figures away.
func (p *statsPeers) answers(ctx context.Context) (*answers, error) {
	s := &seen{}
	var err error
	if s.figures, err = p.ledger.GetStats(ctx, &billingv1.GetStatsRequest{}); err != nil {
		return nil, err
	}
	if s.models, err = inService(ctx, p.models); err != nil {
		return nil, err
	}
	// Both at once, so that one that hangs leaves the other its time.
	var both sync.WaitGroup
	both.Go(func() {
		if online, err := p.router.ListOnlineProviders(ctx, &routerv1.ListOnlineProvidersRequest{}); err == nil {
			s.online = online
		}
	})
	both.Go(func() {
		if active, err := p.hub.ListActiveProviders(ctx, &hubv1.ListActiveProvidersRequest{}); err == nil {
			s.active = active
		}
	})
	both.Wait()
	return s.answers()
}

func (s *seen) answers() (*answers, error) {
	models, providers := s.modelRows(), s.providerRows()
	made := &answers{bodies: map[string][]byte{}}
	for name, data := range map[string]any{
		statsOfService: s.service(models, providers), statsOfModels: listOf(models),
		statsOfProviders: s.providers(providers),
	} {
		body, err := enveloped(data)
		if err != nil {
			return nil, fmt.Errorf("write the figures of %s: %w", name, err)
		}
		made.bodies[name] = body
	}
	return made, nil
}

// bounded is a list with the number of what there is, also beyond its bound.
type bounded[T any] struct {
	List  []T `json:"list"`
	Total int `json:"total"`
}

func listOf[T any](rows []T) bounded[T] {
	return bounded[T]{List: rows[:min(len(rows), statsRows)], Total: len(rows)}
}

// activeTotal is how many providers are active; nil where the hub does not say.
func (s *seen) activeTotal() *int32 {
	if s.active == nil {
		return nil
	}
	total := s.active.GetTotal()
	return &total
}

// onlineTotal is how many of the rows are online; nil where the router does not say.
func (s *seen) onlineTotal(rows []providerStats) *int {
	if s.online == nil {
		return nil
	}
	total := 0
	for i := range rows {
		if rows[i].isOnline() {
			total++
		}
	}
	return &total
}

// rowsTotal is how many rows there are; nil where neither router nor hub says who is there.
func (s *seen) rowsTotal(rows []providerStats) *int {
	if s.online == nil && s.active == nil {
		return nil
	}
	total := len(rows)
	return &total
}

func (r *providerStats) isOnline() bool { return r.Online != nil && *r.Online }

func (s *seen) service(models []modelStats, providers []providerStats) serviceStats {
	f := figuresOf(s.figures.GetLast_24H())
	out := serviceStats{
		MadeAt: s.figures.GetMadeAt().AsTime().Truncate(time.Second), ModelsTotal: len(models),
		ProvidersActive: s.activeTotal(), ProvidersOnline: s.onlineTotal(providers), Requests1h: s.figures.Requests_1H,
		Requests24h: f.Requests, RequestsBefore: s.figures.RequestsPrevious_24H, Tokens24h: f.Tokens,
		SuccessRate: rate(f.SuccessRate), RetriedShare: rate(f.RetriedShare), TTFTp50: tenth(f.TtftMsP50),
		TTFTp95: tenth(f.TtftMsP95), TokensPerSecondP50: tenth(f.TokensPerSecondP50), Days: []dayStats{},
	}
	for i := range models {
		if models[i].Callable {
			out.ModelsCallable++
		}
	}
	for _, d := range s.figures.GetDays() {
		f := figuresOf(d.GetFigures())
		out.Days = append(out.Days, dayStats{
			Day: d.GetDay(), Requests: f.Requests, SuccessRate: rate(f.SuccessRate), TTFTp50: tenth(f.TtftMsP50),
		})
	}
	return out
}

// figuresOf returns figures, of which all are absent where there are none.
func figuresOf(f *billingv1.RequestFigures) *billingv1.RequestFigures {
	return cmp.Or(f, &billingv1.RequestFigures{})
}

func (s *seen) modelRows() []modelStats {
	byID := make(map[string]*billingv1.RequestFigures, len(s.figures.GetModels()))
	for _, m := range s.figures.GetModels() {
		byID[m.GetModelId()] = m.GetFigures()
	}
	rows := make([]modelStats, 0, len(s.models))
	for _, m := range s.models {
		r := modelStats{
			ModelID: m.GetId(), ModelName: m.GetName(), Category: m.GetCategory(), Kind: m.GetKind(),
			Callable: m.GetOnlineProviders() > 0, OnlineProviders: m.GetOnlineProviders(),
		}
		if f := byID[m.GetId()]; f != nil {
			r.Requests24h, r.Tokens24h, r.SuccessRate = given(f.GetRequests()), given(f.GetTokens()), rate(f.SuccessRate)
			r.TTFTp50, r.TTFTp95 = tenth(f.TtftMsP50), tenth(f.TtftMsP95)
			r.TokensPerSecondP50 = tenth(f.TokensPerSecondP50)
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b modelStats) int {
		return cmp.Or(byRequests(a.Requests24h, b.Requests24h), cmp.Compare(a.ModelID, b.ModelID))
	})
	return rows
}

// byRequests orders rows by their requests, those without figures last.
func byRequests(a, b *int64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*b, *a)
}

func given[T any](v T) *T { return &v }

// providerRows joins who is active with who is online. Vendors are not providers.
func (s *seen) providerRows() []providerStats {
	byID := map[string]*providerStats{}
	for _, p := range s.active.GetProviders() {
		r := &providerStats{
			ProviderID: p.GetProviderId(), ProviderName: p.GetName(), Region: p.GetRegion(), Uptime30d: rate(p.Uptime_30D),
		}
		if s.online != nil {
			r.Online, r.ModelsOnline = given(false), given(int32(0))
		}
		byID[p.GetProviderId()] = r
	}
	for _, p := range s.online.GetProviders() {
		if p.GetVendor() {
			continue
		}
		r := byID[p.GetProviderId()]
		if r == nil {
			r = &providerStats{ProviderID: p.GetProviderId(), ProviderName: p.GetProviderName(), Region: p.GetRegion()}
			byID[p.GetProviderId()] = r
		}
		mode := cmp.Or(modeword.Of(p.GetConnectionMode()), unknown)
		r.Online, r.ModelsOnline, r.ConnectionMode = given(true), given(p.GetModels()), &mode
	}
	for _, p := range s.figures.GetProviders() {
		if r := byID[p.GetProviderId()]; r != nil {
			f := p.GetFigures()
			r.Requests24h, r.SuccessRate = given(f.GetRequests()), rate(f.SuccessRate)
			r.TTFTp50, r.TokensPerSecondP50 = tenth(f.TtftMsP50), tenth(f.TokensPerSecondP50)
		}
	}
	rows := make([]providerStats, 0, len(byID))
	for _, r := range byID {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b providerStats) int {
		return cmp.Or(byRequests(a.Requests24h, b.Requests24h), cmp.Compare(a.ProviderID, b.ProviderID))
	})
	return rows
}

// unknown stands for a region that a provider does not name, and for a mode without a word.
const unknown = "unknown"

// providers counts who is online by mode and by region. The counts are null where the router
// does not say who is online.
func (s *seen) providers(rows []providerStats) any {
	var byMode, byRegion map[string]int
	if s.online != nil {
		byMode, byRegion = map[string]int{}, map[string]int{}
	}
	for i := range rows {
		if r := &rows[i]; r.isOnline() {
			byMode[*r.ConnectionMode]++
			byRegion[cmp.Or(r.Region, unknown)]++
		}
	}
	return struct {
		Online   *int            `json:"online"`
		Active   *int32          `json:"active"`
		ByMode   map[string]int  `json:"by_mode"`
		ByRegion map[string]int  `json:"by_region"`
		List     []providerStats `json:"list"`
		Total    *int            `json:"total"`
	}{s.onlineTotal(rows), s.activeTotal(), byMode, byRegion, rows[:min(len(rows), statsRows)], s.rowsTotal(rows)}
}

// rate is a part of a whole with four decimals; nil for none.
func rate(part *float64) *float64 { return rounded(part, 10_000) }

// tenth is a figure with one decimal; nil for none.
func tenth(figure *float64) *float64 { return rounded(figure, 10) }

func rounded(figure *float64, scale float64) *float64 {
	if figure == nil {
		return nil
	}
	value := math.Round(finite(*figure)*scale) / scale
	return &value
}
