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
		t.Errorf("the same rates made %+v of %+v", got, v)
	}
	perImage := money.Rates{Unit: money.Image}
	got := First(money.Rates{}, noon, ids.PriceVersionID{1}).Succeed(perImage, noon, ids.PriceVersionID{2})
	if got.ID != (ids.PriceVersionID{2}) || got.Rates != perImage {
		t.Errorf("what the price is for changed and the version did not: %+v", got)
	}
	for i := range 4 {
		dearer := old
		*[]*money.PicoUSD{&dearer.Input, &dearer.Output, &dearer.PayoutInput, &dearer.PayoutOutput}[i]++
		if got := v.Succeed(dearer, noon.Add(time.Hour), ids.PriceVersionID{2}); got.ID == v.ID || got.Rates != dearer {
			t.Errorf("rate %d changed and the version did not: %+v", i, got)
		}
	}
}

func TestAVersionBeginsAfterTheOneBefore(t *testing.T) {
	v := First(old, noon, ids.PriceVersionID{1})
	for _, now := range []time.Time{noon.Add(-time.Hour), noon, noon.Add(time.Nanosecond), noon.Add(time.Hour)} {
		next := v.Succeed(money.Rates{}, now, ids.PriceVersionID{2})
		if !next.ValidFrom.After(v.ValidFrom) || next.ValidFrom != next.ValidFrom.Truncate(time.Microsecond) {
			t.Errorf("at %v the next begins %v, the one before %v", now, next.ValidFrom, v.ValidFrom)
		}
	}
}

func TestABadPriceIsRefusedByField(t *testing.T) {
	good := Texts{Input: "0.15", Output: "0.6", PayoutInput: "0.135", PayoutOutput: "0.54"}
	if rates, err := Parse(money.Token, good); err != nil ||
		rates != (money.Rates{Input: 150_000, Output: 600_000, PayoutInput: 135_000, PayoutOutput: 540_000}) {
		t.Fatalf("%+v, %v", rates, err)
	}
	if rates, err := Parse(money.Token, Texts{}); err != nil || !rates.Free() {
		t.Fatalf("no prices: %+v, %v", rates, err)
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
		if f, ok := fault.As(err); !ok || f.Reason != fault.InvalidValue || f.Param != field {
			t.Errorf("a bad %s: %v", field, err)
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
	} {
		_, err := Parse(c.unit, c.texts)
		if f, ok := fault.As(err); ok != (c.field != "") || ok && f.Param != c.field {
			t.Errorf("%v %+v: %v, want a fault of %q", c.unit, c.texts, err, c.field)
		}
	}
}

func FuzzParsedPricesAreExactAndKeepTheInvariants(f *testing.F) {
	f.Add(uint8(0), "1", "3", "0.9", "2.7")
	f.Add(uint8(0), "", "", "", "")
	f.Add(uint8(0), "1000000", "0.000001", "1", "0.000001")
	f.Add(uint8(0), "99999999999999999999", "-1", "+0.5", ".5")
	f.Add(uint8(1), "", "0.04", "", "0.036")
	f.Add(uint8(1), "0.04", "", "0.036", "")
	f.Add(uint8(2), "0.006", "", "0.000000001", "")
	f.Fuzz(func(t *testing.T, kind uint8, input, output, payoutInput, payoutOutput string) {
		unit := money.Unit(kind % 3)
		texts := Texts{input, output, payoutInput, payoutOutput}
		rates, err := Parse(unit, texts)
		if err != nil {
			if f, ok := fault.As(err); !ok || f.Param == "" {
				t.Fatalf("a refusal without a field: %v", err)
			}
			return
		}
		if err := rates.Validate(); err != nil {
			t.Fatalf("%+v passed and breaks an invariant: %v", texts, err)
		}
		again, err := Parse(unit, Texts{unit.Price(rates.Input), unit.Price(rates.Output), unit.Price(rates.PayoutInput),
			unit.Price(rates.PayoutOutput)})
		if err != nil || again != rates {
			t.Fatalf("%+v written and read again is %+v, %v", rates, again, err)
		}
		if v, err := strconv.ParseFloat(input, 64); err == nil && v != unit.Number(rates.Input) {
			t.Fatalf("%q was read as %v", input, rates.Input)
		}
	})
}
