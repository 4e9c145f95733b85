package events

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/usageseal"
	"svc.internal/services/billing-ledger/internal/usage"
)

// keyPause is the pause before usage whose key may still come is looked at again.
const keyPause = 5 * time.Second

// Seals verifies who wrote an event.
type Seals struct {
	Ring *usageseal.Ring
	// Own is the key of the ledger's own events.
	Own usageseal.Key
}

// read decodes an event and verifies that the hub which it names wrote it. later
// reports that this cannot be decided yet; reject is nil then.
//
// Usage under an unknown key waits only while keys may be missing here
// (usageseal.KeyWait after the start, or after a failure of the database). Otherwise
// it is quarantined at once and its hub is not notified, for these reasons:
//   - A waiting event holds the floor of the NATS stream, so no hold expires meanwhile
//     (UpToDate), and a thousand such events stop the usage of all hubs. A hub that
//     makes up keys could cause that for ever.
//   - A hub seals with a key only once we have written it down. So usage under a key
//     that its hub has not handed over is not a true hub's, unless the database has
//     lost the key. The hub then hands it over again within a minute. Its usage stays
//     in its journal, and the hub publishes it again after 30 s and ever more rarely,
//     until we say that it is settled.
//   - Usage that its hub has already struck from the journal comes again only by a
//     rewind. The service is started after a rewind, so keys may be missing then.
//   - No wait is needed to keep the holds of true usage from expiring in the minute
//     without the key. What a gateway has reported is evidence, and is reviewed after
//     OrphanAfter, long after the usage has come again. A hold that no gateway has
//     reported expires at the end of its lease; its usage is then orphan work, which
//     the platform pays. That takes a lost commit and the loss of the gateway at once.
func (s *Seals) read(
	ctx context.Context, subject string, event []byte,
) (d usage.Delivery, reject *usage.Reject, later bool, err error) {
	if s == nil {
		d, reject = decodeUsage(event)
		return d, reject, false, nil
	}
	forged := func(detail string) (usage.Delivery, *usage.Reject, bool, error) {
		r := &usage.Reject{Reason: usage.Forged, Detail: detail, Payload: event}
		if d, _ := decodeUsage(event); !d.Event.Request.IsZero() {
			r.Request = d.Event.Request
		}
		return usage.Delivery{}, r, false, nil
	}
	if subject == bus.SubjectUsageLedger {
		if !s.Own.Opens(event) {
			return forged("not sealed by the ledger")
		}
		d, reject = decodeUsage(event)
		return d, reject, false, nil
	}
	hub := strings.TrimPrefix(subject, bus.SubjectUsagePrefix)
	if !bus.ValidHubID(hub) {
		return forged("on the subject of no hub")
	}
	verdict, err := s.Ring.Check(ctx, hub, event)
	switch {
	case err != nil:
		return usage.Delivery{}, nil, false, err
	case verdict == usageseal.Early:
		return usage.Delivery{}, nil, true, nil
	case verdict == usageseal.Unknown:
		return usage.Delivery{}, &usage.Reject{Reason: usage.UnknownKey, Detail: "sealed with a key that " + hub +
			" has not handed over", Payload: event}, false, nil
	case verdict != usageseal.Valid:
		return forged("not sealed by " + hub)
	}
	d, reject = decodeUsage(event)
	switch {
	case reject != nil:
		if reject.Hub != hub {
			reject.Hub = ""
		}
		return d, reject, false, nil
	case d.Event.Hub != hub || d.Event.EvidenceSource != usage.Hub || d.Event.Settled:
		return forged(hub + " speaks for another")
	}
	return d, nil, false, nil
}

// putOff gives back the messages that cannot be judged yet.
func putOff(waiting []bus.Msg, pause time.Duration) error {
	for _, m := range waiting {
		if err := m.Later(pause); err != nil {
			return fmt.Errorf("put usage off: %w", err)
		}
	}
	return nil
}
