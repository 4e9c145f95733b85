package dispatch

import (
	"sync"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/meter"
)

const (
	// leastLarge is the size from which on an answer counts as large, in bytes.
	leastLarge = 1 << 20
	// largeShares is the number of equal shares of Config.MaxLarge. One provider has one
	// of them.
	largeShares = 8
)

// largeAnswers counts the bytes of large answers: of all answers together, and of the
// answers of each provider that are not whole yet. It is safe for concurrent use.
type largeAnswers struct {
	mu       sync.Mutex
	sum      int64
	arriving map[ids.ProviderID]int64 // without zeros
}

// add adds bytes, which may be negative, of which arriving belong to a provider's answers
// that are not whole yet. It returns the new sum, and the provider's share of it.
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

// counts notes how many bytes of the answer wait here: arriving are not whole yet, and
// leaving wait for the caller, which is no fault of the provider.
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

// holds notes how many bytes of the answer are not whole yet. Where they have grown, it
// fails the attempt when large answers hold too much. Beyond the bound of all, the
// attempt fails here and is retried elsewhere. Beyond the provider's share, it fails as
// the provider's own failure. Bytes that wait for their caller are only counted, because
// sending them is the fastest way to free them.
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
