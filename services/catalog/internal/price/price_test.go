package price

import (
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

var (
	noon = time.Date(2026, 11, 21, 12, 0, 0, 1234, time.UTC)
	old  = money.Rates{Input: 10, Output: 30, PayoutInput: 9, PayoutOutput: 27}
)

func TestAVersionStaysWhileItsRatesDo(t *testing.T) {
	v := First(old, noon, ids.PriceVersionID{1})
	if got := v.Succeed(old, noon.Add(time.Hour), ids.PriceVersionID{2}); got != v {
		t.Errorf("the same rates made: got %+v, want %+v", got, v)
	}
	perImage := money.Rates{Unit: money.Image}
	got := First(money.Rates{}, noon, ids.PriceVersionID{1}).Succeed(perImage, noon, ids.PriceVersionID{2})
	if got.ID != (ids.PriceVersionID{2}) {
		t.Errorf("a price for something else: ID: got %v, want %v", got.ID, ids.PriceVersionID{2})
	} else if got.Rates != perImage {
		t.Errorf("a price for something else: Rates: got %+v, want %+v", got.Rates, perImage)
	}
	for i := range 4 {
		dearer := old
		*[]*money.PicoUSD{&dearer.Input, &dearer.Output, &dearer.PayoutInput, &dearer.PayoutOutput}[i]++
		if got := v.Succeed(dearer, noon.Add(time.Hour), ids.PriceVersionID{2}); got.ID == v.ID {
			t.Errorf("rate %d changed: ID: got %v, want any but %v", i, got.ID, v.ID)
		} else if got.Rates != dearer {
			t.Errorf("rate %d changed: Rates: got %+v, want %+v", i, got.Rates, dearer)
		}
	}
}

func TestAVersionBeginsAfterTheOneBefore(t *testing.T) {
	v := First(old, noon, ids.PriceVersionID{1})
	for _, now := range []time.Time{noon.Add(-time.Hour), noon, noon.Add(time.Nanosecond), noon.Add(time.Hour)} {
		next := v.Succeed(money.Rates{}, now, ids.PriceVersionID{2})
		if !next.ValidFrom.After(v.ValidFrom) {
			t.Errorf("at %v the next begins: next.ValidFrom.After(v.ValidFrom): got false, want true, with %v", now,
				next.ValidFrom)
		} else if next.ValidFrom != next.ValidFrom.Truncate(time.Microsecond) {
			t.Errorf("at %v the next begins: next.ValidFrom: got %v, want %v", now, next.ValidFrom,
				next.ValidFrom.Truncate(time.Microsecond))
		}
	}
}

func TestABadPriceIsRefusedByField(t *testing.T) {
	good := Texts{Input: "0.15", Output: "0.6", PayoutInput: "0.135", PayoutOutput: "0.54"}
	if rates, err := Parse(money.Token, good); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if rates != (money.Rates{Input: 150_000, Output: 600_000, PayoutInput: 135_000, PayoutOutput: 540_000}) {
		t.Fatalf("rates: got %+v, want %+v", rates,
			money.Rates{Input: 150_000, Output: 600_000, PayoutInput: 135_000, PayoutOutput: 540_000})
	}
	if rates, err := Parse(money.Token, Texts{}); err != nil {
		t.Fatalf("no prices: got the error %v, want none", err)
	} else if !rates.Free() {
		t.Fatalf("no prices: rates.Free(): got false, want true, with %+v", rates)
	}
	for field, spoil := range map[string]func(*Texts){
		"input_price":         func(p *Texts) { p.Input = "-0.15" },
		"output_price":        func(p *Texts) { p.Output = "1e3" },
		"payout_input_price":  func(p *Texts) { p.PayoutInput = "0.150001" },
		"payout_output_price": func(p *Texts) { p.PayoutOutput = "0" },
	} {
		texts := good
		spoil(&texts)
		_, err := Parse(money.Token, texts)
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("a bad %s: got the error %v, want a fault", field, err)
		case f.Reason != fault.InvalidValue:
			t.Errorf("a bad %s: f.Reason: got %q, want %q", field, f.Reason, fault.InvalidValue)
		case f.Param != field:
			t.Errorf("a bad %s: f.Param: got %q, want %q", field, f.Param, field)
		}
	}
}

func TestEachUnitHasItsPricesAndItsDecimals(t *testing.T) {
	for _, c := range []struct {
		unit  money.Unit
		texts Texts
		field string
	}{
		{money.Image, Texts{Output: "0.000000001", PayoutOutput: "0.000000001"}, ""},
		{money.Image, Texts{Output: "1000", PayoutOutput: "900"}, ""},
		{money.Image, Texts{Output: "1000.000000001", PayoutOutput: "900"}, "output_price"},
		{money.Image, Texts{Output: "0.0000000001", PayoutOutput: "0"}, "output_price"},
		{money.Image, Texts{Input: "0.04", PayoutInput: "0.036"}, "input_price"},
		{money.Image, Texts{Output: "0.04"}, "payout_output_price"},
		{money.AudioMinute, Texts{Input: "0.006", PayoutInput: "0.0054"}, ""},
		{money.AudioMinute, Texts{Output: "0.006", PayoutOutput: "0.0054"}, "output_price"},
		{money.Token, Texts{Input: "0.0000001", PayoutInput: "0.0000001"}, "input_price"},
		{money.Token, Texts{Input: "1", PayoutInput: "0.9", PayoutCachedInput: "0.9"}, ""},
		{money.Token, Texts{Input: "1", PayoutInput: "0.9", PayoutCachedInput: "0.900001"}, "payout_cached_input_price"},
		{money.Token, Texts{Input: "1", PayoutInput: "0.9", PayoutCachedInput: "-0.1"}, "payout_cached_input_price"},
		{money.AudioMinute, Texts{Input: "1", PayoutInput: "0.9", PayoutCachedInput: "0.1"}, "payout_cached_input_price"},
	} {
		_, err := Parse(c.unit, c.texts)
		if f, ok := fault.As(err); ok != (c.field != "") {
			t.Errorf("%v %+v: ok: got %t, want %t", c.unit, c.texts, ok, c.field != "")
		} else if ok && f.Param != c.field {
			t.Errorf("%v %+v: f.Param: got %q, want %q", c.unit, c.texts, f.Param, c.field)
		}
	}
}

func FuzzParsedPricesAreExactAndKeepTheInvariants(f *testing.F) {
	f.Add(uint8(0), "1", "3", "0.9", "2.7", "0.1")
	f.Add(uint8(0), "", "", "", "", "")
	f.Add(uint8(0), "1000000", "0.000001", "1", "0.000001", "")
	f.Add(uint8(0), "99999999999999999999", "-1", "+0.5", ".5", "")
	f.Add(uint8(1), "", "0.04", "", "0.036", "")
	f.Add(uint8(1), "0.04", "", "0.036", "", "")
	f.Add(uint8(2), "0.006", "", "0.000000001", "", "")
	f.Fuzz(func(t *testing.T, kind uint8, input, output, payoutInput, payoutOutput, payoutCached string) {
		unit := money.Unit(kind % 3)
		texts := Texts{input, output, payoutInput, payoutOutput, payoutCached}
		rates, err := Parse(unit, texts)
		if err != nil {
			if f, ok := fault.As(err); !ok {
				t.Fatalf("a refusal without a field: got the error %v, want a fault", err)
			} else if f.Param == "" {
				t.Fatal(`a refusal without a field: f.Param: got "", want some text`)
			}
			return
		}
		if err := rates.Validate(); err != nil {
			t.Fatalf("%+v passed and breaks an invariant: %v", texts, err)
		}
		again, err := Parse(unit, Texts{unit.Price(rates.Input), unit.Price(rates.Output), unit.Price(rates.PayoutInput),
			unit.Price(rates.PayoutOutput), unit.Price(rates.PayoutCachedInput)})
		if err != nil {
			t.Fatalf("%+v written and read again is %+v: got the error %v, want none", rates, again, err)
		}
		if again != rates {
			t.Fatalf("%+v written and read again is %+v, %v: again: got %+v, want %+v", rates, again, err, again, rates)
		}
		if v, err := strconv.ParseFloat(input, 64); err == nil && v != unit.Number(rates.Input) {
			t.Fatalf("%q was read as %v", input, rates.Input)
		}
	})
}
