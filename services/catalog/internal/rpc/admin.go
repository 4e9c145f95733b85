package rpc

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/catalog/internal/change"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/price"
	"svc.internal/services/catalog/internal/snapshot"
	"svc.internal/services/catalog/internal/weights"
)

// Admin implements CatalogAdminService.
type Admin struct {
	catalogv1.UnimplementedCatalogAdminServiceServer
	editor  *entry.Editor
	changes *change.Scheduler
	shelf   *weights.Editor
	keeper  *snapshot.Keeper
	log     *slog.Logger
}

// NewAdmin makes the service.
func NewAdmin(
	editor *entry.Editor, changes *change.Scheduler, shelf *weights.Editor, keeper *snapshot.Keeper, log *slog.Logger,
) *Admin {
	return &Admin{editor: editor, changes: changes, shelf: shelf, keeper: keeper, log: log}
}

// byOperator has what is done be written down under the operator's name.
func byOperator(ctx context.Context) context.Context {
	return actor.WithOperator(ctx, serve.Operator(ctx))
}

// PutModel creates or replaces a model. Readers of this process see the model once
// the call has returned, and readers of other processes a moment later.
func (s *Admin) PutModel(ctx context.Context, req *catalogv1.PutModelRequest) (*catalogv1.PutModelResponse, error) {
	draft, rates, err := wishFromProto(req.GetModelId(), req)
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

// wish is what an operator asks of a model, now or from a moment on.
type wish interface {
	GetSlug() string
	GetName() string
	GetCategory() string
	GetKind() string
	GetTier() string
	GetInputPrice() string
	GetOutputPrice() string
	GetPayoutInputPrice() string
	GetPayoutOutputPrice() string
	GetPayoutCachedInputPrice() string
	GetContextLength() int32
	GetMaxOutputTokens() int32
	GetCapabilities() []string
	GetSupportedParameters() []string
	GetInactive() bool
	GetDeprecatedAt() *timestamppb.Timestamp
	GetMinVramGb() int32
	GetSuccessor() string
}

func wishFromProto(modelID string, w wish) (entry.Draft, money.Rates, error) {
	d := entry.Draft{
		ID: modelID, Slug: w.GetSlug(), Name: w.GetName(),
		Category: entry.Category(w.GetCategory()), Kind: entry.Kind(w.GetKind()), Tier: entry.Tier(w.GetTier()),
		Active:        !w.GetInactive(),
		ContextTokens: int64(w.GetContextLength()), MaxOutputTokens: int64(w.GetMaxOutputTokens()),
		MinVRAMGB:    w.GetMinVramGb(),
		Successor:    w.GetSuccessor(),
		Capabilities: w.GetCapabilities(), Parameters: w.GetSupportedParameters(),
	}
	if at := w.GetDeprecatedAt(); at != nil {
		if !at.IsValid() {
			return entry.Draft{}, money.Rates{}, fault.New(fault.Invalid, fault.InvalidValue,
				"deprecated_at is not a moment").On("deprecated_at")
		}
		// What the store keeps of an instant.
		d.DeprecatedAt = at.AsTime().Truncate(time.Microsecond)
	}
	rates, err := price.Parse(d.Category.Unit(), price.Texts{
		Input: w.GetInputPrice(), Output: w.GetOutputPrice(),
		PayoutInput: w.GetPayoutInputPrice(), PayoutOutput: w.GetPayoutOutputPrice(),
		PayoutCachedInput: w.GetPayoutCachedInputPrice(),
	})
	return d, rates, err
}
