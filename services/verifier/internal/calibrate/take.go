package calibrate

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// Took takes the record of a challenge and returns its samples, which are to be stored. A
// record that proves nothing has none.
func (r *Round) Took(rec judge.Record) ([]Sample, error) {
	a, there := r.asked[rec.Plan.ID]
	if !there {
		return nil, fmt.Errorf("%w: nothing is asked by %v", ErrSample, rec.Plan.ID)
	}
	j, err := judged(rec)
	if err != nil {
		return nil, err
	}
	r.settle(a.host, rec.Plan)
	cheaper := r.host(a.host).Cheaper
	var samples []Sample
	for _, f := range families(rec.Plan) {
		body := bodyOf(f, j)
		if body == nil {
			t := r.tally[tallyKey{a.host, f}]
			t.void++
			r.tally[tallyKey{a.host, f}] = t
			continue
		}
		samples = append(samples, Sample{Family: f, Number: a.number, Host: a.host, Cheaper: cheaper, Body: body})
	}
	return samples, r.Add(samples...)
}

// Missed hears of a challenge that has no record. Its number is asked again.
func (r *Round) Missed(p probe.Plan) {
	if a, there := r.asked[p.ID]; there {
		r.settle(a.host, p)
		r.free = append(r.free, a.number)
	}
}

// settle takes a question out of those under way.
func (r *Round) settle(host string, p probe.Plan) {
	delete(r.asked, p.ID)
	r.count(host, p, -1)
}

// judged returns what a record says in all families of its kind. A calibration asks as a
// challenge what a hidden probe would ask, and judges it as one; no calibration judges it.
func judged(rec judge.Record) (judge.Judgement, error) {
	rec.Plan.Flow, rec.Plan.Feeds, rec.Calibrations = probe.Hidden, evidence.NoFamily, nil
	j, err := judge.Judge(rec)
	if err != nil {
		return judge.Judgement{}, fmt.Errorf("judge a challenge of a calibration: %w", err)
	}
	return j, nil
}

// bodyOf returns what a judgement says of a family, nil for nothing.
func bodyOf(f evidence.Family, j judge.Judgement) []byte {
	if f == evidence.Sampled {
		return ratiosBody(j.Ratios)
	}
	if p := j.Parts[f]; len(p) == parts[f] && !slices.ContainsFunc(p, notPart) {
		return partsBody(p)
	}
	return nil
}

func notPart(x float64) bool { return !(x >= 0 && x <= calibration.MaxPart) }

// Add adds samples, the stored ones of an earlier life or new ones. One that is there
// already changes nothing.
func (r *Round) Add(samples ...Sample) error {
	for _, s := range samples {
		t, err := r.read(s)
		if err != nil {
			return err
		}
		key := sampleKey{s.Family, s.Cheaper, s.Number}
		if r.seen[key] {
			continue
		}
		r.seen[key] = true
		r.taken = append(r.taken, t)
		r.next = max(r.next, s.Number+1)
		count := r.tally[tallyKey{s.Host, s.Family}]
		count.have++
		r.tally[tallyKey{s.Host, s.Family}] = count
	}
	return nil
}

// read checks a sample. A host that has left the order since is one that is not asked
// again; what it said stays.
func (r *Round) read(s Sample) (taken, error) {
	t := taken{Sample: s}
	if s.Number < 1 || s.Number > MaxNumber || s.Host == "" {
		return t, fmt.Errorf("%w: number %d of the host %.80q", ErrSample, s.Number, s.Host)
	}
	var ok bool
	if s.Family == evidence.Sampled {
		t.ratios, ok = readRatios(s.Body)
	} else {
		t.parts, ok = readParts(s.Body, parts[s.Family])
	}
	if !ok {
		return t, fmt.Errorf("%w: %d bytes of %v", ErrSample, len(s.Body), s.Family)
	}
	return t, nil
}

func (r *Round) host(name string) Host {
	for _, h := range r.order.Hosts {
		if h.Name == name {
			return h
		}
	}
	return Host{}
}

// partsBody is the form of parts: 8 bytes each.
func partsBody(p statistic.Parts) []byte {
	var b []byte
	for _, x := range p {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

func readParts(b []byte, k int) ([]float64, bool) {
	if k == 0 || len(b) != 8*k {
		return nil, false
	}
	var p []float64
	for ; len(b) > 0; b = b[8:] {
		p = append(p, math.Float64frombits(binary.BigEndian.Uint64(b)))
	}
	return p, !slices.ContainsFunc(p, notPart)
}

// ratiosBody is the form of ratios: the alternative and 8 bytes each, in the order of
// alternatives.
func ratiosBody(ratios map[evidence.Alternative]float64) []byte {
	var b []byte
	for g := range evidence.Alternative(evidence.Alternatives) {
		if x, there := ratios[g]; there && isRatio(x) {
			b = binary.BigEndian.AppendUint64(append(b, byte(g)), math.Float64bits(x))
		}
	}
	return b
}

func isRatio(x float64) bool { return x >= 0 && x <= evidence.MaxRatio }

func readRatios(b []byte) (map[evidence.Alternative]float64, bool) {
	ratios, last := map[evidence.Alternative]float64{}, -1
	for ; len(b) >= 9; b = b[9:] {
		g, x := evidence.Alternative(b[0]), math.Float64frombits(binary.BigEndian.Uint64(b[1:]))
		if g >= evidence.Alternatives || int(g) <= last || !isRatio(x) {
			return nil, false
		}
		ratios[g], last = x, int(g)
	}
	return ratios, len(b) == 0 && last >= 0
}
