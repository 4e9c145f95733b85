package offers

import (
	"slices"
	"strings"
	"time"

	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/quant"
)

// Apply takes over a report and reports whether it completed a full one. The report's
// sessions must not be changed afterwards.
func (v *View) Apply(r Report, now time.Time) (complete bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.hubOfLocked(r)
	if h == nil {
		return false
	}
	h.heard = now
	for i := range r.Sessions {
		v.putLocked(h, r, &r.Sessions[i], now)
	}
	for _, epoch := range r.Ended {
		v.endLocked(h, epoch, r.Revision)
	}
	return r.Full && v.fullLocked(h, r)
}

// Expire drops sessions that nothing has confirmed for Expiry.
func (v *View) Expire(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.hubs {
		for epoch, rec := range h.sessions {
			if now.Sub(rec.confirmed) >= Expiry {
				v.removeLocked(h, epoch)
			}
		}
		if len(h.sessions) == 0 && now.Sub(h.heard) >= Expiry {
			delete(v.hubs, h.id)
		}
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
	if r.Revision < h.fullFrom || h.ended[s.Epoch] != 0 || len(s.Models) > MaxModels {
		return
	}
	rec := h.sessions[s.Epoch]
	switch {
	case rec == nil:
		if v.sessions >= v.limit {
			v.dropped++
			return
		}
		v.sessions++
		rec = &record{hub: h, session: own(s, r)}
		h.sessions[s.Epoch] = rec
		key := node{s.Provider, s.Node}
		v.nodes[key] = append(v.nodes[key], rec)
		v.electLocked(key)
	case r.Revision <= rec.revision, rec.session.Provider != s.Provider, rec.session.Node != s.Node:
		return
	case !same(rec.session, s, r):
		v.replaceLocked(rec, own(s, r))
	}
	rec.revision, rec.confirmed = r.Revision, now
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

func (v *View) replaceLocked(rec *record, s *Session) {
	serves := rec.indexed
	if serves {
		v.unindexLocked(rec)
	}
	rec.session = s
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
