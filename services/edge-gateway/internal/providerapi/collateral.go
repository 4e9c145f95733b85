package providerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
)

// Chain is a chain that takes collateral.
type Chain struct {
	ChainID   int64  `yaml:"chain_id" json:"chain_id"`
	ChainName string `yaml:"chain_name" json:"chain_name"`
	// ContractAddress is the contract that takes the collateral. A chain without one is
	// not shown, because an agent would send money into nothing.
	ContractAddress string `yaml:"contract_address" json:"contract_address"`
	// TokenAddress is empty for a chain's native token.
	TokenAddress  string `yaml:"token_address" json:"token_address"`
	TokenSymbol   string `yaml:"token_symbol" json:"token_symbol"`
	TokenDecimals int32  `yaml:"token_decimals" json:"token_decimals"`
	// MinCollateral is in whole tokens.
	MinCollateral int64  `yaml:"min_collateral" json:"min_collateral"`
	RPCURL        string `yaml:"rpc_url" json:"rpc_url"`
	ExplorerURL   string `yaml:"explorer_url" json:"explorer_url"`
	FaucetURL     string `yaml:"faucet_url" json:"faucet_url"`
}

// Chains are the chains of a configuration: a list in its file, and the same list as JSON
// in the environment.
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

// MaxChains bounds the chains of a configuration.
const MaxChains = 16

// cardChain is the chain on which a provider is paid whose collateral came from a card
// alone.
const cardChain = 8453

var addressForm = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)

// Validate reports what of a chain cannot be shown to providers.
func (c Chain) Validate() error {
	var faults []error
	check := func(ok bool, what string) {
		if !ok {
			faults = append(faults, fmt.Errorf("chain %d: %s", c.ChainID, what))
		}
	}
	check(c.ChainID > 0, "chain_id must be above zero")
	check(c.ChainName != "" && c.TokenSymbol != "", "chain_name and token_symbol must be set")
	check(c.MinCollateral > 0, "min_collateral must be above zero")
	check(c.TokenDecimals >= 0 && c.TokenDecimals <= 36, "token_decimals must be 0 to 36")
	for name, text := range map[string]string{"contract_address": c.ContractAddress, "token_address": c.TokenAddress} {
		check(text == "" || addressForm.MatchString(text), name+" must be 0x and 40 hexadecimal digits")
	}
	for name, text := range map[string]string{"rpc_url": c.RPCURL, "explorer_url": c.ExplorerURL,
		"faucet_url": c.FaucetURL} {
		at, err := url.Parse(text)
		check(text == "" || err == nil && at.Scheme == "https" && at.Host != "" && at.User == nil,
			name+" must be an https address")
	}
	check(c.ContractAddress == "" || c.RPCURL != "", "a chain with a contract needs an rpc_url")
	return errors.Join(faults...)
}

// contractJSON makes the answer that Contract gives.
func contractJSON(chains []Chain, card bool) ([]byte, error) {
	shown := []Chain{}
	for _, c := range chains {
		if c.ContractAddress != "" {
			shown = append(shown, c)
		}
	}
	type cardRow struct {
		Available         bool   `json:"available"`
		Currency          string `json:"currency"`
		MinCollateral     *int64 `json:"min_collateral"` // null: shown at checkout
		SettlementChainID int64  `json:"settlement_chain_id"`
	}
	return enveloped(struct {
		Chains []Chain `json:"chains"`
		Card   cardRow `json:"card"`
	}{shown, cardRow{Available: card, Currency: "USD", SettlementChainID: cardChain}})
}

// Contract answers GET /api/v1/provider/collateral/contract: the chains on which
// collateral may be deposited, and cards apart. It needs no key.
func (a *API) Contract(context.Context, Call) (Answer, error) {
	out := ok(a.contract)
	out.Header = http.Header{"Cache-Control": {publicCache}}
	return out, nil
}
