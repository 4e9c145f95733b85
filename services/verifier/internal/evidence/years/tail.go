package years

import (
	"errors"
	"math"
	"slices"

	"svc.internal/services/verifier/internal/evidence"
)

// hiddenBets and ratioBets are the bets of a Process, by which paths are tilted.
var (
	hiddenBets = []float64{.05, .1, .2, .4, .7, .95}
	ratioBets  = []float64{.05, .2, .6, .95}
)

// Tail is an estimated probability.
type Tail struct {
	// P is the estimate and Error its standard error.
	P, Error float64
	// Reached is the share of tilted paths that reached the threshold.
	Reached float64
}

// ErrProvider is the error for a provider whose tail CrossingTail cannot estimate.
var ErrProvider = errors.New("not a provider of one kind of probe with one law a part")

// CrossingTail estimates P(M reaches the threshold within probes) for a provider on the
// border of honesty: one kind of probe, whose parts have a rate of q₀ = .01, or one law
// whose e-value has the expectation 1. Chances of 10⁻⁷ are out of reach of plain
// simulation. Paths are therefore drawn from a tilted law Q (importance sampling), which
// is M itself:
//
// A path draws a part's family f by w_f, a bet of the family, and a start s of the n
// probes evenly. The family's observations are honest before s. From s on they follow the
// law that the bet bets on: b = 1 with chance q, a ratio with its chance times 1−λ+λe.
// The likelihood ratio of such paths to honest ones after t probes is a mean of the
// products that M sums. With W the sum of the shares of the parts it is
//
//	dQ/dP = (N/n)·M_t/W + (n−t)/n
//
// and P(T ≤ n) = E_Q[1{T ≤ n} ÷ dQ/dP at T] for the first crossing T. There M_T is at
// least the threshold, so that the summands hardly differ and 1,000 paths give 3%.
func (p Provider) CrossingTail(s Source, threshold float64, probes, paths int) (Tail, error) {
	shares, total, err := p.shares()
	if err != nil {
		return Tail{}, err
	}
	sum, squares, reached := 0.0, 0.0, 0
	for range paths {
		start := 1 + s.Index(probes)
		n, m, err := p.tilted(s, s.Weighted(shares)).crossing(s, p, crossing{threshold, start, probes})
		if err != nil {
			return Tail{}, err
		}
		if n == 0 {
			continue
		}
		ratio := evidence.Horizon/float64(probes)*m/total + float64(probes-n)/float64(probes)
		reached++
		sum += 1 / ratio
		squares += 1 / (ratio * ratio)
	}
	count := float64(paths)
	mean := sum / count
	return Tail{
		P: mean, Error: math.Sqrt(max(0, squares/count-mean*mean) / count), Reached: float64(reached) / count,
	}, nil
}

// shares returns the shares of the parts' families and their sum.
func (p Provider) shares() (shares []float64, total float64, err error) {
	if len(p) != 1 {
		return nil, 0, ErrProvider
	}
	for _, part := range p[0].Parts {
		if part.Family == evidence.Sampled && len(part.Laws) != 1 {
			return nil, 0, ErrProvider
		}
		shares = append(shares, part.Family.Share())
		total += part.Family.Share()
	}
	return shares, total, nil
}

// tilted returns the provider with one part that follows a bet.
func (p Provider) tilted(s Source, part int) Provider {
	parts := slices.Clone(p[0].Parts)
	if chosen := &parts[part]; chosen.Family == evidence.Sampled {
		chosen.Laws = []Law{chosen.Laws[0].tilt(ratioBets[s.Index(len(ratioBets))])}
	} else {
		chosen.Rate = hiddenBets[s.Index(len(hiddenBets))]
	}
	return Provider{{Weight: 1, Parts: parts}}
}

// crossing is what a path must reach, from which probe on it is tilted, and its length.
type crossing struct {
	threshold     float64
	start, probes int
}

// crossing returns when and with which M a path reached the threshold, zeros if it did not.
func (p Provider) crossing(s Source, honest Provider, c crossing) (n int, m float64, err error) {
	var process evidence.Process
	var said []evidence.Observation
	for n = 1; n <= c.probes; n++ {
		now := p
		if n < c.start {
			now = honest
		}
		if said, err = now.Probe(s, said[:0]); err != nil {
			return 0, 0, err
		}
		if err = process.Observe(said...); err != nil {
			return 0, 0, err
		}
		if m = process.M(); m >= c.threshold {
			return n, m, nil
		}
	}
	return 0, 0, nil
}

// tilt returns the law on which the bet λ bets.
func (l Law) tilt(lambda float64) Law {
	tilted := l
	tilted.Chances = slices.Clone(l.Chances)
	for i, ratio := range l.Ratios {
		tilted.Chances[i] *= 1 - lambda + lambda*min(evidence.MaxRatio, ratio)/float64(l.Bound)
	}
	return tilted
}
