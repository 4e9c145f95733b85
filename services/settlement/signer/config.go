package signer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"svc.internal/pkg/config"
	"svc.internal/pkg/serve"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/keys"
	"svc.internal/services/settlement/signer/internal/policy"
)

// MaxTokens bounds the tokens of a chain.
const MaxTokens = 8

// Config of the service. Nothing of it comes from settlement: an operator writes it for this
// service alone.
type Config struct {
	// Chains are the chains for which transactions are signed, in the environment as JSON.
	// Without any the service signs statements alone.
	Chains Chains `yaml:"chains" env:"SVC_SIGNER_CHAINS"`
	// Keys are where the keys are.
	Keys Keys `yaml:"keys"`
	// KeystorePassphrase opens the keystore files, all of them.
	KeystorePassphrase config.Secret `yaml:"keystore_passphrase" env:"SVC_SIGNER_KEYSTORE_PASSPHRASE"`
	// DepositSeed is the seed of the deposit addresses: 32 to 64 bytes in hexadecimal. KMS
	// derives no keys, so the seed is in this process; what it signs goes to the treasury.
	DepositSeed config.Secret `yaml:"deposit_seed" env:"SVC_SIGNER_DEPOSIT_SEED"`
	// KMSRegion is the region of AWS KMS. The credentials are those that the machine has.
	KMSRegion string `yaml:"kms_region" env:"SVC_SIGNER_KMS_REGION"`
	// KMSEndpoint is a private endpoint of KMS; empty is the region's own.
	KMSEndpoint string `yaml:"kms_endpoint" env:"SVC_SIGNER_KMS_ENDPOINT"`
	// Development makes each key that is not set of a seed in a file, and allows keystore
	// files beside chains on which dollars move. A process that listens anywhere but on
	// loopback refuses it.
	Development bool `yaml:"development" env:"SVC_SIGNER_DEVELOPMENT"`
	// DevelopmentSeed is the file of that seed. It is made where it is missing.
	DevelopmentSeed string `yaml:"development_seed" env:"SVC_SIGNER_DEVELOPMENT_SEED"`
}

// Keys are where each key is: kms:ID for a key of AWS KMS, keystore:PATH for a keystore file
// of version 3. A key that is empty is missing, or, in development, made of the seed.
type Keys struct {
	Payout    Source `yaml:"payout" env:"SVC_SIGNER_KEY_PAYOUT"`
	Operator  Source `yaml:"operator" env:"SVC_SIGNER_KEY_OPERATOR"`
	Slasher   Source `yaml:"slasher" env:"SVC_SIGNER_KEY_SLASHER"`
	Arbiter   Source `yaml:"arbiter" env:"SVC_SIGNER_KEY_ARBITER"`
	Statement Source `yaml:"statement" env:"SVC_SIGNER_KEY_STATEMENT"`
	Gas       Source `yaml:"gas" env:"SVC_SIGNER_KEY_GAS"`
}

// named returns the sources by the names of their keys.
func (k Keys) named() map[policy.Key]Source {
	return map[policy.Key]Source{
		policy.Payout: k.Payout, policy.Operator: k.Operator, policy.Slasher: k.Slasher, policy.Arbiter: k.Arbiter,
		policy.Statement: k.Statement, policy.Gas: k.Gas,
	}
}

// Source is where a key is.
type Source struct {
	// KMS is the id, alias or ARN of a key of AWS KMS.
	KMS string
	// Keystore is the path of a keystore file.
	Keystore string
}

// UnmarshalText reads kms:ID or keystore:PATH. An empty text is no source.
func (s *Source) UnmarshalText(text []byte) error {
	kind, where, ok := strings.Cut(string(text), ":")
	switch {
	case len(text) == 0:
		*s = Source{}
	case ok && kind == "kms" && where != "":
		*s = Source{KMS: where}
	case ok && kind == "keystore" && where != "":
		*s = Source{Keystore: where}
	default:
		return errors.New("a key is kms:ID or keystore:PATH")
	}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (s Source) MarshalText() ([]byte, error) {
	switch {
	case s.KMS != "":
		return []byte("kms:" + s.KMS), nil
	case s.Keystore != "":
		return []byte("keystore:" + s.Keystore), nil
	}
	return nil, nil
}

// Cap bounds an amount in each transaction and each day in UTC.
type Cap = policy.Cap

// Chain is what may be signed for one chain. Amounts are in the smallest units, in decimal. A
// cap that is zero allows nothing.
type Chain struct {
	ID chain.ID `yaml:"id" json:"id"`
	// Treasury is where sweeps go; empty sweeps nothing.
	Treasury string `yaml:"treasury" json:"treasury"`
	// Collateral is the contract that holds collateral; empty is none.
	Collateral string `yaml:"collateral" json:"collateral"`
	// Slashes caps what is proposed to be taken of collateral, in units of its token.
	Slashes Cap `yaml:"slashes" json:"slashes"`
	// CoinPayouts caps payouts in the chain's coin.
	CoinPayouts Cap `yaml:"coin_payouts" json:"coin_payouts"`
	// Tokens are the tokens of payouts and sweeps.
	Tokens []Token `yaml:"tokens" json:"tokens"`
	// Fees caps the fees of each key, in wei: the fee for a unit of gas times the limit of
	// gas.
	Fees Cap `yaml:"fees" json:"fees"`
	// FirstNonces are the first nonces of keys that were used before this service's record
	// begins, by the key's name. A key that is not named begins at 0.
	FirstNonces map[string]uint64 `yaml:"first_nonces" json:"first_nonces"`
}

// Token is a token of a chain.
type Token struct {
	Address string `yaml:"address" json:"address"`
	// Name and Version are the token's domain of EIP-712, for sweeps; empty sweeps nothing.
	Name    string `yaml:"name" json:"name"`
	Version string `yaml:"version" json:"version"`
	// Payouts caps payouts in the token.
	Payouts Cap `yaml:"payouts" json:"payouts"`
}

// Chains are the chains of a configuration.
type Chains []Chain

// UnmarshalText reads a JSON array of chains. An empty text is no chains.
func (c *Chains) UnmarshalText(text []byte) error {
	var chains []Chain
	if len(text) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&chains); err != nil {
			return fmt.Errorf("read the chains: %w", err)
		}
		if decoder.More() {
			return errors.New("read the chains: something stands behind the list")
		}
	}
	*c = chains
	return nil
}

// DefaultConfig has no chains and no keys.
func DefaultConfig() Config { return Config{} }

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("signer: "+format, args...))
		}
	}
	check(len(c.Chains) <= chain.MaxChains, "there are %d chains, and at most %d are possible", len(c.Chains),
		chain.MaxChains)
	check(!c.Development || c.DevelopmentSeed != "", "development needs development_seed, the file of a seed")
	seen := map[chain.ID]bool{}
	for _, one := range c.Chains {
		check(!seen[one.ID], "chain %s stands twice", one.ID)
		seen[one.ID] = true
		if _, err := one.policy(); err != nil {
			faults = append(faults, err)
		}
	}
	for name, source := range c.Keys.named() {
		check(source.KMS == "" || c.KMSRegion != "", "the key %s is in KMS, and kms_region is missing", name)
		check(source.Keystore == "" || c.KeystorePassphrase.IsSet(),
			"the key %s is in a keystore file, and keystore_passphrase is missing", name)
		for id := range seen {
			check(source.Keystore == "" || !id.Real() || c.Development,
				"the key %s is in a keystore file beside chain %s, where dollars move: put it into KMS", name, id)
		}
	}
	if c.DepositSeed.IsSet() {
		_, err := keys.OpenDeposit(c.DepositSeed.Reveal())
		check(err == nil, "deposit_seed: %v", err)
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// CheckListeners returns a fault for each address that is not on loopback, where Development
// is set: development keys lie in a file for everybody to read who reads files here. The
// addresses are all on which the process listens; an empty address is no listener.
func (c Config) CheckListeners(addresses ...string) error {
	if !c.Development {
		return nil
	}
	var faults []error
	for _, address := range addresses {
		if address == "" {
			continue
		}
		if err := serve.Loopback(address); err != nil {
			faults = append(faults, fmt.Errorf("signer: development (SVC_SIGNER_DEVELOPMENT) is for a process that listens "+
				"on loopback alone: %w", err))
		}
	}
	return errors.Join(faults...)
}

// policy returns the chain for the policy, or every fault of it.
func (c Chain) policy() (policy.Chain, error) {
	out := policy.Chain{ID: c.ID, Slashes: c.Slashes, Coin: c.CoinPayouts, Fees: c.Fees, First: map[policy.Key]uint64{}}
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("signer: chain %s: "+format, append([]any{c.ID}, args...)...))
		}
	}
	at := func(what, text string) (a chain.Address) {
		if text == "" {
			return a
		}
		a, err := chain.ParseAddress(text)
		check(err == nil, "%s: %v", what, err)
		return a
	}
	ordered := func(what string, limits Cap) {
		check(limits.Transaction.Cmp(limits.Day) <= 0, "%s: the cap of a day is below that of a transaction", what)
	}
	check(c.ID > 0 && c.ID < 1<<53, "its number must be above zero")
	out.Treasury, out.Collateral = at("treasury", c.Treasury), at("collateral", c.Collateral)
	check(out.Treasury.IsZero() || out.Treasury != out.Collateral, "treasury and collateral are one address")
	ordered("slashes", c.Slashes)
	ordered("coin_payouts", c.CoinPayouts)
	ordered("fees", c.Fees)
	check(!c.Fees.Transaction.IsZero(), "fees must allow something")
	check(len(c.Tokens) <= MaxTokens, "there are at most %d tokens", MaxTokens)
	for _, token := range c.Tokens {
		listed := policy.Token{Name: token.Name, Version: token.Version, Payouts: token.Payouts}
		listed.Address = at("token", token.Address)
		_, twice := out.Token(listed.Address)
		check(!listed.Address.IsZero(), "a token has no address")
		check(!twice, "token %s stands twice", listed.Address)
		check(listed.Address.IsZero() || listed.Address != out.Collateral && listed.Address != out.Treasury,
			"token %s is the treasury or holds collateral", listed.Address)
		ordered("token "+token.Address, token.Payouts)
		out.Tokens = append(out.Tokens, listed)
	}
	for name, first := range c.FirstNonces {
		key := policy.Key(name)
		check(slices.Contains(policy.Keys(), key) && key != policy.Statement && key != policy.Deposit,
			"first_nonces: no key %q counts nonces from a setting", name)
		check(first < 1<<53, "first_nonces: %s is too large", name)
		out.First[key] = first
	}
	return out, errors.Join(faults...)
}
