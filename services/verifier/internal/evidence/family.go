package evidence

import "fmt"

// Family is a family of statistics. Families have processes and shares apart, because
// one cheat shows in one family and not in others.
type Family uint8

// The families, in the order of all sums.
const (
	// NoFamily is the zero value.
	NoFamily Family = iota
	// Greedy is B: answers at temperature 0.
	Greedy
	// Sampled is R: likelihood ratios of answers at temperature 1.
	Sampled
	// Logprobs is C: the log-probabilities that the provider stated.
	Logprobs
	// Recall is D: needles in long prompts.
	Recall
	// Usage is U: claimed tokens and endings.
	Usage
	// Files is E: bytes of the weights.
	Files
	// Visible is V: probes of any kind that a provider can tell from requests.
	Visible
	// Battery is the benchmark. It has a share of the allowed error and no process.
	Battery
)

// processes is the number of families with a process.
const processes = int(Visible)

// percents are the shares of the families in hundredths.
var percents = [...]int{Greedy: 25, Sampled: 15, Logprobs: 20, Recall: 15, Usage: 5, Files: 5, Visible: 5, Battery: 10}

// shares are the w_f.
var shares = func() (w [len(percents)]float64) {
	for f, p := range percents {
		w[f] = float64(p) / 100
	}
	return w
}()

var (
	familyNames = [...]string{
		"none", "greedy", "sampled", "logprobs", "recall", "usage", "files", "visible", "battery",
	}
	familyLetters = [...]string{"", "B", "R", "C", "D", "U", "E", "V", ""}
)

// Families returns the families with a process, in the order of all sums.
func Families() []Family {
	return []Family{Greedy, Sampled, Logprobs, Recall, Usage, Files, Visible}
}

// ParseFamily returns the family of a name that String returned.
func ParseFamily(name string) (Family, error) {
	for f := Greedy; f <= Battery; f++ {
		if familyNames[f] == name {
			return f, nil
		}
	}
	return NoFamily, fmt.Errorf("%w: %q", ErrFamily, name)
}

// Share returns w_f, the family's share of the allowed error of 10⁻⁶ per provider-year.
func (f Family) Share() float64 {
	if f > Battery {
		return 0
	}
	return shares[f]
}

// Letter returns the letter of the family in formulas, "" for a family without a process.
func (f Family) Letter() string {
	if f > Battery {
		return ""
	}
	return familyLetters[f]
}

// String returns the family's name, which is also its name in storage.
func (f Family) String() string {
	if f > Battery {
		return fmt.Sprintf("family %d", uint8(f))
	}
	return familyNames[f]
}

// hasProcess reports whether M sums the family.
func (f Family) hasProcess() bool { return f >= Greedy && f <= Visible }

// hasThreshold reports whether the family's observations are b ∈ {0,1}.
func (f Family) hasThreshold() bool { return f.hasProcess() && f != Sampled }

// recovers reports whether the family's observations move a Recovery: the hidden ones.
func (f Family) recovers() bool { return f >= Greedy && f <= Usage }
