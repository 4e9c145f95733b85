package claims

import (
	"math/rand/v2"
	"testing"

	"svc.internal/pkg/ids"
)

var provider = ids.ProviderID{1}

// Hostile test 33: whatever a provider claims, in whatever order, over a window it
// is billed a tenth more than its texts account for at the most, and Slack an answer.
func TestHostile33_NoPatternOfClaimsGainsMoreThanATenth(t *testing.T) {
	for name, inflate := range map[string]func(i int) float64{
		"10%":                 func(int) float64 { return 1.1 },
		"50%":                 func(int) float64 { return 1.5 },
		"1,000%":              func(int) float64 { return 11 },
		"honest, then greedy": func(i int) float64 { return []float64{1, 11}[i/900%2] },
		"every tenth":         func(i int) float64 { return []float64{11, 1, 1, 1, 1, 1, 1, 1, 1, 1}[i%10] },
		"by chance":           func(int) float64 { return 1 + 10*rand.Float64() },
	} {
		t.Run(name, func(t *testing.T) {
			b := NewTracker()
			var texts, billed []int64
			for i := range 3 * Window {
				text := 1 + rand.Int64N(400)
				texts = append(texts, text)
				billed = append(billed, b.Bill(provider, "m", text, int64(float64(text)*inflate(i))))
			}
			for from := 0; from <= len(texts)-Window; from += Window / steps {
				var text, paid int64
				for i := from; i < from+Window; i++ {
					text, paid = text+texts[i], paid+billed[i]
				}
				// The first answer of a window may use the allowance that the last
				// answer of the window before left.
				if most := text + text/10 + Slack*Window; from == 0 && paid > most {
					t.Errorf("from %d: billed: got %d for texts of %d, want at most %d", from, paid, text, most)
				} else if paid > most+most/10 {
					t.Errorf("from %d: billed: got %d for texts of %d, want about %d at most", from, paid, text, most)
				}
			}
		})
	}
}

func TestAnHonestProviderLosesNothing(t *testing.T) {
	for name, claim := range map[string]func(text int64) int64{
		"as the estimate":           func(text int64) int64 { return text },
		"below it":                  func(text int64) int64 { return text / 3 },
		"a tenth above it":          func(text int64) int64 { return text + text/10 },
		"short answers with an end": func(int64) int64 { return 3 },
	} {
		b := NewTracker()
		for range 2 * Window {
			text := 1 + rand.Int64N(300)
			if name == "short answers with an end" {
				text = 1
			}
			if got, want := b.Bill(provider, "m", text, claim(text)), claim(text); got != want {
				t.Fatalf("%s: billed: got %d, want %d", name, got, want)
			}
		}
	}
}

func TestTheFirstAnswersHaveRoom(t *testing.T) {
	b := NewTracker()
	if got := b.Bill(provider, "m", 10, 25); got != 25 {
		t.Errorf("a first answer: billed: got %d, want 25", got)
	}
	if got := b.Bill(provider, "m", 10, 10_000); got != 10+10+Opening-25 {
		t.Errorf("a second, greedy one: billed: got %d, want what is left of the opening", got)
	}
}

func TestAWindowIsOfOneProviderAndModel(t *testing.T) {
	b := NewTracker()
	for range Window {
		b.Bill(provider, "m", 100, 1000)
	}
	if got := b.Bill(provider, "other", 100, 110); got != 110 {
		t.Errorf("another model: billed: got %d, want 110", got)
	}
	if got := b.Bill(ids.ProviderID{2}, "m", 100, 110); got != 110 {
		t.Errorf("another provider: billed: got %d, want 110", got)
	}
	highest := b.Highest(5)
	switch {
	case len(highest) != 1:
		t.Errorf("the highest ratios: len(highest): got %d, want 1, in %+v", len(highest), highest)
	case highest[0].Provider != provider:
		t.Errorf("the highest ratios: highest[0].Provider: got %v, want %v", highest[0].Provider, provider)
	case highest[0].Ratio != 10:
		t.Errorf("the highest ratios: highest[0].Ratio: got %v, want 10", highest[0].Ratio)
	case highest[0].Answers != Window:
		t.Errorf("the highest ratios: highest[0].Answers: got %d, want %d", highest[0].Answers, Window)
	}
}

func TestTheAccountsAreBounded(t *testing.T) {
	b := NewTracker()
	for i := range MaxAccounts + 100 {
		b.Bill(ids.ProviderID{byte(i), byte(i >> 8), byte(i >> 16)}, "m", 1, 1)
	}
	if got, want := b.accounts.Len(), MaxAccounts; got != want {
		t.Errorf("got %d accounts, want %d", got, want)
	}
}

func BenchmarkBill(b *testing.B) {
	tracker := NewTracker()
	for b.Loop() {
		tracker.Bill(provider, "m", 100, 110)
	}
}
