// Package presence is the live view of which session serves which model. It is put
// together from what hubs report of their sessions.
//
// Package sessions has the rules of order: which of a hub's reports count, when a session
// ends, and which session of a node serves. The other sessions wait, invisible.
//
// Readers see, for each model, an immutable list that writers replace (copy on write).
// They take no lock that a writer holds while it works, except where they look providers
// up by name.
//
// A view has at most MaxSessions sessions, MaxHubs hubs, and MaxModels models of each
// session (enforced where reports are decoded). What exceeds a bound is dropped and
// counted.
package presence

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/sessions"
	"svc.internal/services/router/internal/slot"
)

const (
	// Expiry is how long a session lives after it was last confirmed.
	Expiry = sessions.Expiry
	// MaxSessions bounds the view.
	MaxSessions = 200_000
	// MaxHubs bounds the hubs whose reports are taken.
	MaxHubs = sessions.MaxHubs
	// MaxModels bounds the models of one session.
	MaxModels = 256
)

// Offer is one model that a session serves.
type Offer struct {
	Model   string
	Healthy bool
	// Window is the reported context in tokens; 0 where none is reported.
	Window       int64
	Capacity     int
	InFlight     int
	Quantization string
}

// Mode is how a provider is reached: a number of svc.events.v1.ConnectionMode, above 0. A
// later hub may use a number that this release does not know.
type Mode int32

// WebSocket is the mode of a session that the provider's agent holds.
const WebSocket Mode = 1

// Tier says in which turn a session is tried.
type Tier uint8

// The tiers. A session of the second is tried after all of the first, and never competes
// with one of them.
const (
	FirstTier Tier = iota
	SecondTier
)

// Tiers lists the tiers in their order.
func Tiers() [2]Tier { return [2]Tier{FirstTier, SecondTier} }

// Session is one live provider connection as a hub describes it.
type Session struct {
	Provider     string
	ProviderName string
	Node         string
	Epoch        int64
	Mode         Mode
	// Vendor reports whether the provider is a vendor of gateway models, which the verifier
	// does not judge.
	Vendor   bool
	Active   bool
	Draining bool
	Offers   []Offer
	// Capabilities are in ascending order.
	Capabilities []string
	// MaxRequestBytes is the largest body that the session takes; 0 where it sets no
	// limit.
	MaxRequestBytes int64
	Region          string
	// Capacity bounds the requests over all models; 0 where the session sets no limit.
	Capacity int
	// Said is how many requests the engines have by the agent's own count, including
	// requests of others and requests that wait.
	Said int
	// Probation reports whether the provider is in its first day. Uptime is the share of
	// the last 30 days in which it was online; it counts if UptimeKnown.
	Probation    bool
	Uptime       float64
	UptimeKnown  bool
	TakesWarmups bool
}

// Tier returns the session's tier. A session of an unknown mode is of the second tier, because
// the mode may be meant to come after a WebSocket.
func (s *Session) Tier() Tier {
	if s.Mode > WebSocket {
		return SecondTier
	}
	return FirstTier
}

// Report is one message of a hub.
type Report struct {
	Hub         string
	Incarnation int64
	Address     string
	Revision    uint64
	// Full marks a part of a full report. Part counts from 0 to Parts-1.
	Full        bool
	Part, Parts uint32
	Sessions    []Session
	Ended       []int64
}

// Seat is one session's place in the list of one model. It never changes, except its
// Slots.
type Seat struct {
	Session *Session
	Offer   *Offer
	Hub     string
	Address string
	Slots   *slot.Counter
	owner   *record
}

// Online reports whether consumers may be sent here at all.
func (s *Seat) Online() bool {
	return s.Session.Active && !s.Session.Draining && s.Offer.Healthy
}

// View is safe for concurrent use.
type View struct {
	changed func(model string)

	// models maps a model's id to its *list. It has its own locks, so that
	// readers never wait for mu.
	models sync.Map

	mu  sync.Mutex
	set *sessions.Set[nodeKey, *entry]
	// providers lists the sessions of each.
	providers map[string][]*record
	touched   map[string]*edit
}

type nodeKey struct{ provider, node string }

// record is one session of one hub, and entry what the view keeps of it.
type (
	record = sessions.Record[nodeKey, *entry]
	entry  struct {
		session *Session
		address string
		load    *slot.Pool
		slots   map[string]*slot.Counter
	}
)

// New returns an empty view. changed is called, without locks held, for each model whose
// seats or loads a report has changed.
func New(changed func(model string)) *View { return newBounded(changed, MaxSessions) }

// newBounded returns a view with room for limit sessions.
func newBounded(changed func(model string), limit int) *View {
	v := &View{changed: changed, providers: map[string][]*record{}, touched: map[string]*edit{}}
	v.set = sessions.New(limit, sessions.Hooks[nodeKey, *entry]{
		Serve: v.indexLocked, Retire: v.unindexLocked, Removed: v.forgetLocked,
	})
	return v
}

// Apply takes over a report and reports whether it completed a full one.
func (v *View) Apply(r Report, now time.Time) (complete bool) {
	v.mu.Lock()
	h := v.set.Hear(sessions.Report{Hub: r.Hub, Incarnation: r.Incarnation, Revision: r.Revision, Full: r.Full,
		Part: r.Part, Parts: r.Parts}, now)
	if h == nil {
		v.mu.Unlock()
		return false
	}
	for i := range r.Sessions {
		v.putLocked(h, &r.Sessions[i], r.Address, now)
	}
	for _, epoch := range r.Ended {
		v.set.End(h, epoch)
	}
	complete = v.set.Complete(h)
	models := v.publishLocked()
	v.mu.Unlock()
	for _, m := range models {
		v.changed(m)
	}
	return complete
}

// Expire drops sessions that nothing has confirmed for Expiry, and bookings that are too
// old.
func (v *View) Expire(now time.Time) {
	v.mu.Lock()
	v.set.Expire(now, func(rec *record) {
		expired := 0
		for _, c := range rec.Value.slots {
			expired += c.Expire(now)
		}
		if expired > 0 { // another request may want the slot
			for model := range rec.Value.slots {
				v.touchLocked(model)
			}
		}
	})
	models := v.publishLocked()
	v.mu.Unlock()
	for _, m := range models {
		v.changed(m)
	}
}

// Confirm confirms all sessions and hubs, for a time in which their reports could not be
// heard.
func (v *View) Confirm(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set.Confirm(now)
}

// putLocked takes over one session, unless something newer is known of it.
func (v *View) putLocked(h *sessions.Hub[nodeKey, *entry], s *Session, address string, now time.Time) {
	rec, fresh := v.set.Put(h, s.Epoch, nodeKey{s.Provider, s.Node})
	switch {
	case rec == nil:
		return
	case fresh:
		rec.Value = &entry{load: slot.NewPool()}
		v.providers[s.Provider] = append(v.providers[s.Provider], rec)
		rec.Value.replace(s, address)
		v.set.Add(rec)
	case !same(rec.Value.session, s) || rec.Value.address != address:
		v.set.Change(rec, func() { rec.Value.replace(s, address) })
	}
	for _, o := range s.Offers {
		rec.Value.slots[o.Model].Report(o.Capacity, o.InFlight, now)
		v.touchLocked(o.Model)
	}
	rec.Value.load.Report(s.Capacity, s.Said, now)
}

// replace gives a session its new description, and keeps the counters of the models that
// stay.
func (e *entry) replace(s *Session, address string) {
	own := *s
	own.Offers = slices.Clone(s.Offers)
	e.session, e.address = &own, address
	slots := make(map[string]*slot.Counter, len(own.Offers))
	for _, o := range own.Offers {
		if slots[o.Model] = e.slots[o.Model]; slots[o.Model] == nil {
			slots[o.Model] = e.load.Counter()
		}
	}
	for model, c := range e.slots {
		if slots[model] == nil {
			e.load.Drop(c)
		}
	}
	e.slots = slots
}

// forgetLocked forgets a session that was removed.
func (v *View) forgetLocked(rec *record) {
	provider := rec.Value.session.Provider
	left := slices.DeleteFunc(v.providers[provider], func(r *record) bool { return r == rec })
	if len(left) == 0 {
		delete(v.providers, provider)
		return
	}
	v.providers[provider] = left
}

// uptimeStep is the least difference in uptime that makes a new description: twenty
// minutes of the 30 days.
const uptimeStep = 0.0005

// same reports whether two descriptions of a session differ in load only, or by less than
// uptimeStep.
func same(a, b *Session) bool {
	return a.ProviderName == b.ProviderName && a.Mode == b.Mode && a.Vendor == b.Vendor &&
		a.Active == b.Active && a.Draining == b.Draining &&
		a.MaxRequestBytes == b.MaxRequestBytes && a.Region == b.Region &&
		a.Probation == b.Probation && a.TakesWarmups == b.TakesWarmups &&
		a.UptimeKnown == b.UptimeKnown && math.Abs(a.Uptime-b.Uptime) < uptimeStep &&
		slices.Equal(a.Capabilities, b.Capabilities) &&
		slices.EqualFunc(a.Offers, b.Offers, func(x, y Offer) bool {
			return x.Model == y.Model && x.Healthy == y.Healthy && x.Window == y.Window && x.Quantization == y.Quantization
		})
}

// Knows reports whether a provider has a session now, whatever its state.
func (v *View) Knows(provider string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.providers[provider]) > 0
}

// Size returns how many sessions the view has, how many hubs they are of, and for how
// many there was no room.
func (v *View) Size() (sessions, hubs int, dropped int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	sessions, _, hubs, dropped = v.set.Size()
	return sessions, hubs, dropped
}

// Hubs returns the hubs that are heard, by id.
func (v *View) Hubs() []sessions.HubState {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.set.Hubs()
}

// Models lists the ids of all models that have a seat, in order.
func (v *View) Models() []string {
	ids := map[string]struct{}{}
	v.models.Range(func(key, _ any) bool {
		ids[key.(string)] = struct{}{}
		return true
	})
	return slices.Sorted(maps.Keys(ids))
}

// Totals are sums over all models.
type Totals struct {
	// Models counts the models that have a seat, Candidates the seats that consumers may
	// be sent to, and Bookings the slots that are booked.
	Models, Candidates, Bookings int
}

// Totals walks every seat, so it is called when nobody waits. shut reports whether a seat
// gets no requests for a reason that the view does not know.
func (v *View) Totals(shut func(*Seat) bool) Totals {
	var t Totals
	v.models.Range(func(_, value any) bool {
		t.Models++
		for _, seat := range value.(*list).seats.Load().all {
			if seat.Online() && !shut(seat) {
				t.Candidates++
			}
			t.Bookings += seat.Slots.Booked()
		}
		return true
	})
	return t
}
