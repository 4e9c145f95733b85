package lab

import (
	"context"
	"fmt"

	"svc.internal/pkg/tinylm"
	tinylab "svc.internal/pkg/tinylm/lab"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/statistic"
)

// judge judges answers by references and calibrations of the base model.
type judge struct {
	reference *tinylm.Model
	others    map[evidence.Alternative]*tinylm.Model
	b, c, r   calibration.Calibration
}

// Challenges of the two hosts together. Some greedy and nearly half of the sampled answers
// are void, because the model ends early. So these are more than the 1,903 of C and the
// 1,604 of R for each host.
const (
	greedyChallenges  = 2 * 2_000
	sampledChallenges = 2 * 3_200
)

// stratum is that of the laboratory.
var stratum = calibration.Stratum{Model: "tinylm-lab", Class: quant.Bits16, Engine: "tinylm", GPU: "none"}

// newJudge calibrates with two honest hosts, which answer the required number of questions
// each.
func newJudge(ctx context.Context, o Options, questions []question) (*judge, error) {
	base := tinylab.Base()
	j := &judge{
		reference: tinylab.Honest(base, referenceSeed),
		others: map[evidence.Alternative]*tinylm.Model{
			evidence.Class8:  tinylab.Host(base, tinylm.Variant{Seed: referenceSeed, WeightBits: 8}),
			evidence.Class4:  tinylab.Host(base, tinylm.Variant{Seed: referenceSeed, WeightBits: 4}),
			evidence.Sibling: tinylab.Honest(tinylab.Smaller(), referenceSeed),
		},
	}
	hosts := []server{serve(tinylab.Honest(base, hostSeed)), serve(tinylab.Honest(base, hostSeed+1))}
	if err := j.fitGreedy(ctx, o, questions, hosts); err != nil {
		return nil, err
	}
	return j, j.fitSampled(ctx, o, questions, hosts)
}

func hostName(i int) string { return fmt.Sprint("host ", i) }

// fitGreedy calibrates B and C by the same challenges.
func (j *judge) fitGreedy(ctx context.Context, o Options, questions []question, hosts []server) error {
	said, err := spread(ctx, o, greedyChallenges, func(ctx context.Context, i int) (greedy, error) {
		return j.greedy(ctx, questions[i], hosts[i%len(hosts)])
	})
	if err != nil {
		return err
	}
	var b, c []calibration.Challenge
	for i, s := range said {
		if s.voidB != statistic.None || s.voidC != statistic.None {
			continue
		}
		b = append(b, calibration.Challenge{Host: hostName(i % len(hosts)), Parts: s.b})
		c = append(c, calibration.Challenge{Host: hostName(i % len(hosts)), Parts: s.c})
	}
	if j.b, err = calibration.Fit(stratum, evidence.Greedy, 1, b); err != nil {
		return fmt.Errorf("calibrate B: %w", err)
	}
	if j.c, err = calibration.Fit(stratum, evidence.Logprobs, 2, c); err != nil {
		return fmt.Errorf("calibrate C: %w", err)
	}
	return nil
}

// fitSampled calibrates R.
func (j *judge) fitSampled(ctx context.Context, o Options, questions []question, hosts []server) error {
	said, err := spread(ctx, o, sampledChallenges, func(ctx context.Context, i int) (ratios, error) {
		return j.ratios(ctx, questions[i], hosts[i%len(hosts)])
	})
	if err != nil {
		return err
	}
	all := map[evidence.Alternative][]calibration.Ratio{}
	for i, s := range said {
		for g, ratio := range s.of {
			all[g] = append(all[g], calibration.Ratio{Host: hostName(i % len(hosts)), Value: ratio})
		}
	}
	if j.r, err = calibration.FitRatios(stratum, all); err != nil {
		return fmt.Errorf("calibrate R: %w", err)
	}
	return nil
}

// greedy is what an answer at temperature 0 says for B and C.
type greedy struct {
	b, c         statistic.Parts
	voidB, voidC statistic.Void
}

func (j *judge) greedy(ctx context.Context, q question, s server) (greedy, error) {
	r, err := s(ctx, q, 0)
	if err != nil {
		return greedy{}, err
	}
	positions, err := score(ctx, j.reference, q, r.text)
	if err != nil {
		return greedy{}, err
	}
	var g greedy
	g.b, g.voidB = statistic.Greedy(positions)
	g.c, g.voidC = statistic.Declared(positions, r.declared, r.text, true)
	return g, nil
}

// ratios are the likelihood ratios of an answer at temperature 1, none of a void one. sum is
// the logarithm of its probability.
type ratios struct {
	of  map[evidence.Alternative]float64
	sum float64
}

func (j *judge) ratios(ctx context.Context, q question, s server) (ratios, error) {
	r, err := s(ctx, q, 1)
	if err != nil {
		return ratios{}, err
	}
	positions, err := score(ctx, j.reference, q, r.text)
	if err != nil || statistic.Screen(positions) != statistic.None {
		return ratios{}, err
	}
	out := ratios{of: map[evidence.Alternative]float64{}}
	for _, p := range positions {
		out.sum += p.Own.Logprob.Nats()
	}
	for g, model := range j.others {
		other, err := score(ctx, model, q, r.text)
		if err != nil {
			return ratios{}, err
		}
		if err := out.set(g)(statistic.RatioAgainst(positions, other)); err != nil {
			return ratios{}, err
		}
	}
	if err := out.set(evidence.Cooler)(statistic.RatioAtTemperature(positions, statistic.Cool)); err != nil {
		return ratios{}, err
	}
	return out, out.set(evidence.Hotter)(statistic.RatioAtTemperature(positions, statistic.Hot))
}

// set returns a function that keeps a ratio, which is not void behind the screening.
func (r ratios) set(g evidence.Alternative) func(float64, statistic.Void) error {
	return func(ratio float64, v statistic.Void) error {
		if v != statistic.None {
			return fmt.Errorf("a ratio against %v is void: %s", g, v)
		}
		r.of[g] = ratio
		return nil
	}
}

// observation is what the ratios of an answer are as evidence, and false for a void one.
func (j *judge) observation(r ratios) (evidence.Observation, bool, error) {
	if len(r.of) == 0 {
		return evidence.Observation{}, false, nil
	}
	var out evidence.Ratios
	for _, m := range j.r.Ratios {
		bound, err := m.Bound()
		if err != nil {
			return evidence.Observation{}, false, err
		}
		if err := out.Set(m.Alternative, r.of[m.Alternative], bound); err != nil {
			return evidence.Observation{}, false, err
		}
	}
	o, err := evidence.Weighed(out)
	return o, err == nil, err
}
