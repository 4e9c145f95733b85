package events

import (
	"context"
	"log/slog"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// Keys announces changed keys to the gateways.
type Keys struct {
	Bus *bus.Conn
	Log *slog.Logger
}

// Changed announces that a key has changed. A gateway that misses it finds out when its
// cached key is too old, and admission refuses the key anyway.
func (k Keys) Changed(ctx context.Context, id ids.KeyID) {
	data, err := proto.Marshal(&eventsv1.KeyChanged{KeyId: id.String()})
	if err == nil {
		err = k.Bus.Publish(ctx, bus.SubjectKeyChanged, data, nil)
	}
	if err != nil {
		k.Log.WarnContext(ctx, "gateways could not be told of a changed key", "key_id", id.String(), "error", err)
	}
}
