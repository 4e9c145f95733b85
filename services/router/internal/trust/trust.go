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
// forgotten to make room for another provider's, and nothing makes them leave (room.go has
// the ranks):
//
//   - At most MaxProviders providers and MaxPairs pairs are kept, MaxModels of one
//     provider. Where a provider has more, the models that its newest report does not name
//     leave first, the least severe opinions before all others. From then on the models of
//     this provider that are unknown have the lane of the most severe opinion that left.
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

// unknown is the opinion of a pair of which nothing was ever said, by the lane that it has:
// Main, but for what the package comment says.
var unknown = [lanes]Opinion{{Trust: 1}, {Trust: 1, Lane: Probe}, {Trust: 1, Lane: Shut}}

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
	// partial is set where an opinion of the report has found no room.
	partial bool
	// rest is the lane of the models that are unknown.
	rest Lane
}

func (s *said) find(model string) *Opinion {
	at, found := slices.BinarySearchFunc(s.opinions, model, byModel)
	if !found {
		return nil
	}
	return &s.opinions[at]
}

func (s *said) restricts() bool {
	return s.rest != Main || slices.ContainsFunc(s.opinions, func(o Opinion) bool { return o.severity() > none })
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

// Of returns what the verifier says of a pair. The caller must not change it.
func (r *Registry) Of(provider, model string) *Opinion {
	lane := Main
	if v, ok := r.providers.Load(provider); ok {
		kept := v.(*said)
		if o := kept.find(model); o != nil {
			return o
		}
		lane = kept.rest
	}
	if r.full.Load() {
		lane = max(lane, Probe)
	}
	return &unknown[lane]
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

// differing returns the models whose lane or window is another than before.
func differing(before, after *said) []string {
	var models []string
	for i := range after.opinions {
		o, old := &after.opinions[i], &unknown[Main]
		if found := before.find(o.Model); found != nil {
			old = found
		}
		if o.Lane != old.Lane || o.Window != old.Window {
			models = append(models, o.Model)
		}
	}
	return models
}
