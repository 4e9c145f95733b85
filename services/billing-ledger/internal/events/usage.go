package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/usagebundle"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/billing-ledger/internal/usage"
)

// durable is the consumer of the NATS stream that all replicas share.
const durable = bus.DurableBilling

// linger lets a trickle of usage become batches, so that one transaction settles several
// events. It delays each receipt, and the release of each place in the concurrency of a
// request that no gateway reported, which forbids a longer one.
const linger = 100 * time.Millisecond

// Consumer settles the usage that hubs publish.
type Consumer struct {
	Bus     Bus
	Settler *usage.Settler
	// Seals checks who wrote an event; nil accepts every event as its hub's.
	Seals *Seals
	Log   *slog.Logger
	// Batch bounds the messages taken at once, and the events of one transaction; 0 means
	// bus.MaxBatch.
	Batch int
	// Observe gets the result of each event.
	Observe func(usage.Result)
	// ObserveHeld gets the rule of each request whose earnings are held.
	ObserveHeld func(usage.Rule)
	// ObserveLine gets each line of a committed transaction; nil for nobody.
	ObserveLine func(usage.Line)

	behind  atomic.Bool
	waiting atomic.Uint64
	since   atomic.Int64 // Unix nanoseconds, 0 while nothing waits
}

// Run settles until ctx ends. A batch that fails is delivered again after a pause.
func (c *Consumer) Run(ctx context.Context) error {
	cfg := bus.ConsumerConfig{Stream: bus.UsageStream, Durable: durable, Batch: c.Batch, Linger: linger}
	return c.Bus.Consume(ctx, cfg, func(ctx context.Context, msgs []bus.Msg) error {
		err := c.handle(ctx, msgs)
		c.note(msgs, err)
		return err
	})
}

// Behind reports whether usage waits that has not been looked at. An unsettled request
// may be in there.
func (c *Consumer) Behind() bool { return c.behind.Load() }

// Backlog returns how many messages of usage wait in the stream, and since when: an event that was
// published after since may not be settled. since is zero when no event waits.
func (c *Consumer) Backlog() (waiting uint64, since time.Time) {
	if at := c.since.Load(); at != 0 {
		since = time.Unix(0, at)
	}
	return c.waiting.Load(), since
}

// maxWaiting is how old usage may be that no replica has settled. It is longer than a
// batch takes and much shorter than a lease.
const maxWaiting = 2 * time.Second

// UpToDate returns an error unless all usage is settled that was published more than
// maxWaiting ago. Usage that another replica has taken and not finished counts as
// waiting.
func (c *Consumer) UpToDate(ctx context.Context) error {
	if c.Behind() {
		return errors.New("usage waits")
	}
	waits, err := c.Bus.Waiting(ctx, bus.UsageStream.Name, durable)
	if err == nil && waits > maxWaiting {
		err = fmt.Errorf("usage waits for %v", waits)
	}
	return err
}

func (c *Consumer) note(msgs []bus.Msg, err error) {
	c.noteBacklog(msgs, err)
	if err != nil && c.Seals != nil {
		c.Seals.Ring.Failed()
	}
	c.behind.Store(err != nil || msgs[len(msgs)-1].Pending > bus.MaxBatch)
}

func (c *Consumer) noteBacklog(msgs []bus.Msg, err error) {
	last := msgs[len(msgs)-1]
	waiting, since := last.Pending, last.Published
	if err != nil {
		waiting, since = waiting+uint64(len(msgs)), msgs[0].Published
	}
	c.waiting.Store(waiting)
	if waiting == 0 {
		c.since.Store(0)
		return
	}
	c.since.Store(since.UnixNano())
}

// sorted is what the events in some messages are. Events of a bundle are judged one by
// one, as if each had come alone.
type sorted struct {
	genuine []usage.Delivery
	from    []bus.Msg // of each of genuine
	rejects []usage.Reject
	// poison are messages of nothing but one rejected event; keyless are messages with an
	// event whose key may still come.
	poison, keyless []bus.Msg
}

func (c *Consumer) sort(ctx context.Context, msgs []bus.Msg) (sorted, error) {
	var s sorted
	for _, m := range msgs {
		events := usagebundle.Split(m.Data)
		waits := false
		for _, event := range events {
			delivery, reject, later, err := c.Seals.read(ctx, m.Subject, event)
			switch {
			case err != nil:
				return sorted{}, err
			case later:
				waits = true
			case reject == nil:
				s.genuine, s.from = append(s.genuine, delivery), append(s.from, m)
			default:
				s.rejects = append(s.rejects, *reject)
				if len(events) == 1 {
					s.poison = append(s.poison, m)
				}
			}
		}
		if waits {
			s.keyless = append(s.keyless, m)
		}
	}
	return s, nil
}

// handle settles a batch and then notifies the hubs of each event that needs nothing more
// from them: settled now, settled before, or quarantined. A notice that is lost is sent
// again when the hub publishes again.
func (c *Consumer) handle(ctx context.Context, msgs []bus.Msg) error {
	s, err := c.sort(ctx, msgs)
	if err != nil {
		return err
	}
	if err := c.quarantine(ctx, s.rejects, s.poison); err != nil {
		return err
	}
	if err := putOff(s.keyless, keyPause); err != nil {
		return err
	}
	if crash.Planted(crash.SettledBeforeCommit) {
		c.tellTooEarly(ctx, s.genuine)
	}
	notices := settledNotices{}
	for _, r := range s.rejects {
		c.report(ctx, r.Reason, r.Request, r.Hub)
		notices.add(r.Hub, r.Request)
	}
	limit := c.Batch
	if limit == 0 {
		limit = bus.MaxBatch
	}
	var early []bus.Msg
	// The messages of a batch may be bundles of more events than a transaction takes.
	for at := 0; at < len(s.genuine); at += limit {
		end := min(at+limit, len(s.genuine))
		more, err := c.settle(ctx, s.genuine[at:end], s.from[at:end], notices)
		if err != nil {
			return err
		}
		early = append(early, more...)
	}
	if err := putOff(once(early, s.keyless), usage.EarlyPause); err != nil {
		return err
	}
	c.tell(ctx, notices)
	crash.At("billing.settled.noted")
	return nil
}

// once returns each message once, and without those that are put off already. Two events of a bundle may
// name it.
func once(early, already []bus.Msg) []bus.Msg {
	var out []bus.Msg
	for _, m := range early {
		is := func(other bus.Msg) bool { return other.Sequence == m.Sequence }
		if !slices.ContainsFunc(out, is) && !slices.ContainsFunc(already, is) {
			out = append(out, m)
		}
	}
	return out
}

// settle settles events in one transaction, or more where holds are to be written first, and adds to
// notices what is settled. It returns the messages of events that must be delivered again, each as often
// as it has such an event. When it fails, the hubs hear of nothing that came with it, and everything
// comes again.
func (c *Consumer) settle(
	ctx context.Context, batch []usage.Delivery, from []bus.Msg, notices settledNotices,
) (early []bus.Msg, err error) {
	following := follow(ctx, c.Log, from)
	results, err := c.Settler.Settle(ctx, batch, func(lines []usage.Line) {
		following.booked(lines)
		c.observeLines(lines)
		c.tellHeld(ctx, lines)
	})
	if err != nil {
		following.failed()
		return nil, fmt.Errorf("settle usage: %w", err)
	}
	crash.At("billing.settle.committed")
	for i, result := range results {
		e := batch[i].Event
		following.ended(i, e, result)
		c.report(ctx, result, e.Request, e.Hub)
		switch result {
		case usage.Early:
			early = append(early, from[i])
		case usage.Forged: // after a notice the hub would forget its own, true usage
		default:
			notices.add(e.Hub, e.Request)
		}
	}
	return early, nil
}

func (c *Consumer) observeLines(lines []usage.Line) {
	if c.ObserveLine == nil {
		return
	}
	for _, line := range lines {
		c.ObserveLine(line)
	}
}

// tellTooEarly is the planted fault crash.SettledBeforeCommit.
func (c *Consumer) tellTooEarly(ctx context.Context, batch []usage.Delivery) {
	notices := settledNotices{}
	for _, d := range batch {
		notices.add(d.Event.Hub, d.Event.Request)
	}
	c.tell(ctx, notices)
}

// quarantine stores events and takes them out of the stream. An event that was stored and
// is delivered again, because it could not be taken out, adds nothing.
func (c *Consumer) quarantine(ctx context.Context, rejects []usage.Reject, poison []bus.Msg) error {
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
			c.Log.WarnContext(ctx, "hub could not be told what is settled", "hub_id", hub, "requests", len(requests), "error",
				err)
		}
	}
}
