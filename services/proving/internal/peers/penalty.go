package peers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/ids"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/proving/internal/fleet"
)

// Penalty is what the verifier says to open a penalty of a provider for a model: a share in basis points.
func Penalty(provider, model string, share int32) (*settlementv1.OpenPenaltyRequest, error) {
	id, err := ids.NewEntry(time.Now(), rand.Reader) // as good as any UUID of version 7
	if err != nil {
		return nil, fmt.Errorf("make a penalty's id: %w", err)
	}
	evidence := sha256.Sum256([]byte(provider))
	return &settlementv1.OpenPenaltyRequest{PenaltyId: id.String(), ProviderId: provider, ModelId: model,
		Kind: "misrepresentation", ShareBasisPoints: share, Summary: "another model answered",
		EvidenceHash: evidence[:]}, nil
}

// OpenPenalty opens a penalty over a connection to settlement.
func OpenPenalty(ctx context.Context, settlement *grpc.ClientConn, penalty *settlementv1.OpenPenaltyRequest) error {
	if _, err := settlementv1.NewPenaltyServiceClient(settlement).OpenPenalty(ctx, penalty); err != nil {
		return fmt.Errorf("open a penalty of %s: %w", penalty.GetProviderId(), err)
	}
	return nil
}

// OpenPenalty opens a penalty of so many basis points, as the verifier does.
func (s Services) OpenPenalty(ctx context.Context, provider, model string, share int32) error {
	penalty, err := Penalty(provider, model, share)
	if err != nil {
		return err
	}
	return s.call(fleet.Verifier, fleet.Settlement, func(conn *grpc.ClientConn) error {
		return OpenPenalty(ctx, conn, penalty)
	})
}
