package lab

import (
	"context"
	"fmt"

	"svc.internal/pkg/tinylm"
	tinylab "svc.internal/pkg/tinylm/lab"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
	"svc.internal/services/verifier/internal/statistic"
)

// trials is the number of answers of each cheat, for each temperature.
const trials = 200

// trialPool is the number of questions that these are taken from.
const trialPool = 3 * trials

// cheat is a provider that serves something else than it states, and what the design says
// of it. A figure of 0 is none.
type cheat struct {
	name   string
	serves server
	// b and c are the shares of answers that exceed.
	b, c float64
	// r is the number of sampled answers until a notice, in 95 of 100 cases.
	r float64
	// median and late are the days until a notice on the ladder, with half of the probes
	// at temperature 0, in 50 and 95 of 100 cases.
	median, late float64
	// longer is how many tokens a prompt has at least that the cheat is asked.
	longer int
}

// keptTokens is how much of a prompt is left by the cheat that truncates prompts. It is
// asked prompts that are truncated.
const keptTokens = 48

// asked are the questions of the pool that the cheat is asked.
func (c cheat) asked(pool []question) []question {
	var all []question
	for _, q := range pool {
		if len(q.prompt) >= c.longer && len(all) < trials {
			all = append(all, q)
		}
	}
	return all
}

// cheats are those of the design that show in B, C or R.
func cheats(all []question) []cheat {
	base, tepid := tinylab.Base(), .7
	variant := func(v tinylm.Variant) server {
		v.Seed = cheatSeed
		return serve(tinylab.Host(base, v))
	}
	return []cheat{
		{"other size", serve(tinylab.Honest(tinylab.Smaller(), cheatSeed)), 1, 0, 8, .5, 1, 0},
		{"other training", serve(tinylab.Honest(tinylab.OtherTraining(), cheatSeed)), .46, 1, 0, 2.7, 5.6, 0},
		{"fine-tune", serve(tinylab.Host(tinylab.FineTune(), tinylm.Variant{Seed: cheatSeed})), .46, 1, 0, 2.7, 5.6, 0},
		{"4-bit for 16", variant(tinylm.Variant{WeightBits: 4}), .85, 1, 16, 1.2, 2.5, 0},
		{"8-bit for 16", variant(tinylm.Variant{WeightBits: 8}), .08, 1, 0, 0, 0, 0},
		{"temperature trick", variant(tinylm.Variant{Temperature: &tepid}), .96, 0, 9, 1, 2, 0},
		{"truncated prompts", variant(tinylm.Variant{KeepTokens: keptTokens}), .4, .94, 0, 3.3, 7, keptTokens + 8},
		{"cached replies", fromCache(tinylab.Honest(base, cheatSeed), all), 1, 0, 0, 1, 2, 0},
	}
}

// seen is what the trials of a provider say.
type seen struct {
	b, c    float64 // the share of answers that exceed
	greedy  []evidence.Observation
	sampled []evidence.Observation
	replays float64 // the share of sampled answers that are improbable twice
}

// powers measures B, C and R.
func powers(ctx context.Context, o Options, report *Report) error {
	reference := tinylab.Honest(tinylab.Base(), referenceSeed)
	questions, err := screened(ctx, o, reference, max(greedyChallenges, sampledChallenges)+trialPool)
	if err != nil {
		return err
	}
	asked, pool := questions[trialPool:], questions[:trialPool]
	j, err := newJudge(ctx, o, asked)
	if err != nil {
		return err
	}
	report.calibrated(j)
	honest, err := j.watch(ctx, o, pool[:trials], serve(tinylab.Honest(tinylab.Base(), cheatSeed)))
	if err != nil {
		return err
	}
	report.add(notAbove("honest host: B exceeds", calibration.Q0, honest.b, .01))
	report.add(notAbove("honest host: C exceeds", calibration.Q0, honest.c, .01))
	report.add(notBelow("replayed answer: U exceeds", .95, honest.replays, .05))
	for _, c := range cheats(pool) {
		got, err := j.watch(ctx, o, c.asked(pool), c.serves)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := report.cheat(ctx, o, c, got); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// calibrated adds whether the calibrations suffice for a penalty.
func (r *Report) calibrated(j *judge) {
	for _, c := range []calibration.Calibration{j.b, j.c, j.r} {
		r.add(Gate{
			Name: "calibration of " + c.Family.Letter() + " reaches", Designed: string(calibration.ReachPenalty),
			Measured:  string(c.Reach(calibration.MinReferences)),
			Tolerance: "none", Met: c.Reach(calibration.MinReferences) == calibration.ReachPenalty,
		})
	}
}

// watch asks a provider every question at both temperatures.
func (j *judge) watch(ctx context.Context, o Options, questions []question, s server) (seen, error) {
	type pair struct {
		greedy greedy
		ratios ratios
	}
	said, err := spread(ctx, o, len(questions), func(ctx context.Context, i int) (pair, error) {
		g, err := j.greedy(ctx, questions[i], s)
		if err != nil {
			return pair{}, err
		}
		r, err := j.ratios(ctx, questions[i], s)
		return pair{g, r}, err
	})
	if err != nil {
		return seen{}, err
	}
	var out seen
	var declared, exceeded, replayed int
	for _, p := range said {
		if p.greedy.voidB == statistic.None {
			o, err := j.judged(p.greedy)
			if err != nil {
				return seen{}, err
			}
			out.greedy = append(out.greedy, o)
		}
		if p.greedy.voidC == statistic.None {
			b, err := j.c.Exceeds(p.greedy.c)
			if err != nil {
				return seen{}, err
			}
			declared++
			exceeded += count(b)
		}
		o, ok, err := j.observation(p.ratios)
		if err != nil {
			return seen{}, err
		}
		if ok {
			out.sampled = append(out.sampled, o)
			replayed += count(p.ratios.sum <= -16)
		}
	}
	for _, o := range out.greedy {
		out.b += float64(count(o.Exceeded()))
	}
	out.b /= float64(max(len(out.greedy), 1))
	out.c = float64(exceeded) / float64(max(declared, 1))
	out.replays = float64(replayed) / float64(max(len(out.sampled), 1))
	return out, nil
}

// judged is the observation of B.
func (j *judge) judged(g greedy) (evidence.Observation, error) {
	exceeded, err := j.b.Exceeds(g.b)
	if err != nil {
		return evidence.Observation{}, err
	}
	return evidence.Judged(evidence.Greedy, exceeded)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// powerTolerance is that of the design, and ratioTolerance is a share of the figure.
const (
	powerTolerance = .08
	ratioTolerance = .3
)

// cheat adds the gates of a cheat.
func (r *Report) cheat(ctx context.Context, o Options, c cheat, got seen) error {
	r.add(within(c.name+": B exceeds", c.b, got.b, powerTolerance))
	if c.c > 0 {
		r.add(within(c.name+": C exceeds", c.c, got.c, powerTolerance))
	}
	if c.r > 0 {
		late, err := o.untilNotice(got.sampled)
		if err != nil {
			return err
		}
		r.add(within(c.name+": answers of R to notice, p95", c.r, float64(late), c.r*ratioTolerance))
	}
	if c.late == 0 {
		return nil
	}
	days, err := daysToNotice(ctx, o, func(s years.Source, into []evidence.Observation) ([]evidence.Observation, error) {
		from := got.greedy
		if s.Below(.5) && len(got.sampled) > 0 {
			from = got.sampled
		}
		return append(into, from[s.Index(len(from))]), nil
	})
	if err != nil {
		return err
	}
	r.add(notAbove(c.name+": days to notice, median", c.median, days.median, max(.25, c.median*ratioTolerance)))
	r.add(notAbove(c.name+": days to notice, p95", c.late, days.late, max(.25, c.late*ratioTolerance)))
	return nil
}
