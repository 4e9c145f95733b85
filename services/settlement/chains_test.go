package settlement

import (
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/services/settlement/internal/chain"
)

func TestChainsWithDollarsNeedTwoRPCsExceptInDevelopment(t *testing.T) {
	t.Parallel()
	one := chain.Config{ID: chain.Base, Name: "Base", RPCs: []config.Secret{config.NewSecret("http://127.0.0.1:1")},
		BlockTime: time.Second, MaxGasPrice: chain.NewAmount(1)}
	for _, c := range []struct {
		name        string
		id          chain.ID
		development bool
		want        string
	}{
		{"chain 8453", chain.Base, false, "at least two operators"},
		{"chain 1", chain.Ethereum, false, "at least two operators"},
		{"chain 254", chain.SVC, false, ""},
		{"development", chain.Base, true, ""},
		{"no such chain", 5, true, "the chains are"},
	} {
		cfg := DefaultConfig()
		one.ID = c.id
		cfg.Chains, cfg.Development = chain.Configs{one}, c.development
		switch err := cfg.Validate(); {
		case c.want == "" && err != nil:
			t.Errorf("%s: got the error %v, want none", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got the error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestTheEnvironmentSetsChainsAndPrices(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	if err := config.Read(&cfg, "", []string{
		"SVC_SETTLEMENT_DEVELOPMENT=true", `SVC_SETTLEMENT_QUOTES={"fixed": {"254:native": "0.5"}}`,
		`SVC_SETTLEMENT_CHAINS=[{"id": 254, "name": "SVC", "rpcs": ["http://127.0.0.1:1"], "block_time": 2000000000,
			"max_gas_price": "7", "coin_symbol": "SVC"}]`}); err != nil {
		t.Fatal(err)
	}
	if got := len(cfg.Chains); got != 1 {
		t.Errorf("chains: got %d, want 1", got)
	}
	if got := cfg.Quotes.Fixed["254:native"]; got != "0.5" {
		t.Errorf("price: got %q, want 0.5", got)
	}
	cfg.Development = false
	if err := cfg.Validate(); err == nil {
		t.Error("a fixed price outside of development: got no error, want one")
	}
}

func TestWhatEndedIsLookedAtAgainWithinAnHour(t *testing.T) {
	t.Parallel()
	for pause, allowed := range map[time.Duration]bool{
		0: false, time.Second - 1: false, time.Second: true, time.Hour: true, time.Hour + 1: false,
	} {
		cfg := DefaultConfig()
		cfg.Payouts.RecheckInterval = pause
		if err := cfg.Validate(); (err == nil) != allowed {
			t.Errorf("a pause of %v: got the error %v, want it allowed: %t", pause, err, allowed)
		}
	}
}
