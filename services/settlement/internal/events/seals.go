package events

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/usagebundle"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// keyPause is the time between two looks at usage whose key may still come. After the
// start, and after a failure of the database, all usage under an unknown key waits,
// because its key may have come during the outage (usageseal.KeyWait). Afterwards
// keyWait decides.
const keyPause = 5 * time.Second

// incoming is a payload, and who wrote it.
type incoming struct {
	payload []byte
	// from is the hub, or "ledger"; empty where the author is not checked.
	from string
	// forged says why the event is not its author's; empty for a genuine event.
	forged string
}

// CheckedBy makes the consumer check who wrote an event. It is called before Run.
func (c *Consumer) CheckedBy(ring *usageseal.Ring, clk clock.Clock) *Consumer {
	c.ring, c.keyWait = ring, newKeyWait(clk)
	return c
}

// check finds out who wrote each event, of which a bundle has several. It returns
// messages with an event whose key may still come to the stream.
func (c *Consumer) check(ctx context.Context, batch []bus.Msg) ([]incoming, error) {
	out := make([]incoming, 0, len(batch))
	for _, m := range batch {
		events := usagebundle.Split(m.Data)
		from := ""
		if c.ring != nil {
			from = strings.TrimPrefix(m.Subject, bus.SubjectUsagePrefix)
		}
		if c.ring == nil || m.Subject == bus.SubjectUsageLedger { // where nobody but the ledger may publish
			for _, event := range events {
				out = append(out, incoming{payload: event, from: from})
			}
			continue
		}
		judged, later, err := c.judge(ctx, from, m.Sequence, events)
		if err != nil {
			return nil, err
		}
		if later {
			if err := m.Later(keyPause); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, judged...)
	}
	return out, nil
}

// judge notes which events of a message are not from the hub on whose subject it came. It
// reports whether the message has to wait for a key. A bundle waits as a whole, because
// events that are set aside would be set aside again each time that it comes.
func (c *Consumer) judge(
	ctx context.Context, hub string, sequence uint64, events [][]byte,
) (judged []incoming, later bool, err error) {
	note := func(forged string, all ...[]byte) {
		for _, event := range all {
			judged = append(judged, incoming{payload: event, from: hub, forged: forged})
		}
	}
	if !bus.ValidHubID(hub) {
		note("on the subject of no hub", events...)
		return judged, false, nil
	}
	var unknown [][]byte
	for _, event := range events {
		verdict, err := c.ring.Check(ctx, hub, event)
		if err != nil {
			return nil, false, err
		}
		switch verdict {
		case usageseal.Valid:
			note("", event)
		case usageseal.Early:
			later = true
		case usageseal.Unknown:
			unknown = append(unknown, event)
		default:
			note("not sealed by "+hub, event)
		}
	}
	switch {
	case later:
	case len(unknown) == 0:
		c.keyWait.free(hub, sequence)
	case c.keyWait.wait(hub, sequence):
		later = true
	default:
		note("sealed with a key that "+hub+" has not handed over", unknown...)
	}
	return judged, later, nil
}

// speaks returns an error for an event that its author may not publish.
func (in incoming) speaks(event *eventsv1.UsageEvent) error {
	byHub := event.GetEvidenceSource() <= eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB && !event.GetSettled()
	switch {
	case in.forged != "":
		return fmt.Errorf("forged: %s", in.forged)
	case in.from == "":
	case byHub && in.from != event.GetHubId(), !byHub && bus.SubjectUsagePrefix+in.from != bus.SubjectUsageLedger:
		return fmt.Errorf("forged: %s speaks for another", in.from)
	}
	return nil
}
