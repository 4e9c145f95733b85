package dispatch

import (
	"sync"

	"svc.internal/pkg/ids"
)

const (
	// maxSilences is how many consumers in a row may get no whole answer of a provider
	// and model within the time to first content before its whole answers have no more
	// patience than that.
	maxSilences = 3
	// maxSilent bounds the providers and models that are remembered. Any goes first:
	// it begins anew.
	maxSilent = 16384
)

// unansweredLeavers counts, of each provider and model, the consumers who have left whole
// answers behind the time to first content since one was given. It is one hub's, and
// safe for concurrent use.
type unansweredLeavers struct {
	mu   sync.Mutex
	left map[pair]int
}

type pair struct {
	provider ids.ProviderID
	model    string
}

// another counts one more, and reports whether there are too many.
func (s *unansweredLeavers) another(of pair) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == nil {
		s.left = map[pair]int{}
	}
	if _, known := s.left[of]; !known && len(s.left) == maxSilent {
		for other := range s.left {
			delete(s.left, other)
			break
		}
	}
	s.left[of] = min(s.left[of]+1, maxSilences+1)
	return s.left[of] > maxSilences
}

// answered forgets them, because an answer was given.
func (s *unansweredLeavers) answered(of pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.left, of)
}
