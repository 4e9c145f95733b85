package events

import (
	"context"
	"strconv"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/journal"
)

// Of an attempt whose caller vanished this hub may be the only one to know that nothing
// is owed, and its provider can show a work receipt with a genuine proof to another hub.
// So the attempt ends in the journal with a FINAL that is no usage but a VoidEvent, which
// stays until JetStream has taken it. Nothing is published of an attempt whose caller
// heard how it ended. A hub of an older version must not be started on a journal with
// such records (svc.provider_hub.voids above 0).
const (
	// voidMark begins the payload of such a FINAL. No encoded usage begins with
	// it: a field's number is never 0.
	voidMark = 0
	// maxVoids bounds the void attempts that wait for NATS. Beyond it an attempt is void
	// for this hub alone, and counted.
	maxVoids = 1 << 16
	// maxVoid is how long one waits. A ledger takes receipts for a day after the end of a
	// hold.
	maxVoid = 48 * time.Hour
)

// encodeVoid is the payload of a FINAL.
func encodeVoid(hubID string, o *dispatch.Order) ([]byte, error) {
	event, err := encode(&eventsv1.VoidEvent{
		RequestId: o.Request.String(), Attempt: o.Attempt, HubId: hubID, ProviderId: o.Provider.String(),
	})
	if err != nil {
		return nil, err
	}
	return append([]byte{voidMark}, event...), nil
}

func isVoid(payload []byte) bool { return len(payload) > 0 && payload[0] == voidMark }

// Vanished implements dispatch.UsageJournal.
func (u *Usage) Vanished(ctx context.Context, o *dispatch.Order) error {
	payload, err := encodeVoid(u.hubID, o)
	if err != nil {
		return err
	}
	key := keyOf(o)
	if !u.addVoid(key) {
		u.voidsLost.Add(1)
		return u.Void(o)
	}
	if err := u.journal.Load().Final(ctx, key, payload); err != nil {
		if ctx.Err() == nil {
			u.endVoids(key)
		} // the record may still reach the disk
		return err
	}
	u.close(key)
	select {
	case u.voidQueue <- voided(key, payload):
	default: // the sweep finds it
	}
	return nil
}

// voided is a void attempt on its way. Its message id is always the same, so that a
// message that was stored and not acknowledged is not stored twice within the server's
// window.
func voided(key journal.Key, payload []byte) waiting {
	id := ids.RequestID(key.Request).String() + "/" + strconv.FormatUint(uint64(key.Attempt), 10) + "/void"
	return waiting{key: key, id: id, payload: payload[1:]}
}

func (u *Usage) addVoid(key journal.Key) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.voids) >= maxVoids {
		return false
	}
	u.voids[key] = struct{}{}
	return true
}

// endVoids forgets void attempts, and returns the keys that were known.
func (u *Usage) endVoids(keys ...journal.Key) (known []journal.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range keys {
		if _, ok := u.voids[key]; ok {
			known = append(known, key)
			delete(u.voids, key)
		}
	}
	return known
}

// Voids is how many void attempts wait for JetStream. VoidsLost counts the void attempts
// that found no room, or waited for too long.
func (u *Usage) Voids() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.voids)
}

// VoidsLost is described beside Voids.
func (u *Usage) VoidsLost() int64 { return u.voidsLost.Load() }

// publishVoids sends void attempts, and removes from the journal the attempts that
// JetStream has taken. It reports whether all were taken and removed. The other attempts
// come again with the sweep.
func (u *Usage) publishVoids(ctx context.Context, batch []waiting) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTime)
	defer cancel()
	taken, err := u.sendVoids(ctx, batch)
	if err != nil {
		u.voidsEnsured = false // the store may have been wiped
		u.log.Warn("void attempts were not published", "attempts", len(batch)-len(taken), "error", err)
	}
	// An attempt that came through the queue and through a sweep is removed once, because
	// its key might be another attempt's by now.
	taken = u.endVoids(taken...)
	if struck := u.journal.Load().Settled(taken...); struck != nil {
		u.log.Error("void attempts that were published stay in the journal", "error", struck)
		return false
	}
	u.close(taken...)
	return err == nil
}

func (u *Usage) sendVoids(ctx context.Context, batch []waiting) (taken []journal.Key, err error) {
	if !u.voidsEnsured {
		if err := u.bus.EnsureStream(ctx, bus.WorkReceiptStream); err != nil {
			return nil, err
		}
		u.voidsEnsured = true
	}
	futures := make([]*bus.Future, 0, len(batch))
	for _, w := range batch {
		future, sent := u.bus.PublishStreamAsync(ctx, bus.SubjectVoid(u.hubID), w.id, w.payload, nil)
		if sent != nil {
			err = sent
			break
		}
		futures = append(futures, future)
	}
	for i, future := range futures {
		if _, failed := future.Wait(ctx); failed != nil {
			err = failed
			continue
		}
		taken = append(taken, batch[i].key)
	}
	return taken, err
}

// sweepVoids publishes again the void attempts that were final before a time. It gives up
// at the first batch that is not taken, and returns false.
func (u *Usage) sweepVoids(ctx context.Context, before time.Time) bool {
	if u.Voids() == 0 {
		return true
	}
	voids := voidSweep{usage: u, now: u.clock.Now()}
	for f, err := range u.journal.Load().Unsettled(before) {
		if err == nil && isVoid(f.Payload) { // the sweep of usage reports what cannot be read
			voids.add(ctx, f)
		}
		if ctx.Err() != nil {
			return false
		}
	}
	voids.flush(ctx)
	return !voids.away
}

// voidSweep publishes again the void attempts that a sweep finds.
type voidSweep struct {
	usage *Usage
	now   time.Time
	batch []waiting
	away  bool // NATS did not take one of this sweep
}

// add takes a void attempt that was final at a time. One that has waited for too long is
// removed, because no ledger takes a receipt for it any more.
func (s *voidSweep) add(ctx context.Context, f journal.Final) {
	if s.now.Sub(f.At) > maxVoid {
		s.usage.voidsLost.Add(1)
		if err := s.usage.journal.Load().Settled(s.usage.endVoids(f.Key)...); err != nil {
			s.usage.log.Error("a void attempt cannot be struck", "attempt", f.Key.String(), "error", err)
		}
		return
	}
	if s.batch = append(s.batch, voided(f.Key, f.Payload)); len(s.batch) == usageBatch {
		s.flush(ctx)
	}
}

// flush publishes what was gathered.
func (s *voidSweep) flush(ctx context.Context) {
	if len(s.batch) > 0 && !s.away {
		s.away = !s.usage.publishVoids(ctx, s.batch)
	}
	s.batch = s.batch[:0]
}

// voidFound remembers a void attempt of an earlier process.
func (u *Usage) voidFound(key journal.Key) {
	u.mu.Lock()
	u.voids[key] = struct{}{}
	u.mu.Unlock()
	u.close(key)
}
