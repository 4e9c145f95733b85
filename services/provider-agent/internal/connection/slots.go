package connection

import "sync"

// slots counts the requests under way on each model, over all sessions, because work of a
// lost session may still be ending when the next one begins. It is safe for concurrent
// use.
type slots struct {
	mu   sync.Mutex
	free map[string]int
	// capacity has the offered models and those that the last reoffer took away.
	capacity map[string]int
	taken    int
	sum      int
	bytes    int64 // that may still be buffered
	// paused reports that no requests are taken.
	paused bool
}

// refusal says why a request is not taken.
type refusal uint8

const (
	granted refusal = iota
	notOffered
	noSlot
	noMemory
	onPause
)

func newSlots(offers []Offer, bytes int64) *slots {
	s := &slots{free: make(map[string]int, len(offers)), capacity: make(map[string]int, len(offers)), bytes: bytes}
	for _, o := range offers {
		s.free[o.ModelID], s.capacity[o.ModelID] = o.Capacity, o.Capacity
		s.sum += o.Capacity
	}
	return s
}

// reoffer changes the models that are offered. Requests under way keep their slots, and a model
// that is taken away keeps its slots until the next call, because the hub may still send
// requests for it. The bound of open streams only grows, for the same reason.
func (s *slots) reoffer(before, offers []Offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := map[string]bool{}
	for _, o := range before {
		keep[o.ModelID] = true
	}
	sum := 0
	for _, o := range offers {
		keep[o.ModelID] = true
		s.free[o.ModelID] += o.Capacity - s.capacity[o.ModelID]
		s.capacity[o.ModelID] = o.Capacity
	}
	for model, capacity := range s.capacity {
		if !keep[model] && s.free[model] == capacity {
			delete(s.free, model)
			delete(s.capacity, model)
			continue
		}
		sum += capacity
	}
	s.sum = max(s.sum, sum)
}

// streams is how many requests may be open at once.
func (s *slots) streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}

// take reserves a slot and memory for a body.
func (s *slots) take(model string, bytes int64) refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, offered := s.free[model]
	switch {
	case !offered:
		return notOffered
	case s.paused:
		return onPause
	case free <= 0:
		return noSlot
	case s.bytes < bytes:
		return noMemory
	}
	s.free[model]--
	s.taken++
	s.bytes -= bytes
	return granted
}

// offered reports whether the model is served.
func (s *slots) offered(model string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.free[model]
	return ok
}

// release gives the slot and the memory back.
func (s *slots) release(model string, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free[model]++
	s.taken--
	s.bytes += bytes
}

// active is how many requests are under way.
func (s *slots) active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// pause takes no more requests, or takes requests again.
func (s *slots) pause(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
}

func (s *slots) isPaused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused
}
