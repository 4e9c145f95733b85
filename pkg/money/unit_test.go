package money

import (
	"errors"
	"math"
	"testing"
)

var units = []Unit{Token, Image, AudioMinute}

func TestAnImageAndAMinuteCostExactlyWhatIsTold(t *testing.T) {
	image := Rates{Unit: Image, Output: mustRate(t, Image, "0.04"), PayoutOutput: mustRate(t, Image, "0.036")}
	audio := Rates{Unit: AudioMinute, Input: mustRate(t, AudioMinute, "0.006"),
		PayoutInput: mustRate(t, AudioMinute, "0.0054")}
	for _, c := range []struct {
		rates          Rates
		counts         Tokens
		charge, payout NanoUSD
	}{
		{image, Tokens{Completion: 1}, 40_000_000, 36_000_000},
		{image, Tokens{Completion: 3}, 120_000_000, 108_000_000},
		{image, Tokens{}, 0, 0},
		{audio, Tokens{Prompt: 60_000}, 6_000_000, 5_400_000},
		{audio, Tokens{Prompt: 1}, 100, 90},
		{audio, Tokens{Prompt: 90_500}, 9_050_000, 8_145_000},
		// A third of a nano-USD goes down, and half of one to the even side.
		{Rates{Unit: AudioMinute, Input: 20_000_000, PayoutInput: 20_000_000}, Tokens{Prompt: 4}, 1, 1},
		{Rates{Unit: AudioMinute, Input: 30_000_000, PayoutInput: 30_000_000}, Tokens{Prompt: 1}, 0, 0},
		{Rates{Unit: AudioMinute, Input: 30_000_000, PayoutInput: 30_000_000}, Tokens{Prompt: 3}, 2, 1},
		{Rates{Unit: AudioMinute, Input: 60_000_000, PayoutInput: 59_999_999}, Tokens{Prompt: 1}, 1, 0},
	} {
		charge, err := c.rates.Charge(c.counts)
		if err != nil {
			t.Errorf("%+v × %+v charges: got the error %v, want none", c.counts, c.rates, err)
		} else if charge != c.charge {
			t.Errorf("%+v × %+v charges: charge: got %d, want %d", c.counts, c.rates, charge, c.charge)
		}
		payout, err := c.rates.Payout(c.counts)
		if err != nil {
			t.Errorf("%+v × %+v pays: got the error %v, want none", c.counts, c.rates, err)
		} else if payout != c.payout {
			t.Errorf("%+v × %+v pays: payout: got %d, want %d", c.counts, c.rates, payout, c.payout)
		}
	}
}

func TestAUnitHasNoPriceForWhatItDoesNotCount(t *testing.T) {
	for field, rates := range map[string]Rates{
		"input_price":         {Unit: Image, Input: 1, PayoutInput: 1},
		"output_price":        {Unit: AudioMinute, Output: 1, PayoutOutput: 1},
		"payout_input_price":  {Unit: Image, PayoutInput: 1},
		"payout_output_price": {Unit: AudioMinute, PayoutOutput: 1},
	} {
		var bad *RateError
		if err := rates.Validate(); !errors.As(err, &bad) {
			t.Errorf("%+v: got the error %v, want a %T", rates, err, bad)
		} else if bad.Field != field {
			t.Errorf("%+v: bad.Field: got %q, want %q", rates, bad.Field, field)
		}
	}
}

func TestEachUnitHasItsLargestPrice(t *testing.T) {
	for unit, text := range map[Unit]string{Token: "1000000", Image: "1000", AudioMinute: "1000"} {
		most := mustRate(t, unit, text)
		if most != unit.MaxRate() {
			t.Errorf("the largest price %v is %d, want %d", unit, unit.MaxRate(), most)
		}
		rates := Rates{Unit: unit, Input: most, PayoutInput: most}
		if unit == Image {
			rates = Rates{Unit: unit, Output: most, PayoutOutput: most}
		}
		if err := rates.Validate(); err != nil {
			t.Errorf("the largest price %v: %v", unit, err)
		}
		rates.Input, rates.Output = rates.Input*2, rates.Output*2
		if err := rates.Validate(); err == nil {
			t.Errorf("%v takes more than its largest price", unit)
		}
	}
}

func TestUnitsReadAsTheyAreWritten(t *testing.T) {
	for _, u := range units {
		if again, err := ParseUnit(u.String()); err != nil {
			t.Errorf("%v reads: got the error %v, want none", u, err)
		} else if again != u {
			t.Errorf("%v reads: again: got %v, want %v", u, again, u)
		}
	}
	if u, err := ParseUnit(""); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if u != Token {
		t.Errorf("no unit reads: got %v, want %v", u, Token)
	}
	if u, err := ParseUnit("per_token"); !errors.Is(err, ErrUnit) {
		t.Errorf("per_token reads as %v: got the error %v, want %v", u, err, ErrUnit)
	}
}

func TestCountsAreImagesOrAudioOnlyInTheirUnit(t *testing.T) {
	counts := Tokens{Prompt: 1500, Completion: 3}
	for unit, want := range map[Unit][2]int64{Token: {0, 0}, Image: {3, 0}, AudioMinute: {0, 1500}} {
		if got := [2]int64{unit.Images(counts), unit.AudioMS(counts)}; got != want {
			t.Errorf("%v counts: got %v of %+v, want %v", unit, got, counts, want)
		}
	}
}

func TestPricesAreReadToTheUnitsLastDecimal(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		text string
		want PicoUSD
		told string
	}{
		{Token, "0.0375", 37_500, "0.0375"},
		{Token, "0.000001", 1, "0.000001"},
		{Image, "0.04", 40_000_000_000, "0.04"},
		{AudioMinute, "0.000000001", 1000, "0.000000001"},
		{AudioMinute, "", 0, "0.00"},
		{Image, "9223372.036854775", 9_223_372_036_854_775_000, "9223372.036854775"},
	} {
		got, err := c.unit.ParseRate(c.text)
		switch {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case got != c.want:
			t.Errorf("c.unit.ParseRate(c.text): got %d, want %d, with %q", got, c.want, c.text)
		case c.unit.Price(got) != c.told:
			t.Errorf("c.unit.Price(got): got %q, want %q", c.unit.Price(got), c.told)
		}
	}
	for unit, text := range map[Unit]string{Token: "0.0000001", Image: "0.0000000001", AudioMinute: "9223372.036854776"} {
		if got, err := unit.ParseRate(text); err == nil {
			t.Errorf("%q %v is %d", text, unit, got)
		}
	}
	if got := Image.Number(40_000_000_000); got != 0.04 {
		t.Errorf("four cents: got %v, want 0.04", got)
	}
}

func FuzzParseRate(f *testing.F) {
	f.Add(uint8(0), "0.15")
	f.Add(uint8(1), "0.040")
	f.Add(uint8(2), "-0.000000001")
	f.Add(uint8(2), "9223372036.854775807")
	f.Fuzz(func(t *testing.T, unit uint8, s string) {
		u := units[int(unit)%len(units)]
		v, err := u.ParseRate(s)
		if err != nil {
			return
		}
		if again, err := u.ParseRate(u.Price(v)); err != nil {
			t.Errorf("%q →: got the error %v, want none", s, err)
		} else if again != v {
			t.Errorf("%q →: again: got %d, want %d, with %q", s, again, v, u.Price(v))
		}
		if u != Token && v%picoPerNano != 0 {
			t.Errorf("%q is %d pico-USD, a part of a nano-USD", s, v)
		}
	})
}

func mustRate(t *testing.T, u Unit, s string) PicoUSD {
	t.Helper()
	p, err := u.ParseRate(s)
	if err != nil {
		t.Fatalf("%q %v: got the error %v, want none", s, u, err)
	}
	if p > math.MaxInt64/2 {
		t.Fatalf("%q %v: u.ParseRate(s): got %d, want at most %d", s, u, p, math.MaxInt64/2)
	}
	return p
}
