// Package hubsim makes hubs for a simulator: the real dispatcher with its attempts,
// metering, journal and usage, on a disk in memory, with sessions, timers and a bus that
// the simulator provides.
//
// Nothing here runs by itself and nothing takes real time. An attempt is a coroutine:
// each call that gives it something returns when the attempt waits again or has ended.
// The journal is stepped. The attempts of a hub that dies run to their end on a disk that
// nobody reads any more, and the simulator must ignore everything that they say then.
//
// Left out are the WebSocket session (frames, credit, pings), the registry of keys and
// statuses, and presence.
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

// Names that the simulator needs.
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

// The errors of sessions and streams.
var (
	ErrBusy = session.ErrBusy
	ErrGone = session.ErrGone
	ErrLost = session.ErrLost
)

// The times of real hubs that a simulator plays.
const (
	SweepInterval = events.DefaultResettle / 6
	segment       = 8 << 10
)

// World is what a hub needs from outside.
type World interface {
	// Bound reports whether the session that the order names is here.
	Bound(o *Order) bool
	// External reports whether a hub reaches the provider of the order's session by calling
	// the provider's server.
	External(o *Order) bool
	// OpenStream begins the order on its session. It fails with ErrBusy or ErrGone.
	OpenStream(a *Attempt) error
	// After is time.AfterFunc.
	After(d time.Duration, f func()) Timer
}

// Hub is one process of provider-hub.
type Hub struct {
	usage      *events.Usage
	dispatcher *dispatch.Dispatcher
	world      World
	// timers are the timers that no attempt has waited for yet.
	timers []*timer
	// opening is the attempt that begins.
	opening *Attempt
}

// Disk is a machine's disk.
type Disk struct{ sim *simdisk.Disk }

// NewDisk returns an empty disk.
func NewDisk() Disk { return Disk{simdisk.New()} }

// Crash returns the disk after a power cut.
func (d Disk) Crash(dice *rand.Rand) Disk { return Disk{d.sim.Crash(dice)} }

// Kill returns the disk after the death of the process.
func (d Disk) Kill() Disk { return Disk{d.sim.Kill()} }

// Put adds a file, such as a segment that a hub wrote elsewhere.
func (d Disk) Put(name string, content []byte) { d.sim.Replace(name, content) }

// Before calls hook in front of each operation that changes the disk.
func (d Disk) Before(hook func(op string)) {
	d.sim.Hook = func(op simdisk.Op, _ string) error {
		hook(string(op))
		return nil
	}
}

// Open starts a hub on a disk. With noSync, which is a planted fault, the disk reports
// syncs that it has not done.
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
	h.dispatcher = dispatch.New(dispatch.Config{}, dispatch.Env{Find: h.find, Mode: modeOf, After: h.after, Wait: wait},
		h.usage, func(dispatch.Report) {}, c, log)
	h.dispatcher.Open()
	return h, nil
}

// find finds the session of an order for the dispatcher.
func (h *Hub) find(o *Order) (dispatch.Session, bool) { return place{h, o}, h.world.Bound(o) }

// modeOf says how the provider of a session is reached. There are no vendors.
func modeOf(s dispatch.Session) (external, vendor bool) {
	p := s.(place)
	return p.hub.world.External(p.order), false
}

// Abort ends attempts at once, as in a hub that shuts down.
func (h *Hub) Abort() { h.dispatcher.Abort() }

// Step runs the journal's writer.
func (h *Hub) Step() { h.usage.Journal().Step() }

// Publish publishes the usage that waits.
func (h *Hub) Publish(ctx context.Context) { h.usage.PublishWaiting(ctx) }

// Earlier publishes the usage that an earlier process left behind.
func (h *Hub) Earlier(ctx context.Context) { h.usage.SweepEarlier(ctx) }

// Sweep publishes usage again that is unsettled for too long.
func (h *Hub) Sweep(ctx context.Context) { h.usage.Sweep(ctx) }

// OnSettled takes a notice of settled requests.
func (h *Hub) OnSettled(notice []byte) error { return h.usage.OnSettled(notice) }

// Unsettled counts the attempts that wait to be settled or whose void waits to be taken,
// the attempts of the journal without an end, and those with one.
func (h *Hub) Unsettled() (waiting, open, final int) {
	u := h.usage.Journal().Usage()
	return h.usage.Unsettled() + h.usage.Voids(), u.Open, u.Unsettled
}

// OrderOf reads the order of the message that opens an attempt.
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
