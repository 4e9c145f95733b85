package meter

import (
	"math"
	"math/rand/v2"
	"testing"
)

// whole are the endings that cost what was put in, too.
func wholeEndings() map[Ending]bool {
	return map[Ending]bool{Completed: true, ClientGone: true, WallLimit: true}
}

func TestEmbeddingsCostTheirPromptWhenTheyWereDelivered(t *testing.T) {
	base := Served{Kind: Embeddings, EstimatedPrompt: 20, DeliveredBytes: 160, Recount: 7}
	for name, c := range map[string]struct {
		claim  Claim
		change func(*Served)
		want   Bill
	}{
		"claim":                 {claim: valid(18, 0), want: Bill{18, 0, Valid}},
		"a claimed completion":  {claim: valid(18, 1_000_000), want: Bill{18, 0, Valid}},
		"a negative completion": {claim: valid(18, -5), want: Bill{18, 0, Valid}},
		"no claim":              {claim: Claim{State: Absent}, want: Bill{20, 0, Absent}},
		"absurd as written":     {claim: Claim{State: Absurd, Prompt: 3}, want: Bill{20, 0, Absurd}},
		"negative":              {claim: valid(-1, 0), want: Bill{20, 0, Absurd}},
		"beyond the slack":      {claim: valid(533, 0), want: Bill{20, 0, Absurd}},
		"zero is no prompt":     {claim: valid(0, 0), want: Bill{20, 0, Valid}},
		"beyond what is held for it": {claim: valid(500, 0), change: func(s *Served) { s.HeldPrompt = 47 },
			want: Bill{47, 0, Valid}},
		"nothing delivered": {claim: valid(18, 0), change: func(s *Served) { s.DeliveredBytes = 0 },
			want: Bill{0, 0, Valid}},
		"no estimate, which is not told": {claim: Claim{State: Absent}, change: func(s *Served) { s.EstimatedPrompt = -4 },
			want: Bill{0, 0, Absent}},
	} {
		for _, e := range append(Endings(), 0, endings) {
			s := base
			s.Ending, s.Claim = e, c.claim
			if c.change != nil {
				c.change(&s)
			}
			want := c.want
			if !wholeEndings()[e] {
				want.Prompt = 0
			}
			if e == ClientGone && s.DeliveredBytes == 0 {
				want.Prompt = 20 // by our count: nobody saw an answer to it
			}
			if got := Charge(s); got != want {
				t.Errorf("%s, %v: got %+v, want %+v", name, e, got, want)
			}
		}
	}
}

// Hostile test 25: neither more than asked nor more than delivered.
func TestHostile25_ImagesCostTheSmallerOfAskedAndDelivered(t *testing.T) {
	for _, e := range append(Endings(), 0, endings) {
		for asked := int64(1); asked <= 10; asked++ {
			for delivered := range int64(13) {
				s := Served{
					Kind: Images, Ending: e, Choices: asked, MaxOutput: 1, Recount: delivered, DeliveredBytes: 1000 * delivered,
					EstimatedPrompt: 50, Claim: valid(50, 9000),
				}
				want := Bill{0, min(asked, delivered), Absent}
				if e == 0 || e == endings {
					want.Completion = 0
				}
				if got := Charge(s); got != want {
					t.Fatalf("%v, %d asked, %d delivered: got %+v, want %+v", e, asked, delivered, got, want)
				}
			}
		}
	}
	if got := Charge(Served{Kind: Images, Ending: Completed, Choices: 3, MaxOutput: 1, Recount: 3}); got.Completion != 0 {
		t.Errorf("images without a byte cost: got %d, want 0", got.Completion)
	}
	if got := Charge(Served{Kind: Images, Ending: Completed, Choices: math.MaxInt64, MaxOutput: math.MaxInt64, Recount: 3,
		DeliveredBytes: 9}); got.Completion != 3 {
		t.Errorf("a huge order wraps: got %d, want 3", got.Completion)
	}
}

// Hostile test 24: what was measured is billed to the millisecond, whatever the
// provider says of it.
func TestHostile24_AudioCostsWhatWasMeasuredToTheMillisecond(t *testing.T) {
	for _, ms := range []int64{0, 1, 59_999, 60_000, 60_001, 10_800_000} {
		for _, claim := range []Claim{{State: Absent}, {State: Absurd}, valid(1, 1), valid(math.MaxInt64, math.MaxInt64)} {
			for _, delivered := range []int64{0, 100} { // silence is worth as much
				for _, e := range append(Endings(), 0, endings) {
					s := Served{Kind: Transcriptions, Ending: e, EstimatedPrompt: ms, HeldPrompt: ms, Recount: 40,
						DeliveredBytes: delivered, Claim: claim}
					want := Bill{0, 0, Absent}
					if wholeEndings()[e] {
						want.Prompt = ms
					}
					if got := Charge(s); got != want {
						t.Fatalf("%d ms, %v, %+v: got %+v, want %+v", ms, e, claim, got, want)
					}
				}
			}
		}
	}
}

func TestNoKindIsEverBilledBelowZeroOrInAnothersCount(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 200_000 {
		s := arbitrary(r)
		s.Kind = Kind(r.IntN(int(kinds) + 1))
		bill := Charge(s)
		switch {
		case bill.Prompt < 0 || bill.Completion < 0:
			t.Fatalf("Charge(%+v) = %+v", s, bill)
		case s.Kind == Images && bill.Prompt != 0,
			(s.Kind == Embeddings || s.Kind == Transcriptions) && bill.Completion != 0,
			s.Kind >= kinds && bill != Bill{Claim: Absent}:
			t.Fatalf("a count that %v does not have: Charge(%+v) = %+v", s.Kind, s, bill)
		}
	}
}

func TestEveryKindHasAName(t *testing.T) {
	seen := map[string]bool{"unknown": true}
	for _, k := range Kinds() {
		if seen[k.String()] {
			t.Errorf("kind %d is called %s", k, k)
		}
		seen[k.String()] = true
	}
}
