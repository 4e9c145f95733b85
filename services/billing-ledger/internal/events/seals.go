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

// How long usage waits in the stream for the key that it is sealed with, and how
// often it is looked at again. A hub publishes under a key that we have; only a
// database that lost it makes usage wait, and the hub hands it over again within
// a minute. What waits for longer is put aside, and its hub publishes it again.
const (
	keyWait  = 10 * time.Minute
	keyPause = 5 * time.Second
)

// Seals says who wrote an event.
type Seals struct {
	Ring *usageseal.Ring
	// Own is the key of the ledger's own events.
	Own usageseal.Key
}

// read decodes a message, and makes sure that whoever the event says wrote it
// did. A nil reject with later set means that it cannot be said yet.
func (s *Seals) read(ctx context.Context, m bus.Msg) (d usage.Delivery, reject *usage.Reject, later bool, err error) {
	if s == nil {
		d, reject = decodeUsage(m.Data)
		return d, reject, false, nil
	}
	forged := func(detail string) (usage.Delivery, *usage.Reject, bool, error) {
		r := &usage.Reject{Reason: usage.Forged, Detail: detail, Payload: m.Data}
		if d, _ := decodeUsage(m.Data); !d.Event.Request.IsZero() {
			r.Request = d.Event.Request
		}
		return usage.Delivery{}, r, false, nil
	}
	if m.Subject == bus.SubjectUsageLedger {
		if !s.Own.Opens(m.Data) {
			return forged("not sealed by the ledger")
		}
		d, reject = decodeUsage(m.Data)
		return d, reject, false, nil
	}
	hub := strings.TrimPrefix(m.Subject, bus.SubjectUsagePrefix)
	verdict, err := s.Ring.Check(ctx, hub, m.Data)
	switch {
	case err != nil:
		return usage.Delivery{}, nil, false, err
	case verdict == usageseal.Unknown && time.Since(m.Published) < keyWait:
		return usage.Delivery{}, nil, true, nil
	case verdict == usageseal.Unknown:
		return usage.Delivery{}, &usage.Reject{Reason: usage.UnknownKey, Detail: "sealed with a key that " + hub + " has not handed over", Payload: m.Data}, false, nil
	case verdict == usageseal.Forged:
		return forged("not sealed by " + hub)
	}
	d, reject = decodeUsage(m.Data)
	switch {
	case reject != nil:
		if reject.Hub != hub {
			reject.Hub = ""
		}
		return d, reject, false, nil
	case d.Event.Hub != hub || d.Event.Witness != usage.Hub || d.Event.Settled:
		return forged(hub + " speaks for another")
	}
	return d, nil, false, nil
}

// putOff gives back what cannot be judged yet.
func putOff(waiting []bus.Msg) error {
	for _, m := range waiting {
		if err := m.Later(keyPause); err != nil {
			return fmt.Errorf("put usage off: %w", err)
		}
	}
	return nil
}
