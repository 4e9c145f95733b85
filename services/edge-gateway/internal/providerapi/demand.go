package providerapi

import (
	"cmp"
	"context"
	"math"
	"slices"

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

// demand reads open models in service with what was asked of them, for the demand call.
type demand struct {
	models catalogv1.PublicCatalogServiceClient
	ledger billingv1.DemandServiceClient
}

// answers makes the answers, one for each category.
func (d *demand) answers(ctx context.Context) (*answers, error) {
	rows, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	return answersOf(rows)
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
	all, err := inService(ctx, d.models)
	if err != nil {
		return nil, err
	}
	var rows []demandRow
	for _, m := range all {
		if m.GetKind() == "open" { // providers serve no gateway models
			rows = append(rows, row(m, byModel[m.GetId()]))
		}
	}
	slices.SortStableFunc(rows, func(a, b demandRow) int {
		return cmp.Or(cmp.Compare(b.Requests24h, a.Requests24h), cmp.Compare(a.ModelID, b.ModelID))
	})
	return rows, nil
}

// inService reads the models of the catalog that are in service.
func inService(ctx context.Context, catalog catalogv1.PublicCatalogServiceClient) ([]*catalogv1.PublicModel, error) {
	var all []*catalogv1.PublicModel
	for page := int32(1); page <= catalogPages; page++ {
		resp, err := catalog.ListModels(ctx, &catalogv1.ListModelsRequest{Page: page, PageSize: catalogPage})
		if err != nil {
			return nil, err
		}
		list := resp.GetData().GetList()
		for _, m := range list {
			if m.GetActive() {
				all = append(all, m)
			}
		}
		if len(list) < catalogPage {
			break
		}
	}
	return all, nil
}

// answersOf makes the answers of the rows, one for each category; "" has them all.
func answersOf(rows []demandRow) (*answers, error) {
	byCategory := map[string][]demandRow{"": {}}
	for _, r := range rows {
		for _, category := range []string{"", r.Category} {
			if len(byCategory[category]) < demandRows {
				byCategory[category] = append(byCategory[category], r)
			}
		}
	}
	made := &answers{bodies: make(map[string][]byte, len(byCategory))}
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
