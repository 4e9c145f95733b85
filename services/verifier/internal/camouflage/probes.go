package camouflage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/schedule"
)

const (
	// offers is how many offers the week is played for. Each has some ten probes a day.
	offers = 40
	// window is their context window in tokens.
	window = 8_192
)

// key is the secret of the measurement.
var key = prompt.Secret{'c', 'a', 'm', 'o', 'u', 'f', 'l', 'a', 'g', 'e'}

// Bank returns the demo's bank with sentences of other texts, and without templates that put
// words of the demo into their slots: a sealed bank has texts of its own too.
func Bank(paragraphs []string) prompt.Bank {
	b := prompt.Demo()
	b.Sentences = paragraphs
	b.Systems = systems // everybody copies the same ones from examples
	b.Tasks = slices.DeleteFunc(slices.Clone(b.Tasks), slotted)
	return b
}

// slotted reports whether a template has a slot that is not for a sentence.
func slotted(template string) bool {
	return strings.Contains(strings.ReplaceAll(template, "{sentence}", ""), "{")
}

// Week plays the hidden probes of a week at offers with the traffic that samples are of, and
// returns what is seen of up to n of them.
func Week(consumers []Sample, bank prompt.Bank, n int) ([]Sample, error) {
	planner, writer := plan.New(key), plan.NewWriter(key, bank)
	fleet := plan.Fleet{Week: cover.NewWeek(), Prior: plan.Prior(), BudgetADay: 1_000 * money.USD}
	counts := cells(consumers)
	at := make([]plan.Offer, offers)
	traffic := make([][]time.Time, offers)
	d := rand.New(rand.NewPCG(5, 5)) //nolint:gosec // the same week on every run
	for i := range at {
		traffic[i] = arrivals(d)
		at[i] = offer(byte(i+1), traffic[i])
	}
	for hour := range 7 * 24 {
		if err := fleet.Week.Report(monday.Add(time.Duration(hour-7*24)*time.Hour), counts); err != nil {
			return nil, fmt.Errorf("report the shapes of consumers: %w", err)
		}
	}
	var samples []Sample
	for hour := range 7 * 24 {
		begin := monday.Add(time.Duration(hour) * time.Hour)
		if err := fleet.Week.Report(begin, counts); err != nil {
			return nil, fmt.Errorf("report the shapes of consumers: %w", err)
		}
		fleet.Spent = 0
		for _, h := range planner.Plan(&fleet, begin, at) {
			number := int(h.Offer.Provider[0]) - 1
			at[number].Past = h.Past
			for _, p := range h.Probes {
				if p.Plan.Flow != probe.Hidden {
					continue
				}
				s, err := sampleOf(d, writer, p.Plan, traffic[number])
				if err != nil {
					return nil, err
				}
				samples = append(samples, s)
			}
		}
	}
	d.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	return samples[:min(n, len(samples))], nil
}

// sampleOf writes a probe and returns what is seen of it.
func sampleOf(d *rand.Rand, w *plan.Writer, p probe.Plan, traffic []time.Time) (Sample, error) {
	body, _, err := w.Body(p)
	if err != nil {
		return nil, fmt.Errorf("write a probe: %w", err)
	}
	return withEarnings(d, Request{Body: body, At: p.DueAt, Gap: gapBefore(traffic, p.DueAt), HungUp: p.HangUp > 0})
}

// offer returns an offer with the requests of a week.
func offer(n byte, traffic []time.Time) plan.Offer {
	var hours schedule.Hours
	for _, at := range traffic {
		hours[at.Hour()]++
	}
	return plan.Offer{
		Offer:     probe.Offer{Provider: ids.ProviderID{n, 15: 1}, Model: Model},
		FirstSeen: monday.Add(-1_000 * time.Hour), Active: true, Level: ladder.Normal, Logprobs: true,
		StatedTokens: window, EffectiveTokens: window, MaxOutput: window, BytesPerToken: 4, Quantization: "bf16",
		References: []quant.Class{quant.Bits16}, Alternatives: []evidence.Alternative{evidence.Class4},
		Hours: hours, RequestsADay: requestsADay, PayoutADay: 2 * money.USD,
		Rates: money.Rates{Input: 100_000, Output: 400_000, PayoutInput: 90_000, PayoutOutput: 360_000},
	}
}

// cellOf returns the shape that gateways would count a sample in.
func cellOf(s Sample) cover.Shape {
	return cover.Shape{
		Streamed: s[index("streamed")] == 1, Greedy: s[index("temperature")] == 0,
		Logprobs: s[index("at_logprobs")] != absent, Length: cover.LengthOf(int(s[index("text_bytes")] / 4)),
	}
}

// perSample is how many requests an hour each sample stands for.
const perSample = 40

// cells counts samples by shape, as gateways report an hour.
func cells(samples []Sample) map[cover.Shape]int64 {
	counts := map[cover.Shape]int64{}
	for _, s := range samples {
		counts[cellOf(s)] += perSample
	}
	return counts
}

// Naive returns the samples of a prober that takes no care: one prompt, one layout, one set
// of parameters, at times that are spread evenly.
func Naive(n int) ([]Sample, error) {
	d := rand.New(rand.NewPCG(9, 9)) //nolint:gosec // the same prober on every run
	traffic := arrivals(d)
	body := []byte(`{"model":"` + Model + `","messages":[{"role":"user","content":"Write a short story about a ` +
		`lighthouse keeper who finds a letter in a bottle. Use about one hundred words."}],"max_tokens":128,` +
		`"temperature":0}`)
	samples := make([]Sample, n)
	for i := range samples {
		at := monday.Add(time.Duration(d.Int64N(int64(7 * 24 * time.Hour))))
		s, err := withEarnings(d, Request{Body: body, At: at, Gap: gapBefore(traffic, at)})
		if err != nil {
			return nil, err
		}
		samples[i] = s
	}
	return samples, nil
}
