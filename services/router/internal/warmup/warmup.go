// Package warmup decides which nodes are asked to load a model before a request waits for
// it.
//
// There are two causes. A model that was asked for within DemandFor, and for which at
// most ScarceNodes nodes are online, is kept loaded: nodes that have served none of it
// for RestedFor are asked. And when a request found all providers of a model busy, nodes
// are asked that offer the model, have nothing to do, and may not be ready. A node may
// not be ready if the model is unhealthy there, or if it has served none of it for
// KeptFor, which is how long engines usually keep a model loaded.
//
// A third cause comes from outside. A node on which a consumer's requests failed is
// suspected, and its answer decides whether it goes on to serve. A suspected node is
// asked whatever it has to do, at most once every SuspectInterval.
//
// Any other node is asked for a model at most once every AskInterval. Replicas see the
// same nodes and decide alike. So each waits for a random time before it asks, and does
// not ask if it hears another replica do so. A replica that starts treats all nodes as
// just used, so a restart causes no burst.
//
// A model of a provider that the verifier has shut counts as not online and is not asked
// for, because no request goes there.
//
// At most MaxModels models count as asked for, MaxShort models as short of capacity
// between two plans, MaxPending nodes as about to be asked and MaxAsked as asked, and a
// plan asks at most MaxAtOnce. What exceeds a bound is not asked.
package warmup

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/trust"
)

const (
	// DemandFor is how long a model counts as asked for.
	DemandFor = time.Hour
	// ScarceNodes is up to how many online nodes a model counts as scarce.
	ScarceNodes = 2
	// RestedFor is how long a node of a scarce model may serve none of it.
	RestedFor = 10 * time.Minute
	// KeptFor is how long after serving a model a node counts as ready for it.
	KeptFor = 5 * time.Minute
	// AskInterval is the least time between two warm-ups of one node for one model.
	AskInterval = 5 * time.Minute
	// SuspectInterval is the same for a suspected node. It is longer than the minute in
	// which an agent repeats its last outcome.
	SuspectInterval = 90 * time.Second
	// SuspectNodeInterval is the least time between two such warm-ups of one node for any
	// model, so that nobody makes a node load all of its models in turn.
	SuspectNodeInterval = 5 * time.Second
	// MaxModels bounds the models whose demand is remembered.
	MaxModels = 16_384
	// MaxShort bounds the models short of capacity that one plan looks at.
	MaxShort = 256
	// MaxPending bounds the nodes that are about to be asked.
	MaxPending = 1_024
	// MaxAsked bounds what is remembered as asked.
	MaxAsked = 8_192
	// MaxAtOnce bounds what one plan asks.
	MaxAtOnce = 64
)

const (
	// scanInterval is the pause between two looks for scarce models.
	scanInterval = 15 * time.Second
	// scarceSpread and shortSpread bound the random time for which an ask is put off.
	scarceSpread  = 20 * time.Second
	shortSpread   = time.Second
	suspectSpread = 500 * time.Millisecond
	// perShort bounds the nodes that are asked for one shortage, and walked the seats
	// that are looked at for them.
	perShort = 4
	walked   = 1_024
	// demandStep is how exactly the time of demand is remembered.
	demandStep = 10 * time.Second
)

// Target is a model of a node. An empty Node means all nodes of the provider, and an
// empty Provider all providers of the model.
type Target struct {
	Provider, Node, Model string
}

// Ask is a warm-up that is due.
type Ask struct {
	Target
	// Suspected reports whether the answer decides if the node goes on to serve.
	Suspected bool
}

// pending is an ask that has been put off.
type pending struct {
	due time.Time
	// rest is how long the node must have had nothing to do if it is still worth asking.
	// A suspected node is asked whatever it does.
	rest      time.Duration
	suspected bool
}

// Planner is safe for concurrent use.
type Planner struct {
	view  *presence.View
	trust *trust.Registry

	demand sync.Map // model to *atomic.Int64, Unix milliseconds
	models atomic.Int64

	mu      sync.Mutex
	random  *rand.Rand
	short   map[string]struct{}
	waiting map[Target]pending
	asked   map[Target]time.Time
	scanned time.Time
	news    chan struct{}
}

// New returns a planner for the nodes of a view. The seed makes replicas differ.
func New(view *presence.View, said *trust.Registry, seed [2]uint64) *Planner {
	return &Planner{
		view: view, trust: said,
		random:  rand.New(rand.NewPCG(seed[0], seed[1])), //nolint:gosec // spreads requests, guards nothing
		short:   map[string]struct{}{},
		waiting: map[Target]pending{}, asked: map[Target]time.Time{}, news: make(chan struct{}, 1),
	}
}

// Asked takes note of a request for a model.
func (p *Planner) Asked(model string, now time.Time) {
	at := now.UnixMilli()
	if v, ok := p.demand.Load(model); ok {
		last := v.(*atomic.Int64)
		if at-last.Load() > demandStep.Milliseconds() {
			last.Store(at)
		}
		return
	}
	if p.models.Add(1) > MaxModels {
		p.models.Add(-1)
		return
	}
	first := &atomic.Int64{}
	first.Store(at)
	if _, loaded := p.demand.LoadOrStore(model, first); loaded {
		p.models.Add(-1)
	}
}

// Short takes note of a request that found all providers of a model busy.
func (p *Planner) Short(model string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.short) < MaxShort {
		p.short[model] = struct{}{}
		p.ring()
	}
}

// News has a sign when there is something to plan before Rest is over.
func (p *Planner) News() <-chan struct{} { return p.news }

func (p *Planner) ring() {
	select {
	case p.news <- struct{}{}:
	default: // there is a sign already
	}
}

// Rest returns for how long nothing is to be planned without news.
func (p *Planner) Rest(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.short) > 0 {
		return 0 // a plan that could not be sent has taken none of them
	}
	next := p.scanned.Add(scanInterval)
	for _, w := range p.waiting {
		if w.due.Before(next) {
			next = w.due
		}
	}
	return max(next.Sub(now), 0)
}

// Suspect makes the planner ask a node soon, because a consumer's requests failed on it.
func (p *Planner) Suspect(t Target, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, known := p.waiting[t]
	if known && w.suspected || !known && len(p.waiting) >= MaxPending || !p.maySuspectLocked(t, now) {
		return
	}
	if !p.stands(t, now, pending{suspected: true}) {
		return
	}
	p.waiting[t] = pending{due: now.Add(time.Duration(p.random.Int64N(int64(suspectSpread)))), suspected: true}
	p.ring()
}

// Heard takes note of a warm-up that this or another replica has asked for.
func (p *Planner) Heard(t Target, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rememberLocked(t, now)
}

// Plan returns the nodes to ask now, and remembers them as asked.
func (p *Planner) Plan(now time.Time) []Ask {
	p.mu.Lock()
	defer p.mu.Unlock()
	for model := range p.short {
		p.relieveLocked(model, now)
	}
	clear(p.short)
	if now.Sub(p.scanned) >= scanInterval {
		p.scanned = now
		p.forgetLocked(now)
		p.scanLocked(now)
	}
	return p.takeLocked(now)
}

// forgetLocked drops what is too old to matter.
func (p *Planner) forgetLocked(now time.Time) {
	for t, at := range p.asked {
		if now.Sub(at) >= AskInterval {
			delete(p.asked, t)
		}
	}
	p.demand.Range(func(key, value any) bool {
		if now.Sub(time.UnixMilli(value.(*atomic.Int64).Load())) >= DemandFor {
			p.demand.Delete(key)
			p.models.Add(-1)
		}
		return true
	})
}

// scanLocked looks for scarce models that were asked for.
func (p *Planner) scanLocked(now time.Time) {
	p.demand.Range(func(key, _ any) bool {
		for _, tier := range presence.Tiers() {
			p.scanTierLocked(p.view.Tier(key.(string), tier), now)
		}
		return true
	})
}

// scanTierLocked plans warm-ups of the nodes of one tier where they are scarce. Nodes of the
// other tier do not count, because a request that this tier can serve should not go there.
func (p *Planner) scanTierLocked(seats []*presence.Seat, now time.Time) {
	var online [ScarceNodes]*presence.Seat
	n := 0
	for _, seat := range seats {
		if !seat.Online() || p.shut(seat) {
			continue
		}
		if n == ScarceNodes {
			return // not scarce
		}
		online[n] = seat
		n++
	}
	for _, seat := range online[:n] {
		p.putOff(seat, now, RestedFor, scarceSpread)
	}
}

// relieveLocked looks for nodes that could take a part of the load of a model.
func (p *Planner) relieveLocked(model string, now time.Time) {
	seats := p.view.Seats(model)
	if len(seats) == 0 {
		return
	}
	from := p.random.IntN(len(seats))
	found := 0
	for i := range min(len(seats), walked) {
		seat := seats[(from+i)%len(seats)]
		if !seat.Slots.Idle() {
			continue
		}
		rest := KeptFor
		if !seat.Offer.Healthy {
			rest = 0
		}
		if !p.putOff(seat, now, rest, shortSpread) {
			continue
		}
		if found++; found == perShort {
			return
		}
	}
}

// putOff plans to ask a node within the spread, and reports whether the node is worth it.
func (p *Planner) putOff(seat *presence.Seat, now time.Time, rest, spread time.Duration) bool {
	t := Target{seat.Session.Provider, seat.Session.Node, seat.Offer.Model}
	if _, known := p.waiting[t]; known || len(p.waiting) >= MaxPending || !p.may(t, AskInterval, now) ||
		!p.worth(seat, now, rest) {
		return false
	}
	p.waiting[t] = pending{due: now.Add(time.Duration(p.random.Int64N(int64(spread)))), rest: rest}
	return true
}

// worth reports whether a node takes warm-ups and has served none of the model for long
// enough.
func (p *Planner) worth(seat *presence.Seat, now time.Time, rest time.Duration) bool {
	if !p.takes(seat) {
		return false
	}
	load, _ := seat.Slots.Room(now)
	return load == 0 && seat.Slots.Rested(now) >= rest
}

// takes reports whether a node takes warm-ups and may have requests.
func (p *Planner) takes(seat *presence.Seat) bool {
	return seat.Session.TakesWarmups && seat.Session.Active && !seat.Session.Draining && !p.shut(seat)
}

// shut reports whether the verifier lets the model of a node have no requests.
func (p *Planner) shut(seat *presence.Seat) bool {
	return p.trust.ShutSeat(seat)
}

// may reports whether a node has not been asked within a pause.
func (p *Planner) may(t Target, pause time.Duration, now time.Time) bool {
	for _, heard := range [...]Target{t, {Provider: t.Provider, Model: t.Model}, {Model: t.Model}} {
		if at, ok := p.asked[heard]; ok && now.Sub(at) < pause {
			return false
		}
	}
	return true
}

// maySuspectLocked reports whether a suspected node has not been asked within its intervals.
func (p *Planner) maySuspectLocked(t Target, now time.Time) bool {
	at, asked := p.asked[nodeOf(t)]
	return p.may(t, SuspectInterval, now) && (!asked || now.Sub(at) >= SuspectNodeInterval)
}

// nodeOf returns the target under which the time is remembered at which a node was last
// asked because it was suspected.
func nodeOf(t Target) Target { return Target{Provider: t.Provider, Node: t.Node} }

// takeLocked returns the nodes that are due and still worth asking.
func (p *Planner) takeLocked(now time.Time) []Ask {
	var out []Ask
	for t, w := range p.waiting {
		if now.Before(w.due) {
			continue
		}
		if len(out) == MaxAtOnce {
			break
		}
		delete(p.waiting, t)
		may := p.may(t, AskInterval, now)
		if w.suspected {
			may = p.maySuspectLocked(t, now)
		}
		if may && p.stands(t, now, w) && p.rememberLocked(t, now) {
			if w.suspected {
				p.rememberLocked(nodeOf(t), now)
			}
			out = append(out, Ask{Target: t, Suspected: w.suspected})
		}
	}
	return out
}

// stands reports whether the reason for asking a node still holds.
func (p *Planner) stands(t Target, now time.Time, w pending) bool {
	for _, seat := range p.view.Of(t.Model, t.Provider) {
		if seat.Session.Node != t.Node {
			continue
		}
		if w.suspected {
			return p.takes(seat)
		}
		return p.worth(seat, now, w.rest)
	}
	return false
}

func (p *Planner) rememberLocked(t Target, now time.Time) bool {
	if _, known := p.asked[t]; !known && len(p.asked) >= MaxAsked {
		return false
	}
	p.asked[t] = now
	return true
}
