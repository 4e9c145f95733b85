package dispatch

import (
	"sync"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/meter"
)

const (
	// leastLarge is from which size on an answer counts as large, in bytes.
	leastLarge = 1 << 20
	// largeShares is how many providers at least share Config.MaxLarge.
	largeShares = 8
)

// largeAnswers counts what large answers hold, in bytes: together, and what each
// provider has sent of answers that are not whole yet. It is safe for concurrent
// use.
type largeAnswers struct {
	mu       sync.Mutex
	sum      int64
	arriving map[ids.ProviderID]int64 // without zeros
}

// add counts bytes more or less, of which arriving are a provider's that are not
// whole yet, and returns what there is now.
func (l *largeAnswers) add(p ids.ProviderID, bytes, arriving int64) (sum, share int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.arriving == nil {
		l.arriving = map[ids.ProviderID]int64{}
	}
	l.sum += bytes
	share = l.arriving[p] + arriving
	if l.arriving[p] = share; share == 0 {
		delete(l.arriving, p)
	}
	return l.sum, share
}

// counts notes how much of the answer waits here: what is not whole yet, and
// what waits for the caller, which is no fault of the provider.
func (a *attempt) counts(arriving, leaving int) (sum, share int64) {
	total := atLeastLarge(arriving + leaving)
	part := atLeastLarge(arriving)
	grown, more := total-a.large, part-a.arriving
	if grown == 0 && more == 0 {
		return 0, 0
	}
	a.large, a.arriving = total, part
	return a.dispatcher.large.add(a.order.Provider, grown, more)
}

func atLeastLarge(bytes int) int64 {
	if bytes < leastLarge {
		return 0
	}
	return int64(bytes)
}

// holds notes how much there is of what is not whole yet. Where that has grown
// it fails when large answers hold too much, together or of this provider. What
// waits for its caller is only counted: it is gone soonest when it is sent.
func (a *attempt) holds(arriving int) *verdict {
	before := a.arriving
	sum, share := a.counts(arriving, 0)
	if a.arriving <= before {
		return nil
	}
	most := a.dispatcher.cfg.MaxLarge
	switch {
	case share > most/largeShares:
		return a.fails(Failure{Code: CodeUpstream, Message: "this provider has too many large answers under way"},
			meter.ProviderLost)
	case sum > most:
		v := a.fails(Failure{Code: CodeUpstream, Message: "this hub holds too many large answers"}, meter.PlatformLost)
		v.outcome = Cancelled // the provider has no part in it
		return v
	}
	return nil
}
