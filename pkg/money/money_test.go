package money

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestAPayoutNeverExceedsItsCharge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		rates := Rates{Unit: Unit(r.IntN(3)), Input: PicoUSD(r.Int64N(1e9)), Output: PicoUSD(r.Int64N(1e9))}
		rates.PayoutInput, rates.PayoutOutput = rates.Input, rates.Output
		if r.IntN(8) != 0 {
			rates.PayoutInput = PicoUSD(r.Int64N(int64(rates.Input) + 1))
			rates.PayoutOutput = PicoUSD(r.Int64N(int64(rates.Output) + 1))
		}
		tokens := Tokens{Prompt: r.Int64N(1e6), Completion: r.Int64N(1e6)}
		charge, err := rates.Charge(tokens)
		if err != nil {
			t.Fatal(err)
		}
		payout, err := rates.Payout(tokens)
		if err != nil {
			t.Fatal(err)
		}
		if payout > charge {
			t.Fatalf("payout: got %d, want at most %d", payout, charge)
		}
	}
}

func TestAVendorsCostIsTheExactSumRoundedDownAndNeverExceedsThePayout(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100_000 {
		rates := Rates{PayoutInput: PicoUSD(r.Int64N(1e9) + 1), PayoutOutput: PicoUSD(r.Int64N(1e9))}
		rates.PayoutCachedInput = PicoUSD(r.Int64N(int64(rates.PayoutInput)))
		tokens := Tokens{Prompt: r.Int64N(1e6), Completion: r.Int64N(1e6)}
		cached := r.Int64N(tokens.Prompt + 1)
		dear := rates.PayoutCachedInput
		if dear == 0 {
			dear = rates.PayoutInput // no price of its own
		}
		want := ((tokens.Prompt-cached)*int64(rates.PayoutInput) + cached*int64(dear) +
			tokens.Completion*int64(rates.PayoutOutput)) / 1000
		got, err := rates.VendorCost(tokens, cached)
		if err != nil {
			t.Fatal(err)
		}
		if int64(got) != want {
			t.Fatalf("%+v, %d cached, at %+v: got %d, want %d", tokens, cached, rates, got, want)
		}
		payout, err := rates.Payout(tokens)
		if err != nil {
			t.Fatal(err)
		}
		if got > payout {
			t.Fatalf("%+v, %d cached, at %+v: got %d, want at most %d", tokens, cached, rates, got, payout)
		}
	}
}

func TestAVendorsCostOfWhatCannotBeIsRefused(t *testing.T) {
	rates := Rates{Input: 4, PayoutInput: 2, PayoutCachedInput: 1}
	for name, c := range map[string]struct {
		tokens Tokens
		cached int64
	}{
		"more is cached than there is": {Tokens{Prompt: 1}, 2},
		"less than nothing is cached":  {Tokens{Prompt: 1}, -1},
		"it does not fit":              {Tokens{Prompt: math.MaxInt64, Completion: -1}, math.MaxInt64},
	} {
		if _, err := rates.VendorCost(c.tokens, c.cached); !errors.Is(err, ErrOverflow) {
			t.Errorf("%s: got the error %v, want %v", name, err, ErrOverflow)
		}
	}
}

func TestTheChargeIsTheExactSumRoundedHalfToEven(t *testing.T) {
	for _, c := range []struct {
		rate PicoUSD
		n    int64
		want NanoUSD
	}{
		{500, 1, 0}, {1500, 1, 2}, {2500, 1, 2}, {2501, 1, 3}, {499, 1, 0}, {501, 1, 1},
		{37_500, 1, 38}, {150_000, 1_000_000, 150_000_000}, {0, 1 << 40, 0},
	} {
		got, err := Rates{Output: c.rate}.Charge(Tokens{Completion: c.n})
		if err != nil {
			t.Errorf("%d × %d: got the error %v, want none", c.n, c.rate, err)
		} else if got != c.want {
			t.Errorf("%d × %d: ….Charge(…): got %d, want %d", c.n, c.rate, got, c.want)
		}
	}
}

func TestSumsAgreeWithArbitraryPrecision(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		rates := Rates{Unit: Unit(r.IntN(3)), Input: PicoUSD(r.Int64N(1 << r.IntN(41))),
			Output: PicoUSD(r.Int64N(1 << r.IntN(41)))}
		tokens := Tokens{Prompt: r.Int64N(1 << r.IntN(40)), Completion: r.Int64N(1 << r.IntN(40))}
		sum := new(big.Int).Add(
			new(big.Int).Mul(big.NewInt(tokens.Prompt), big.NewInt(int64(rates.Input))),
			new(big.Int).Mul(big.NewInt(tokens.Completion), big.NewInt(int64(rates.Output))))
		divisor := map[Unit]int64{Token: 1000, Image: 1000, AudioMinute: 60_000_000}[rates.Unit]
		q, m := new(big.Int).DivMod(sum, big.NewInt(divisor), new(big.Int))
		if c := m.Cmp(big.NewInt(divisor / 2)); c > 0 || c == 0 && q.Bit(0) == 1 {
			q.Add(q, big.NewInt(1))
		}
		got, err := rates.Charge(tokens)
		if !q.IsInt64() {
			if !errors.Is(err, ErrOverflow) {
				t.Fatalf("%+v × %+v = %d: got %v; want overflow", tokens, rates, got, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if wanted := q.Int64(); int64(got) != wanted {
			t.Fatalf("got %d, want %d", int64(got), wanted)
		}
	}
}

func TestWhatDoesNotFitIsAnErrorAndNeverWraps(t *testing.T) {
	for _, c := range []struct {
		rates  Rates
		tokens Tokens
	}{
		{Rates{Input: math.MaxInt64, Output: math.MaxInt64}, Tokens{math.MaxInt64, math.MaxInt64}},
		{Rates{Input: math.MaxInt64}, Tokens{Prompt: 1001}},
		{Rates{Input: 1}, Tokens{Prompt: -1}},
		{Rates{Input: -1}, Tokens{Prompt: 1}},
		{Rates{Unit: Image, Output: math.MaxInt64}, Tokens{Completion: 1001}},
		{Rates{Unit: AudioMinute, Input: math.MaxInt64}, Tokens{Prompt: 60_000_001}},
	} {
		if _, err := c.rates.Charge(c.tokens); !errors.Is(err, ErrOverflow) {
			t.Errorf("charge of %+v under %+v: got the error %v, want %v", c.tokens, c.rates, err, ErrOverflow)
		}
	}
}

func TestRatesThatBreakTheCatalogsInvariantsAreNamed(t *testing.T) {
	for field, rates := range map[string]Rates{
		"":                    {Input: 2, Output: 2, PayoutInput: 2, PayoutOutput: 1},
		"input_price":         {Input: -1},
		"output_price":        {Output: MaxRate + 1, PayoutOutput: 1},
		"payout_input_price":  {Input: 2, PayoutInput: 3},
		"payout_output_price": {Output: 2},
		"unit":                {Unit: AudioMinute + 1, Input: 2, PayoutInput: 1},

		"payout_cached_input_price": {Input: 3, PayoutInput: 2, PayoutCachedInput: 3},
	} {
		err := rates.Validate()
		var bad *RateError
		switch {
		case field == "" && err != nil:
			t.Errorf(`%+v: got the error %v, want none, where field == ""`, rates, err)
		case field != "" && !errors.As(err, &bad):
			t.Errorf(`%+v: got the error %v, want a %T, where field != ""`, rates, err, bad)
		case field != "" && bad.Field != field:
			t.Errorf(`%+v: bad.Field: got %q, want %q, where field != ""`, rates, bad.Field, field)
		}
	}
}

func TestTextIsExactBothWays(t *testing.T) {
	for s, want := range map[string]NanoUSD{
		"0": 0, "5": 5 * USD, "0.000000001": 1, "-2.50": -2_500_000_000, "9223372036.854775807": math.MaxInt64,
	} {
		got, err := ParseUSD(s)
		if err != nil {
			t.Errorf("ParseUSD(%q): got the error %v, want none", s, err)
		} else if got != want {
			t.Errorf("ParseUSD(%q): ParseUSD(s): got %d, want %d", s, got, want)
		}
		if again, err := ParseUSD(got.String()); err != nil {
			t.Errorf("%d prints as %q, which reads as %d: got the error %v, want none", got, got, again, err)
		} else if again != got {
			t.Errorf("%d prints as %q, which reads as %d, %v: again: got %d, want %d", got, got, again, err, again, got)
		}
	}
	for _, s := range []string{"", ".", "1.", "-", "1e3", " 1", "1,0", "0.0000000001", "9223372036.854775808",
		"99999999999999999999", "1.2.3"} {
		if v, err := ParseUSD(s); err == nil {
			t.Errorf("ParseUSD(%q) = %d", s, v)
		}
	}
	if s := NanoUSD(math.MinInt64).String(); s != "-9223372036.854775808" {
		t.Errorf(`the least amount prints: got %q, want "-9223372036.854775808"`, s)
	}
}

func FuzzParseUSD(f *testing.F) {
	f.Add("1.5")
	f.Add("-0.000000001")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseUSD(s)
		if err != nil {
			return
		}
		if again, err := ParseUSD(v.String()); err != nil {
			t.Errorf("%q →: got the error %v, want none", s, err)
		} else if again != v {
			t.Errorf("%q →: again: got %d, want %d", s, again, v)
		}
	})
}
