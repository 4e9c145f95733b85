// Package hubsim makes hubs for a simulator: the real dispatcher with its attempts,
// metering, journal and usage, on a disk in memory, with sessions, timers and a
// bus that the simulator provides.
//
// Nothing here runs by itself and nothing takes real time. An attempt is a
// coroutine: each call that tells it something returns when it waits again, or
// has ended. The journal is stepped. A hub that dies keeps running what it was
// doing to its end, on a disk that nobody looks at any more: its simulator must
// listen to nothing that it says then.
//
// What is not here: the WebSocket session itself (frames, credit, pings), the
// registry of keys and statuses, and presence.
package hubsim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"svc.internal/pkg/clock"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/events"
	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
	"svc.internal/services/provider-hub/internal/rpc"
	"svc.internal/services/provider-hub/internal/session"
)

// Names of what the simulator must speak of.
type (
	// Bus is a connection to NATS.
	Bus = events.Bus
	// Order is one attempt to serve a request.
	Order = dispatch.Order
	// End is an agent's last word on a stream.
	End = session.End
	// Failure is what the gateway hears of an attempt that failed.
	Failure = dispatch.Failure
	// Event is one piece of an answer.
	Event = dispatch.Event
	// Timer can be stopped and set again.
	Timer = dispatch.Timer
)

// What a session may say of an order or a stream.
var (
	ErrBusy = session.ErrBusy
	ErrGone = session.ErrGone
	ErrLost = session.ErrLost
)

// The times of hubs in production that a simulator plays.
const (
	SweepInterval = events.DefaultResettle / 6
	segment       = 8 << 10
)

// World is what a hub has outside of itself.
type World interface {
	// Bound tells whether the session that the order names is here.
	Bound(o *Order) bool
	// OpenStream begins the order on its session, or fails with ErrBusy or
	// ErrGone.
	OpenStream(a *Attempt) error
	// After is time.AfterFunc.
	After(d time.Duration, f func()) Timer
}

// Hub is one process of provider-hub.
type Hub struct {
	usage      *events.Usage
	dispatcher *dispatch.Dispatcher
	world      World
	// timers are those that no attempt has waited for yet.
	timers []*timer
	// opening is the attempt that begins.
	opening *Attempt
}

// Disk is a machine's disk.
type Disk struct{ sim *simdisk.Disk }

// NewDisk returns an empty one.
func NewDisk() Disk { return Disk{simdisk.New()} }

// Crash is the disk after a power cut, Kill after the death of the process.
func (d Disk) Crash(dice *rand.Rand) Disk { return Disk{d.sim.Crash(dice)} }

// Kill is like Crash.
func (d Disk) Kill() Disk { return Disk{d.sim.Kill()} }

// Put gives the disk a file, such as a segment that a hub wrote elsewhere.
func (d Disk) Put(name string, content []byte) { d.sim.Replace(name, content) }

// Before calls hook in front of each operation that changes the disk.
func (d Disk) Before(hook func(op string)) {
	d.sim.Hook = func(op simdisk.Op, _ string) error {
		hook(string(op))
		return nil
	}
}

// Open starts a hub on a disk. With noSync, which is a fault to be found, the
// disk only says that it has synced.
func Open(id string, disk Disk, conn Bus, c clock.Clock, world World, noSync bool) (*Hub, error) {
	log := slog.New(slog.DiscardHandler)
	h := &Hub{usage: events.NewUsage(id, conn, 0, events.UsageDeps{Clock: c, Log: log}), world: world}
	var on journal.Disk = disk.sim
	if noSync {
		on = liar{on}
	}
	err := h.usage.Open(journal.Config{Disk: on, Clock: c, SegmentBytes: segment, MaxBytes: 1 << 30, Stepped: true})
	if err != nil {
		return nil, fmt.Errorf("open the journal of %s: %w", id, err)
	}
	h.dispatcher = dispatch.New(dispatch.Config{}, dispatch.Env{Find: h.find, After: h.after, Wait: wait},
		h.usage, func(dispatch.Report) {}, c, log)
	h.dispatcher.Open()
	return h, nil
}

// find is the dispatcher's way to sessions.
func (h *Hub) find(o *Order) (dispatch.Session, bool) { return place{h, o}, h.world.Bound(o) }

// Abort lets attempts end at once, as a hub that shuts down.
func (h *Hub) Abort() { h.dispatcher.Abort() }

// Step lets the journal's writer work.
func (h *Hub) Step() { h.usage.Journal().Step() }

// Publish publishes what waits; Earlier, Sweep what is due again.
func (h *Hub) Publish(ctx context.Context) { h.usage.PublishWaiting(ctx) }

// Earlier publishes what an earlier process left behind.
func (h *Hub) Earlier(ctx context.Context) { h.usage.SweepEarlier(ctx) }

// Sweep publishes again what is unsettled for too long.
func (h *Hub) Sweep(ctx context.Context) { h.usage.Sweep(ctx) }

// OnSettled takes a notice.
func (h *Hub) OnSettled(notice []byte) error { return h.usage.OnSettled(notice) }

// Unsettled is how many attempts wait to be settled, or their void to be taken, Open how many the journal
// knows that have no end.
func (h *Hub) Unsettled() (waiting, open, final int) {
	u := h.usage.Journal().Usage()
	return h.usage.Unsettled() + h.usage.Voids(), u.Open, u.Unsettled
}

// OrderOf reads what opens an attempt.
func OrderOf(m *hubv1.DispatchOpen) (*Order, error) { return rpc.Order(m) }

// liar is a disk that does not sync.
type liar struct{ journal.Disk }

func (l liar) Create(name string) (journal.File, error) {
	f, err := l.Disk.Create(name)
	return liarFile{f}, err
}

func (l liar) Open(name string) (journal.File, error) {
	f, err := l.Disk.Open(name)
	return liarFile{f}, err
}

type liarFile struct{ journal.File }

func (liarFile) Sync() error { return nil }
