package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/billing-ledger/internal/usage"
)

// durable is the place that all replicas share in the stream.
const durable = "billing"

// linger lets a trickle of usage become batches: one transaction settles them
// together, and a receipt is that much later.
const linger = 50 * time.Millisecond

// Consumer settles what the hubs publish.
type Consumer struct {
	Bus     *bus.Conn
	Settler *usage.Settler
	Log     *slog.Logger
	// Batch bounds the events of one transaction; 0 means bus.MaxBatch.
	Batch int
	// Observe hears what became of each event.
	Observe func(usage.Result)

	behind atomic.Bool
}

// Run settles until ctx ends. A batch that fails comes again after a pause.
func (c *Consumer) Run(ctx context.Context) error {
	cfg := bus.ConsumerConfig{Stream: bus.UsageStream, Durable: durable, Batch: c.Batch, Linger: linger}
	return c.Bus.Consume(ctx, cfg, func(ctx context.Context, msgs []bus.Msg) error {
		err := c.handle(ctx, msgs)
		c.note(msgs, err)
		return err
	})
}

// Behind tells whether usage waits that has not been looked at: what is not
// settled yet may be in there.
func (c *Consumer) Behind() bool { return c.behind.Load() }

func (c *Consumer) note(msgs []bus.Msg, err error) {
	c.behind.Store(err != nil || msgs[len(msgs)-1].Pending > bus.MaxBatch)
}

// handle settles a batch, and then tells the hubs of every event of theirs that
// needs nothing more from them: settled now, settled before, or put aside for a
// person. A notice that is lost is given again when the hub asks by publishing
// again.
func (c *Consumer) handle(ctx context.Context, msgs []bus.Msg) error {
	var batch []usage.Delivery
	var rejects []usage.Reject
	var poison []bus.Msg
	for _, m := range msgs {
		delivery, reject := decodeUsage(m.Data)
		if reject == nil {
			batch = append(batch, delivery)
			continue
		}
		rejects = append(rejects, *reject)
		poison = append(poison, m)
	}
	if err := c.putAside(ctx, rejects, poison); err != nil {
		return err
	}
	results, err := c.Settler.Settle(ctx, batch)
	if err != nil {
		return fmt.Errorf("settle usage: %w", err)
	}
	notices := settledNotices{}
	for _, r := range rejects {
		c.report(ctx, r.Reason, r.Request, r.Hub)
		notices.add(r.Hub, r.Request)
	}
	for i, result := range results {
		e := batch[i].Event
		c.report(ctx, result, e.Request, e.Hub)
		notices.add(e.Hub, e.Request)
	}
	c.tell(ctx, notices)
	return nil
}

// putAside keeps what cannot be read and takes it out of the stream. An event
// that is kept and then delivered again because it could not be taken out adds
// nothing.
func (c *Consumer) putAside(ctx context.Context, rejects []usage.Reject, poison []bus.Msg) error {
	if len(rejects) == 0 {
		return nil
	}
	if err := c.Settler.Store.Quarantine(ctx, rejects); err != nil {
		return fmt.Errorf("quarantine %d events: %w", len(rejects), err)
	}
	for _, m := range poison {
		if err := m.Term("quarantined"); err != nil {
			return fmt.Errorf("take a quarantined event out of the stream: %w", err)
		}
	}
	return nil
}

func (c *Consumer) report(ctx context.Context, r usage.Result, request ids.RequestID, hub string) {
	c.Observe(r)
	if r.Quarantined() {
		c.Log.ErrorContext(ctx, "usage event quarantined", "reason", string(r), "request_id", request.String(), "hub_id", hub)
	}
}

// settledNotices are request ids by hub.
type settledNotices map[string][]string

func (n settledNotices) add(hub string, request ids.RequestID) {
	if hub != "" && !request.IsZero() {
		n[hub] = append(n[hub], request.String())
	}
}

func (c *Consumer) tell(ctx context.Context, notices settledNotices) {
	for hub, requests := range notices {
		data, err := proto.Marshal(&eventsv1.SettledNotice{RequestIds: requests})
		if err == nil {
			err = c.Bus.Publish(ctx, bus.SubjectSettled(hub), data, nil)
		}
		if err != nil {
			c.Log.WarnContext(ctx, "hub could not be told what is settled", "hub_id", hub, "requests", len(requests), "error", err)
		}
	}
}
