package trust

import (
	"slices"
	"strings"
	"time"
)

const (
	// MaxModels bounds the models that are kept of one provider.
	MaxModels = 512
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
	// rest is the worst lane of the opinions that left.
	rest Lane
}

func (s *said) find(model string) *Opinion {
	at, found := slices.BinarySearchFunc(s.opinions, model, byModel)
	if !found {
		return nil
	}
	return &s.opinions[at]
}

// further returns the lane of the models of which nothing was said. Where a part of a report
// found no room, any of them may be one that restricts little.
func (s *said) further() Lane {
	if len(s.opinions) > 0 && !s.partial {
		return Shut
	}
	return s.rest
}

func (s *said) restricts() bool {
	return s.rest != Main || slices.ContainsFunc(s.opinions, func(o Opinion) bool { return o.severity() > none })
}

func byModel(o Opinion, model string) int { return strings.Compare(o.Model, model) }

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

// differing returns the models whose lane or window is another than before.
func differing(before, after *said) []string {
	var models []string
	for i := range after.opinions {
		o, old := &after.opinions[i], &unknown[before.further()]
		if found := before.find(o.Model); found != nil {
			old = found
		}
		if o.Lane != old.Lane || o.Window != old.Window {
			models = append(models, o.Model)
		}
	}
	return models
}
