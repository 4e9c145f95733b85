package chain

// MaxOtherTokens bounds the other tokens of a chain, those that everybody knows included.
const MaxOtherTokens = 16

// OtherToken is a token that is credited to nobody. What arrives of it at a deposit address is recorded, so that an
// operator returns it.
type OtherToken struct {
	Address  string `yaml:"address" json:"address"`
	Symbol   string `yaml:"symbol" json:"symbol"`
	Decimals int    `yaml:"decimals" json:"decimals"`
}

// knownOthers are the tokens that people take for dollars of the chain most often.
var knownOthers = map[ID][]OtherToken{
	Ethereum: {{Address: "0xdAC17F958D2ee523a2206206994597C13D831ec7", Symbol: "USDT", Decimals: 6}},
	Base: {
		{Address: "0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2", Symbol: "USDT", Decimals: 6},
		{Address: "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA", Symbol: "USDbC", Decimals: 6},
	},
}

// Other is another token of a chain.
type Other struct {
	Contract Address
	Symbol   string
	Decimals int
}

// Small reports whether an amount is below a hundredth of a token. Such transfers are not recorded, because anybody may
// send many.
func (o Other) Small(amount Amount) bool {
	hundredth := NewAmount(1)
	for range max(0, o.Decimals-2) {
		hundredth, _ = hundredth.MulDiv(10, 1)
	}
	return amount.Cmp(hundredth) < 0
}
