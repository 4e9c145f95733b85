// Package trust keeps what the verifier says of each model of each provider: its trust,
// its lane, its measured window, and until when a new provider is spared.
//
// The newest report of a provider counts, by the report's revision. Reports that are older
// or come twice change nothing, so reports in any order end in the same opinions. A model
// that the newest report does not name keeps its last opinion, because only a pair of
// provider and model of which nothing was ever said is unknown. So does a model whose
// opinion in the report is older than the opinion that is kept.
//
// An unknown pair has trust 1 in the main lane and no measured window. So a provider gains
// when its opinions are forgotten, and providers can make more of their accounts and
// models than there is room for. Therefore opinions that restrict a provider are never
// forgotten, and nothing makes them leave:
//
//   - At most MaxProviders providers and MaxPairs pairs are kept, MaxModels of one
//     provider. Where a provider has more, the models that its newest report does not name
//     leave first, the unrestricted ones before all others.
//   - Providers without a restriction fill at most three quarters of the room. The last
//     quarter is for restricted ones.
//   - While three quarters are nearly full, Trim forgets providers that are neither
//     restricted nor connected. The verifier's next report brings them back.
//
// What finds no room is counted as dropped.
package trust

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxReported bounds the models of one report.
	MaxReported = 256
	// MaxModels bounds the models that are kept of one provider.
	MaxModels = 512
	// MaxProviders bounds the providers; the view has as many sessions.
	MaxProviders = 200_000
	// MaxPairs bounds the pairs of provider and model, which take about 150 MiB.
	MaxPairs = 1_000_000
	// leastPlain is the least trust of a provider of which nothing bad was found.
	leastPlain = 0.8
)

// Lane says which requests a model of a provider gets.
type Lane uint8

// The lanes.
const (
	// Main gets any request.
	Main Lane = iota
	// Probe gets what a degraded provider gets.
	Probe
	// Shut gets none, pinned ones included.
	Shut
	lanes // the number of lanes
)

// String returns the lane as providers see it. The words are part of the contract.
func (l Lane) String() string {
	switch l {
	case Probe:
		return "probe"
	case Shut:
		return "shut"
	default:
		return "main"
	}
}

// Lanes lists all lanes.
func Lanes() []Lane { return []Lane{Main, Probe, Shut} }

// Opinion is what the verifier says of one model of one provider.
type Opinion struct {
	Model string
	// Trust is above 0 and at most 1.
	Trust float64
	Lane  Lane
	// Window is the measured window in tokens; 0 where none was measured.
	Window int64
	// GraceUntil is until when uptime and success are spared; zero where they are not.
	GraceUntil time.Time
	// Revision grows with every change. It is 0 for an unknown pair only.
	Revision int64
}

// Known reports whether the verifier has ever said anything of the pair.
func (o *Opinion) Known() bool { return o.Revision > 0 }

// Restricts reports whether the pair gets less than an unknown pair because of something
// that was found.
func (o *Opinion) Restricts() bool { return o.Lane != Main || o.Window > 0 || o.Trust < leastPlain }

// unknown is the opinion of every pair of which nothing was ever said.
var unknown = Opinion{Trust: 1}

// Report is all that the verifier says of one provider. Each model is named once.
type Report struct {
	Provider string
	// Revision grows with every report of the provider, and is above 0.
	Revision int64
	Opinions []Opinion
}

// said is what is kept of one provider. It never changes.
type said struct {
	revision int64
	opinions []Opinion // ordered by model
}

func (s *said) find(model string) *Opinion {
	at, found := slices.BinarySearchFunc(s.opinions, model, byModel)
	if !found {
		return nil
	}
	return &s.opinions[at]
}

func (s *said) restricts() bool {
	return slices.ContainsFunc(s.opinions, func(o Opinion) bool { return o.Restricts() })
}

func byModel(o Opinion, model string) int { return strings.Compare(o.Model, model) }

// Registry is safe for concurrent use. Readers take no lock.
type Registry struct {
	changed func(model string)

	providers sync.Map // id to *said

	mu           sync.Mutex // held by writers
	maxProviders int
	maxPairs     int
	kept         int // providers

	pairs   [lanes]atomic.Int64
	dropped atomic.Int64
}

// New returns a registry in which every pair is unknown. changed is called, without locks
// held, for each model of which a provider has got another lane or another window.
func New(changed func(model string)) *Registry {
	return &Registry{changed: changed, maxProviders: MaxProviders, maxPairs: MaxPairs}
}

// Of returns what the verifier says of a pair. The caller must not change it.
func (r *Registry) Of(provider, model string) *Opinion {
	if v, ok := r.providers.Load(provider); ok {
		if o := v.(*said).find(model); o != nil {
			return o
		}
	}
	return &unknown
}

// Shut reports whether a model of a provider gets no requests.
func (r *Registry) Shut(provider, model string) bool { return r.Of(provider, model).Lane == Shut }

// Pairs returns how many pairs are known, by lane.
func (r *Registry) Pairs() map[Lane]int64 {
	out := make(map[Lane]int64, lanes)
	for _, l := range Lanes() {
		out[l] = r.pairs[l].Load()
	}
	return out
}

// Dropped counts the opinions that found no room.
func (r *Registry) Dropped() int64 { return r.dropped.Load() }

// Apply takes over a report. It reports whether all of the report is known now, which is
// also so where a newer report came before.
func (r *Registry) Apply(rep Report) bool {
	r.mu.Lock()
	models, dropped := r.applyLocked(rep)
	r.mu.Unlock()
	r.dropped.Add(int64(dropped))
	for _, m := range models {
		r.changed(m)
	}
	return dropped == 0
}

// applyLocked returns the models whose lane or window has changed, and how many opinions
// found no room.
func (r *Registry) applyLocked(rep Report) (models []string, dropped int) {
	before := &said{}
	v, known := r.providers.Load(rep.Provider)
	if known {
		before = v.(*said)
	}
	if rep.Revision <= before.revision {
		return nil, 0
	}
	opinions, dropped := merge(before, rep.Opinions)
	after := &said{revision: rep.Revision, opinions: r.fitLocked(before, opinions, known)}
	dropped += len(opinions) - len(after.opinions)
	if len(after.opinions) == 0 {
		return nil, dropped
	}
	if slices.Equal(before.opinions, after.opinions) {
		after.opinions = before.opinions // the usual case, which leaves no garbage
	}
	r.storeLocked(rep.Provider, before, after)
	return differing(before, after), dropped
}

// fitLocked returns the opinions that there is room for: those of pairs that are known
// already, whatever they say now, and as many kinds of the new ones as fit, the
// restricting ones before the others.
func (r *Registry) fitLocked(before *said, opinions []Opinion, known bool) []Opinion {
	plain, restricting := 0, 0
	for i := range opinions {
		switch {
		case before.find(opinions[i].Model) != nil:
		case opinions[i].Restricts():
			restricting++
		default:
			plain++
		}
	}
	total := r.totalLocked()
	takesPlain := total+plain+restricting <= plainShare(r.maxPairs) &&
		(known || restricting > 0 || r.kept < plainShare(r.maxProviders))
	takesRestricting := total+restricting <= r.maxPairs && (known || r.kept < r.maxProviders)
	if (plain == 0 || takesPlain) && (restricting == 0 || takesRestricting) {
		return opinions
	}
	return slices.DeleteFunc(slices.Clone(opinions), func(o Opinion) bool {
		fits := takesPlain
		if o.Restricts() {
			fits = takesRestricting
		}
		return before.find(o.Model) == nil && !fits
	})
}

// plainShare is the part of the room that providers without a restriction may fill.
func plainShare(limit int) int { return limit - limit/4 }

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
	full := r.kept >= plainShare(r.maxProviders)*9/10 || r.totalLocked() >= plainShare(r.maxPairs)*9/10
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

// merge returns what is known after a report, ordered by model, and how many opinions
// found no room.
func merge(before *said, report []Opinion) (opinions []Opinion, dropped int) {
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
	dropped = max(len(opinions)-MaxModels, 0)
	if dropped > 0 {
		rest := opinions[len(named):]
		slices.SortStableFunc(rest, restrictedFirst)
		opinions = opinions[:MaxModels]
	}
	slices.SortFunc(opinions, func(a, b Opinion) int { return strings.Compare(a.Model, b.Model) })
	return opinions, dropped
}

func restrictedFirst(a, b Opinion) int {
	switch x, y := a.Restricts(), b.Restricts(); {
	case x == y:
		return 0
	case x:
		return -1
	default:
		return 1
	}
}

// differing returns the models whose lane or window is another than before.
func differing(before, after *said) []string {
	var models []string
	for i := range after.opinions {
		o, old := &after.opinions[i], &unknown
		if found := before.find(o.Model); found != nil {
			old = found
		}
		if o.Lane != old.Lane || o.Window != old.Window {
			models = append(models, o.Model)
		}
	}
	return models
}
