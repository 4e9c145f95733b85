package peers

import (
	"context"
	"fmt"
	"strings"

	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// State opens a penalty that is open already, which changes nothing, and returns where it
// stands: proposed, appealed, upheld, reversed or executed.
func (p Penalties) State(ctx context.Context, o Penalty) (string, error) {
	resp, err := p.Client.OpenPenalty(ctx, &settlementv1.OpenPenaltyRequest{
		PenaltyId: o.Verdict.String(), ProviderId: o.Offer.Provider.String(), ModelId: o.Offer.Model, Kind: o.Kind,
		ShareBasisPoints: int32(o.BasisPoints), Removes: o.Removes, Summary: o.Summary,
		EvidenceHash: o.EvidenceHash[:], Family: o.Family,
	})
	if err != nil {
		return "", fmt.Errorf("ask where a penalty stands: %w", err)
	}
	return strings.ToLower(strings.TrimPrefix(resp.GetPenalty().GetState().String(), "PENALTY_STATE_")), nil
}
