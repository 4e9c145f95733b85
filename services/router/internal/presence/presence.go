// Package presence is the live view of which session serves which model. It is put
// together from what hubs report of their sessions.
//
// Reports of a hub are ordered by the hub's incarnation, and within an incarnation by
// revision. A newer incarnation replaces all that an older one reported. Each session
// keeps the revision that last named it. So messages that arrive late or out of order
// end in the same view as the same messages in order:
//
//   - the newest revision that names a session decides what the session is;
//   - a session that has ended never comes back, because an epoch is used once;
//   - a session that a complete full report does not name is removed, unless a later
//     revision names it; sessions in an older report are ignored.
//
// The parts of one full report carry consecutive revisions. A full report that never
// becomes complete removes nothing. A session that nothing confirms for Expiry is
// removed, which also covers a hub that dies. Of several sessions of one provider's node
// the session with the newest epoch serves. The other sessions wait, invisible, until
// they end.
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

	"svc.internal/services/router/internal/slot"
)

const (
	// Expiry is how long a session lives after it was last confirmed.
	Expiry = 30 * time.Second
	// MaxSessions bounds the view.
	MaxSessions = 200_000
	// MaxHubs bounds the hubs whose reports are taken.
	MaxHubs = 1_024
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

// Session is one live provider connection as a hub describes it.
type Session struct {
	Provider     string
	ProviderName string
	Node         string
	Epoch        int64
	Active       bool
	Draining     bool
	Offers       []Offer
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

	mu    sync.Mutex
	hubs  map[string]*hub
	nodes map[nodeKey][]*record
	// providers lists the sessions of each.
	providers map[string][]*record
	sessions  int
	dropped   int64
	limit     int
	touched   map[string]*edit
}

type nodeKey struct{ provider, node string }

// record is one session of one hub.
type record struct {
	hub       *hub
	session   *Session
	address   string
	revision  uint64
	confirmed time.Time
	load      *slot.Pool
	slots     map[string]*slot.Counter
	indexed   bool
}

// New returns an empty view. changed is called, without locks held, for each model whose
// seats or loads a report has changed.
func New(changed func(model string)) *View {
	return &View{
		changed: changed, hubs: map[string]*hub{}, nodes: map[nodeKey][]*record{},
		providers: map[string][]*record{}, limit: MaxSessions, touched: map[string]*edit{},
	}
}

// Apply takes over a report and reports whether it completed a full one.
func (v *View) Apply(r Report, now time.Time) (complete bool) {
	v.mu.Lock()
	h := v.hubOfLocked(r)
	if h == nil {
		v.mu.Unlock()
		return false
	}
	h.heard = now
	for i := range r.Sessions {
		v.putLocked(h, r, &r.Sessions[i], now)
	}
	for _, epoch := range r.Ended {
		v.endLocked(h, epoch, r.Revision)
	}
	if r.Full {
		complete = v.fullLocked(h, r)
	}
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
	for _, h := range v.hubs {
		for epoch, rec := range h.sessions {
			if now.Sub(rec.confirmed) >= Expiry {
				v.removeLocked(h, epoch)
				continue
			}
			expired := 0
			for _, c := range rec.slots {
				expired += c.Expire(now)
			}
			if expired > 0 { // another request may want the slot
				for model := range rec.slots {
					v.touchLocked(model)
				}
			}
		}
		if len(h.sessions) == 0 && now.Sub(h.heard) >= Expiry {
			delete(v.hubs, h.id)
		}
	}
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
	for _, h := range v.hubs {
		h.heard = now
		for _, rec := range h.sessions {
			rec.confirmed = now
		}
	}
}

// putLocked takes over one session, unless something newer is known of it.
func (v *View) putLocked(h *hub, r Report, s *Session, now time.Time) {
	if r.Revision < h.fullFrom || h.ended[s.Epoch] != 0 {
		return
	}
	rec := h.sessions[s.Epoch]
	if rec == nil {
		if v.sessions >= v.limit {
			v.dropped++
			return
		}
		v.sessions++
		rec = &record{hub: h, load: slot.NewPool()}
		v.providers[s.Provider] = append(v.providers[s.Provider], rec)
		h.sessions[s.Epoch] = rec
		v.replaceLocked(rec, s, r.Address)
		key := nodeKey{s.Provider, s.Node}
		v.nodes[key] = append(v.nodes[key], rec)
		v.electLocked(key)
	} else if r.Revision <= rec.revision || rec.session.Provider != s.Provider || rec.session.Node != s.Node {
		return
	} else if !same(rec.session, s) || rec.address != r.Address {
		v.replaceLocked(rec, s, r.Address)
	}
	rec.revision, rec.confirmed = r.Revision, now
	for _, o := range s.Offers {
		rec.slots[o.Model].Report(o.Capacity, o.InFlight, now)
		v.touchLocked(o.Model)
	}
	rec.load.Report(s.Capacity, s.Said, now)
}

// replaceLocked gives a record its new description, and keeps the counters of the models that
// stay.
func (v *View) replaceLocked(rec *record, s *Session, address string) {
	serves := rec.indexed
	if serves {
		v.unindexLocked(rec)
	}
	own := *s
	own.Offers = slices.Clone(s.Offers)
	rec.session, rec.address = &own, address
	slots := make(map[string]*slot.Counter, len(own.Offers))
	for _, o := range own.Offers {
		if slots[o.Model] = rec.slots[o.Model]; slots[o.Model] == nil {
			slots[o.Model] = rec.load.Counter()
		}
	}
	for model, c := range rec.slots {
		if slots[model] == nil {
			rec.load.Drop(c)
		}
	}
	rec.slots = slots
	if serves {
		v.indexLocked(rec)
	}
}

func (v *View) endLocked(h *hub, epoch int64, revision uint64) {
	if len(h.ended) >= maxEnded {
		clear(h.ended) // they only guard against messages out of order
	}
	h.ended[epoch] = max(revision, h.ended[epoch], 1)
	v.removeLocked(h, epoch)
}

func (v *View) removeLocked(h *hub, epoch int64) {
	rec := h.sessions[epoch]
	if rec == nil {
		return
	}
	delete(h.sessions, epoch)
	v.sessions--
	if left := without(v.providers[rec.session.Provider], rec); len(left) > 0 {
		v.providers[rec.session.Provider] = left
	} else {
		delete(v.providers, rec.session.Provider)
	}
	key := nodeKey{rec.session.Provider, rec.session.Node}
	rest := without(v.nodes[key], rec)
	if rec.indexed {
		v.unindexLocked(rec)
	}
	if len(rest) == 0 {
		delete(v.nodes, key)
		return
	}
	v.nodes[key] = rest
	v.electLocked(key)
}

func without(all []*record, gone *record) []*record {
	return slices.DeleteFunc(all, func(r *record) bool { return r == gone })
}

// electLocked lets the newest session of a node serve and no other. A session that two hubs
// claim serves at the hub that was started last.
func (v *View) electLocked(key nodeKey) {
	all := v.nodes[key]
	newest := all[0]
	for _, rec := range all[1:] {
		if rec.newerThan(newest) {
			newest = rec
		}
	}
	for _, rec := range all {
		if rec.indexed && rec != newest {
			v.unindexLocked(rec)
		}
	}
	if !newest.indexed {
		v.indexLocked(newest)
	}
}

func (r *record) newerThan(o *record) bool {
	if r.session.Epoch != o.session.Epoch {
		return r.session.Epoch > o.session.Epoch
	}
	if r.hub.incarnation != o.hub.incarnation {
		return r.hub.incarnation > o.hub.incarnation
	}
	return r.hub.id > o.hub.id
}

// uptimeStep is the least difference in uptime that makes a new description: twenty
// minutes of the 30 days.
const uptimeStep = 0.0005

// same reports whether two descriptions of a session differ in load only, or by less than
// uptimeStep.
func same(a, b *Session) bool {
	return a.ProviderName == b.ProviderName && a.Active == b.Active && a.Draining == b.Draining &&
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
	return v.sessions, len(v.hubs), v.dropped
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

// Totals walks every seat, so it is called when nobody waits. shut reports whether a model
// of a provider gets no requests for a reason that the view does not know.
func (v *View) Totals(shut func(provider, model string) bool) Totals {
	var t Totals
	v.models.Range(func(_, value any) bool {
		t.Models++
		for _, seat := range *value.(*list).seats.Load() {
			if seat.Online() && !shut(seat.Session.Provider, seat.Offer.Model) {
				t.Candidates++
			}
			t.Bookings += seat.Slots.Booked()
		}
		return true
	})
	return t
}
