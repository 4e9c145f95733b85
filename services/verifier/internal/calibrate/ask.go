package calibrate

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
)

// The questions, which are like those of probes.
const (
	shortestBytes = 240
	longestTokens = 1_200
	minAnswer     = 48
	maxAnswer     = 160
	topLogprobs   = 5
)

// Next returns the next batch: of the host that lacks most, 1 to 32 questions at once. It
// reports false when nothing more is to be asked. Every plan must be heard of, by Took or
// Missed.
func (r *Round) Next() (Batch, bool) {
	if r.Done() {
		return Batch{}, false
	}
	var host Host
	largest := 0
	for _, h := range r.order.Hosts {
		lacks := 0
		for _, f := range r.families() {
			lacks += r.lacks(h, f)
		}
		if lacks > largest {
			host, largest = h, lacks
		}
	}
	b := Batch{Host: host}
	size := 1 << r.dice(r.number(), "batch").IntN(6)
	for len(b.Plans) < min(size, MaxBatch) && r.number() <= MaxNumber {
		n := r.number()
		p, ok := r.plan(n, host)
		if !ok {
			break
		}
		r.asked[p.ID] = asked{host.Name, n}
		r.count(host.Name, p, 1)
		b.Plans = append(b.Plans, p)
		if k := len(r.free); k > 0 {
			r.free = r.free[:k-1]
		} else {
			r.next++
		}
	}
	return b, len(b.Plans) > 0
}

// number returns the number of the next challenge: that of a missed one before a new one.
func (r *Round) number() int {
	if k := len(r.free); k > 0 {
		return r.free[k-1]
	}
	return r.next
}

// count adds to the questions under way of the families that a plan asks.
func (r *Round) count(host string, p probe.Plan, by int) {
	for _, f := range families(p) {
		t := r.tally[tallyKey{host, f}]
		t.asked += by
		r.tally[tallyKey{host, f}] = t
	}
}

// families are those that an answer to a plan gives samples of.
func families(p probe.Plan) []evidence.Family {
	chat := evidence.Sampled
	if p.Greedy {
		chat = evidence.Greedy
	}
	switch p.Kind {
	case probe.Logprobs:
		return []evidence.Family{chat, evidence.Logprobs, evidence.Usage}
	case probe.Recall:
		return []evidence.Family{evidence.Recall, evidence.Usage}
	case probe.Embedding:
		return []evidence.Family{evidence.Greedy}
	default:
		return []evidence.Family{chat, evidence.Usage}
	}
}

// plan returns the next question for a host: of a kind that it lacks, drawn by how much it
// lacks.
func (r *Round) plan(number int, h Host) (probe.Plan, bool) {
	d := r.dice(number, "question")
	p := probe.Plan{
		ID: r.probe(number), Flow: probe.Visible, Purpose: probe.Calibration, Run: r.id,
		DueAt: r.id.Time().UTC(), BytesPerToken: r.bytesPerToken(), Stratum: r.order.Stratum,
		Streamed: d.IntN(2) == 0,
	}
	p.Offer = probe.Offer{Provider: h.Provider, Model: r.order.Stratum.Model}
	if !r.kind(d, h, &p) {
		return probe.Plan{}, false
	}
	if p.Kind == probe.Embedding {
		p.Streamed = false
	}
	return p, true
}

// kind draws what is asked.
func (r *Round) kind(d *rand.Rand, h Host, p *probe.Plan) bool {
	greedy, sampled := r.lacks(h, evidence.Greedy), r.lacks(h, evidence.Sampled)
	logprobs, recall := r.lacks(h, evidence.Logprobs), r.lacks(h, evidence.Recall)
	usage := 0
	if greedy+sampled+logprobs+recall == 0 {
		usage = r.lacks(h, evidence.Usage)
	}
	total := greedy + sampled + logprobs + recall + usage
	if total == 0 {
		return false
	}
	r.chat(d, p)
	switch at := d.IntN(total); {
	case r.order.Embeddings:
		p.Kind, p.Greedy, p.MaxTokens = probe.Embedding, false, 0
	case at < greedy+usage:
		p.Kind, p.Greedy = probe.Greedy, true
	case at < greedy+usage+sampled:
		p.Kind = probe.Sampled
	case at < greedy+usage+sampled+logprobs:
		p.Kind, p.TopLogprobs, p.Greedy = probe.Logprobs, topLogprobs, d.IntN(2) == 0
	default:
		r.recall(d, p)
	}
	if !p.Greedy && p.Kind != probe.Embedding {
		p.Alternatives = r.alternatives()
	}
	return true
}

// chat sets the lengths of a chat, evenly in its range.
func (r *Round) chat(d *rand.Rand, p *probe.Plan) {
	p.MaxTokens = minAnswer + d.IntN(maxAnswer-minAnswer+1)
	shortest := int(shortestBytes / r.bytesPerToken())
	room := min(longestTokens, r.order.WindowTokens-maxAnswer-plan.Spare(r.bytesPerToken())) - shortest
	p.PromptTokens = max(1, shortest+d.IntN(max(1, room)))
}

// recall sets the size and the needles of a recall.
func (r *Round) recall(d *rand.Rand, p *probe.Plan) {
	p.Kind, p.Greedy = probe.Recall, true
	p.MaxTokens = plan.RecallAnswer(plan.Needles, r.bytesPerToken())
	share := .25 + .73*d.Float64()
	tokens := min(int(share*float64(r.order.WindowTokens)), r.order.WindowTokens-p.MaxTokens-plan.Spare(r.bytesPerToken()))
	plan.Place(d, p, tokens, plan.Needles)
}

func (r *Round) alternatives() []evidence.Alternative {
	var all []evidence.Alternative
	for g := range evidence.Alternative(evidence.Alternatives) {
		there := g == evidence.Cooler || g == evidence.Hotter
		for _, a := range r.order.Alternatives {
			there = there || a == g
		}
		if there {
			all = append(all, g)
		}
	}
	return all
}

// probe returns the id of a challenge: a UUID of version 7 of the round's beginning. Its
// prompt follows from it and from the verifier's secret.
func (r *Round) probe(number int) probe.ID {
	sum := r.sum("id", number)
	var id probe.ID
	copy(id[:6], r.id[:6])
	copy(id[6:], sum[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

func (r *Round) sum(purpose string, number int) [32]byte {
	text := fmt.Appendf(nil, "svc calibrate v1 %s %x ", purpose, r.id[:])
	return sha256.Sum256(binary.BigEndian.AppendUint64(text, uint64(number)))
}

func (r *Round) dice(number int, purpose string) *rand.Rand {
	return rand.New(rand.NewChaCha8(r.sum(purpose, number))) //nolint:gosec // kinds and sizes, no secrets
}
