package rpc

import (
	"context"
	"log/slog"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/price"
	"svc.internal/services/catalog/internal/snapshot"
	"svc.internal/services/catalog/internal/weights"
)

// Admin implements CatalogAdminService.
type Admin struct {
	catalogv1.UnimplementedCatalogAdminServiceServer
	editor *entry.Editor
	shelf  *weights.Editor
	keeper *snapshot.Keeper
	log    *slog.Logger
}

// NewAdmin makes the service.
func NewAdmin(editor *entry.Editor, shelf *weights.Editor, keeper *snapshot.Keeper, log *slog.Logger) *Admin {
	return &Admin{editor: editor, shelf: shelf, keeper: keeper, log: log}
}

// byOperator has what is done be written down under the operator's name.
func byOperator(ctx context.Context) context.Context {
	return actor.WithOperator(ctx, serve.Operator(ctx))
}

// PutModel creates or replaces a model. Readers of this process see the model once
// the call has returned, and readers of other processes a moment later.
func (s *Admin) PutModel(ctx context.Context, req *catalogv1.PutModelRequest) (*catalogv1.PutModelResponse, error) {
	draft, err := draftFromProto(req)
	if err != nil {
		return nil, err
	}
	rates, err := price.Parse(draft.Category.Unit(), price.Texts{
		Input: req.GetInputPrice(), Output: req.GetOutputPrice(),
		PayoutInput: req.GetPayoutInputPrice(), PayoutOutput: req.GetPayoutOutputPrice(),
		PayoutCachedInput: req.GetPayoutCachedInputPrice(),
	})
	if err != nil {
		return nil, err
	}
	model, err := s.editor.Put(byOperator(ctx), draft, rates)
	if err != nil {
		return nil, err
	}
	s.refresh(ctx)
	return &catalogv1.PutModelResponse{
		Model: publicModel(s.keeper.WithSupply(model)), PriceVersionId: model.Price.ID.String(),
	}, nil
}

// refresh shows a change that was made to readers of this process.
func (s *Admin) refresh(ctx context.Context) {
	if err := s.keeper.Refresh(ctx); err != nil {
		// The change stands, and the keeper hears of it from the store too.
		s.log.WarnContext(ctx, "the catalog could not be read after a change", "error", err)
	}
}

func draftFromProto(req *catalogv1.PutModelRequest) (entry.Draft, error) {
	d := entry.Draft{
		ID: req.GetModelId(), Slug: req.GetSlug(), Name: req.GetName(),
		Category: entry.Category(req.GetCategory()), Kind: entry.Kind(req.GetKind()), Tier: entry.Tier(req.GetTier()),
		Active:        !req.GetInactive(),
		ContextTokens: int64(req.GetContextLength()), MaxOutputTokens: int64(req.GetMaxOutputTokens()),
		MinVRAMGB:    req.GetMinVramGb(),
		Successor:    req.GetSuccessor(),
		Capabilities: req.GetCapabilities(), Parameters: req.GetSupportedParameters(),
	}
	if at := req.GetDeprecatedAt(); at != nil {
		if !at.IsValid() {
			return entry.Draft{}, fault.New(fault.Invalid, fault.InvalidValue, "deprecated_at is not a moment").On(
				"deprecated_at")
		}
		// What the store keeps of an instant.
		d.DeprecatedAt = at.AsTime().Truncate(time.Microsecond)
	}
	return d, nil
}
