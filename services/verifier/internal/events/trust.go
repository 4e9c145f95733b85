package events

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/verifier/internal/trust"
)

// MaxReported bounds the models of one report. A provider has no more that are routed.
const MaxReported = 256

// Opinion is what routers are to know of a model of a provider.
type Opinion struct {
	Model string
	// Trust is above 0 and at most 1.
	Trust float64
	Lane  trust.Lane
	// CapTokens is the window that is routed at most; 0 for no cap.
	CapTokens  int64
	GraceUntil time.Time
	// Revision grows with every change of the opinion.
	Revision int64
}

// Report is all that routers are to know of a provider.
type Report struct {
	Provider ids.ProviderID
	// Revision grows with every change of one of the opinions.
	Revision int64
	Opinions []Opinion
}

var lanes = map[trust.Lane]eventsv1.Lane{
	trust.Main: eventsv1.Lane_LANE_MAIN, trust.Probe: eventsv1.Lane_LANE_PROBE, trust.Shut: eventsv1.Lane_LANE_SHUT,
}

// PublishTrust publishes a report into the stream, which keeps the last report of each
// provider. again distinguishes repeats of one revision, which the stream would drop as
// duplicates otherwise.
func PublishTrust(ctx context.Context, conn *bus.Conn, r Report, again int64) error {
	if len(r.Opinions) > MaxReported {
		return fmt.Errorf("%w: %d models", errBounds, len(r.Opinions))
	}
	msg := &eventsv1.TrustReport{ProviderId: r.Provider.String(), Revision: r.Revision}
	for _, o := range r.Opinions {
		t := &eventsv1.Trust{
			ProviderId: msg.GetProviderId(), ModelId: o.Model, Trust: o.Trust, Lane: lanes[o.Lane],
			MeasuredContextLength: o.CapTokens, Revision: o.Revision,
		}
		if !o.GraceUntil.IsZero() {
			t.GraceUntil = timestamppb.New(o.GraceUntil)
		}
		msg.Models = append(msg.Models, t)
	}
	data, err := proto.Marshal(msg)
	if err != nil {
		return fmt.Errorf("encode a report of trust: %w", err)
	}
	id := msg.GetProviderId() + "/" + strconv.FormatInt(r.Revision, 10) + "/" + strconv.FormatInt(again, 10)
	if _, err := conn.PublishStream(ctx, bus.SubjectTrust(msg.GetProviderId()), id, data, nil); err != nil {
		return fmt.Errorf("publish trust: %w", err)
	}
	return nil
}
