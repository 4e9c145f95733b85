package events

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
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

// check finds out who wrote each message. It returns messages whose key may still come
// to the stream.
func (c *Consumer) check(ctx context.Context, batch []bus.Msg) ([]incoming, error) {
	out := make([]incoming, 0, len(batch))
	for _, m := range batch {
		in := incoming{payload: m.Data}
		if c.ring != nil {
			in.from = strings.TrimPrefix(m.Subject, bus.SubjectUsagePrefix)
		}
		if c.ring != nil && m.Subject != bus.SubjectUsageLedger { // where nobody but the ledger may publish
			later, err := c.judge(ctx, m, &in)
			if err != nil {
				return nil, err
			}
			if later {
				if err := m.Later(keyPause); err != nil {
					return nil, err
				}
				continue
			}
		}
		out = append(out, in)
	}
	return out, nil
}

// judge notes when a message is not from the hub on whose subject it came. It reports
// whether the message has to wait for its key.
func (c *Consumer) judge(ctx context.Context, m bus.Msg, in *incoming) (later bool, err error) {
	if !bus.ValidHubID(in.from) {
		in.forged = "on the subject of no hub"
		return false, nil
	}
	verdict, err := c.ring.Check(ctx, in.from, m.Data)
	switch {
	case err != nil:
		return false, err
	case verdict == usageseal.Early:
		return true, nil
	case verdict == usageseal.Unknown && c.keyWait.wait(in.from, m.Sequence):
		return true, nil
	case verdict == usageseal.Unknown:
		in.forged = "sealed with a key that " + in.from + " has not handed over"
		return false, nil
	case verdict != usageseal.Valid:
		in.forged = "not sealed by " + in.from
	}
	c.keyWait.free(in.from, m.Sequence)
	return false, nil
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
