package pick

import (
	"maps"
	"sync"
	"sync/atomic"
)

const (
	// maxTallied bounds the providers that are counted one by one. Further ones count in
	// the totals only.
	maxTallied = 10_000
	// maxChosen bounds the pairs of provider and model whose choices are counted.
	maxChosen = 65_536
)

// Stats counts since the start how often each provider was chosen, and how often it was
// looked at and passed over, by reason. Where not all seats are looked at, only the seats
// that are drawn, named or walked past count. The zero value is ready.
type Stats struct {
	totals    [reasons]atomic.Int64
	providers sync.Map // id to *account
	size      atomic.Int64
	pairs     atomic.Int64
}

// providerStats is what is counted of one provider.
type providerStats struct {
	rejects [reasons]atomic.Int64

	mu     sync.Mutex
	gone   bool             // it is in no map any more
	chosen map[string]int64 // by model
}

// reject counts a look that passed a provider over.
func (t *Stats) reject(provider string, why Reason) {
	t.totals[why].Add(1)
	if a := t.account(provider); a != nil {
		a.rejects[why].Add(1)
	}
}

// choose counts a request that a provider was chosen for.
func (t *Stats) choose(provider, model string) {
	a := t.account(provider)
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return
	}
	if _, known := a.chosen[model]; !known {
		if t.pairs.Load() >= maxChosen {
			return
		}
		t.pairs.Add(1)
		if a.chosen == nil {
			a.chosen = map[string]int64{}
		}
	}
	a.chosen[model]++
}

// account returns a provider's counts, or nil where there is no room for them.
func (t *Stats) account(provider string) *providerStats {
	if v, ok := t.providers.Load(provider); ok {
		return v.(*providerStats)
	}
	if t.size.Add(1) > maxTallied {
		t.size.Add(-1)
		return nil
	}
	v, loaded := t.providers.LoadOrStore(provider, &providerStats{})
	if loaded {
		t.size.Add(-1)
	}
	return v.(*providerStats)
}

// Trim makes room where little is left, by forgetting providers that are not online. What
// is counted of them at the same time is lost.
func (t *Stats) Trim(online func(provider string) bool) {
	if t.size.Load() < maxTallied*9/10 && t.pairs.Load() < maxChosen*9/10 {
		return
	}
	t.providers.Range(func(key, value any) bool {
		if online(key.(string)) {
			return true
		}
		t.providers.Delete(key)
		t.size.Add(-1)
		a := value.(*providerStats)
		a.mu.Lock()
		defer a.mu.Unlock()
		t.pairs.Add(-int64(len(a.chosen)))
		a.gone, a.chosen = true, nil
		return true
	})
}

// Totals returns the rejects of all providers together.
func (t *Stats) Totals() map[Reason]int64 { return counts(&t.totals) }

// Of returns the rejects of one provider by reason, without reasons that are at zero.
func (t *Stats) Of(provider string) map[Reason]int64 {
	v, ok := t.providers.Load(provider)
	if !ok {
		return nil
	}
	all := counts(&v.(*providerStats).rejects)
	maps.DeleteFunc(all, func(_ Reason, n int64) bool { return n == 0 })
	return all
}

// Chosen returns how often a provider was chosen, by model.
func (t *Stats) Chosen(provider string) map[string]int64 {
	v, ok := t.providers.Load(provider)
	if !ok {
		return nil
	}
	a := v.(*providerStats)
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.chosen)
}

func counts(from *[reasons]atomic.Int64) map[Reason]int64 {
	out := make(map[Reason]int64, reasons)
	for why := Eligible + 1; why < reasons; why++ {
		out[why] = from[why].Load()
	}
	return out
}
