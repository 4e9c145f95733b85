package plan

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/schedule"
	"svc.internal/services/verifier/internal/window"
)

// Offer is what is known of an offer when its probes are planned.
type Offer struct {
	Offer     probe.Offer
	FirstSeen time.Time
	// Active reports whether consumers reach the offer, so that a hidden probe does too.
	Active bool
	Level  ladder.Level
	// Embeddings reports whether the model makes vectors and does not chat.
	Embeddings bool
	// Logprobs and Fingerprint are declared capabilities.
	Logprobs, Fingerprint bool
	// StatedTokens is the context window that the provider states, and EffectiveTokens the
	// one that consumers get: at most the catalog's and any cap.
	StatedTokens, EffectiveTokens int
	// MaxOutput is the catalog's bound of answers in tokens, 0 where it is not known. Longer
	// answers are not asked for.
	MaxOutput int
	// BytesPerToken is what references measured for our texts, 0 before they did.
	BytesPerToken float64
	// Files, Quantization, Engine and GPU are as the offer states them.
	Files                     [32]byte
	Quantization, Engine, GPU string
	// References are the classes that have a reference now, and Alternatives what answers
	// can be weighed against by them. Cooler and Hotter need no reference of their own and
	// are weighed always.
	References   []quant.Class
	Alternatives []evidence.Alternative
	// Hours, RequestsADay and PayoutADay are of the offer's requests in the last week.
	Hours        schedule.Hours
	RequestsADay float64
	PayoutADay   money.NanoUSD
	// ChangedAt is when files or engine changed last, and TopEarner is one of the 5%.
	ChangedAt time.Time
	TopEarner bool
	// Observations are those of the fullest family in 365 days.
	Observations int
	// AvoidHost is the reference host that led to the notice, and AvoidAccounts are the
	// accounts of its owner.
	AvoidHost     string
	AvoidAccounts []ids.ProviderID
	// Measurement is the running or ended measurement of the window, nil without one.
	Measurement *window.Measurement
	Rates       money.Rates
	Past        Past
}

const (
	// newFor is how long an offer is new, and changedFor how long new files or a new
	// engine count.
	newFor     = 24 * time.Hour
	changedFor = 7 * 24 * time.Hour
	// usualBytes is how many bytes of English text a token usually has, which writers of
	// prompts assume.
	usualBytes = 4
)

// Stratum returns what the offer's answers are judged by. It reports false where no
// reference can judge them.
func (o Offer) Stratum() (calibration.Stratum, bool) {
	class, ok := quant.Judged(quant.Parse(o.Quantization), o.References)
	return calibration.Stratum{
		Model: o.Offer.Model, Files: o.Files, Class: class, Engine: o.Engine, GPU: o.GPU,
	}, ok
}

// standing returns what the rate depends on.
func (o Offer) standing(at time.Time) schedule.Standing {
	return schedule.Standing{
		RequestsADay: o.RequestsADay, New: at.Sub(o.FirstSeen) < newFor, Watched: o.Level.Frequent(),
		Changed: !o.ChangedAt.IsZero() && at.Sub(o.ChangedAt) < changedFor, TopEarner: o.TopEarner,
		Observations: o.Observations,
	}
}

// bytesPerToken returns the measured ratio. Before it is known a token is taken for a byte:
// no prompt is longer than planned then, whatever the tokenizer, so that no honest provider
// refuses one as too long.
func (o Offer) bytesPerToken() float64 { return Ratio(o.BytesPerToken) }

// Ratio returns a measured number of bytes per token, or 1 for one that is not known.
func Ratio(measured float64) float64 {
	if known(measured) {
		return measured
	}
	return 1
}

func known(measured float64) bool { return measured >= 1.0/16 && measured <= 16 }

// ratio is that of a plan, which says 0 for the usual one.
func ratio(measured float64) float64 {
	if known(measured) {
		return measured
	}
	return usualBytes
}

// classes are the quantization classes of alternatives.
var classes = map[evidence.Alternative]quant.Class{
	evidence.Class8: quant.Bits8, evidence.Class6: quant.Bits6, evidence.Class5: quant.Bits5,
	evidence.Class4: quant.Bits4, evidence.Class3: quant.Bits3, evidence.Class2: quant.Bits2,
}

// alternatives returns what a sampled answer is weighed against: those that a reference
// stands for, but for the judged class and better ones, and the two temperatures.
func (o Offer) alternatives(judged quant.Class) []evidence.Alternative {
	var asked []evidence.Alternative
	for g := range evidence.Alternative(evidence.Alternatives) {
		if (g == evidence.Cooler || g == evidence.Hotter) || o.stands(g, judged) {
			asked = append(asked, g)
		}
	}
	return asked
}

func (o Offer) stands(g evidence.Alternative, judged quant.Class) bool {
	for _, there := range o.Alternatives {
		if there == g {
			class, isClass := classes[g]
			return !isClass || class < judged
		}
	}
	return false
}
