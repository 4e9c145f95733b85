package auth

import (
	"context"
	"fmt"
	"log/slog"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// Listen forgets keys as they change, until stop is called. After a missed message a key
// counts as it was for no longer than Config.KnownFor.
func (a *Authenticator) Listen(b *bus.Conn, log *slog.Logger) (stop func() error, err error) {
	sub, err := b.Subscribe(bus.SubjectKeyChanged, "", func(ctx context.Context, m bus.Message) {
		var changed eventsv1.KeyChanged
		if err := proto.Unmarshal(m.Data, &changed); err != nil {
			log.WarnContext(ctx, "a message about a changed key is malformed", "error", err)
			return
		}
		a.Forget(changed.GetKeyId())
	})
	if err != nil {
		return nil, fmt.Errorf("listen for changed keys: %w", err)
	}
	return sub.Stop, nil
}
