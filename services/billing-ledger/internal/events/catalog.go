package events

import (
	"context"
	"fmt"
	"log/slog"

	"svc.internal/pkg/catalogwatch"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money/moneypb"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/price"
)

// Catalog keeps the price book up to date.
type Catalog struct {
	Client catalogv1.CatalogServiceClient
	Book   *price.Book
	Log    *slog.Logger
}

// Run watches until ctx ends. While the catalog is away, the last prices stay in force.
func (c *Catalog) Run(ctx context.Context) {
	catalogwatch.Run(ctx, c.Client, c.Log, func(ctx context.Context, models []*catalogv1.Model) {
		c.Book.Replace(c.models(ctx, models))
	})
}

// models returns the active models that can be priced. A model that cannot is left out,
// so that its requests are refused instead of being charged a wrong price.
func (c *Catalog) models(ctx context.Context, list []*catalogv1.Model) map[string]price.Model {
	models := make(map[string]price.Model, len(list))
	for _, m := range list {
		if !m.GetActive() {
			continue
		}
		priced, err := modelFromProto(m)
		if err != nil {
			c.Log.ErrorContext(ctx, "model cannot be priced", "model_id", m.GetModelId(), "error", err)
			continue
		}
		models[priced.ID] = priced
	}
	return models
}

func modelFromProto(m *catalogv1.Model) (price.Model, error) {
	out := price.Model{ID: m.GetModelId(), Tier: tierFromProto(m.GetTier()),
		Rates: moneypb.ToRates(m.GetPrice().GetRates())}
	if out.Gateway = m.GetKind() == catalogv1.Kind_KIND_GATEWAY; out.Gateway {
		out.Tier = plan.Premium // whatever the catalog says, because no plan pays a vendor
	}
	switch m.GetCategory() {
	case catalogv1.Category_CATEGORY_LLM:
		out.Class = limit.LLM
	case catalogv1.Category_CATEGORY_MULTIMODAL:
		out.Class = limit.Multimodal
	case catalogv1.Category_CATEGORY_EMBEDDING:
		out.Class = limit.Embedding
	case catalogv1.Category_CATEGORY_IMAGE:
		out.Class = limit.Image
	case catalogv1.Category_CATEGORY_AUDIO:
		out.Class = limit.Audio
	default:
		return price.Model{}, fmt.Errorf("category %v has no limits", m.GetCategory())
	}
	if out.ID == "" || len(out.ID) > 255 {
		return price.Model{}, fmt.Errorf("id of %d bytes", len(out.ID))
	}
	var err error
	if out.Version, err = ids.ParsePriceVersion(m.GetPrice().GetPriceVersionId()); err != nil {
		return price.Model{}, fmt.Errorf("price version: %w", err)
	}
	if m.GetPrice().GetRates() == nil {
		return price.Model{}, fmt.Errorf("there are no rates")
	}
	if want := out.Class.Unit(); out.Rates.Unit != want {
		return price.Model{}, fmt.Errorf("priced %v, where its category is priced %v", out.Rates.Unit, want)
	}
	return out, out.Rates.Validate()
}

// tierFromProto maps a tier without a name to a tier that no plan covers.
func tierFromProto(t catalogv1.Tier) plan.Tier {
	switch t {
	case catalogv1.Tier_TIER_FREE:
		return plan.Free
	case catalogv1.Tier_TIER_STANDARD:
		return plan.Standard
	case catalogv1.Tier_TIER_PREMIUM:
		return plan.Premium
	case catalogv1.Tier_TIER_UNSPECIFIED:
	}
	return 0
}
