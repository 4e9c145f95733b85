package trust

import (
	"slices"
	"strings"
)

// severity ranks opinions by how much a provider would gain if they were forgotten.
type severity uint8

const (
	none    severity = iota // restricts nothing
	limited                 // a measured window, or little trust
	probed                  // the probe lane
	barred                  // shut
	severities
)

// severity says how much the pair gets less than an unknown pair because of something that
// was found.
func (o *Opinion) severity() severity {
	switch {
	case o.Lane == Shut:
		return barred
	case o.Lane == Probe:
		return probed
	case o.Window > 0 || o.Trust < leastPlain:
		return limited
	default:
		return none
	}
}

// worst returns the worst lane among opinions that leave. A measured window or little trust
// makes it Probe, because such a pair must not get more than before.
func worst(left []Opinion) Lane {
	lane := Main
	for i := range left {
		switch left[i].severity() {
		case barred:
			lane = Shut
		case probed, limited:
			lane = max(lane, Probe)
		default:
		}
	}
	return lane
}

// share is the part of the room up to which opinions of a severity find a place.
func share(limit int, s severity) int {
	switch s {
	case none:
		return limit - limit/4
	case limited:
		return limit - limit/8
	case probed:
		return limit - limit/16
	default:
		return limit
	}
}

// fitLocked returns the opinions that there is room for: those of pairs that are known
// already, whatever they say now, and as many ranks of the new ones as fit, the more severe
// ones first. refused is the highest rank that did not fit.
func (r *Registry) fitLocked(before *said, opinions []Opinion, known bool) (fitting []Opinion, refused severity) {
	var fresh [severities]int
	for i := range opinions {
		if before.find(opinions[i].Model) == nil {
			fresh[opinions[i].severity()]++
		}
	}
	var fits [severities]bool
	all, total := true, r.totalLocked()
	for s := barred; ; s-- {
		fits[s] = total+fresh[s] <= share(r.maxPairs, s) && (known || r.kept < share(r.maxProviders, s))
		switch {
		case fresh[s] == 0:
		case fits[s]:
			total += fresh[s]
			known = true // the provider has its place
		default:
			all, refused = false, max(refused, s)
		}
		if s == none {
			break
		}
	}
	if all {
		return opinions, none
	}
	return slices.DeleteFunc(slices.Clone(opinions), func(o Opinion) bool {
		return !fits[o.severity()] && before.find(o.Model) == nil
	}), refused
}

// noteLocked remembers whether a restricting opinion of a provider has no room. One provider
// more than maxProviders says that there were others, which are not remembered.
func (r *Registry) noteLocked(provider string, refused bool) {
	switch _, noted := r.unplaced[provider]; {
	case refused && !noted && len(r.unplaced) > r.maxProviders:
		return // this one is not remembered, so none of them is forgotten any more
	case refused:
		r.unplaced[provider] = struct{}{}
	case len(r.unplaced) <= r.maxProviders:
		delete(r.unplaced, provider)
	}
	r.full.Store(len(r.unplaced) > 0)
}

func (r *Registry) totalLocked() int {
	var sum int64
	for l := range r.pairs {
		sum += r.pairs[l].Load()
	}
	return int(sum)
}

// storeLocked replaces what is kept of a provider; an empty after forgets the provider.
func (r *Registry) storeLocked(provider string, before, after *said) {
	for i := range before.opinions {
		r.pairs[before.opinions[i].Lane].Add(-1)
	}
	for i := range after.opinions {
		r.pairs[after.opinions[i].Lane].Add(1)
	}
	switch {
	case len(after.opinions) == 0:
		r.providers.Delete(provider)
		r.kept--
	case len(before.opinions) == 0:
		r.kept++
		r.providers.Store(provider, after)
	default:
		r.providers.Store(provider, after)
	}
}

// Trim makes room where little is left for providers without a restriction, by forgetting
// those of them that are not online.
func (r *Registry) Trim(online func(provider string) bool) {
	r.mu.Lock()
	full := r.kept >= share(r.maxProviders, none)*9/10 || r.totalLocked() >= share(r.maxPairs, none)*9/10
	r.mu.Unlock()
	if !full {
		return
	}
	r.providers.Range(func(key, value any) bool {
		if provider, s := key.(string), value.(*said); !s.restricts() && !online(provider) {
			r.forget(provider, s)
		}
		return true
	})
}

// forget drops a provider, unless a report of it has come meanwhile.
func (r *Registry) forget(provider string, as *said) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.providers.Load(provider); ok && v.(*said) == as {
		r.storeLocked(provider, as, &said{})
	}
}

// merge returns what is known after a report, ordered by model, and the opinions that leave
// because the provider has more than MaxModels.
func merge(before *said, report []Opinion) (opinions, left []Opinion) {
	named := slices.Clone(report)
	slices.SortFunc(named, func(a, b Opinion) int { return strings.Compare(a.Model, b.Model) })
	for i := range named {
		if old := before.find(named[i].Model); old != nil && old.Revision > named[i].Revision {
			named[i] = *old
		}
	}
	opinions = named
	for _, old := range before.opinions {
		if _, found := slices.BinarySearchFunc(named, old.Model, byModel); !found {
			opinions = append(opinions, old)
		}
	}
	if len(opinions) > MaxModels {
		slices.SortStableFunc(opinions[len(named):], func(a, b Opinion) int { return int(b.severity()) - int(a.severity()) })
		opinions, left = opinions[:MaxModels], slices.Clone(opinions[MaxModels:])
	}
	slices.SortFunc(opinions, func(a, b Opinion) int { return strings.Compare(a.Model, b.Model) })
	return opinions, left
}
