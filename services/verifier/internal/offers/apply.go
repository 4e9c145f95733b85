package offers

import (
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/sessions"
	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
)

// New returns an empty view.
func New() *View {
	v := &View{offered: map[probe.Offer][]Seat{}, references: map[string][]Seat{}, heard: make(chan struct{}, 1)}
	v.set = sessions.New(MaxSessions, sessions.Hooks[node, *Session]{Serve: v.indexLocked, Retire: v.unindexLocked})
	return v
}

// Apply takes over a report and reports whether it completed a full one. The report's
// sessions must not be changed afterwards.
func (v *View) Apply(r Report, now time.Time) (complete bool) {
	defer v.ring()
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.set.Hear(sessions.Report{Hub: r.Hub, Incarnation: r.Incarnation, Revision: r.Revision, Full: r.Full,
		Part: r.Part, Parts: r.Parts}, now)
	if h == nil {
		return false
	}
	for i := range r.Sessions {
		s := &r.Sessions[i]
		if len(s.Models) > MaxModels {
			continue
		}
		rec, fresh := v.set.Put(h, s.Epoch, node{s.Provider, s.Node})
		switch {
		case rec == nil:
		case fresh:
			rec.Value = own(s, r)
			v.set.Add(rec)
		case !same(rec.Value, s, r):
			v.set.Change(rec, func() { rec.Value = own(s, r) })
		}
	}
	for _, epoch := range r.Ended {
		v.set.End(h, epoch)
	}
	return v.set.Complete(h)
}

// Expire drops sessions that nothing has confirmed for Expiry.
func (v *View) Expire(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set.Expire(now, nil)
}

// Confirm confirms all sessions and hubs, for a time in which their reports could not be
// heard.
func (v *View) Confirm(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set.Confirm(now)
}

// own returns the session as the view keeps it. The texts are copied, because those of a
// message would keep the whole message in memory.
func own(s *Session, r Report) *Session {
	mine := *s
	mine.Node, mine.GPU = strings.Clone(s.Node), strings.Clone(s.GPU)
	mine.Hub, mine.Address = r.Hub, r.Address
	mine.Capabilities = make([]string, len(s.Capabilities))
	for i, c := range s.Capabilities {
		mine.Capabilities[i] = strings.Clone(c)
	}
	slices.Sort(mine.Capabilities)
	mine.Models = make([]Model, len(s.Models))
	for i, m := range s.Models {
		m.ID, m.Quantization = strings.Clone(m.ID), strings.Clone(m.Quantization)
		m.Engine, m.Revision = strings.Clone(m.Engine), strings.Clone(m.Revision)
		m.Class = quant.Parse(m.Quantization)
		mine.Models[i] = m
	}
	mine.Identities = identity.Set(s.Identities, identity.MaxOfSession)
	return &mine
}

// same reports whether a description says nothing new.
func same(a, b *Session, r Report) bool {
	return a.Hub == r.Hub && a.Address == r.Address && a.Active == b.Active && a.Draining == b.Draining &&
		a.Reference == b.Reference && a.Probation == b.Probation && a.ActiveSince.Equal(b.ActiveSince) &&
		a.MaxRequestBytes == b.MaxRequestBytes && a.GPU == b.GPU && a.Capacity == b.Capacity &&
		sameSet(a.Capabilities, b.Capabilities) && slices.EqualFunc(a.Models, b.Models, sameModel) &&
		slices.Equal(a.Identities, identity.Set(b.Identities, identity.MaxOfSession))
}

// sameSet reports whether the sorted list has the same texts as the other list.
func sameSet(sorted, other []string) bool {
	if slices.IsSorted(other) {
		return slices.Equal(sorted, other)
	}
	return slices.Equal(sorted, slices.Sorted(slices.Values(other)))
}

// sameModel compares what is reported. The class follows from the statement.
func sameModel(a, b Model) bool {
	b.Class = a.Class
	return a == b
}
