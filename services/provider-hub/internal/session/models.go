package session

import (
	"fmt"
	"maps"
	"slices"

	"svc.internal/services/provider-hub/internal/gpu"
)

// newsLocked takes what a message says of models, and reports whether the offers have
// changed. A model whose kind has changed leaves the offers, whether or not the message names it.
func (s *Session) newsLocked(m Models) (changed bool) {
	if now := s.env.Kinds.Version(); now != s.kinds {
		s.kinds = now
		changed = s.barLocked()
	}
	return s.saidLocked(m) || changed
}

// saidLocked applies a message's list of models, and reports whether the offers have changed.
func (s *Session) saidLocked(m Models) (changed bool) {
	if m.Replaces {
		offers := make([]Offer, 0, len(m.List))
		for _, n := range m.List {
			offers = append(offers, s.offeredLocked(n))
		}
		return s.offerLocked(offers)
	}
	if len(m.List) == 0 || len(s.order) == 0 {
		return false
	}
	news := make(map[string]ModelNews, len(m.List))
	for _, n := range m.List {
		news[n.Offer.Model] = n
	}
	offers := make([]Offer, 0, len(s.order))
	for _, id := range s.order {
		n := news[id]
		n.Offer.Model = id
		offers = append(offers, s.offeredLocked(n))
	}
	return s.offerLocked(offers)
}

// offeredLocked is the offer of a model after news of the model.
func (s *Session) offeredLocked(n ModelNews) Offer {
	if n.Whole {
		return n.Offer.normal()
	}
	o := Offer{Model: n.Offer.Model, Healthy: true}
	if old := s.models[n.Offer.Model]; old != nil {
		o = old.offer
	}
	if n.Described {
		o.Quantization, o.ContextLength = n.Offer.Quantization, n.Offer.ContextLength
	}
	if n.HealthKnown {
		o.Healthy = n.Offer.Healthy
	}
	return o.normal()
}

// offerLocked replaces the models that the session serves, and reports whether the offers
// have changed. Taken slots stay taken and warm-ups stay known, also of a model that
// leaves the list and returns.
func (s *Session) offerLocked(list []Offer) (changed bool) {
	list = s.allowedLocked(list)
	changed = len(list) != len(s.order)
	models := make(map[string]*model, len(list))
	order := make([]string, 0, len(list))
	for _, o := range list {
		m := s.models[o.Model]
		if m == nil {
			changed = true
			if m = s.former[o.Model]; m == nil {
				m = &model{}
			}
		}
		changed = changed || m.offer != o
		m.offer = o
		models[o.Model] = m
		order = append(order, o.Model)
	}
	if changed {
		s.rememberLocked(models)
		s.models, s.order = models, order
	}
	return changed
}

// allowedLocked leaves out the models that the provider may not serve because of their kind, and notes
// why. Until the session has joined, its provider is not known, and nothing is left out.
func (s *Session) allowedLocked(list []Offer) []Offer {
	s.barred = nil
	who := s.joined.Load()
	if who == nil {
		return list
	}
	allowed := make([]Offer, 0, len(list))
	for _, o := range list {
		why := s.env.Kinds.Refusal(who.Vendor, o.Model)
		if why == "" {
			allowed = append(allowed, o)
			continue
		}
		if s.barred == nil {
			s.barred = map[string]string{}
		}
		s.barred[o.Model] = why
	}
	return allowed
}

// barLocked removes from the offers the models that the provider may not serve because of their kind,
// and reports whether the offers have changed.
func (s *Session) barLocked() (changed bool) {
	offers := make([]Offer, 0, len(s.order))
	for _, id := range s.order {
		offers = append(offers, s.models[id].offer)
	}
	return s.offerLocked(offers)
}

// barredLocked says in a sentence which models are not taken, for agents that get no list of them.
func (s *Session) barredLocked() string {
	all := slices.Sorted(maps.Keys(s.barred))
	if len(all) == 0 || s.limits.Strict {
		return ""
	}
	text := fmt.Sprintf("%s is not taken: %s", all[0], s.barred[all[0]])
	if n := len(all) - 1; n > 0 {
		text += fmt.Sprintf("; and %d more models are not taken", n)
	}
	return text
}

// rememberLocked keeps the models that left the list while requests for them are under
// way, and models that left the list and were warmed lately.
func (s *Session) rememberLocked(now map[string]*model) {
	at := s.env.Clock.Now()
	maps.Copy(s.former, s.models)
	maps.DeleteFunc(s.former, func(id string, m *model) bool {
		warm := !m.warmedAt.IsZero() && at.Sub(m.warmedAt) < warmupPause
		return now[id] != nil || m.inFlight == 0 && !warm
	})
}

// cutsLocked says which claims of models were cut to bounds.
func (s *Session) cutsLocked() string {
	offers := make([]Offer, 0, len(s.order))
	for _, id := range s.order {
		offers = append(offers, s.models[id].offer)
	}
	return Cuts(offers)
}

// loadedLocked takes the engines' load from a heartbeat, and reports whether the load has
// changed.
func (s *Session) loadedLocked(h *Heartbeat) (changed bool) {
	if !h.Loaded {
		return false
	}
	now := load{active: inRange(h.Active), queued: inRange(h.Queued)}
	changed = s.load != now
	s.load = now
	return changed
}

// machineLocked takes a report of the machine, nil for none, and the measured memory, 0
// for none. It reports whether the session's report has changed. The measured memory
// takes the place of the reported memory, because it is more exact. Without both, the
// memory that was known before stays.
func (s *Session) machineLocked(r *gpu.Report, measuredMB int64) (changed bool) {
	var now gpu.Report
	if s.hardware != nil {
		now = *s.hardware
	} else if r == nil {
		return false
	}
	if r != nil {
		before := now.MemoryMB
		if now = *r; now.MemoryMB == 0 {
			now.MemoryMB = before
		}
	}
	if measuredMB > 0 {
		now.MemoryMB = measuredMB
	}
	next := bounded(now)
	if s.hardware != nil && *s.hardware == *next {
		return false
	}
	s.hardware = next
	return true
}
