package dispatch

import (
	"sync"

	"svc.internal/pkg/ids"
)

const (
	// maxSilences is how many consumers in a row may leave the whole answers of a
	// provider and model in the time of Order.answering. Further consumers then have the
	// time of a stream alone.
	maxSilences = 3
	// maxSilent bounds the pairs of provider and model that are remembered. Beyond it any
	// pair is forgotten, and begins anew.
	maxSilent = 16384
)

// unansweredLeavers counts, for each provider and model, the consumers in a row who have
// left whole answers in the time of Order.answering. The next whole answer ends the
// count. It is one hub's, and safe for concurrent use.
//
// Nobody gets prompts for nothing by it. A consumer who leaves between freeTime and
// leastPatience owes the prompt as before. Leaving a provider within freeTime is free, and
// billing-ledger allows an account 30 of those a minute. Leaving without owing after that
// takes at least leastPatience (5 s) of one of the account's places each time.
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

// answered ends the count of a pair, because an answer was given.
func (s *unansweredLeavers) answered(of pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.left, of)
}
