package events

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// How long usage waits in the stream for the key that it is sealed with, and how
// often it is looked at again. A hub hands its key to us at its start and then
// every minute, so usage waits while we were away. What waits for longer is put
// aside, and its hub publishes it again.
const (
	keyWait  = 10 * time.Minute
	keyPause = 5 * time.Second
)

// incoming is a payload, and who wrote it.
type incoming struct {
	payload []byte
	// from is the hub, or "ledger"; empty where nobody checks.
	from string
	// forged says why the event is nobody's; empty when it is not.
	forged string
}

// CheckedBy makes the consumer check who wrote an event, before it runs.
func (c *Consumer) CheckedBy(ring *usageseal.Ring) *Consumer {
	c.ring = ring
	return c
}

// check finds out who wrote each message, and gives back those of which it
// cannot be said yet.
func (c *Consumer) check(ctx context.Context, batch []bus.Msg) ([]incoming, error) {
	out := make([]incoming, 0, len(batch))
	for _, m := range batch {
		in := incoming{payload: m.Data}
		if c.ring == nil {
			out = append(out, in)
			continue
		}
		in.from = strings.TrimPrefix(m.Subject, bus.SubjectUsagePrefix)
		if m.Subject != bus.SubjectUsageLedger { // where nobody but the ledger may publish
			verdict, err := c.ring.Check(ctx, in.from, m.Data)
			switch {
			case err != nil:
				return nil, err
			case verdict == usageseal.Unknown && time.Since(m.Published) < keyWait:
				if err := m.Later(keyPause); err != nil {
					return nil, err
				}
				continue
			case verdict == usageseal.Unknown:
				in.forged = "sealed with a key that " + in.from + " has not handed over"
			case verdict == usageseal.Forged:
				in.forged = "not sealed by " + in.from
			}
		}
		out = append(out, in)
	}
	return out, nil
}

// speaks returns an error unless the event says what its author may say.
func (in incoming) speaks(event *eventsv1.UsageEvent) error {
	byHub := event.GetWitness() <= eventsv1.Witness_WITNESS_HUB && !event.GetSettled()
	switch {
	case in.forged != "":
		return fmt.Errorf("forged: %s", in.forged)
	case in.from == "":
	case byHub && in.from != event.GetHubId(), !byHub && bus.SubjectUsagePrefix+in.from != bus.SubjectUsageLedger:
		return fmt.Errorf("forged: %s speaks for another", in.from)
	}
	return nil
}
