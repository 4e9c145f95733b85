package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/catalog/internal/change"
	"svc.internal/services/catalog/internal/entry"
)

// ScheduleModelChange has a change of a model wait for its moment.
func (s *Admin) ScheduleModelChange(
	ctx context.Context, req *catalogv1.ScheduleModelChangeRequest,
) (*catalogv1.ScheduleModelChangeResponse, error) {
	from := req.GetEffectiveFrom()
	if !from.IsValid() {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "effective_from must be a moment").On("effective_from")
	}
	if req.GetEntry() == nil {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "entry must be given").On("entry")
	}
	draft, rates, err := wishFromProto(req.GetModelId(), req.GetEntry())
	if err != nil {
		return nil, err
	}
	c, err := s.changes.Schedule(byOperator(ctx), draft, rates, from.AsTime())
	if err != nil {
		return nil, err
	}
	s.refresh(ctx)
	return &catalogv1.ScheduleModelChangeResponse{Change: changeToProto(c)}, nil
}

// ListModelChanges lists the scheduled changes of a model, the newest first.
func (s *Admin) ListModelChanges(
	ctx context.Context, req *catalogv1.ListModelChangesRequest,
) (*catalogv1.ListModelChangesResponse, error) {
	list, err := s.changes.List(ctx, req.GetModelId())
	if err != nil {
		return nil, err
	}
	resp := &catalogv1.ListModelChangesResponse{List: make([]*catalogv1.ModelChange, len(list))}
	for i, c := range list {
		resp.List[i] = changeToProto(c)
	}
	return resp, nil
}

// CancelModelChange withdraws a change that waits.
func (s *Admin) CancelModelChange(
	ctx context.Context, req *catalogv1.CancelModelChangeRequest,
) (*catalogv1.CancelModelChangeResponse, error) {
	id, err := ids.ParseChange(req.GetChangeId())
	if err != nil {
		return nil, fault.New(fault.NotFound, fault.ChangeNotFound, "the model has no such change").On("change_id")
	}
	c, err := s.changes.Cancel(byOperator(ctx), req.GetModelId(), id)
	if err != nil {
		return nil, err
	}
	s.refresh(ctx)
	return &catalogv1.CancelModelChangeResponse{Change: changeToProto(c)}, nil
}

func changeToProto(c change.Change) *catalogv1.ModelChange {
	out := &catalogv1.ModelChange{
		ChangeId: c.ID.String(), ModelId: c.Draft.ID, State: string(c.State), EffectiveFrom: timestamppb.New(c.From),
		Entry: entryToProto(c.Draft, c.Rates), Base: entryToProto(c.Base.Draft, c.Base.Price.Rates),
		ScheduledBy: actor.OperatorName(c.ScheduledBy), ScheduledAt: timestamppb.New(c.ScheduledAt),
		EndedBy: actor.OperatorName(c.EndedBy), EndedAt: timeToProto(c.EndedAt), Reason: c.Reason,
	}
	if !c.Price.IsZero() {
		out.PriceVersionId = c.Price.String()
	}
	return out
}

func entryToProto(d entry.Draft, rates money.Rates) *catalogv1.ModelEntry {
	price := rates.Unit.Price
	return &catalogv1.ModelEntry{
		Slug: d.Slug, Name: d.Name, Category: string(d.Category), Kind: string(d.Kind), Tier: string(d.Tier),
		InputPrice: price(rates.Input), OutputPrice: price(rates.Output),
		PayoutInputPrice: price(rates.PayoutInput), PayoutOutputPrice: price(rates.PayoutOutput),
		PayoutCachedInputPrice: price(rates.PayoutCachedInput),
		ContextLength:          publicTokens(d.ContextTokens), MaxOutputTokens: publicTokens(d.MaxOutputTokens),
		Capabilities: d.Capabilities, SupportedParameters: d.Parameters, Inactive: !d.Active,
		DeprecatedAt: timeToProto(d.DeprecatedAt), MinVramGb: d.MinVRAMGB, Successor: d.Successor,
	}
}
