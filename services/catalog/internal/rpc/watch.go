// Package rpc answers the catalog's gRPC calls. For the offerings of a model it asks the
// router.
package rpc

import (
	"sync"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/catalog/internal/snapshot"
)

// Catalog implements CatalogService.
type Catalog struct {
	catalogv1.UnimplementedCatalogServiceServer
	keeper *snapshot.Keeper
	// watchers counts open watches up and down.
	watchers func(delta int64)

	mu   sync.Mutex
	last *catalogv1.WatchModelsResponse // its models are shared by all watchers, and never changed
}

// NewCatalog makes the service. watchers is told of each watch that begins (1)
// and ends (-1).
func NewCatalog(keeper *snapshot.Keeper, watchers func(delta int64)) *Catalog {
	return &Catalog{keeper: keeper, watchers: watchers}
}

// WatchModels sends the newest snapshot at once, and then each newer snapshot. It
// leaves out the snapshots that came and went while another was being sent.
func (s *Catalog) WatchModels(
	_ *catalogv1.WatchModelsRequest, stream grpc.ServerStreamingServer[catalogv1.WatchModelsResponse],
) error {
	s.watchers(1)
	defer s.watchers(-1)
	ctx := stream.Context()
	for {
		current, replaced, err := s.keeper.Current()
		if err != nil {
			return err
		}
		if err := stream.Send(s.encode(current)); err != nil {
			return err
		}
		select {
		case <-replaced:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.keeper.Stopped():
			return fault.New(fault.Unavailable, fault.ServiceUnavailable, "the catalog is shutting down")
		}
	}
}

// encode makes the message of a snapshot. Its models are made once for all watchers.
func (s *Catalog) encode(current *snapshot.Snapshot) *catalogv1.WatchModelsResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.last.GetRevision() < current.Revision {
		s.last = snapshotToProto(current)
	}
	return &catalogv1.WatchModelsResponse{Revision: s.last.GetRevision(), Models: s.last.GetModels()}
}
