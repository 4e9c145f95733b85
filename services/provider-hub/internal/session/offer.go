package session

import "maps"

const (
	defaultCapacity = 10
	maxCapacity     = 1024
	maxContext      = 1 << 31
)

// normal brings what an agent says of a model into bounds.
func (o Offer) normal() Offer {
	o.Quantization = Clean(o.Quantization, maxQuantization)
	o.EngineModel = Clean(o.EngineModel, maxModelID)
	if o.ContextLength < 0 || o.ContextLength > maxContext {
		o.ContextLength = 0
	}
	if o.Capacity <= 0 {
		o.Capacity = defaultCapacity
	}
	o.Capacity = min(o.Capacity, maxCapacity)
	return o
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

// reports takes what an agent says of its engines' load, and tells whether that
// is new. Needs the mutex.
func (s *Session) reports(now load) (changed bool) {
	now.active, now.queued = inRange(now.active), inRange(now.queued)
	changed = s.load != now
	s.load = now
	return changed
}

func inRange(n int) int { return min(max(n, 0), 1<<20) }
