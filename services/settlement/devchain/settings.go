package devchain

import (
	"encoding/json"
	"fmt"
)

// minimum is the collateral that a development chain asks for, in the smallest units of what it holds: 20 dollars, or
// 20 coins.
var minimum = map[bool]string{false: "20000000", true: "20000000000000000000"}

// names are how people call the chains.
var names = map[uint64]string{1: "Ethereum (development)", 8453: "Base (development)", coinChain: "SVC (development)"}

// Settings are settlement's settings for chains that were deployed: its chains, as JSON, for SVC_SETTLEMENT_CHAINS.
// They need SVC_SETTLEMENT_DEVELOPMENT, because each chain has one RPC alone.
func Settings(chains ...*Chain) (string, error) {
	type token struct {
		Kind     string `json:"kind"`
		Address  string `json:"address"`
		Symbol   string `json:"symbol"`
		Decimals int    `json:"decimals"`
	}
	type collateral struct {
		Address string `json:"address"`
		Kind    string `json:"kind"`
		Minimum string `json:"minimum"`
		Dust    string `json:"dust"`
	}
	type chain struct {
		ID          uint64     `json:"id"`
		Name        string     `json:"name"`
		RPCs        []string   `json:"rpcs"`
		Depth       int        `json:"depth"`
		BlockTime   int64      `json:"block_time"`
		Tokens      []token    `json:"tokens"`
		Treasury    string     `json:"treasury"`
		Collateral  collateral `json:"collateral"`
		Payouts     bool       `json:"payouts"`
		MaxGasPrice string     `json:"max_gas_price"`
		CoinSymbol  string     `json:"coin_symbol"`
	}
	list := make([]chain, 0, len(chains))
	for _, c := range chains {
		coin := c.id == coinChain
		one := chain{ID: c.id, Name: names[c.id], RPCs: []string{c.URL}, BlockTime: int64(lookPause),
			Treasury: Treasury, Payouts: true, MaxGasPrice: "500000000000", CoinSymbol: "ETH",
			Collateral: collateral{Address: Collateral, Kind: "usdc", Minimum: minimum[coin], Dust: "1000"}}
		if coin {
			one.CoinSymbol, one.Collateral.Kind, one.Depth = "SVC", "coin", finalBehind
		} else {
			one.Tokens = []token{{Kind: "usdc", Address: USD, Symbol: "TUSD", Decimals: 6}}
		}
		list = append(list, one)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("write the settings of development chains: %w", err)
	}
	return string(text), nil
}

// SignerSettings are chain-signer's settings for the same chains, as JSON, for SVC_SIGNER_CHAINS. What its keys may
// send is capped far above what a development needs.
func SignerSettings(chains ...*Chain) (string, error) {
	type limits struct {
		Transaction string `json:"transaction"`
		Day         string `json:"day"`
	}
	type token struct {
		Address string `json:"address"`
		Name    string `json:"name"`
		Version string `json:"version"`
		Payouts limits `json:"payouts"`
	}
	type chain struct {
		ID          uint64  `json:"id"`
		Treasury    string  `json:"treasury"`
		Collateral  string  `json:"collateral"`
		Slashes     limits  `json:"slashes"`
		CoinPayouts limits  `json:"coin_payouts"`
		Tokens      []token `json:"tokens"`
		Fees        limits  `json:"fees"`
	}
	coins := limits{"100000000000000000000000", "1000000000000000000000000"} // 100,000 and a million
	dollars := limits{"100000000000", "1000000000000"}                       // the same
	fees := limits{"10000000000000000000", "1000000000000000000000"}
	list := make([]chain, 0, len(chains))
	for _, c := range chains {
		one := chain{ID: c.id, Treasury: Treasury, Collateral: Collateral, Slashes: dollars, CoinPayouts: coins, Fees: fees}
		if c.id == coinChain {
			one.Slashes = coins
		} else {
			one.Tokens = []token{{Address: USD, Name: "Test USD", Version: "2", Payouts: dollars}}
		}
		list = append(list, one)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("write the settings of development chains: %w", err)
	}
	return string(text), nil
}
