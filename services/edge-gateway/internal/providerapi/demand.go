package providerapi

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

const (
	// demandRows bounds the models of an answer. It has the models with the most
	// requests.
	demandRows = 1000
	// catalogPage and catalogPages bound how much of the catalog is read: all that it may
	// hold.
	catalogPage  = 200
	catalogPages = 50
	// trendPct is the change in percent from which demand counts as up or down. With
	// fewer than trendRequests requests in both days together it is stable.
	trendPct      = 10
	trendRequests = 20
	// demandRetry is how long a peer that failed is not asked again.
	demandRetry = 5 * time.Second
)

// demandRow is the demand for one model in the last 24 hours.
type demandRow struct {
	ModelID          string  `json:"model_id"`
	ModelName        string  `json:"model_name"`
	Category         string  `json:"category"`
	PricingUnit      string  `json:"pricing_unit"`
	InputPrice       float64 `json:"input_price"`
	OutputPrice      float64 `json:"output_price"`
	OnlineProviders  int32   `json:"online_providers"`
	Requests24h      int64   `json:"requests_24h"`
	Tokens24h        int64   `json:"tokens_24h"`
	Revenue24h       float64 `json:"revenue_24h"`
	AvgLatencyMs     float64 `json:"avg_latency_ms"`
	DemandTrend      string  `json:"demand_trend"`
	DemandChangePct  float64 `json:"demand_change_pct"`
	EstDailyEarnings float64 `json:"est_daily_earnings"`
	MinVRAMGB        int32   `json:"min_vram_gb"`
}

// demand keeps the answers to the demand call, one for each category: open models in
// service, the models with the most requests first. When a caller asks and the last
// answers are older than Config.DemandFor, they are made again in the background. Only a
// caller for whom there are no answers that may still be given waits.
type demand struct {
	models catalogv1.PublicCatalogServiceClient
	ledger billingv1.DemandServiceClient
	clock  clock.Clock
	cfg    Config

	// mu is never held while a peer is asked.
	mu      sync.Mutex
	last    *demandAnswers // nil for none
	refresh chan struct{}  // closed when the refresh under way is over; nil for none
	failed  time.Time
	why     error // nil unless the last refresh failed
}

// demandAnswers are the answers of one refresh. They are not changed.
type demandAnswers struct {
	bodies map[string][]byte // by category; "" has them all
	none   []byte            // for a category without models
	made   time.Time
}

func (d *demandAnswers) of(category string) []byte {
	if body, ok := d.bodies[category]; ok {
		return body
	}
	return d.none
}

func newDemand(peers Peers, cfg Config) *demand {
	return &demand{models: peers.Models, ledger: peers.Demand, clock: peers.Clock, cfg: cfg}
}

// ModelDemand answers GET /api/v1/stats/model-demand?category=. It needs no key. For a
// category without models the answer is empty, because agents know other categories than
// the catalog does.
func (a *API) ModelDemand(ctx context.Context, c Call) (Answer, error) {
	body, age, err := a.demand.get(ctx, c.Query.Get("category"))
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	out := ok(body)
	out.Header = http.Header{"Cache-Control": {publicCache}, "Age": {strconv.FormatInt(int64(age/time.Second), 10)}}
	return out, nil
}

func (d *demand) get(ctx context.Context, category string) ([]byte, time.Duration, error) {
	last, under := d.current(ctx)
	if last == nil && under != nil {
		select {
		case <-under:
		case <-ctx.Done():
			return nil, 0, fault.Wrap(ctx.Err(), fault.Canceled, fault.ClientClosed, "Nobody waits for the demand any more.")
		}
		last = d.kept()
	}
	if last == nil {
		return nil, 0, d.reason()
	}
	return last.of(category), d.clock.Now().Sub(last.made), nil
}

// current returns the last answers, or nil when there are none that may be given, and the
// end of the refresh under way. It begins a refresh when one is due.
func (d *demand) current(ctx context.Context) (last *demandAnswers, under <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	stale := d.last == nil || now.Sub(d.last.made) >= d.cfg.DemandFor
	paused := d.why != nil && now.Sub(d.failed) < demandRetry
	if stale && !paused && d.refresh == nil {
		d.refresh = make(chan struct{})
		// The refresh serves all callers, so it does not end with the caller who asked
		// first.
		go d.renew(context.WithoutCancel(ctx), d.refresh)
	}
	return d.giveableLocked(now), d.refresh
}

func (d *demand) kept() *demandAnswers {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.giveableLocked(d.clock.Now())
}

func (d *demand) reason() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.why, error(fault.New(fault.Unavailable, fault.ServiceUnavailable, "The demand cannot be told now.")))
}

// giveableLocked returns the last answers unless they are too old.
func (d *demand) giveableLocked(now time.Time) *demandAnswers {
	if d.last == nil || now.Sub(d.last.made) >= d.cfg.DemandKept {
		return nil
	}
	return d.last
}

// renew makes the answers anew, or notes the failure and its time.
func (d *demand) renew(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.CallTimeout)
	defer cancel()
	began := d.clock.Now()
	rows, err := d.read(ctx)
	var made *demandAnswers
	if err == nil {
		made, err = answersOf(rows)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer close(done)
	d.refresh, d.why = nil, err
	if err != nil {
		d.failed = d.clock.Now()
		return
	}
	made.made = began
	d.last = made
}

func (d *demand) read(ctx context.Context) ([]demandRow, error) {
	asked, err := d.ledger.ListModelDemand(ctx, &billingv1.ListModelDemandRequest{})
	if err != nil {
		return nil, err
	}
	byModel := make(map[string]*billingv1.ModelDemand, len(asked.GetModels()))
	for _, m := range asked.GetModels() {
		byModel[m.GetModelId()] = m
	}
	var rows []demandRow
	for page := int32(1); page <= catalogPages; page++ {
		resp, err := d.models.ListModels(ctx, &catalogv1.ListModelsRequest{Page: page, PageSize: catalogPage})
		if err != nil {
			return nil, err
		}
		list := resp.GetData().GetList()
		for _, m := range list {
			if m.GetActive() && m.GetKind() == "open" { // providers serve no gateway models
				rows = append(rows, row(m, byModel[m.GetId()]))
			}
		}
		if len(list) < catalogPage {
			break
		}
	}
	slices.SortStableFunc(rows, func(a, b demandRow) int {
		return cmp.Or(cmp.Compare(b.Requests24h, a.Requests24h), cmp.Compare(a.ModelID, b.ModelID))
	})
	return rows, nil
}

// answersOf makes the answers of the rows.
func answersOf(rows []demandRow) (*demandAnswers, error) {
	byCategory := map[string][]demandRow{"": {}}
	for _, r := range rows {
		for _, category := range []string{"", r.Category} {
			if len(byCategory[category]) < demandRows {
				byCategory[category] = append(byCategory[category], r)
			}
		}
	}
	made := &demandAnswers{bodies: make(map[string][]byte, len(byCategory))}
	for category, rows := range byCategory {
		body, err := demandJSON(rows)
		if err != nil {
			return nil, err
		}
		made.bodies[category] = body
	}
	var err error
	made.none, err = demandJSON([]demandRow{})
	return made, err
}

func demandJSON(rows []demandRow) ([]byte, error) {
	return enveloped(struct {
		Models []demandRow `json:"models"`
		Total  int         `json:"total"`
	}{rows, len(rows)})
}

func row(m *catalogv1.PublicModel, asked *billingv1.ModelDemand) demandRow {
	trend, change := trendOf(asked.GetRequests_24H(), asked.GetRequestsBefore())
	return demandRow{
		ModelID: m.GetId(), ModelName: m.GetName(), Category: m.GetCategory(), PricingUnit: m.GetPricingUnit(),
		InputPrice: m.GetInputPrice(), OutputPrice: m.GetOutputPrice(), OnlineProviders: m.GetOnlineProviders(),
		Requests24h: asked.GetRequests_24H(), Tokens24h: asked.GetTokens_24H(),
		Revenue24h: dollars(asked.GetRevenue_24HNanoUsd()), AvgLatencyMs: math.Round(finite(asked.GetAvgLatencyMs())),
		DemandTrend: trend, DemandChangePct: change,
		// The payout of the 24 hours over the providers that are online now: roughly what
		// one of them earns.
		EstDailyEarnings: dollars(asked.GetPayout_24HNanoUsd() / int64(max(m.GetOnlineProviders(), 1))),
		MinVRAMGB:        m.GetMinVramGb(),
	}
}

// trendOf compares a day's requests with the requests of the day before. The change is in
// percent with one decimal; from no requests to some it is 100.
func trendOf(day, before int64) (trend string, pct float64) {
	switch {
	case before > 0:
		pct = math.Round(float64(day-before)/float64(before)*1000) / 10
	case day > 0:
		pct = 100
	}
	switch {
	case day+before < trendRequests:
		return "stable", pct
	case pct >= trendPct:
		return "up", pct
	case pct <= -trendPct:
		return "down", pct
	}
	return "stable", pct
}

// dollars is an amount as a number for people; no money is moved by it.
func dollars(nano int64) float64 { return float64(nano) / float64(money.USD) }
