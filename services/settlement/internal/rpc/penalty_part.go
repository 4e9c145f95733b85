package rpc

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/slash"
)

// PartReader reads the parts of penalties.
type PartReader interface {
	OfPenalties(ctx context.Context, list []penalty.ID) (map[penalty.ID][]slash.Part, error)
}

// PenaltyParts shows penalties with what they take.
type PenaltyParts struct {
	Store PartReader
	Terms position.Terms
}

func (s PenaltyParts) one(ctx context.Context, p penalty.Penalty) (*settlementv1.Penalty, error) {
	list, err := s.all(ctx, []penalty.Penalty{p})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

func (s PenaltyParts) all(ctx context.Context, list []penalty.Penalty) ([]*settlementv1.Penalty, error) {
	of := make([]penalty.ID, len(list))
	for i, p := range list {
		of[i] = p.ID
	}
	parts, err := s.Store.OfPenalties(ctx, of)
	if err != nil {
		return nil, err
	}
	out := make([]*settlementv1.Penalty, len(list))
	for i, p := range list {
		out[i] = penaltyToProto(p)
		for _, part := range parts[p.ID] {
			out[i].Parts = append(out[i].Parts, s.toProto(part))
		}
	}
	return out, nil
}

func (s PenaltyParts) toProto(p slash.Part) *settlementv1.PenaltyPart {
	if p.ByCard() {
		return &settlementv1.PenaltyPart{TokenSymbol: "USD", TokenDecimals: 9,
			Amount: strconv.FormatInt(int64(p.Card), 10), State: string(p.State)}
	}
	r, _ := s.Terms.Of(p.Chain) // of a chain that is configured no more, the amount alone is shown
	return &settlementv1.PenaltyPart{ChainId: int32(p.Chain), Depositor: p.Depositor.String(),
		TokenSymbol: r.Asset.Symbol, TokenDecimals: int32(r.Asset.Decimals), Amount: p.Amount.String(),
		State: string(p.State), ChainPenaltyId: p.ID[:]}
}

// states pairs the states with their enum.
var states = map[penalty.State]settlementv1.PenaltyState{
	penalty.Proposed: settlementv1.PenaltyState_PENALTY_STATE_PROPOSED,
	penalty.Appealed: settlementv1.PenaltyState_PENALTY_STATE_APPEALED,
	penalty.Upheld:   settlementv1.PenaltyState_PENALTY_STATE_UPHELD,
	penalty.Reversed: settlementv1.PenaltyState_PENALTY_STATE_REVERSED,
	penalty.Executed: settlementv1.PenaltyState_PENALTY_STATE_EXECUTED,
}

func penaltyToProto(p penalty.Penalty) *settlementv1.Penalty {
	return &settlementv1.Penalty{
		PenaltyId: p.ID.String(), ProviderId: p.ProviderID.String(), ModelId: p.ModelID, Kind: string(p.Kind),
		ShareBasisPoints: p.ShareBasisPoints, Removes: p.Removes, State: states[p.State],
		OpenedAt: moment(p.OpenedAt), AppealUntil: moment(p.AppealUntil), AppealText: p.AppealText,
		AppealedAt: moment(p.AppealedAt), Resolution: p.Resolution, ResolvedAt: moment(p.ResolvedAt), Summary: p.Summary,
		EvidenceHash: p.EvidenceHash[:], Revision: p.Revision, ExecutedAt: moment(p.ExecutedAt), Family: p.Family,
	}
}

// moment is nil for a time that has not come.
func moment(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
