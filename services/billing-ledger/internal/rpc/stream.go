package rpc

import (
	"context"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/events"
)

// Streams answers operators who ask how the streams fare.
type Streams struct {
	billingv1.UnimplementedStreamAdminServiceServer
	Streams events.Streams
}

// ListStreams looks at the streams that the service owns.
func (s *Streams) ListStreams(
	ctx context.Context, _ *billingv1.ListStreamsRequest,
) (*billingv1.ListStreamsResponse, error) {
	resp := &billingv1.ListStreamsResponse{}
	for _, look := range s.Streams.Look(ctx) {
		m := &billingv1.StreamState{Stream: look.Name, Messages: int64(look.Messages), Bytes: int64(look.Bytes),
			Error: look.Fault}
		if !look.Newest.IsZero() {
			m.NewestAt = timestamp(look.Newest)
		}
		for _, c := range look.Consumers {
			m.Consumers = append(m.Consumers, &billingv1.ConsumerState{Consumer: c.Name, Pending: int64(c.Pending),
				Unacknowledged: int64(c.Unacknowledged), Error: c.Fault})
		}
		resp.List = append(resp.List, m)
	}
	return resp, nil
}
