package chain_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/services/settlement/internal/chain"
)

func TestTheBooksNameAnAssetByItsChain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id   chain.ID
		kind chain.Kind
		want string
	}{
		{chain.Ethereum, chain.USDC, "1:usdc"}, {chain.Base, chain.USDC, "8453:usdc"},
		{chain.SVC, chain.Coin, "254:native"}, {chain.Base, chain.Coin, "8453:eth"}, {chain.Ethereum, chain.Coin, "1:eth"},
	} {
		if got := c.id.Token(c.kind); got != c.want {
			t.Errorf("%s of chain %s: got %s, want %s", c.kind, c.id, got, c.want)
		}
	}
}

func amount(t *testing.T, text string) chain.Amount {
	t.Helper()
	a, err := chain.ParseAmount(text)
	if err != nil {
		t.Fatalf("%s: got the error %v, want none", text, err)
	}
	return a
}

func TestWhatTheBooksLeaveOutIsDust(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount   string
		decimals int
		units    int64
		dust     string
	}{
		{"1999999999", 18, 1, "999999999"},
		{"999999999", 18, 0, "999999999"},
		{"123", 6, 123, "0"},
		{"9223372036854775807999999999", 18, math.MaxInt64, "999999999"},
	} {
		units, dust, ok := amount(t, c.amount).Units(c.decimals)
		if !ok {
			t.Errorf("%s: got no units, want %d", c.amount, c.units)
		} else if units != c.units {
			t.Errorf("%s: got %d units, want %d", c.amount, units, c.units)
		} else if dust.String() != c.dust {
			t.Errorf("%s: got the dust %s, want %s", c.amount, dust, c.dust)
		}
		back, ok := chain.AmountOfUnits(units, c.decimals)
		whole, _ := back.Add(dust)
		if !ok {
			t.Errorf("%s: got nothing back, want it whole", c.amount)
		} else if whole != amount(t, c.amount) {
			t.Errorf("%s: got %s back, want it whole", c.amount, whole)
		}
	}
	if _, _, ok := amount(t, "9223372036854775808000000000").Units(18); ok {
		t.Error("2^63 units: got a number, want none")
	}
}

func TestAnAmountIsBelowTwoToThe256(t *testing.T) {
	t.Parallel()
	most := "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	if got := amount(t, most).String(); got != most {
		t.Errorf("got %s, want %s", got, most)
	}
	for _, text := range []string{"", "-1", "+1", "1.0", "0x1", " 1", "1e3", most + "0",
		"115792089237316195423570985008687907853269984665640564039457584007913129639936"} {
		if got, err := chain.ParseAmount(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
	if _, ok := amount(t, most).Add(chain.NewAmount(1)); ok {
		t.Error("the most and one: got a sum, want none")
	}
	if _, ok := chain.NewAmount(1).Sub(chain.NewAmount(2)); ok {
		t.Error("1 - 2: got a difference, want none")
	}
	if _, ok := chain.NewAmount(1).MulDiv(1, 0); ok {
		t.Error("1 / 0: got a quotient, want none")
	}
}

func FuzzAnAmountReadsAsItIsWritten(f *testing.F) {
	for _, seed := range []string{"0", "00", "1", "999999999999999999999", "-1", "1_0", "٣"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := chain.ParseAmount(text)
		if err != nil {
			return
		}
		want := strings.TrimLeft(text, "0")
		if want == "" {
			want = "0"
		}
		if a.String() != want {
			t.Errorf("%q: got %s, want %s", text, a, want)
		}
	})
}

func whole() chain.Config {
	return chain.Config{
		ID: chain.Base, Name: "Base", RPCs: []config.Secret{config.NewSecret("http://127.0.0.1:1")},
		BlockTime: 2 * time.Second, MaxGasPrice: chain.NewAmount(1), Payouts: true, CoinSymbol: "ETH",
		Tokens: []chain.Token{{Kind: chain.USDC, Address: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", Symbol: "USDC",
			Decimals: 6}},
		Treasury: "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
		Collateral: &chain.Collateral{Address: "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", Kind: chain.USDC,
			Minimum: chain.NewAmount(1)},
	}
}

func TestAConfigurationNamesEachFault(t *testing.T) {
	t.Parallel()
	if err := (chain.Configs{whole()}).Validate(); err != nil {
		t.Fatalf("a whole one: got the error %v, want none", err)
	}
	for want, change := range map[string]func(*chain.Config){
		"the chains are":        func(c *chain.Config) { c.ID = 5 },
		"name must have":        func(c *chain.Config) { c.Name = "" },
		"1 to 5 rpcs":           func(c *chain.Config) { c.RPCs = nil },
		"rpc 1 must be an http": func(c *chain.Config) { c.RPCs[0] = config.NewSecret("ftp://secret") },
		"depth must be":         func(c *chain.Config) { c.Depth = chain.MaxDepth + 1 },
		"block_time must be":    func(c *chain.Config) { c.BlockTime = 0 },
		"max_gas_price must be": func(c *chain.Config) { c.MaxGasPrice = chain.Amount{} },
		"the capitals of the address": func(c *chain.Config) {
			c.Treasury = "0xFB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
		},
		"payouts need":                     func(c *chain.Config) { c.Tokens, c.Collateral = nil, nil },
		"usdc has 6 decimals":              func(c *chain.Config) { c.Tokens[0].Decimals = 18 },
		"zero address":                     func(c *chain.Config) { c.Tokens[0].Address = "0x" + strings.Repeat("0", 40) },
		"collateral: minimum":              func(c *chain.Config) { c.Collateral.Minimum = chain.Amount{} },
		"code_hash":                        func(c *chain.Config) { c.Tokens[0].CodeHash = "0x1" },
		"collateral: an address is 0x and": func(c *chain.Config) { c.Collateral.Address = "0x1" },
	} {
		c := whole()
		change(&c)
		err := chain.Configs{c}.Validate()
		if err == nil {
			t.Errorf("got no error, want one with %q", want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want one with %q", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the fault shows the address of an RPC: %v", err)
		}
	}
	if err := (chain.Configs{whole(), whole()}).Validate(); err == nil {
		t.Error("two alike: got no error, want one")
	} else if !strings.Contains(err.Error(), "twice") {
		t.Errorf("two alike: got the error %v, want one with twice", err)
	}
}

func TestTheEnvironmentHoldsChainsAsJSON(t *testing.T) {
	t.Parallel()
	var c chain.Configs
	text := `[{"id":254,"name":"SVC","rpcs":["http://127.0.0.1:1"],"max_gas_price":"7"}]`
	if err := c.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if got, ok := c.Of(chain.SVC); !ok {
		t.Error("got no chain 254, want it")
	} else if got.MaxGasPrice != chain.NewAmount(7) {
		t.Errorf("got chain 254 with a price of %v, want 7", got.MaxGasPrice)
	}
	for _, text := range []string{`[{"ID2":1}]`, `{}`, `[] []`} {
		if err := c.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s: got no error, want one", text)
		}
	}
}
