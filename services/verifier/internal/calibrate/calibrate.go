// Package calibrate asks honest hosts until a stratum has its calibrations.
//
// # Round
//
// A Round asks every reference host of a class as many challenges as the tolerance limits
// want of each (calibration.Required), because limits over a mixture of hosts would let a
// host with half of the challenges exceed twice as often. The questions are those of
// probes: chats at both temperatures, with and without log-probabilities, and recalls of a
// quarter of the window to all of it. They come in batches of 1 to 32 at once, so that the
// load of a host is covered. Another host of the class scores the answers (package flow).
// Hosts of the next cheaper class are asked too, PowerChallenges for each family, which
// gives the power.
//
// # Samples
//
// What a challenge measured becomes Samples, one for each family, which are stored. A Round
// to which the stored samples are added goes on where it was: numbers of challenges grow,
// so that no question is answered twice. A question that never had an answer is put again,
// so that hosts that are away for long use up no numbers.
//
// # Giving up
//
// A family of which the first GiveUp answers of a host are all void is given up: a model
// that recalls no needles has no family D. The others are calibrated without it.
//
// # Time
//
// A calibration is due at first, on a new revision or engine (another stratum), and every
// 30 days. See the test of the development model for what one costs.
package calibrate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
)

const (
	// Interval is the time after which a stratum is calibrated again.
	Interval = 30 * 24 * time.Hour
	// PowerChallenges is how many observations of each family the next cheaper class has.
	PowerChallenges = 400
	// MaxBatch bounds how many questions a host is asked at once.
	MaxBatch = 32
	// MaxHosts bounds the hosts of a round.
	MaxHosts = 8
	// MaxNumber bounds the challenges of a round.
	MaxNumber = calibration.MaxChallenges
	// GiveUp is after how many void answers, and none that counts, a family is given up.
	GiveUp = 50
)

// Due reports whether a stratum whose last calibration ended at a time, zero for none, is to
// be calibrated.
func Due(last, now time.Time) bool { return last.IsZero() || now.Sub(last) >= Interval }

// Host is a reference host.
type Host struct {
	// Name is that of offers.Session.Host, and Provider the provider of the node.
	Name     string
	Provider ids.ProviderID
	// Cheaper reports whether the host serves the next cheaper class.
	Cheaper bool
}

// Order is what is to be calibrated.
type Order struct {
	Stratum calibration.Stratum
	// Hosts are those of the stratum's class, and of Cheaper.
	Hosts   []Host
	Cheaper quant.Class
	// Alternatives are what sampled answers are weighed against; Cooler and Hotter are
	// always.
	Alternatives []evidence.Alternative
	// WindowTokens is the smallest context window of the hosts.
	WindowTokens int
	// BytesPerToken is 0 where it is unknown: a token is taken for a byte then (plan.Ratio).
	BytesPerToken float64
	// Logprobs reports whether all hosts declare them. Embeddings is a model that makes
	// vectors.
	Logprobs, Embeddings bool
	// Challenges of each family and host; 0 is calibration.Required. Fewer reach no further
	// than watch, which is enough for a development.
	Challenges int
}

// Sample is what one challenge measured for one family.
type Sample struct {
	Family evidence.Family
	// Number names the challenge within its round, from 1.
	Number  int
	Host    string
	Cheaper bool
	// Body are the parts, or the ratios of family R (form.go).
	Body []byte
}

// Batch is what a host is asked at once.
type Batch struct {
	Host  Host
	Plans []probe.Plan
}

var (
	// ErrOrder is the error for what cannot be calibrated.
	ErrOrder = errors.New("not a calibration")
	// ErrSample is the error for a sample that is none of the round.
	ErrSample = errors.New("not a sample of the calibration")
)

// parts are how many parts the statistic of each family has.
var parts = map[evidence.Family]int{evidence.Greedy: 1, evidence.Logprobs: 2, evidence.Recall: 1, evidence.Usage: 3}

// Round is a calibration under way. It is not safe for concurrent use.
type Round struct {
	id    probe.RunID
	order Order
	// next is the number of the next challenge, and free are those of missed ones.
	next  int
	free  []int
	tally map[tallyKey]tally
	taken []taken
	// asked are the plans that were given out, by id, until they are heard of.
	asked map[probe.ID]asked
	seen  map[sampleKey]bool
}

type tallyKey struct {
	host   string
	family evidence.Family
}

// tally counts for a host and family: samples, questions under way, and void answers.
type tally struct{ have, asked, void int }

type asked struct {
	host   string
	number int
}

type sampleKey struct {
	family  evidence.Family
	cheaper bool
	number  int
}

// taken is a sample that was read.
type taken struct {
	Sample
	parts  []float64
	ratios map[evidence.Alternative]float64
}

// New begins a round.
func New(id probe.RunID, o Order) (*Round, error) {
	own := 0
	for i, h := range o.Hosts {
		twice := slices.ContainsFunc(o.Hosts[:i], func(e Host) bool { return e.Name == h.Name })
		if h.Name == "" || h.Provider.IsZero() || twice {
			return nil, fmt.Errorf("%w: the host %.80q", ErrOrder, h.Name)
		}
		if !h.Cheaper {
			own++
		}
	}
	switch {
	case id.IsZero(), o.Stratum.Model == "", own == 0:
		return nil, fmt.Errorf("%w: it has no id, no model or no host", ErrOrder)
	case len(o.Hosts) > MaxHosts:
		return nil, fmt.Errorf("%w: %d hosts", ErrOrder, len(o.Hosts))
	case own != len(o.Hosts) && !o.Cheaper.Known():
		return nil, fmt.Errorf("%w: the cheaper hosts have no class", ErrOrder)
	case o.WindowTokens < 1 || o.WindowTokens > probe.MaxPromptTokens, o.Challenges < 0 || o.Challenges > MaxNumber:
		return nil, fmt.Errorf("%w: %d tokens, %d challenges", ErrOrder, o.WindowTokens, o.Challenges)
	case o.BytesPerToken != 0 && !(o.BytesPerToken >= 1.0/16 && o.BytesPerToken <= 16):
		return nil, fmt.Errorf("%w: %v bytes a token", ErrOrder, o.BytesPerToken)
	}
	return &Round{
		id: id, order: o, next: 1, tally: map[tallyKey]tally{}, asked: map[probe.ID]asked{}, seen: map[sampleKey]bool{},
	}, nil
}

// families are those that the round calibrates.
func (r *Round) families() []evidence.Family {
	if r.order.Embeddings {
		return []evidence.Family{evidence.Greedy}
	}
	all := []evidence.Family{evidence.Greedy, evidence.Sampled, evidence.Usage}
	if r.order.Logprobs {
		all = append(all, evidence.Logprobs)
	}
	if plan.Recallable(r.order.WindowTokens, r.bytesPerToken(), plan.Needles) {
		all = append(all, evidence.Recall)
	}
	return all
}

// bytesPerToken returns the ratio of the order, or one that makes no prompt too long.
func (r *Round) bytesPerToken() float64 { return plan.Ratio(r.order.BytesPerToken) }

// need returns how many samples of a family a host must give. A cheaper host gives none of
// family R, whose ratios are powerful by themselves, and of U, which no class changes.
func (r *Round) need(h Host, f evidence.Family) int {
	if h.Cheaper {
		if f == evidence.Sampled || f == evidence.Usage {
			return 0
		}
		return min(PowerChallenges, r.challenges(f))
	}
	return r.challenges(f)
}

func (r *Round) challenges(f evidence.Family) int {
	if r.order.Challenges > 0 {
		return r.order.Challenges
	}
	n, _ := calibration.Required(max(parts[f], 1)) // 1 to 3 parts have a number
	return n
}

// lacks returns how many more answers a host must be asked for, those under way counted as
// given: none for a family that the round does not calibrate.
func (r *Round) lacks(h Host, f evidence.Family) int {
	t := r.tally[tallyKey{h.Name, f}]
	if t.have == 0 && t.void >= GiveUp || !slices.Contains(r.families(), f) {
		return 0
	}
	return max(0, r.need(h, f)-t.have-t.asked)
}

// Done reports whether nothing more is asked. Answers may still be under way.
func (r *Round) Done() bool {
	if r.next > MaxNumber && len(r.free) == 0 {
		return true
	}
	for _, h := range r.order.Hosts {
		for _, f := range r.families() {
			if r.lacks(h, f) > 0 {
				return false
			}
		}
	}
	return true
}

// Progress returns how many samples there are and how many the round wants.
func (r *Round) Progress() (have, want int) {
	for _, h := range r.order.Hosts {
		for _, f := range r.families() {
			t := r.tally[tallyKey{h.Name, f}]
			if t.have > 0 || t.void < GiveUp {
				need := r.need(h, f)
				have, want = have+min(t.have, need), want+need
			}
		}
	}
	return have, want
}

// GivenUp returns the families that some host gave no sample of.
func (r *Round) GivenUp() []evidence.Family {
	var all []evidence.Family
	for _, f := range r.families() {
		if slices.ContainsFunc(r.order.Hosts, func(h Host) bool {
			t := r.tally[tallyKey{h.Name, f}]
			return t.have == 0 && t.void >= GiveUp
		}) {
			all = append(all, f)
		}
	}
	return all
}
