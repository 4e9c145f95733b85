package meter

import (
	"math"
	"math/rand/v2"
	"testing"
)

// served is an answer of 40 recounted tokens in 160 bytes, of at most 100.
func served(e Ending, c Claim) Served {
	return Served{Ending: e, EstimatedPrompt: 20, MaxOutput: 100, Choices: 1, Recount: 40, DeliveredBytes: 160, Claim: c}
}

func valid(prompt, completion int64) Claim {
	return Claim{State: Valid, Prompt: prompt, Completion: completion}
}

// TestEveryLineOfTheTableOfStreamEndings has one case for each published line
// that reaches the meter; the lines that charge nothing never get here.
var noClaim, brokenClaim = Claim{State: Absent}, Claim{State: Absurd, Prompt: 7, Completion: 7}

// streamEndings is the table of what a stream costs by its ending.
var streamEndings = map[string]struct {
	in   Served
	want Bill
}{
	"normal, usage present and plausible":       {served(Completed, valid(18, 44)), Bill{18, 44, Valid}},
	"normal, usage missing":                     {served(Completed, noClaim), Bill{20, 40, Absent}},
	"usage absurd as written":                   {served(Completed, brokenClaim), Bill{20, 40, Absurd}},
	"usage absurd: negative completion":         {served(Completed, valid(18, -1)), Bill{20, 40, Absurd}},
	"usage absurd: negative prompt":             {served(Completed, valid(-18, 44)), Bill{20, 40, Absurd}},
	"usage absurd: above max_tokens":            {served(Completed, valid(18, 101)), Bill{20, 40, Absurd}},
	"usage absurd: a million for ten delivered": {served(Completed, valid(18, 1_000_000)), Bill{20, 40, Absurd}},
	"usage absurd: prompt beyond the slack":     {served(Completed, valid(533, 44)), Bill{20, 40, Absurd}},
	"prompt at the slack is believed":           {served(Completed, valid(532, 44)), Bill{532, 44, Valid}},
	"explicit zero usage with text delivered":   {served(Completed, valid(0, 0)), Bill{20, 40, Valid}},
	"zero completion with text delivered":       {served(Completed, valid(18, 0)), Bill{20, 40, Valid}},
	"zero prompt is no prompt":                  {served(Completed, valid(0, 44)), Bill{20, 44, Valid}},
	"client gone mid-stream":                    {served(ClientGone, noClaim), Bill{20, 40, Absent}},
	"client gone, drain brought less":           {served(ClientGone, valid(18, 30)), Bill{18, 30, Valid}},
	"client gone, provider ignores cancel":      {served(ClientGone, valid(18, 90)), Bill{18, 40, Valid}},
	"client gone, claim absurd":                 {served(ClientGone, brokenClaim), Bill{20, 40, Absurd}},
	"stream exceeds the wall limit":             {served(WallLimit, noClaim), Bill{20, 40, Absent}},
	"wall limit with a claim":                   {served(WallLimit, valid(18, 39)), Bill{18, 39, Valid}},
	"provider lost mid-stream":                  {served(ProviderLost, noClaim), Bill{0, 40, Absent}},
	"truncated":                                 {served(Truncated, valid(18, 44)), Bill{0, 40, Valid}},
	"error object inside the stream":            {served(EngineError, valid(18, 44)), Bill{0, 40, Valid}},
	"platform crash mid-stream":                 {served(PlatformLost, noClaim), Bill{0, 40, Absent}},
	"an ending nobody knows costs nothing":      {served(0, valid(18, 44)), Bill{0, 0, Valid}},
	"recount above max_tokens is clamped": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 10,
		Choices: 1, Recount: 40, DeliveredBytes: 160, Claim: noClaim}, Bill{20, 10, Absent}},
	"two choices may be twice as long": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 30,
		Choices: 2, Recount: 40, DeliveredBytes: 160, Claim: valid(18, 60)}, Bill{18, 60, Valid}},
	"more tokens than bytes and specials": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 1000,
		Choices: 1, Recount: 3, DeliveredBytes: 10, Claim: valid(18, 43)}, Bill{20, 3, Absurd}},
	"as many tokens as bytes and specials": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 1000,
		Choices: 1, Recount: 30, DeliveredBytes: 10, Claim: valid(18, 42)}, Bill{18, 42, Valid}},
	"a claim above 2.5 times the recount and 8": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 1000,
		Choices: 1, Recount: 1, DeliveredBytes: 5, Claim: valid(18, 37)}, Bill{18, 10, Valid}},
	"a claim of 2.5 times the recount and 8": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 1000,
		Choices: 1, Recount: 40, DeliveredBytes: 160, Claim: valid(18, 108)}, Bill{18, 108, Valid}},
	"31 tiny pictures are no lie": {Served{Ending: Completed, EstimatedPrompt: 100, HeldPrompt: 142_848,
		MaxOutput: 100, Choices: 1, Recount: 40, DeliveredBytes: 160, Claim: valid(31_000, 44)}, Bill{31_000, 44, Valid}},
	"thoughts that are billed and not shown": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 1000,
		Choices: 1, Recount: 1, DeliveredBytes: 5, Claim: valid(18, 900), HiddenReasoning: true}, Bill{18, 900, Valid}},
	"hidden thoughts beyond the bound": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 1000,
		Choices: 1, Recount: 1, DeliveredBytes: 5, Claim: valid(18, 1001), HiddenReasoning: true}, Bill{20, 1, Absurd}},
	"ended by the request's own stop at once": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 100,
		Choices: 1, Claim: valid(18, 5), StopAsked: true}, Bill{18, 1, Valid}},
	"the same, and no token is claimed": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 100,
		Choices: 1, Claim: valid(18, 0), StopAsked: true}, Bill{0, 0, Valid}},
	"the same, and nothing is claimed": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 100,
		Choices: 1, Claim: noClaim, StopAsked: true}, Bill{0, 0, Absent}},
	"the content blamed from half of the bound": {Served{Ending: EngineError, EstimatedPrompt: 20, MaxOutput: 80,
		Choices: 1, Recount: 40, DeliveredBytes: 160, Claim: noClaim, ContentBlamed: true}, Bill{20, 40, Absent}},
	"the content blamed before half of the bound": {Served{Ending: EngineError, EstimatedPrompt: 20, MaxOutput: 82,
		Choices: 1, Recount: 40, DeliveredBytes: 160, Claim: noClaim, ContentBlamed: true}, Bill{0, 40, Absent}},
	"prompt beyond what is held for it": {Served{Ending: Completed, EstimatedPrompt: 20, HeldPrompt: 47,
		MaxOutput: 100, Choices: 1, Recount: 40, DeliveredBytes: 160, Claim: valid(500, 44)}, Bill{47, 44, Valid}},
	"prompt within what is held for it": {Served{Ending: ClientGone, EstimatedPrompt: 20, HeldPrompt: 47,
		MaxOutput: 100, Choices: 1, Recount: 40, DeliveredBytes: 160, Claim: valid(30, 44)}, Bill{30, 40, Valid}},
	"a picture, which has no text": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 100,
		Choices: 1, DeliveredBytes: 9000, Claim: noClaim}, Bill{20, 1, Absent}},
	"a picture that is claimed to be nothing": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 100,
		Choices: 1, DeliveredBytes: 9000, Claim: valid(18, 0)}, Bill{18, 1, Valid}},
	"a picture, claimed as tokens": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 2000,
		Choices: 1, DeliveredBytes: 9000, Claim: valid(18, 1290)}, Bill{18, 8, Valid}},
	"nothing delivered, tokens claimed": {Served{Ending: Completed, EstimatedPrompt: 20, MaxOutput: 100,
		Choices: 1, Claim: valid(10, 5)}, Bill{0, 0, Valid}},
	"no choices counts as one": {Served{Ending: Completed, MaxOutput: 100, Recount: 3,
		DeliveredBytes: 10, Claim: noClaim}, Bill{0, 3, Absent}},
	"a huge allowance saturates instead of wraps": {Served{Ending: Completed, MaxOutput: math.MaxInt64, Choices: 16,
		Recount: 3, DeliveredBytes: math.MaxInt64, EstimatedPrompt: math.MaxInt64, Claim: noClaim},
		Bill{math.MaxInt64, 3, Absent}},
}

func TestEveryLineOfTheTableOfStreamEndings(t *testing.T) {
	for name, c := range streamEndings {
		t.Run(name, func(t *testing.T) {
			if got := Charge(c.in); got != c.want {
				t.Errorf("Charge(%+v): got %+v, want %+v", c.in, got, c.want)
			}
		})
	}
}

func TestEveryEndingHasANameAndARow(t *testing.T) {
	for _, e := range Endings() {
		if e.String() == "unknown" {
			t.Errorf(`the name of ending %d: got "unknown", want any but "unknown"`, e)
		}
		if Charge(served(e, Claim{State: Absent})).Completion == 0 {
			t.Error("charged for what was delivered: got 0, want any but 0")
		}
	}
}

// extreme is a number that is often at an edge.
func extreme(r *rand.Rand) int64 {
	edges := []int64{math.MinInt64, -1, 0, 1, 31, 32, 33, 512, 513, math.MaxInt64 - 1, math.MaxInt64}
	switch r.IntN(3) {
	case 0:
		return edges[r.IntN(len(edges))]
	case 1:
		return r.Int64N(2000)
	default:
		return int64(r.Uint64())
	}
}

func arbitrary(r *rand.Rand) Served {
	return Served{
		Ending: Ending(r.IntN(int(endings) + 1)), EstimatedPrompt: extreme(r), HeldPrompt: extreme(r), MaxOutput: extreme(r),
		Choices: extreme(r),
		Recount: extreme(r), DeliveredBytes: extreme(r), HiddenReasoning: r.IntN(4) == 0, StopAsked: r.IntN(2) == 0,
		ContentBlamed: r.IntN(2) == 0,
		Claim:         Claim{State: ClaimState(r.IntN(4)), Prompt: extreme(r), Completion: extreme(r)},
	}
}

func TestChargeIsNeverNegativeNorAboveTheBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		s := arbitrary(r)
		bill := Charge(s)
		if bill.Prompt < 0 {
			t.Fatalf("bill.Prompt: got %d, want at least 0", bill.Prompt)
		}
		if bill.Completion < 0 || bill.Completion > s.ceiling() {
			t.Fatalf("bill.Completion: got %d, want 0 to %d", bill.Completion, s.ceiling())
		}
		estimate := max(s.EstimatedPrompt, 0)
		if bill.Prompt > max(mulSaturating(estimate, 4), addSaturating(estimate, 512), s.HeldPrompt) {
			t.Fatalf("Charge(%+v) = %+v: prompt beyond its bound", s, bill)
		}
		if s.HeldPrompt > 0 && bill.Prompt > max(s.HeldPrompt, estimate) {
			t.Fatalf("Charge(%+v) = %+v: prompt beyond what is held", s, bill)
		}
	}
}

// The four claims of the meter as properties: no bill above the hold or the order,
// none without a price for what was delivered, and nothing certain beyond the mark
// passes.
func TestABillIsWithinHoldAndOrderAndNothingDeliveredIsFree(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 500_000 {
		s := arbitrary(r)
		s.EstimatedPrompt = max(0, s.EstimatedPrompt)
		s.HeldPrompt = addSaturating(s.EstimatedPrompt, r.Int64N(100))
		bill := Charge(s)
		if s.HeldPrompt > 0 && bill.Prompt > s.HeldPrompt {
			t.Fatalf("Charge(%+v) = %+v: prompt above the hold", s, bill)
		}
		if order := mulSaturating(max(s.Choices, 1), max(s.MaxOutput, 0)); bill.Completion > order {
			t.Fatalf("Charge: got %d, want at most %d", bill.Completion, order)
		}
		delivered := s.Ending >= Completed && s.Ending < endings && s.DeliveredBytes > 0 &&
			(s.Recount > 0 || s.Ending == Completed) && s.MaxOutput > 0
		gone := s.Ending == ClientGone || s.Ending == WallLimit // the drained claim may be 0
		if delivered && !gone && bill.Completion == 0 {
			t.Fatalf("Charge(%+v) = %+v: delivered for nothing", s, bill)
		}
		if !s.HiddenReasoning && s.Ending == Completed && s.DeliveredBytes > 0 && bill.Claim == Valid && s.Recount > 0 &&
			s.Claim.Completion > 0 &&
			bill.Completion > addSaturating(mulSaturating(s.Recount, 5)/2, 8) {
			t.Fatalf("Charge(%+v) = %+v: more than the text accounts for", s, bill)
		}
	}
}

func TestOnlyACompletedAnswerCostsMoreThanWasDelivered(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		s := arbitrary(r)
		if s.Ending == Completed {
			continue
		}
		if bill := Charge(s); bill.Completion > max(s.Recount, 0) {
			t.Fatalf("Charge: got %d, want at most %d", bill.Completion, max(s.Recount, 0))
		}
	}
}

func TestDeliveringMoreNeverCostsLess(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200_000 {
		s := arbitrary(r)
		s.Claim.State = Absent
		more := s
		more.Recount = addSaturating(max(s.Recount, 0), r.Int64N(100))
		more.DeliveredBytes = addSaturating(max(s.DeliveredBytes, 0), r.Int64N(400))
		if a, b := Charge(s), Charge(more); b.Completion < a.Completion {
			t.Fatalf("b.Completion: got %d, want at least %d", b.Completion, a.Completion)
		} else if b.Prompt < a.Prompt {
			t.Fatalf("b.Prompt: got %d, want at least %d", b.Prompt, a.Prompt)
		}
	}
}

func TestWhoLeftBeforeAnythingCamePaysThePromptByOurCount(t *testing.T) {
	for name, claim := range map[string]Claim{
		"no claim": {State: Absent}, "a claim": {State: Valid, Prompt: 40}, "a large claim": {State: Valid, Prompt: 500,
			Completion: 3}, "an absurd one": {State: Absurd},
	} {
		s := Served{Ending: ClientGone, EstimatedPrompt: 20, HeldPrompt: 600, MaxOutput: 10, Claim: claim}
		if got := Charge(s); got.Prompt != 20 || got.Completion != 0 {
			t.Errorf("%s: got %+v, want a prompt of 20 alone", name, got)
		}
	}
}
