package calibration_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/quant"
)

// offers are one offer each of as many owners.
func offers(exceeded ...int) []calibration.Offer {
	var all []calibration.Offer
	for i, n := range exceeded {
		all = append(all, calibration.Offer{Owner: fmt.Sprint("owner ", i), Exceeded: n})
	}
	return all
}

func TestACauseIsCommonFromThreeOwnersAndAFifth(t *testing.T) {
	t.Parallel()
	many := slices.Repeat([]calibration.Offer{{Owner: "a", Exceeded: 200}}, 9)
	for _, e := range []struct {
		s    calibration.Signs
		want calibration.Common
	}{
		{calibration.Signs{Owners: 10, Exceeded: 2}, calibration.NoCommon},
		{calibration.Signs{Owners: 15, Exceeded: 3}, calibration.ManyExceed},
		{calibration.Signs{Owners: 16, Exceeded: 3}, calibration.NoCommon},
		{calibration.Signs{Owners: 2, Exceeded: 2}, calibration.NoCommon},
		{calibration.Signs{Offers: offers(200, 200)}, calibration.NoCommon},
		{calibration.Signs{Offers: offers(0, 1, 200)}, calibration.NoCommon},
		{calibration.Signs{Offers: offers(2, 0, 200)}, calibration.MedianExceeds},
		{calibration.Signs{Offers: offers(9, 0, 200, 1)}, calibration.NoCommon},
		{calibration.Signs{Offers: many}, calibration.NoCommon},
		{calibration.Signs{Offers: append(offers(0, 0), many...)}, calibration.NoCommon},
		{calibration.Signs{Offers: append(offers(9, 9), many...)}, calibration.MedianExceeds},
		{calibration.Signs{ReferenceX: calibration.Tau / 2}, calibration.NoCommon},
		{calibration.Signs{ReferenceX: 0.551}, calibration.ReferencesDiffer},
		{calibration.Signs{ReferenceX: math.NaN()}, calibration.ReferencesDiffer},
	} {
		if got := e.s.Cause(); got != e.want {
			t.Errorf("%+v: got %q, want %q", e.s, got, e.want)
		}
	}
}

func TestTheUnknownTakesTheWidestLimits(t *testing.T) {
	t.Parallel()
	at := func(engine string, class quant.Class, n int, largest float64) calibration.Calibration {
		return calibration.Calibration{
			Stratum: calibration.Stratum{Model: "m", Engine: engine, Class: class}, Family: evidence.Greedy, N: n, Hosts: 2,
			Largest: []float64{largest}, Power: calibration.Power{Class: 2, Exceeded: 90, N: 100},
			Ratios: []calibration.Moments{{Alternative: evidence.Hotter, Mean: largest, N: n}},
		}
	}
	all := []calibration.Calibration{at("a", 8, 2000, 1), at("a", 4, 1500, 5), at("b", 8, 1800, 3)}
	for _, e := range []struct {
		s       calibration.Stratum
		n       int
		largest float64
	}{
		{calibration.Stratum{Model: "m", Engine: "a", Class: 8}, 2000, 1},
		{calibration.Stratum{Model: "m", Class: 8}, 1800, 3},
		{calibration.Stratum{Model: "m"}, 1500, 5},
		{calibration.Stratum{Model: "m", Engine: "a"}, 1500, 5},
	} {
		got, ok := calibration.Choose(e.s, evidence.Greedy, all)
		if !ok {
			t.Fatalf("%+v: got no calibration, want n = %d and the limit %v", e.s, e.n, e.largest)
		}
		if got.N != e.n {
			t.Errorf("%+v: got %+v, want n = %d and the limit %v", e.s, got, e.n, e.largest)
		}
		if got.Largest[0] != e.largest {
			t.Errorf("%+v: got %+v, want n = %d and the limit %v", e.s, got, e.n, e.largest)
		}
		if got.Ratios[0].Mean != e.largest {
			t.Errorf("%+v: got %+v, want n = %d and the limit %v", e.s, got, e.n, e.largest)
		}
		if exact := e.s.Engine != "" && e.s.Class != 0; got.JudgesQuantization() != exact {
			t.Errorf("%+v: got a power of %+v, want one only of an exact stratum", e.s, got.Power)
		}
		if got.Stratum != e.s {
			t.Errorf("%+v: got %+v, want n = %d and the limit %v", e.s, got, e.n, e.largest)
		}
	}
	for _, none := range []calibration.Stratum{{Model: "other"}, {Model: "m", Engine: "c"}, {Model: "m", Class: 2}} {
		if got, ok := calibration.Choose(none, evidence.Greedy, all); ok {
			t.Errorf("%+v: got %+v, want none", none, got)
		}
	}
	if all[0].Largest[0] != 1 {
		t.Error("choosing changed a calibration")
	}
	if all[0].Ratios[0].Mean != 1 {
		t.Error("choosing changed a calibration")
	}
}

func sample(t testing.TB) calibration.Calibration {
	t.Helper()
	r := rand.New(rand.NewPCG(8, 8))
	honest := make([]calibration.Challenge, 400)
	for i := range honest {
		honest[i] = calibration.Challenge{Host: "ab"[i%2 : i%2+1], Parts: []float64{r.Float64(), r.Float64() * 7}}
	}
	c, err := calibration.Fit(stratum, evidence.Logprobs, 2, honest)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = c.WithPower(quant.Bits4, [][]float64{{3, 3}, {0, 0}}); err != nil {
		t.Fatal(err)
	}
	values := make([]calibration.Ratio, 300)
	for i := range values {
		values[i] = calibration.Ratio{Host: "ab"[i%2 : i%2+1], Value: r.Float64() * 3}
	}
	ratios, err := calibration.FitRatios(stratum, map[evidence.Alternative][]calibration.Ratio{
		evidence.Cooler: values, evidence.Hotter: values[:200],
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Ratios = ratios.Ratios
	return c
}

func TestTheBinaryFormIsKnown(t *testing.T) {
	t.Parallel()
	c := sample(t)
	b, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := calibration.Decode(b)
	if err != nil {
		t.Errorf("got %+v and the error %v, want %+v", back, err, c)
	}
	if !reflect.DeepEqual(back, c) {
		t.Errorf("got %+v and the error %v, want %+v", back, err, c)
	}
	h, err := c.Hash()
	const want = "fef106cd6f4a3a6851c88f6d5bebfdeba828594b5c23c06d9542aa2bd940d540"
	if got := hex.EncodeToString(h[:]); err != nil {
		t.Errorf("got %s and the error %v, want %s", got, err, want)
	} else if got != want {
		t.Errorf("got %s and the error %v, want %s", got, err, want)
	}
}

// Evidence names calibrations of before rules had versions by the hash of their form.
func TestRulesStandInTheFormWhereThereAreSome(t *testing.T) {
	t.Parallel()
	c := sample(t)
	before, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	c.Rules = 2
	after, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := calibration.Decode(after)
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	if !reflect.DeepEqual(back, c) {
		t.Errorf("got %+v, want %+v", back, c)
	}
	if got, want := len(after), len(before)+1; got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	after[5] = 0
	if _, err := calibration.Decode(after); !errors.Is(err, calibration.ErrBinary) {
		t.Errorf("rules 0 in the longer form: got %v, want %v", err, calibration.ErrBinary)
	}
	for _, rules := range []int{-1, 256} {
		c.Rules = rules
		if _, err := c.Encode(); !errors.Is(err, calibration.ErrData) {
			t.Errorf("rules %d: got %v, want %v", rules, err, calibration.ErrData)
		}
	}
}

func TestOrderOfChallengesIsNoMatter(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 9))
	honest := challenges(500, 3, r.Float64)
	a, errA := calibration.Fit(stratum, evidence.Usage, 3, honest)
	slices.Reverse(honest)
	b, errB := calibration.Fit(stratum, evidence.Usage, 3, honest)
	hashA, _ := a.Hash()
	hashB, _ := b.Hash()
	if errA != nil {
		t.Errorf("got %x and %x, errors %v and %v, want the same hash", hashA, hashB, errA, errB)
	}
	if errB != nil {
		t.Errorf("got %x and %x, errors %v and %v, want the same hash", hashA, hashB, errA, errB)
	}
	if hashA != hashB {
		t.Errorf("got %x and %x, errors %v and %v, want the same hash", hashA, hashB, errA, errB)
	}
}

func TestOnlyOneFormIsDecoded(t *testing.T) {
	t.Parallel()
	good, err := sample(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		if _, err := calibration.Decode(good[:i]); !errors.Is(err, calibration.ErrBinary) {
			t.Fatalf("%d bytes: got %v, want %v", i, err, calibration.ErrBinary)
		}
	}
	for name, bad := range map[string][]byte{
		"more": append(slices.Clone(good), 0), "large": make([]byte, calibration.MaxBinary+1),
		"version":     append([]byte("VCAL\x01"), good[5:]...),
		"family":      bytes.Replace(good, []byte("logprobs"), []byte("logprobz"), 1),
		"alternative": bytes.Replace(good, []byte("cooler"), []byte("colder"), 1),
	} {
		if _, err := calibration.Decode(bad); !errors.Is(err, calibration.ErrBinary) {
			t.Errorf("%s: got %v, want %v", name, err, calibration.ErrBinary)
		}
	}
}

func TestBeyondTheBoundsIsNotEncoded(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*calibration.Calibration){
		"model":       func(c *calibration.Calibration) { c.Stratum.Model = strings.Repeat("x", 256) },
		"no model":    func(c *calibration.Calibration) { c.Stratum.Model = "" },
		"UTF-8":       func(c *calibration.Calibration) { c.Stratum.GPU = "\xff" },
		"class":       func(c *calibration.Calibration) { c.Stratum.Class = 7 },
		"family":      func(c *calibration.Calibration) { c.Family = evidence.Battery },
		"n":           func(c *calibration.Calibration) { c.N = calibration.MaxChallenges + 1 },
		"hosts":       func(c *calibration.Calibration) { c.Hosts = calibration.MaxHosts + 1 },
		"whole hosts": func(c *calibration.Calibration) { c.Whole = c.Hosts + 1 },
		"parts":       func(c *calibration.Calibration) { c.Largest = make([]float64, 4) },
		"NaN":         func(c *calibration.Calibration) { c.Largest[0] = math.NaN() },
		"minus zero":  func(c *calibration.Calibration) { c.Largest[0] = math.Copysign(0, -1) },
		"order":       func(c *calibration.Calibration) { slices.Reverse(c.Ratios) },
		"variance":    func(c *calibration.Calibration) { c.Ratios[0].Variance = math.Inf(1) },
		"power":       func(c *calibration.Calibration) { c.Power.Exceeded = c.Power.N + 1 },
		"power class": func(c *calibration.Calibration) { c.Power.Class = 0 },
	} {
		c := sample(t)
		spoil(&c)
		if _, err := c.Encode(); !errors.Is(err, calibration.ErrData) {
			t.Errorf("%s: got %v, want %v", name, err, calibration.ErrData)
		}
		if _, err := c.Hash(); !errors.Is(err, calibration.ErrData) {
			t.Errorf("%s: hash: got %v, want %v", name, err, calibration.ErrData)
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, err := sample(f).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := calibration.Decode(b)
		if err != nil {
			return
		}
		again, err := c.Encode()
		if err != nil {
			t.Errorf("got %x and the error %v, want %x", again, err, b)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("got %x and the error %v, want %x", again, err, b)
		}
	})
}
