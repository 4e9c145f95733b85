package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/router/internal/warmup"
)

// planInterval is the least pause between two plans. It is short compared with the wait for a
// slot, and with the random time that keeps replicas apart.
const planInterval = 250 * time.Millisecond

// WarmerDeps are the parts a Warmer works with.
type WarmerDeps struct {
	Bus     *bus.Conn
	Planner *warmup.Planner
	Clock   clock.Clock
	Log     *slog.Logger
}

// Warmer asks hubs for the warm-ups that the planner decides on, and hears which ones
// other replicas ask for.
type Warmer struct {
	deps    WarmerDeps
	asked   atomic.Int64
	refused atomic.Int64
}

// NewWarmer makes a warmer; Run starts it.
func NewWarmer(deps WarmerDeps) *Warmer { return &Warmer{deps: deps} }

// Asked counts the warm-ups that this replica has asked for.
func (w *Warmer) Asked() int64 { return w.asked.Load() }

// Refused counts messages that were out of bounds.
func (w *Warmer) Refused() int64 { return w.refused.Load() }

// Run asks until ctx ends.
func (w *Warmer) Run(ctx context.Context) error {
	sub, err := w.deps.Bus.Subscribe(bus.SubjectWarmUp, "", w.hear)
	if err != nil {
		return fmt.Errorf("listen to warm-ups: %w", err)
	}
	for w.await(ctx) {
		// While nobody can hear it, a warm-up is better asked for later than queued.
		if w.deps.Bus.Connected() {
			w.ask(ctx)
		}
	}
	// Stop fails on a connection that is closed already, and then there is nothing
	// left to stop.
	_ = sub.Stop()
	return nil
}

// await waits until there is something to plan, planInterval at the least. It returns false
// when ctx ends.
func (w *Warmer) await(ctx context.Context) bool {
	if clock.Sleep(ctx, planInterval) != nil {
		return false
	}
	rest := time.NewTimer(w.deps.Planner.Rest(w.deps.Clock.Now()))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-w.deps.Planner.News():
	case <-ctx.Done():
		return false
	}
	return true
}

func (w *Warmer) ask(ctx context.Context) {
	for _, t := range w.deps.Planner.Plan(w.deps.Clock.Now()) {
		data, err := proto.Marshal(&eventsv1.WarmUp{
			ModelId: t.Model, ProviderId: t.Provider, NodeId: t.Node, Suspected: t.Suspected,
		})
		if err == nil {
			err = w.deps.Bus.Publish(ctx, bus.SubjectWarmUp, data, nil)
		}
		if err != nil {
			w.deps.Log.WarnContext(ctx, "a warm-up could not be asked for", "error", err)
			return
		}
		w.asked.Add(1)
		w.deps.Log.DebugContext(ctx, "a warm-up was asked for",
			"model", t.Model, "provider_id", t.Provider, "node_id", t.Node, "suspected", t.Suspected)
	}
}

func (w *Warmer) hear(_ context.Context, m bus.Message) {
	var msg eventsv1.WarmUp
	if err := proto.Unmarshal(m.Data, &msg); err != nil {
		w.refused.Add(1)
		return
	}
	target, ok := targetFromProto(&msg)
	if !ok {
		w.refused.Add(1)
		return
	}
	w.deps.Planner.Heard(target, w.deps.Clock.Now())
}
