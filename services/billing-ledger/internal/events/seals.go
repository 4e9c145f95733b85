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

// keyPause is how often usage is looked at again whose key may still come.
const keyPause = 5 * time.Second

// Seals says who wrote an event.
type Seals struct {
	Ring *usageseal.Ring
	// Own is the key of the ledger's own events.
	Own usageseal.Key
}

// read decodes a message, and makes sure that whoever the event says wrote it
// did. A nil reject with later set means that it cannot be said yet.
//
// Usage under an unknown key waits only while keys may be missing here
// (usageseal.KeyWait after the start, or a failure of the database). Else it is
// put aside at once and its hub is not told, for these reasons:
//   - What waits holds the stream's floor, so no hold expires meanwhile
//     (UpToDate), and a thousand such events stop the usage of all hubs. A hub
//     that makes up keys could do so for ever.
//   - A hub seals with a key once we have written it down, so usage under a key
//     that it has not handed over is not a true hub's, unless the database has
//     lost the key. Then the hub hands it over again within a minute. Its usage
//     stays in its journal and is published again after 30 s, and ever more
//     rarely, until we say that it is settled.
//   - What its hub has struck from the journal already comes again by a rewind
//     alone, behind which the service is started: keys may be missing then.
//   - That no hold of true usage expires in the minute without its key, needs no
//     wait here: what the gateway has told of is evidence, and is reviewed after
//     OrphanAfter, long after the usage has come again. What nobody has told of
//     expires at the end of its lease; its usage is orphan work then, which the
//     platform pays. It takes a lost commit and the loss of the gateway at once.
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
	if !bus.ValidHubID(hub) {
		return forged("on the subject of no hub")
	}
	verdict, err := s.Ring.Check(ctx, hub, m.Data)
	switch {
	case err != nil:
		return usage.Delivery{}, nil, false, err
	case verdict == usageseal.Early:
		return usage.Delivery{}, nil, true, nil
	case verdict == usageseal.Unknown:
		return usage.Delivery{}, &usage.Reject{Reason: usage.UnknownKey, Detail: "sealed with a key that " + hub +
			" has not handed over", Payload: m.Data}, false, nil
	case verdict != usageseal.Valid:
		return forged("not sealed by " + hub)
	}
	d, reject = decodeUsage(m.Data)
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

// putOff gives back what cannot be judged yet.
func putOff(waiting []bus.Msg) error {
	for _, m := range waiting {
		if err := m.Later(keyPause); err != nil {
			return fmt.Errorf("put usage off: %w", err)
		}
	}
	return nil
}
