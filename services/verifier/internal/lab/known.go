package lab

// excuse is why a gate is known to be missed, and from which value to which.
type excuse struct {
	from, to float64
	reason   string
}

// known are the gates that are known to be missed. A gate that is missed by more than that
// is missed like any other.
var known = map[string]excuse{
	"other size: days to notice, median": {.5, .9, "four greedy exceedances make a watch, and half of eight probes a " +
		"day are greedy: the rate of calm offers decides and not the statistic. A new offer has 48 probes in its " +
		"first day."},
	"largest M of 100,000 honest years": {.2, 15, "three exceedances within a few probes, which make an M of about 2, " +
		"come once in some ten thousand honest years. The design's .2 is that of fewer years. A watch begins at 15 " +
		"at the earliest."},
	"other training: B exceeds":                         {.46, 1, seenBetter},
	"fine-tune: B exceeds":                              {.46, 1, seenBetter},
	"4-bit for 16: B exceeds":                           {.85, 1, seenBetter},
	"4-bit for 16: answers of R to notice, p95":         {16, 75, shortAnswers + " " + othersSee},
	"temperature trick: answers of R to notice, p95":    {9, 20, shortAnswers + " " + othersSee},
	"AUC of probes, boosted trees, all requests":        {.55, .95, unlikeAll},
	"AUC of probes, scikit-learn, all requests":         {.55, .95, unlikeAll},
	"AUC of probes, boosted trees, comparable requests": {.55, .73, unlikeSome},
	"AUC of probes, scikit-learn, comparable requests":  {.55, .73, unlikeSome},
}

const (
	seenBetter = "the committed weights are less sure of their answers than those that the design was simulated with, " +
		"so that the cheat is seen more often than designed."
	shortAnswers = "the model of the laboratory ends its sampled answers after some 70 tokens, where the design " +
		"simulated 104, and a bound that holds for each of two hosts needs twice the answers of one for both."
	unlikeAll = "probes say temperature 0, or 1 with top_p 1, because nothing else can be judged; most consumers say " +
		"neither, and what they ask can be served otherwise unseen. Family R at other temperatures would mend it."
	unlikeSome = "how the bytes of a conversation are divided among its messages (.65 alone), layouts (.60) and gaps to " +
		"the request before (.57) differ: neither is in the histograms that gateways report."
	othersSee = "Family B sees this cheat within 9 observations, so that its days to a notice are met."
)

// excuse gives each gate that is missed as far as is known its reason.
func (r *Report) excuse() {
	for i := range r.Gates {
		g := &r.Gates[i]
		if e, ok := known[g.Name]; ok && !g.Met && g.Value >= e.from && g.Value <= e.to {
			g.Known = e.reason
		}
	}
}
