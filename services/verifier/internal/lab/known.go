package lab

// known are the gates that are known to be missed, with the reason.
var known = map[string]string{
	"other size: days to notice, median": "four greedy exceedances make a watch, and half of eight probes a day are " +
		"greedy: the rate of calm offers decides and not the statistic. A new offer has 48 probes in its first day.",
	"largest M of 100,000 honest years": "three exceedances within a few probes, which make an M of about 2, come once " +
		"in some ten thousand honest years. The design's .2 is that of fewer years. A watch begins at 15 at the earliest.",
	"other training: B exceeds": seenBetter,
	"fine-tune: B exceeds":      seenBetter,
	"4-bit for 16: B exceeds":   seenBetter,
	"4-bit for 16: answers of R to notice, p95": shortAnswers + " Families B and C see this cheat in 9 and 5 " +
		"observations, so that its days to a notice are met.",
	"half of the window at recall 0.95: D exceeds": overlooked,
	"half of the window at recall 0.9: D exceeds": overlooked + " At .9 the power is .07 to .7, as the " +
		"calibration's longest honest stretch comes out; the measured window of a benchmark sees the lie at any recall.",
	"temperature trick: answers of R to notice, p95": shortAnswers + " Family B sees this cheat in 6 observations, " +
		"so that its days to a notice are met.",
}

const (
	seenBetter = "the committed weights are less sure of their answers than those that the design was simulated with, " +
		"so that the cheat is seen more often than designed."
	overlooked = "where honest hosts overlook one needle of twenty, four of eight lost ones are near what chance " +
		"does in 3,208 answers. With 16 needles asked the power is 1.0 at .95 and .97 at .9."
	shortAnswers = "the model of the laboratory ends its sampled answers after some 70 tokens, where the design " +
		"simulated 104, and a bound that holds for each of two hosts needs twice the answers of one for both."
)

// excuse gives each missed gate its known reason.
func (r *Report) excuse() {
	for i := range r.Gates {
		if g := &r.Gates[i]; !g.Met {
			g.Known = known[g.Name]
		}
	}
}
