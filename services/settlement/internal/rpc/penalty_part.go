package rpc

import (
	"context"
	"strconv"

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
	return &settlementv1.PenaltyPart{ChainId: int64(p.Chain), Depositor: p.Depositor.String(),
		TokenSymbol: r.Asset.Symbol, TokenDecimals: int32(r.Asset.Decimals), Amount: p.Amount.String(),
		State: string(p.State), ChainPenaltyId: p.ID[:]}
}
