// Package trust keeps what the verifier says of each model of each provider: its trust,
// its lane, its measured window, and until when a new provider is spared.
//
// The newest report of a provider counts, by the report's revision. Reports that are older
// or come twice change nothing, so reports in any order end in the same opinions. A model
// that the newest report does not name keeps its last opinion, because only a pair of
// provider and model of which nothing was ever said is unknown. So does a model whose
// opinion in the report is older than the opinion that is kept.
//
// A pair of a provider of which nothing was ever said has trust 1 in the main lane and no
// measured window. A further model of a provider that the verifier knows is shut until the
// verifier names the model, because the verifier says the same of every model without a
// passed benchmark: who adds models faster than a report can name them gains nothing. So a
// provider gains when its opinions are forgotten, and providers can make more of their
// accounts and models than there is room for. Therefore opinions that restrict a provider are never
// forgotten to make room for another provider's, and nothing makes them leave (opinion.go
// has the ranks):
//
//   - At most MaxProviders providers and MaxPairs pairs are kept, MaxModels of one
//     provider. Where a provider has more, the models that its newest report does not name
//     leave first, the least severe opinions before all others. They are shut then, like all
//     that it does not name.
//   - The more severe an opinion is, the more of the room it may fill: one without a
//     restriction three quarters, a shut lane all of it.
//   - While an opinion that restricts a provider has no room, every unknown pair counts as
//     in the probe lane, because any of them may be the one. A flood of restricted accounts
//     so frees nobody.
//   - While three quarters are nearly full, Trim forgets providers that are neither
//     restricted nor connected. The verifier's next report brings them back.
//
// What finds no room is counted as dropped, and tried again with each report, also with
// the same one.
package trust

import (
	"slices"
	"sync"
	"sync/atomic"

	"svc.internal/services/router/internal/presence"
)

const (
	// MaxReported bounds the models of one report.
	MaxReported = 256
	// MaxProviders bounds the providers; the view has as many sessions.
	MaxProviders = 200_000
	// MaxPairs bounds the pairs of provider and model, which take about 150 MiB.
	MaxPairs = 1_000_000
)

// Registry is safe for concurrent use. Readers take no lock.
type Registry struct {
	changed func(model string)
	// gateway reports whether vendors alone may serve a model; nil for no model.
	gateway func(model string) bool

	providers sync.Map // id to *said

	mu           sync.Mutex // held by writers
	maxProviders int
	maxPairs     int
	kept         int // providers
	// unplaced are the providers of which a restricting opinion has no room, at most
	// maxProviders. Once there were more, the registry stays full until the process ends.
	unplaced map[string]struct{}

	full    atomic.Bool
	pairs   [lanes]atomic.Int64
	dropped atomic.Int64
}

// New returns a registry in which every pair is unknown. changed is called, without locks
// held, for each model of which a provider has got another lane or another window.
func New(changed func(model string)) *Registry {
	return &Registry{
		changed: changed, maxProviders: MaxProviders, maxPairs: MaxPairs, unplaced: map[string]struct{}{},
	}
}

// SetGateway says which models vendors alone may serve. It is called before the registry is
// used.
func (r *Registry) SetGateway(is func(model string) bool) { r.gateway = is }

// Of returns what the verifier says of a pair. The caller must not change it.
func (r *Registry) Of(provider, model string) *Opinion {
	lane := Main
	if v, ok := r.providers.Load(provider); ok {
		kept := v.(*said)
		if o := kept.find(model); o != nil {
			return o
		}
		lane = kept.further()
	}
	if r.full.Load() {
		lane = max(lane, Probe)
	}
	return &unknown[lane]
}

// OfMember returns the opinion of a pair whose provider may be a vendor. A vendor gets the
// opinion of an unknown pair in the main lane, whatever was said of the vendor and however full
// the registry is, because the verifier asks vendors nothing. A gateway model of anybody else is
// shut: no reference serves such a model, so no verification tells it from another model at
// its price. The caller must not change it.
func (r *Registry) OfMember(provider, model string, vendor bool) *Opinion {
	switch {
	case vendor:
		return &unknown[Main]
	case r.gateway != nil && r.gateway(model):
		return &unknown[Shut]
	}
	return r.Of(provider, model)
}

// OfSeat is OfMember for the pair of a seat.
func (r *Registry) OfSeat(seat *presence.Seat) *Opinion {
	return r.OfMember(seat.Session.Provider, seat.Offer.Model, seat.Session.Vendor)
}

// Shut reports whether a model of a provider gets no requests.
func (r *Registry) Shut(provider, model string) bool { return r.Of(provider, model).Lane == Shut }

// ShutSeat reports whether a seat gets no requests.
func (r *Registry) ShutSeat(seat *presence.Seat) bool { return r.OfSeat(seat).Lane == Shut }

// Pairs returns how many pairs are known, by lane.
func (r *Registry) Pairs() map[Lane]int64 {
	out := make(map[Lane]int64, lanes)
	for _, l := range Lanes() {
		out[l] = r.pairs[l].Load()
	}
	return out
}

// Full reports whether an opinion that restricts a provider has no room, so that all unknown
// pairs are in the probe lane.
func (r *Registry) Full() bool { return r.full.Load() }

// Dropped counts the opinions that found no room, each time that they were told.
func (r *Registry) Dropped() int64 { return r.dropped.Load() }

// Apply takes over a report. It reports whether all of the report is known now, or all of
// a newer report that came before.
func (r *Registry) Apply(rep Report) bool {
	r.mu.Lock()
	models, dropped, whole := r.applyLocked(rep)
	r.mu.Unlock()
	r.dropped.Add(int64(dropped))
	for _, m := range models {
		r.changed(m)
	}
	return whole
}

// applyLocked returns the models whose lane or window has changed, how many opinions found
// no room, and what Apply returns.
func (r *Registry) applyLocked(rep Report) (models []string, dropped int, whole bool) {
	before := &said{}
	v, known := r.providers.Load(rep.Provider)
	if known {
		before = v.(*said)
	}
	// The same report is tried again where a part of it found no room.
	if rep.Revision < before.revision || rep.Revision == before.revision && !before.partial {
		return nil, 0, !before.partial
	}
	opinions, left := merge(before, rep.Opinions)
	fitting, refused := r.fitLocked(before, opinions, known)
	after := &said{
		revision: rep.Revision, opinions: fitting, partial: len(fitting) < len(opinions),
		rest: max(before.rest, worst(left)),
	}
	r.noteLocked(rep.Provider, refused > none)
	dropped = len(left) + len(opinions) - len(fitting)
	if len(after.opinions) == 0 {
		return nil, dropped, !after.partial
	}
	if slices.Equal(before.opinions, after.opinions) {
		after.opinions = before.opinions // the usual case, which leaves no garbage
	}
	r.storeLocked(rep.Provider, before, after)
	return differing(before, after), dropped, !after.partial
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
