package pick

import (
	"maps"
	"sync"
	"sync/atomic"
)

// maxRejected bounds the providers whose rejections are told apart; those of
// further ones count in the totals only.
const maxRejected = 10_000

// Rejects counts, since the start, how often a provider was looked at and
// passed over, by reason. Where not all seats are looked at only those count
// that are: drawn, named or walked past.
type Rejects struct {
	totals    [reasons]atomic.Int64
	providers sync.Map // id to *[reasons]atomic.Int64
	size      atomic.Int64
}

func (r *Rejects) count(provider string, why Reason) {
	r.totals[why].Add(1)
	v, ok := r.providers.Load(provider)
	if !ok {
		if r.size.Load() >= maxRejected {
			return
		}
		var loaded bool
		if v, loaded = r.providers.LoadOrStore(provider, new([reasons]atomic.Int64)); !loaded {
			r.size.Add(1)
		}
	}
	v.(*[reasons]atomic.Int64)[why].Add(1)
}

// Totals are the counts over all providers.
func (r *Rejects) Totals() map[Reason]int64 { return counts(&r.totals) }

// Of are the counts of one provider, those that are not zero.
func (r *Rejects) Of(provider string) map[Reason]int64 {
	v, ok := r.providers.Load(provider)
	if !ok {
		return nil
	}
	all := counts(v.(*[reasons]atomic.Int64))
	maps.DeleteFunc(all, func(_ Reason, n int64) bool { return n == 0 })
	return all
}

func counts(from *[reasons]atomic.Int64) map[Reason]int64 {
	out := make(map[Reason]int64, reasons)
	for why := Eligible + 1; why < reasons; why++ {
		out[why] = from[why].Load()
	}
	return out
}
