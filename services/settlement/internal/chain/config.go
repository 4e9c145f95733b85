package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"svc.internal/pkg/config"
)

// Limits of a configuration.
const (
	// MaxChains bounds the chains.
	MaxChains = 8
	// MaxRPCs bounds the RPCs of one chain.
	MaxRPCs = 5
	// MaxDepth bounds the blocks that must stand on a final one.
	MaxDepth = 4_096
)

// Config is one chain. Sums are in the smallest units of their token, in decimal.
type Config struct {
	ID   ID     `yaml:"id" json:"id"`
	Name string `yaml:"name" json:"name"`
	// RPCs are the addresses of nodes of different operators, which must agree: at least two on chains 1 and 8453. An
	// address may hold a key, so it is a secret.
	RPCs []config.Secret `yaml:"rpcs" json:"rpcs"`
	// Depth is the number of blocks that stand on a final one. 0 leaves finality to the chain ("finalized").
	Depth uint64 `yaml:"depth" json:"depth"`
	// FirstBlock is where the reading begins.
	FirstBlock uint64 `yaml:"first_block" json:"first_block"`
	// BlockTime is about the time between two blocks.
	BlockTime time.Duration `yaml:"block_time" json:"block_time"`
	// Tokens are the contracts of tokens that count on this chain. The coin needs none.
	Tokens []Token `yaml:"tokens" json:"tokens"`
	// OtherTokens are further tokens that are credited to nobody: see OtherToken. The best known ones need no setting.
	OtherTokens []OtherToken `yaml:"other_tokens" json:"other_tokens"`
	// Treasury is the cold multisig that sweeps go to. Zero: nothing is swept.
	Treasury string `yaml:"treasury" json:"treasury"`
	// Collateral is the contract that holds collateral; nil where the chain takes none.
	Collateral *Collateral `yaml:"collateral" json:"collateral"`
	// Payouts reports whether providers are paid on this chain.
	Payouts bool `yaml:"payouts" json:"payouts"`
	// MaxGasPrice bounds the fee for a unit of gas that a transaction offers, in wei.
	MaxGasPrice Amount `yaml:"max_gas_price" json:"max_gas_price"`
	// PublicRPC, Explorer and Faucet are addresses that are shown to providers. They may be empty.
	PublicRPC string `yaml:"public_rpc" json:"public_rpc"`
	Explorer  string `yaml:"explorer" json:"explorer"`
	Faucet    string `yaml:"faucet" json:"faucet"`
	// CoinSymbol is how people name the coin, for example ETH.
	CoinSymbol string `yaml:"coin_symbol" json:"coin_symbol"`
}

// Token is the contract of a token.
type Token struct {
	Kind     Kind   `yaml:"kind" json:"kind"`
	Address  string `yaml:"address" json:"address"`
	Symbol   string `yaml:"symbol" json:"symbol"`
	Decimals int    `yaml:"decimals" json:"decimals"`
	// CodeHash is the keccak256 of the token's code on the chain; empty: it is not compared.
	CodeHash string `yaml:"code_hash" json:"code_hash"`
}

// Collateral is the contract that holds collateral.
type Collateral struct {
	Address string `yaml:"address" json:"address"`
	// Kind is what it holds.
	Kind Kind `yaml:"kind" json:"kind"`
	// Minimum is what a provider must have free there, in the smallest units of the token.
	Minimum Amount `yaml:"minimum" json:"minimum"`
	// Dust is the size below which a position is ignored, because anybody may open many tiny ones.
	Dust Amount `yaml:"dust" json:"dust"`
}

// Configs are the chains of a configuration: a list in its file, and the same list as JSON in the environment.
type Configs []Config

// UnmarshalText reads a JSON array of chains. An empty text is no chains.
func (c *Configs) UnmarshalText(text []byte) error {
	var chains []Config
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

// Of returns the chain of a number.
func (c Configs) Of(id ID) (Config, bool) {
	i := slices.IndexFunc(c, func(one Config) bool { return one.ID == id })
	if i < 0 {
		return Config{}, false
	}
	return c[i], true
}

// Validate returns every fault of the configuration.
func (c Configs) Validate() error {
	var faults []error
	if len(c) > MaxChains {
		faults = append(faults, fmt.Errorf("there are %d chains, and at most %d are possible", len(c), MaxChains))
	}
	seen := map[ID]bool{}
	for _, one := range c {
		if seen[one.ID] {
			faults = append(faults, fmt.Errorf("chain %s stands twice", one.ID))
		}
		seen[one.ID] = true
		faults = append(faults, one.Validate())
	}
	return errors.Join(faults...)
}

// Validate returns every fault of one chain.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("chain %s: "+format, append([]any{c.ID}, args...)...))
		}
	}
	check(c.ID == Ethereum || c.ID == Base || c.ID == SVC, "the chains are %s, %s and %s", Ethereum, Base, SVC)
	check(c.Name != "" && len(c.Name) <= 64, "name must have 1 to 64 bytes")
	check(len(c.RPCs) >= 1 && len(c.RPCs) <= MaxRPCs, "there must be 1 to %d rpcs", MaxRPCs)
	for i, rpc := range c.RPCs {
		at, err := url.Parse(rpc.Reveal())
		// The fault names the place alone, because the address may hold a key.
		check(err == nil && (at.Scheme == "http" || at.Scheme == "https") && at.Host != "",
			"rpc %d must be an http or https address", i+1)
	}
	check(c.Depth <= MaxDepth, "depth must be at most %d", MaxDepth)
	check(c.BlockTime > 0 && c.BlockTime <= time.Minute, "block_time must be above zero and at most a minute")
	check(!c.MaxGasPrice.IsZero(), "max_gas_price must be above zero")
	_, err := c.TreasuryAddress()
	check(err == nil, "treasury: %v", err)
	for _, token := range c.Tokens {
		faults = append(faults, c.validateToken(token))
	}
	for _, token := range c.OtherTokens {
		faults = append(faults, c.validateOther(token))
	}
	check(len(c.Others()) <= MaxOtherTokens, "at most %d other tokens are possible", MaxOtherTokens)
	_, usdc := c.token(USDC)
	check(!c.Payouts || c.ID.PaysOut() == Coin || usdc, "payouts need the token usdc")
	if c.Collateral != nil {
		_, err := ParseAddress(c.Collateral.Address)
		check(err == nil, "collateral: %v", err)
		check(c.Collateral.Kind == Coin || c.Collateral.Kind == USDC && usdc, "collateral is in the coin, or in usdc "+
			"where the chain has it")
		check(!c.Collateral.Minimum.IsZero(), "collateral: minimum must be above zero")
	}
	return errors.Join(faults...)
}

func (c Config) validateToken(t Token) error {
	_, err := ParseAddress(t.Address)
	switch {
	case t.Kind != USDC:
		return fmt.Errorf("chain %s: a token's kind is usdc, not %q", c.ID, t.Kind)
	case err != nil:
		return fmt.Errorf("chain %s: token usdc: %w", c.ID, err)
	case t.Decimals != USDCDecimals:
		return fmt.Errorf("chain %s: usdc has %d decimals", c.ID, USDCDecimals)
	case t.Symbol == "" || len(t.Symbol) > 16:
		return fmt.Errorf("chain %s: a token's symbol has 1 to 16 bytes", c.ID)
	}
	if t.CodeHash != "" {
		if _, err := ParseHash(t.CodeHash); err != nil {
			return fmt.Errorf("chain %s: code_hash: %w", c.ID, err)
		}
	}
	return nil
}

// USDCDecimals are those of USDC on every chain.
const USDCDecimals = 6

// token returns the token of a kind.
func (c Config) token(kind Kind) (Token, bool) {
	i := slices.IndexFunc(c.Tokens, func(t Token) bool { return t.Kind == kind })
	if i < 0 {
		return Token{}, false
	}
	return c.Tokens[i], true
}

// Asset is what an amount on a chain counts: Contract is zero for the coin.
type Asset struct {
	Chain    ID
	Kind     Kind
	Contract Address
	Decimals int
	Symbol   string
}

// Name returns the name that the books have for the asset.
func (a Asset) Name() string { return a.Chain.Token(a.Kind) }

// Asset returns the asset of a kind, and whether the chain has it.
func (c Config) Asset(kind Kind) (Asset, bool) {
	if kind == Coin {
		return Asset{Chain: c.ID, Kind: Coin, Decimals: CoinDecimals, Symbol: c.CoinSymbol}, true
	}
	t, ok := c.token(kind)
	if !ok {
		return Asset{}, false
	}
	address, err := ParseAddress(t.Address)
	return Asset{Chain: c.ID, Kind: t.Kind, Contract: address, Decimals: t.Decimals, Symbol: t.Symbol}, err == nil
}

// TreasuryAddress returns the treasury; zero where there is none.
func (c Config) TreasuryAddress() (Address, error) {
	if c.Treasury == "" {
		return Address{}, nil
	}
	return ParseAddress(c.Treasury)
}

// CollateralAddress returns the contract that holds collateral; zero where there is none.
func (c Config) CollateralAddress() (Address, error) {
	if c.Collateral == nil {
		return Address{}, nil
	}
	return ParseAddress(c.Collateral.Address)
}

// Others returns the other tokens of a chain: those that everybody knows, and those of the configuration. A token that
// is credited is no other one.
func (c Config) Others() []Other {
	var out []Other
	usdc, _ := c.Asset(USDC)
	for _, t := range slices.Concat(knownOthers[c.ID], c.OtherTokens) {
		address, err := ParseAddress(t.Address)
		known := slices.ContainsFunc(out, func(o Other) bool { return o.Contract == address })
		if err == nil && !known && address != usdc.Contract {
			out = append(out, Other{Contract: address, Symbol: t.Symbol, Decimals: t.Decimals})
		}
	}
	return out
}

// maxOtherDecimals bounds the decimals of another token.
const maxOtherDecimals = 36

func (c Config) validateOther(t OtherToken) error {
	_, err := ParseAddress(t.Address)
	switch {
	case err != nil:
		return fmt.Errorf("chain %s: another token: %w", c.ID, err)
	case t.Symbol == "" || len(t.Symbol) > 16:
		return fmt.Errorf("chain %s: another token's symbol has 1 to 16 bytes", c.ID)
	case t.Decimals < 0 || t.Decimals > maxOtherDecimals:
		return fmt.Errorf("chain %s: another token has 0 to %d decimals", c.ID, maxOtherDecimals)
	}
	return nil
}
