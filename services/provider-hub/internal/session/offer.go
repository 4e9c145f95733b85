package session

import (
	"fmt"
	"maps"
	"strings"
)

const (
	defaultCapacity = 10
	// maxCapacity is how many requests at once are believed of a model, and
	// maxContext how many tokens of context: more than any engine takes.
	maxCapacity = 1024
	maxContext  = 1 << 24
	// maxCuts is how many models are named of which less is taken than was claimed.
	maxCuts = 3
)

// normal brings what an agent says of a model into bounds, and keeps what it
// claimed beyond them.
func (o Offer) normal() Offer {
	o.Quantization = Clean(o.Quantization, maxQuantization)
	o.EngineModel = Clean(o.EngineModel, maxModelID)
	o.ContextLength = max(o.ContextLength, 0)
	if o.Capacity <= 0 {
		o.Capacity = defaultCapacity
	}
	if o.ContextLength > maxContext {
		o.claimedContext, o.ContextLength = o.ContextLength, maxContext
	}
	if o.Capacity > maxCapacity {
		o.claimedCapacity, o.Capacity = o.Capacity, maxCapacity
	}
	return o
}

// cut says in words what of the claims was not taken; empty for nothing.
func (o Offer) cut() string {
	var all []string
	if o.claimedContext > 0 {
		all = append(all, fmt.Sprintf("a context of %d tokens as %d", o.claimedContext, o.ContextLength))
	}
	if o.claimedCapacity > 0 {
		all = append(all, fmt.Sprintf("a capacity of %d as %d", o.claimedCapacity, o.Capacity))
	}
	if len(all) == 0 {
		return ""
	}
	return "of " + Clean(o.Model, maxModelID) + " " + strings.Join(all, " and ")
}

// Cuts says in words which claims of models are taken as less than was claimed;
// empty for none.
func Cuts(offers []Offer) string {
	var all []string
	for _, o := range offers {
		if c := o.cut(); c != "" {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return ""
	}
	more := ""
	if n := len(all) - maxCuts; n > 0 {
		more = fmt.Sprintf("; and of %d more models", n)
		all = all[:maxCuts]
	}
	return "claims beyond what is believed are cut: " + strings.Join(all, "; ") + more
}

// cuts are those of the models that the session serves. Needs the mutex.
func (s *Session) cuts() string {
	offers := make([]Offer, 0, len(s.order))
	for _, id := range s.order {
		offers = append(offers, s.models[id].offer)
	}
	return Cuts(offers)
}

// warned joins what the owner should look at.
func warned(texts ...string) string {
	var all []string
	for _, t := range texts {
		if t != "" {
			all = append(all, t)
		}
	}
	return strings.Join(all, "; ")
}

// offer replaces the models that the session serves and reports whether that
// says anything new. Slots that are taken stay taken, and warm-ups known, also of
// a model that leaves and returns. Needs the mutex.
func (s *Session) offer(list []Offer) (changed bool) {
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
		s.remember(models)
		s.models, s.order = models, order
	}
	return changed
}

// remember keeps what must be known of the models that are not among now: what
// is under way bounds them, and what was warmed. Needs the mutex.
func (s *Session) remember(now map[string]*model) {
	at := s.house.clock.Now()
	maps.Copy(s.former, s.models)
	maps.DeleteFunc(s.former, func(id string, m *model) bool {
		warm := !m.warmedAt.IsZero() && at.Sub(m.warmedAt) < warmupPause
		return now[id] != nil || m.inFlight == 0 && !warm
	})
}

// reports takes what an agent says of its engines' load, and reports whether that
// is new. Needs the mutex.
func (s *Session) reports(now load) (changed bool) {
	now.active, now.queued = inRange(now.active), inRange(now.queued)
	changed = s.load != now
	s.load = now
	return changed
}

func inRange(n int) int { return min(max(n, 0), 1<<20) }
