package signer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/config"
	"svc.internal/services/settlement/internal/chain"
)

func newSecret(text string) config.Secret { return config.NewSecret(text) }

func TestAConfigurationNamesEachFault(t *testing.T) {
	t.Parallel()
	seed := strings.Repeat("00", 32)
	whole := func() Config {
		return Config{Chains: Chains{listed(8453)}, KMSRegion: "eu-central-1", DepositSeed: newSecret(seed),
			KeystorePassphrase: newSecret("x"), Keys: Keys{Payout: Source{KMS: "alias/payout"}}}
	}
	if err := whole().Validate(); err != nil {
		t.Fatalf("a whole one: got the error %v, want none", err)
	}
	for want, change := range map[string]func(*Config){
		"kms_region is missing": func(c *Config) { c.KMSRegion = "" },
		"keystore_passphrase is missing": func(c *Config) {
			c.Keys.Gas, c.KeystorePassphrase = Source{Keystore: "x"}, config.Secret{}
		},
		"put it into KMS":                     func(c *Config) { c.Keys.Gas = Source{Keystore: "x"} },
		"development needs development_seed":  func(c *Config) { c.Development = true },
		"deposit_seed":                        func(c *Config) { c.DepositSeed = newSecret("hunter2") },
		"stands twice":                        func(c *Config) { c.Chains = append(c.Chains, listed(8453)) },
		"at most 8 are possible":              func(c *Config) { c.Chains = make(Chains, 9) },
		"number must be above zero":           func(c *Config) { c.Chains[0].ID = 0 },
		"treasury: an address is":             func(c *Config) { c.Chains[0].Treasury = "0x1" },
		"treasury and collateral are one":     func(c *Config) { c.Chains[0].Treasury = c.Chains[0].Collateral },
		"fees must allow something":           func(c *Config) { c.Chains[0].Fees = Cap{} },
		"fees: the cap of a day is below":     func(c *Config) { c.Chains[0].Fees.Day = chain.NewAmount(1) },
		"slashes: the cap of a day is below":  func(c *Config) { c.Chains[0].Slashes.Day = chain.Amount{} },
		"coin_payouts: the cap":               func(c *Config) { c.Chains[0].CoinPayouts.Day = chain.Amount{} },
		"the cap of a day is below that of":   func(c *Config) { c.Chains[0].Tokens[0].Payouts.Day = chain.Amount{} },
		"a token has no address":              func(c *Config) { c.Chains[0].Tokens[0].Address = "" },
		"is the treasury or holds collateral": func(c *Config) { c.Chains[0].Tokens[0].Address = c.Chains[0].Treasury },
		"there are at most 8 tokens":          func(c *Config) { c.Chains[0].Tokens = make([]Token, 9) },
		`no key "statement" counts nonces from`: func(c *Config) {
			c.Chains[0].FirstNonces = map[string]uint64{"statement": 1}
		},
		"first_nonces: payout is too large": func(c *Config) {
			c.Chains[0].FirstNonces = map[string]uint64{"payout": 1 << 60}
		},
	} {
		c := whole()
		change(&c)
		text := fmt.Sprint(c.Validate())
		if !strings.Contains(text, want) {
			t.Errorf("got the error %s, want one with %q", text, want)
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("the fault shows the seed: %s", text)
		}
	}
	for name, c := range map[string]Config{
		"a keystore file beside a chain of no dollars": func() Config {
			c := whole()
			c.Chains, c.Keys.Gas = Chains{listed(254)}, Source{Keystore: "x"}
			return c
		}(),
		"a keystore file in development": func() Config {
			c := whole()
			c.Keys.Gas, c.Development, c.DevelopmentSeed = Source{Keystore: "x"}, true, "seed"
			return c
		}(),
		"nothing": DefaultConfig(),
	} {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
	}
}

func TestDevelopmentKeysAreForLoopbackAlone(t *testing.T) {
	t.Parallel()
	for _, development := range []bool{true, false} {
		for address, off := range map[string]bool{"127.0.0.1:1": false, "": false, "0.0.0.0:1": true, "10.0.0.1:1": true} {
			err := Config{Development: development}.CheckListeners("127.0.0.1:2", address)
			if got, want := err != nil, development && off; got != want {
				t.Errorf("development %t at %q: got the error %v, want one: %t", development, address, err, want)
			}
		}
	}
}

func TestAFileAndTheEnvironmentHoldTheSettings(t *testing.T) {
	t.Parallel()
	type program struct {
		Signer Config `yaml:"signer"`
	}
	path := filepath.Join(t.TempDir(), "signer.yaml")
	text := `signer:
  keys: {payout: "kms:arn:aws:kms:eu-central-1:1:key/2", gas: "keystore:/keys/gas.json"}
  kms_region: eu-central-1
  chains:
    - id: 8453
      treasury: "` + treasury.String() + `"
      fees: {transaction: 1000, day: "2000"}
      tokens: [{address: "` + usdc.String() + `", name: USD Coin, version: "2", payouts: {transaction: 5, day: 6}}]
      first_nonces: {payout: 3}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var p program
	if err := config.Fill(&p, path, []string{"SVC_SIGNER_KEY_STATEMENT=kms:alias/statement"}); err != nil {
		t.Fatal(err)
	}
	c := p.Signer
	if got, want := c.Keys, (Keys{Payout: Source{KMS: "arn:aws:kms:eu-central-1:1:key/2"},
		Gas: Source{Keystore: "/keys/gas.json"}, Statement: Source{KMS: "alias/statement"}}); got != want {
		t.Errorf("the keys: got %+v, want %+v", got, want)
	}
	if got, err := c.Chains[0].policy(); err != nil {
		t.Errorf("the chain: got the error %v, want none", err)
	} else if got := fmt.Sprint(got.Fees, got.Tokens[0].Payouts, got.First); got != "{1000 2000} {5 6} map[payout:3]" {
		t.Errorf("the chain: got %s, want the caps of the file", got)
	}
	var env program
	variable := `SVC_SIGNER_CHAINS=[{"id":254,"fees":{"transaction":"7","day":"8"}}]`
	if err := config.Fill(&env, "", []string{variable}); err != nil {
		t.Fatal(err)
	}
	if got := env.Signer.Chains[0].Fees; got != limits(7, 8) {
		t.Errorf("the fees in the environment: got %v, want 7 and 8", got)
	}
	for _, bad := range []string{`[{"ID2":1}]`, `{}`, `[] []`} {
		if err := new(Chains).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%s: got no error, want one", bad)
		}
	}
	for _, bad := range []string{"file", "kms:", "keystore:", "hsm:x"} {
		if err := new(Source).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%s: got no error, want one", bad)
		}
	}
	for _, source := range []string{"", "kms:x:y", "keystore:/x"} {
		var s Source
		if err := s.UnmarshalText([]byte(source)); err != nil {
			t.Errorf("%s: got the error %v, want none", source, err)
		} else if got, _ := s.MarshalText(); string(got) != source {
			t.Errorf("%s: got %q written, want it as it was", source, got)
		}
	}
}
