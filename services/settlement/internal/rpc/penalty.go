package rpc

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/penalty"
)

// Penalties implements PenaltyService. Each of its calls belongs to one service: a gateway
// may not open a penalty, and the verifier may not appeal.
type Penalties struct {
	settlementv1.UnimplementedPenaltyServiceServer
	Keeper *penalty.Keeper
	Parts  PenaltyParts
	// Verifier and Gateway are the names in the callers' certificates.
	Verifier, Gateway string
}

// only fails with caller_not_allowed unless the caller's certificate has the name.
func only(ctx context.Context, name string) error {
	if !serve.Proves(ctx, name) {
		return fault.New(fault.Denied, fault.CallerNotAllowed, "the caller's certificate does not name %s", name)
	}
	return nil
}

// OpenPenalty opens a penalty for the verifier.
func (s *Penalties) OpenPenalty(
	ctx context.Context, req *settlementv1.OpenPenaltyRequest,
) (*settlementv1.OpenPenaltyResponse, error) {
	if err := only(ctx, s.Verifier); err != nil {
		return nil, err
	}
	d, err := draftFromProto(req)
	if err != nil {
		return nil, err
	}
	p, err := s.Keeper.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	out, err := s.Parts.one(ctx, p)
	if err != nil {
		return nil, err
	}
	return &settlementv1.OpenPenaltyResponse{Penalty: out}, nil
}

// Appeal records an appeal of the provider that the gateway has authenticated.
func (s *Penalties) Appeal(
	ctx context.Context, req *settlementv1.AppealRequest,
) (*settlementv1.AppealResponse, error) {
	if err := only(ctx, s.Gateway); err != nil {
		return nil, err
	}
	provider, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	id, err := penaltyID(req.GetPenaltyId())
	if err != nil {
		return nil, err
	}
	p, err := s.Keeper.Appeal(ctx, id, provider, req.GetText())
	if err != nil {
		return nil, err
	}
	out, err := s.Parts.one(ctx, p)
	if err != nil {
		return nil, err
	}
	return &settlementv1.AppealResponse{Penalty: out}, nil
}

// ListPenalties is one page of a provider's penalties, newest first.
func (s *Penalties) ListPenalties(
	ctx context.Context, req *settlementv1.ListPenaltiesRequest,
) (*settlementv1.ListPenaltiesResponse, error) {
	if err := only(ctx, s.Gateway); err != nil {
		return nil, err
	}
	provider, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	page, err := s.Keeper.OfProvider(ctx, provider, int(req.GetPage()), int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	list, err := s.Parts.all(ctx, page.List)
	if err != nil {
		return nil, err
	}
	return &settlementv1.ListPenaltiesResponse{
		List: list, Total: int32(page.Total), Page: int32(page.Number), PageSize: int32(page.Length),
	}, nil
}

func draftFromProto(req *settlementv1.OpenPenaltyRequest) (penalty.Draft, error) {
	invalid := func(field, want string) (penalty.Draft, error) {
		return penalty.Draft{}, fault.New(fault.Invalid, fault.InvalidValue, "%s must be %s", field, want).On(field)
	}
	d := penalty.Draft{
		ModelID: req.GetModelId(), Kind: penalty.Kind(req.GetKind()), ShareBasisPoints: req.GetShareBasisPoints(),
		Removes: req.GetRemoves(), Summary: req.GetSummary(), Family: req.GetFamily(),
	}
	var err error
	if d.ID, err = penalty.ParseID(req.GetPenaltyId()); err != nil {
		return invalid("penalty_id", "a UUID of version 7")
	}
	if d.ProviderID, err = providerFromProto(req.GetProviderId()); err != nil {
		return penalty.Draft{}, err
	}
	if len(req.GetEvidenceHash()) != len(d.EvidenceHash) {
		return invalid("evidence_hash", "32 bytes")
	}
	d.EvidenceHash = [32]byte(req.GetEvidenceHash())
	return d, nil
}

func providerFromProto(text string) (ids.ProviderID, error) {
	id, err := ids.ParseProvider(text)
	if err != nil {
		return ids.ProviderID{}, fault.New(fault.Invalid, fault.InvalidValue, "provider_id is no provider's id").On(
			"provider_id")
	}
	return id, nil
}

// penaltyID reads the id of a penalty that a caller looks for. No penalty has a malformed
// id.
func penaltyID(text string) (penalty.ID, error) {
	id, err := penalty.ParseID(text)
	if err != nil {
		return penalty.ID{}, fault.New(fault.NotFound, penalty.NotFound, "no such penalty").On("penalty_id")
	}
	return id, nil
}
