package events

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/settlement/internal/penalty"
)

// PublishPenalty says where a penalty stands. A message comes at most once, in any order,
// and none is repeated: the verifier reads what it missed by opening the same penalty
// again.
func PublishPenalty(ctx context.Context, conn *bus.Conn, p penalty.Penalty) error {
	data, err := proto.Marshal(&eventsv1.PenaltyChanged{
		PenaltyId: p.ID.String(), ProviderId: p.ProviderID.String(), State: string(p.State), Revision: p.Revision,
	})
	if err != nil {
		return fmt.Errorf("encode the change of a penalty: %w", err)
	}
	return conn.Publish(ctx, bus.SubjectPenalty, data, nil)
}
