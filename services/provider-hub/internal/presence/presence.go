// Package presence keeps a record of which nodes were connected to this hub and when, of
// what was seen of them, and of the hub's own runs. Uptime is measured from it.
//
// A Recorder is called for every connection that begins and ends. It writes in one
// transaction every 10 s, and half a second after a connection has begun or ended. Each
// time it also writes that the hub is there. A connection that is open in the record
// lasts for as long as its hub says so, so a connection costs a write only at its begin
// and its end. Where a hub is killed, any other ends what it left open, as of when it was
// heard last and as the platform's doing. A hub that was taken for dead and is not opens
// it again.
//
// What could not be written is kept and written later. At most 65,536 changes are kept.
// Beyond that, connections that have ended are forgotten, and the next page that is
// written ends all connections in the record that do not stand. A connection that its
// node gave up within 5 s leaves the record, so that one node cannot fill it.
package presence

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/cadence"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/session"
)

const (
	recordInterval = 10 * time.Second
	recordDelay    = 500 * time.Millisecond
	recordTime     = 10 * time.Second
	maxPending     = 65_536
	brief          = 5 * time.Second
)

// EndedBy says who ended a connection.
type EndedBy string

// The parties that end connections.
const (
	ByPlatform EndedBy = "platform"
	ByProvider EndedBy = "provider"
)

// Run is one life of a hub.
type Run struct {
	HubID       string
	Incarnation int64
	Started     time.Time
}

// Connection is one connection of one node; Ended is zero while it stands.
type Connection struct {
	Epoch          int64
	Provider       ids.ProviderID
	Node           string
	Started, Ended time.Time
	EndedBy        EndedBy
}

// Brief reports whether the node gave the connection up at once. Such connections are not
// kept, because a node that does nothing but reconnect would fill the record.
func (c Connection) Brief() bool {
	return c.EndedBy == ByProvider && c.Ended.Sub(c.Started) < brief
}

// Machine names one machine of a provider.
type Machine struct {
	Provider ids.ProviderID
	Node     string
}

// Seen is what was seen of a machine.
type Seen struct {
	Machine
	Name, AgentVersion, Dialect string
	Hardware                    *gpu.Report
	// Cut says which claims of models were cut; empty for none.
	Cut      string
	LastSeen time.Time
}

// Replaced counts how often one live connection of a machine took another's place.
type Replaced struct {
	Machine
	Times int
}

// Warmed is the error of a machine's last warm-up; empty is success.
type Warmed struct {
	Machine
	Error string
}

// Page is what is written at once. Every list is sorted and has no entry twice.
type Page struct {
	At time.Time
	// First is the first page of a run. Last is the last one, which ends the run and
	// everything that stands. Lost reports that ends of connections were forgotten.
	First, Last, Lost bool
	Connections       []Connection
	Nodes             []Seen
	Replaced          []Replaced
	Warmed            []Warmed
	// Live lists the epochs that stand, none on the last page.
	Live func() []int64
}

// Store keeps pages. Writing one again changes nothing but Replaced.
type Store interface {
	Record(ctx context.Context, run Run, page Page) error
}

// live is a connection that stands.
type live struct {
	connection Connection
	// told is the hardware that was written.
	told    *gpu.Report
	cut     string // as it was written
	written bool
}

// Recorder gathers and writes. It is safe for concurrent use.
type Recorder struct {
	run   Run
	store Store
	clock clock.Clock
	log   *slog.Logger
	wake  chan struct{}

	stopping  atomic.Bool
	forgotten atomic.Int64

	writing sync.Mutex // held while a page is written
	first   bool

	mu       sync.Mutex
	live     map[*session.Session]*live
	pending  map[int64]Connection // by epoch
	look     map[*session.Session]struct{}
	left     map[Machine]Seen // of sessions that are over
	replaced map[Machine]int
	warmed   map[Machine]string
	lost     bool
}

// NewRecorder returns the recorder of a hub's life that begins now.
func NewRecorder(hubID string, store Store, c clock.Clock, log *slog.Logger) *Recorder {
	now := c.Now()
	return &Recorder{
		run:   Run{HubID: hubID, Incarnation: now.UnixMilli(), Started: now},
		store: store, clock: c, log: log, wake: make(chan struct{}, 1), first: true,
		live: map[*session.Session]*live{}, pending: map[int64]Connection{}, look: map[*session.Session]struct{}{},
		left: map[Machine]Seen{}, replaced: map[Machine]int{}, warmed: map[Machine]string{},
	}
}

// Began notes that a session stands.
func (r *Recorder) Began(s *session.Session) {
	who := s.Identity()
	c := Connection{Epoch: who.Epoch, Provider: who.ProviderID, Node: who.NodeID, Started: r.clock.Now()}
	r.mu.Lock()
	r.live[s] = &live{connection: c}
	r.look[s] = struct{}{}
	r.keepLocked(c)
	r.mu.Unlock()
	r.signal()
}

// Ended notes that a session that had begun has ended. While the hub stops, the hub ended
// it, whoever hung up. Ended takes the session's lock.
func (r *Recorder) Ended(s *session.Session) {
	now, by := r.clock.Now(), ByProvider
	last := seen(s, now)
	if r.stopping.Load() {
		by = ByPlatform
	}
	r.mu.Lock()
	if l := r.live[s]; l != nil {
		delete(r.live, s)
		l.connection.Ended, l.connection.EndedBy = now, by
		r.keepLocked(l.connection)
		if _, more := r.left[last.Machine]; more || len(r.left) < maxPending {
			r.left[last.Machine] = last
		}
		delete(r.look, s)
	}
	r.mu.Unlock()
	r.signal()
}

func (r *Recorder) keepLocked(c Connection) {
	if _, known := r.pending[c.Epoch]; !known && len(r.pending) >= maxPending {
		r.lost = true
		r.forgotten.Add(1)
		return
	}
	r.pending[c.Epoch] = c
}

// Touched notes that a session has changed. It takes no lock of a session.
func (r *Recorder) Touched(s *session.Session) {
	r.mu.Lock()
	if r.live[s] != nil {
		r.look[s] = struct{}{}
	}
	r.mu.Unlock()
}

// Replaced notes that a live session was closed because its node connected again.
func (r *Recorder) Replaced(s *session.Session) {
	who := s.Identity()
	at := Machine{who.ProviderID, who.NodeID}
	r.mu.Lock()
	if _, more := r.replaced[at]; more || len(r.replaced) < maxPending {
		r.replaced[at]++
	}
	r.mu.Unlock()
}

// Warmed notes the outcome of a warm-up; an empty text is success.
func (r *Recorder) Warmed(s *session.Session, fault string) {
	who := s.Identity()
	at := Machine{who.ProviderID, who.NodeID}
	r.mu.Lock()
	if _, more := r.warmed[at]; more || len(r.warmed) < maxPending {
		r.warmed[at] = fault
	}
	r.mu.Unlock()
	r.signal()
}

// Stopping notes that from now on connections end because the hub does.
func (r *Recorder) Stopping() { r.stopping.Store(true) }

// Forgotten counts connections whose begin or end found no room.
func (r *Recorder) Forgotten() int64 { return r.forgotten.Load() }

// Pending is how many connections wait to be written.
func (r *Recorder) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending)
}

func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends, and then that the hub has ended. After each page with
// something new of machines it calls seen, with the context of that page.
func (r *Recorder) Run(ctx context.Context, seen func(context.Context)) error {
	every := time.NewTicker(recordInterval)
	defer every.Stop()
	for r.record(ctx, false, seen); cadence.Next(ctx, every.C, r.wake, recordDelay); {
		r.record(ctx, false, seen)
	}
	r.record(context.WithoutCancel(ctx), true, seen)
	return nil
}

func (r *Recorder) record(ctx context.Context, last bool, seen func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	machines, err := r.write(ctx, last)
	switch {
	case err != nil && ctx.Err() != context.Canceled:
		r.log.Warn("presence was not recorded", "error", err, "waiting", r.Pending())
	case machines > 0:
		seen(ctx)
	}
}

// Write writes what there is to write, and that the hub is there; with last, that the hub
// and everything that stands have ended.
func (r *Recorder) Write(ctx context.Context, last bool) error {
	_, err := r.write(ctx, last)
	return err
}

// write is Write, and counts the machines of which something new was written.
func (r *Recorder) write(ctx context.Context, last bool) (machines int, err error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	page, of := r.page(last)
	if err := r.store.Record(ctx, r.run, page); err != nil {
		r.restore(page, of)
		return 0, err
	}
	r.first = false
	return len(page.Nodes), nil
}

// sources are what the nodes of a page were made from.
type sources struct {
	look map[*session.Session]struct{}
	left map[Machine]Seen
}

// page takes what is to be written.
func (r *Recorder) page(last bool) (Page, sources) {
	r.mu.Lock()
	page := Page{At: r.clock.Now(), First: r.first, Last: last, Lost: r.lost, Live: r.epochs}
	if last {
		page.Live = func() []int64 { return []int64{} }
	}
	for _, c := range r.pending {
		page.Connections = append(page.Connections, c)
	}
	for at, times := range r.replaced {
		page.Replaced = append(page.Replaced, Replaced{at, times})
	}
	for at, fault := range r.warmed {
		page.Warmed = append(page.Warmed, Warmed{at, fault})
	}
	of := sources{r.look, r.left}
	r.pending, r.look, r.left = map[int64]Connection{}, map[*session.Session]struct{}{}, map[Machine]Seen{}
	r.replaced, r.warmed, r.lost = map[Machine]int{}, map[Machine]string{}, false
	r.mu.Unlock()
	page.Nodes = r.nodes(of, page.At)
	slices.SortFunc(page.Connections, func(a, b Connection) int { return cmp.Compare(a.Epoch, b.Epoch) })
	slices.SortFunc(page.Nodes, func(a, b Seen) int { return compare(a.Machine, b.Machine) })
	slices.SortFunc(page.Replaced, func(a, b Replaced) int { return compare(a.Machine, b.Machine) })
	slices.SortFunc(page.Warmed, func(a, b Warmed) int { return compare(a.Machine, b.Machine) })
	return page, of
}

// nodes reads sessions, which takes their locks, and leaves out the sessions of which
// nothing new is seen.
func (r *Recorder) nodes(of sources, at time.Time) []Seen {
	all := maps.Clone(of.left)
	for s := range of.look {
		now := seen(s, at)
		r.mu.Lock()
		if l := r.live[s]; l != nil && (!l.written || l.told != now.Hardware || l.cut != now.Cut) {
			l.written, l.told, l.cut = true, now.Hardware, now.Cut
			all[now.Machine] = now
		}
		r.mu.Unlock()
	}
	return slices.Collect(maps.Values(all))
}

func seen(s *session.Session, at time.Time) Seen {
	v, _ := s.View()
	return Seen{
		Machine: Machine{v.ProviderID, v.NodeID}, Name: v.NodeName, AgentVersion: v.AgentVersion, Dialect: v.Dialect,
		Hardware: v.Hardware, Cut: session.Cuts(v.Offers), LastSeen: at,
	}
}

// restore takes back what could not be written. What came since is newer.
func (r *Recorder) restore(page Page, of sources) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = r.lost || page.Lost
	for _, c := range page.Connections {
		if _, newer := r.pending[c.Epoch]; !newer {
			r.keepLocked(c)
		}
	}
	for _, p := range page.Replaced {
		r.replaced[p.Machine] += p.Times
	}
	for _, w := range page.Warmed {
		if _, newer := r.warmed[w.Machine]; !newer {
			r.warmed[w.Machine] = w.Error
		}
	}
	for s := range of.look {
		if l := r.live[s]; l != nil {
			l.written = false
			r.look[s] = struct{}{}
		}
	}
	for at, n := range of.left {
		if _, newer := r.left[at]; !newer && len(r.left) < maxPending {
			r.left[at] = n
		}
	}
}

func (r *Recorder) epochs() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]int64, 0, len(r.live))
	for _, l := range r.live {
		all = append(all, l.connection.Epoch)
	}
	return all
}

func compare(a, b Machine) int {
	if c := slices.Compare(a.Provider[:], b.Provider[:]); c != 0 {
		return c
	}
	return cmp.Compare(a.Node, b.Node)
}
