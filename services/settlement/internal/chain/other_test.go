package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"svc.internal/services/settlement/internal/chain"
)

func TestOtherTokensAreThoseThatEverybodyKnowsAndThoseOfTheSettings(t *testing.T) {
	t.Parallel()
	const mine = "0x00000000000000000000000000000000000000A1"
	usdt := chain.Config{ID: chain.Ethereum}.Others()[0]
	if got := len(chain.Config{ID: chain.Base}.Others()); got != 2 {
		t.Errorf("known other tokens of Base: got %d, want 2", got)
	}
	cfg := chain.Config{ID: chain.Ethereum, OtherTokens: []chain.OtherToken{
		{Address: mine, Symbol: "DAI", Decimals: 18}, {Address: usdt.Contract.String(), Symbol: "again", Decimals: 6},
	}}
	var got []string
	for _, o := range cfg.Others() {
		got = append(got, o.Symbol)
	}
	if text := strings.Join(got, " "); text != "USDT DAI" {
		t.Errorf("other tokens: got %q, want each contract once", text)
	}
	// A token that is credited is no other one.
	cfg.Tokens = []chain.Token{{Kind: chain.USDC, Address: mine, Symbol: "USDC", Decimals: 6}}
	if got := cfg.Others(); len(got) != 1 {
		t.Errorf("other tokens beside a credited one: got %v, want USDT alone", got)
	}
	for range chain.MaxOtherTokens {
		address := chain.Address{1, byte(len(cfg.OtherTokens))}
		cfg.OtherTokens = append(cfg.OtherTokens, chain.OtherToken{Address: address.String(), Symbol: "T"})
	}
	cfg.OtherTokens[0].Decimals = 37
	err := cfg.Validate()
	for _, want := range []string{"at most 16 other tokens", "0 to 36 decimals"} {
		if text := fmt.Sprint(err); !strings.Contains(text, want) {
			t.Errorf("settings: got the error %q, want one with %q", text, want)
		}
	}
}

func TestAnOtherTokenIsSmallBelowAHundredth(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		decimals int
		least    string
	}{{6, "10000"}, {18, "10000000000000000"}, {2, "1"}, {0, "1"}} {
		least, err := chain.ParseAmount(one.least)
		if err != nil {
			t.Fatal(err)
		}
		token := chain.Other{Decimals: one.decimals}
		if token.Small(least) {
			t.Errorf("%s with %d decimals: got small, want not", one.least, one.decimals)
		}
		if below, _ := least.Sub(chain.NewAmount(1)); !token.Small(below) {
			t.Errorf("%s with %d decimals: got not small, want small", below, one.decimals)
		}
	}
}

func TestAnAmountIsWrittenInWholeTokens(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		units    string
		decimals int
		want     string
	}{
		{"1500000", 6, "1.5"}, {"1000000", 6, "1"}, {"1", 18, "0.000000000000000001"}, {"0", 6, "0"}, {"12", 0, "12"},
		{"115792089237316195423570985008687907853269984665640564039457584007913129639935", 6,
			"115792089237316195423570985008687907853269984665640564039457584007913129.639935"},
	} {
		amount, err := chain.ParseAmount(one.units)
		if err != nil {
			t.Fatal(err)
		}
		if got := amount.Decimal(one.decimals); got != one.want {
			t.Errorf("%s with %d decimals: got %q, want %q", one.units, one.decimals, got, one.want)
		}
	}
}
