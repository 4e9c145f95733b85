package session

const (
	defaultCapacity = 10
	maxCapacity     = 1024
	maxContext      = 1 << 31
)

// normal brings what an agent says of a model into bounds.
func (o Offer) normal() Offer {
	o.Quantization = clean(o.Quantization, maxQuantization)
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
// says anything new. Slots that are taken stay taken. Needs the mutex.
func (s *Session) offer(list []Offer) (changed bool) {
	changed = len(list) != len(s.order)
	models := make(map[string]*model, len(list))
	order := make([]string, 0, len(list))
	for _, o := range list {
		m := s.models[o.Model]
		if m == nil {
			m = &model{}
		}
		changed = changed || m.offer != o
		m.offer = o
		models[o.Model] = m
		order = append(order, o.Model)
	}
	if changed {
		s.models, s.order = models, order
	}
	return changed
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
