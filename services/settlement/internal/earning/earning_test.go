package earning

import (
	"crypto/rand"
	"errors"
	"math"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

func usage(t *testing.T) Line {
	t.Helper()
	at := time.Date(2026, 11, 21, 23, 59, 0, 0, time.UTC)
	request, err := ids.NewRequest(at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := ids.NewProvider(at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	version, err := ids.NewPriceVersion(at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Line{RequestID: request, ProviderID: provider, PriceVersionID: version, ModelID: "m", Attempt: 1,
		EvidenceSource: Hub,
		Tokens:         money.Tokens{Prompt: 7, Completion: 3}}
}

func TestALinePaysThePinnedPayoutRoundedDown(t *testing.T) {
	rates := money.Rates{Input: 1_000, Output: 2_000, PayoutInput: 900, PayoutOutput: 1_500}
	line, err := NewLine(usage(t), rates)
	if err != nil {
		t.Fatal(err)
	}
	// 7×900 + 3×1500 = 10,800 pico-USD.
	if line.Payout != 10 {
		t.Errorf("payout: got %d nano-USD, want 10", line.Payout)
	}
	if want := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC); !line.Day().Equal(want) {
		t.Errorf("day: got %v, want %v", line.Day(), want)
	}
}

func TestALinePaysForImagesAndMinutesByTheirUnit(t *testing.T) {
	for _, c := range []struct {
		rates  money.Rates
		tokens money.Tokens
		want   money.NanoUSD
	}{
		{money.Rates{Unit: money.Image, Output: 40_000_000_000, PayoutOutput: 36_000_000_001}, money.Tokens{Completion: 3},
			108_000_000},
		{money.Rates{Unit: money.AudioMinute, Input: 6_000_000_000, PayoutInput: 5_400_000_000}, money.Tokens{Prompt: 1_001},
			90_090},
	} {
		l := usage(t)
		l.Tokens = c.tokens
		line, err := NewLine(l, c.rates)
		switch {
		case err != nil:
			t.Errorf("%+v at %+v: got the error %v, want none", c.tokens, c.rates, err)
		case line.Payout != c.want:
			t.Errorf("%+v at %+v: line.Payout: got %v, want %v", c.tokens, c.rates, line.Payout, c.want)
		case line.Unit != c.rates.Unit:
			t.Errorf("%+v at %+v: line.Unit: got %v, want %v", c.tokens, c.rates, line.Unit, c.rates.Unit)
		}
		l.Tokens = money.Tokens{Prompt: c.tokens.Completion, Completion: c.tokens.Prompt}
		if _, err := NewLine(l, c.rates); !errors.Is(err, ErrCounts) {
			t.Errorf("counts of another unit: got the error %v, want %v", err, ErrCounts)
		}
	}
}

func TestUsageThatCannotBecomeALineIsRefused(t *testing.T) {
	good := money.Rates{Input: 1, PayoutInput: 1}
	for name, spoil := range map[string]func(*Line, *money.Rates){
		"no request":         func(l *Line, _ *money.Rates) { l.RequestID = ids.RequestID{} },
		"no provider":        func(l *Line, _ *money.Rates) { l.ProviderID = ids.ProviderID{} },
		"no price version":   func(l *Line, _ *money.Rates) { l.PriceVersionID = ids.PriceVersionID{} },
		"no model":           func(l *Line, _ *money.Rates) { l.ModelID = "" },
		"endless attempt":    func(l *Line, _ *money.Rates) { l.Attempt = math.MaxUint32 },
		"NUL in the model":   func(l *Line, _ *money.Rates) { l.ModelID = "a\x00" },
		"no evidence source": func(l *Line, _ *money.Rates) { l.EvidenceSource = "" },
		"no attempt":         func(l *Line, _ *money.Rates) { l.Attempt = 0 },
		"negative tokens":    func(l *Line, _ *money.Rates) { l.Tokens.Prompt = -1 },
		"unknown unit":       func(_ *Line, r *money.Rates) { r.Unit = -1 },
		"payout > price":     func(_ *Line, r *money.Rates) { r.PayoutInput = 2 },
	} {
		line, rates := usage(t), good
		spoil(&line, &rates)
		if _, err := NewLine(line, rates); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	line := usage(t)
	line.Tokens.Prompt = math.MaxInt64
	if _, err := NewLine(line, money.Rates{Input: 1e9, PayoutInput: 1e9}); !errors.Is(err, money.ErrOverflow) {
		t.Errorf("an amount out of range: got the error %v, want %v", err, money.ErrOverflow)
	}
}
