package events

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/telemetry"
	"svc.internal/pkg/usagebundle"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/journal"
)

// Listen receives notices of settled requests until ctx ends.
func (u *Usage) Listen(ctx context.Context) error {
	settled, err := u.listenTo(bus.SubjectSettled(u.hubID), u.Settled)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return settled.Stop()
}

func (u *Usage) listenTo(subject string, take func([]ids.RequestID) error) (*bus.Subscription, error) {
	return u.bus.Subscribe(subject, "", func(_ context.Context, m bus.Message) {
		if err := onNotice(m.Data, take); err != nil {
			u.log.Error("a notice of what was taken has no effect", "subject", subject, "error", err)
		}
	})
}

func onNotice(data []byte, take func([]ids.RequestID) error) error {
	notice := &eventsv1.SettledNotice{}
	if err := proto.Unmarshal(data, notice); err != nil {
		return fmt.Errorf("decode notice: %w", err)
	}
	requests := make([]ids.RequestID, 0, len(notice.GetRequestIds()))
	for _, text := range notice.GetRequestIds() {
		id, err := ids.ParseRequest(text)
		if err != nil {
			return fmt.Errorf("read a request's id: %w", err)
		}
		requests = append(requests, id)
	}
	return take(requests)
}

// Publish publishes usage as it comes, and again what stays unsettled, until ctx ends.
// Then it publishes what waits, for a short time. Void attempts have a loop of their own,
// so a stream that does not take them delays no usage.
func (u *Usage) Publish(ctx context.Context) error {
	var voids sync.WaitGroup
	voids.Go(func() {
		u.loop(ctx, u.voidQueue, func(ctx context.Context, first waiting) { u.publishVoids(ctx, batch(u.voidQueue, first)) },
			u.sweepVoids)
	})
	if u.keys.wait(ctx) {
		u.loop(ctx, u.queue, func(ctx context.Context, first waiting) { u.publish(ctx, u.gather(ctx, first)) }, u.sweep)
	}
	voids.Wait()
	return nil
}

// loop publishes what comes through a queue, and sweeps now and then, until ctx ends.
func (u *Usage) loop(
	ctx context.Context, queue chan waiting, publish func(context.Context, waiting),
	sweep func(context.Context, time.Time) bool,
) {
	// What an earlier process left behind was perhaps never published.
	sweep(ctx, u.opened)
	every := u.resettle / sweeps
	due := time.NewTimer(every)
	defer due.Stop()
	for {
		select {
		case first := <-queue:
			publish(ctx, first)
		case <-due.C:
			began := u.clock.Now()
			wait := every
			if sweep(ctx, began.Add(-u.resettle)) {
				// A sweep reads all unsettled usage from disk. The longer it takes, the
				// rarer it is.
				wait = max(every, 10*u.clock.Now().Sub(began))
			}
			due.Reset(wait)
		case <-ctx.Done():
			u.flush(ctx, queue, publish)
			return
		}
	}
}

// batch takes first, and what waits besides.
func batch(queue <-chan waiting, first waiting) []waiting {
	batch := []waiting{first}
	for len(batch) < usageBatch {
		select {
		case next := <-queue:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// gather takes first, and what waits besides. Within gatherTime of the last publication it
// waits until that time is over, so that frequent usage becomes bundles, and rare usage is
// not delayed. A batch that is full already does not wait.
func (u *Usage) gather(ctx context.Context, first waiting) []waiting {
	if rest := gatherTime - u.clock.Now().Sub(u.published); rest > 0 && ctx.Err() == nil && len(u.queue) < usageBatch-1 {
		over := time.NewTimer(rest)
		defer over.Stop()
		select {
		case <-over.C:
		case <-ctx.Done():
		}
	}
	u.published = u.clock.Now()
	return batch(u.queue, first)
}

// flush publishes the queue after ctx has ended.
func (u *Usage) flush(ctx context.Context, queue <-chan waiting, publish func(context.Context, waiting)) {
	began := u.clock.Now()
	for u.clock.Now().Sub(began) < flushTime {
		select {
		case first := <-queue:
			publish(ctx, first)
		default:
			return
		}
	}
}

// publish sends a batch as few messages, waits for the server's answer on each message, and
// reports whether all were taken. Usage of a message that fails stays unsettled and comes
// again with a sweep.
func (u *Usage) publish(ctx context.Context, batch []waiting) bool {
	// A batch that was begun is completed even while the hub stops.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTime)
	defer cancel()
	if !u.ensured {
		if err := u.bus.EnsureStream(ctx, bus.UsageStream); err != nil {
			u.log.Warn("usage cannot be published now", "error", err)
			return false
		}
		u.ensured = true
	}
	messages := bundles(ctx, batch)
	futures := make([]*bus.Future, 0, len(messages))
	for _, m := range messages {
		future, err := u.send(ctx, m)
		if err != nil {
			u.log.Warn("usage was not published", "error", err)
			break
		}
		futures = append(futures, future)
	}
	crash.At("hub.usage.published")
	now := u.clock.Now()
	for i, future := range futures {
		if _, err := future.Wait(ctx); err != nil {
			u.ensured = false // the store may have been wiped
			u.log.Warn("usage was not published", "request_id", messages[i][0].id, "requests", len(messages[i]), "error", err)
			return false
		}
		for _, w := range messages[i] {
			if !w.at.IsZero() {
				u.lag(now.Sub(w.at))
			}
		}
	}
	crash.At("hub.usage.acked")
	return len(futures) == len(messages)
}

// bundles divides a batch into messages. Usage of a recorded trace is a message of its own,
// because a message belongs to one trace.
func bundles(ctx context.Context, batch []waiting) [][]waiting {
	var messages [][]waiting
	last, size := -1, 0 // the bundle that is not full, and its bytes
	for _, w := range batch {
		if telemetry.Sampled(telemetry.WithTraceparent(ctx, w.traceparent)) {
			messages = append(messages, []waiting{w})
			continue
		}
		n := len(w.payload) + usageseal.Size
		if last < 0 || !usagebundle.Fits(len(messages[last]), size, n) {
			messages = append(messages, nil)
			last, size = len(messages)-1, 0
		}
		messages[last], size = append(messages[last], w), size+n
	}
	return messages
}

// send publishes usage as one message. The id of a bundle is that of its first event, with
// the number of the others: nothing else is published under it.
func (u *Usage) send(ctx context.Context, bundle []waiting) (*bus.Future, error) {
	id, events := bundle[0].id, make([][]byte, len(bundle))
	for i, w := range bundle {
		events[i] = u.keys.seal(w.payload)
	}
	if len(bundle) > 1 {
		id += "+" + strconv.Itoa(len(bundle)-1)
	} else {
		ctx = telemetry.WithTraceparent(ctx, bundle[0].traceparent)
	}
	return u.bus.PublishStreamAsync(ctx, bus.SubjectUsage(u.hubID), id, usagebundle.Join(events), nil)
}

// sweep publishes again what was final before a time and is not settled yet. It gives up
// at the first batch that is not taken, and returns false: while NATS is away nothing
// counts as published, so that all of it comes as soon as NATS is back.
func (u *Usage) sweep(ctx context.Context, before time.Time) bool {
	now := u.clock.Now()
	var batch []waiting
	for f, err := range u.journal.Load().Unsettled(before) {
		if err != nil {
			u.log.Error("unsettled usage cannot be read", "attempt", f.Key.String(), "error", err)
			continue
		}
		if isVoid(f.Payload) {
			continue // see sweepVoids
		}
		traceparent, due := u.due(f.Key, now)
		if !due {
			continue
		}
		// The id differs from the last id of the attempt, because the server would
		// swallow a repeated id within its window, whatever became of the first message.
		id := ids.RequestID(f.Key.Request).String() + "/" + strconv.FormatInt(now.UnixMilli(), 10)
		batch = append(batch, waiting{key: f.Key, id: id, payload: f.Payload, traceparent: traceparent})
		if len(batch) == usageBatch {
			if !u.again(ctx, batch, now) {
				return false
			}
			batch = batch[:0]
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return len(batch) == 0 || u.again(ctx, batch, now)
}

// again publishes a batch of a sweep. If the batch was taken, it notes when its usage is
// next due.
func (u *Usage) again(ctx context.Context, batch []waiting, now time.Time) bool {
	if !u.publish(ctx, batch) {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, w := range batch {
		if p := u.pending[w.key]; p != nil {
			p.next = now.Add(min(u.resettle<<min(p.times, 10), maxResettle))
			p.times++
		}
	}
	return true
}

// due reports whether an attempt's usage is to be published again, and its trace, if that
// is known.
func (u *Usage) due(key journal.Key, now time.Time) (traceparent string, due bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.pending[key]
	if p == nil || now.Before(p.next) { // nil was settled meanwhile
		return "", false
	}
	return p.traceparent, true
}
