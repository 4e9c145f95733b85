package ledger

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"svc.internal/pkg/money"
)

// Asset is the unit of an amount: nano-USD, or the units of a token.
type Asset string

// USD is counted in nano-USD.
const USD Asset = "usd"

// Token is an asset on a chain, named "<chain>:<token>". It is counted in units of
// 10^-decimals, with the token's own decimals but at most 9: the books leave out
// fractions of a billionth of a token.
type Token string

// The tokens of the platform. ETH only pays for gas.
const (
	USDCEthereum Token = "1:usdc"
	USDCBase     Token = "8453:usdc"
	Native       Token = "254:native"
	ETHEthereum  Token = "1:eth"
	ETHBase      Token = "8453:eth"
)

// Tokens returns all tokens with their decimals in the books.
func Tokens() map[Token]int {
	return map[Token]int{USDCEthereum: 6, USDCBase: 6, Native: 9, ETHEthereum: 9, ETHBase: 9}
}

func (t Token) decimals() (int, bool) {
	d, ok := Tokens()[t]
	return d, ok
}

// Chain returns the chain of a token.
func (t Token) Chain() Chain {
	chain, _, _ := strings.Cut(string(t), ":")
	return Chain(chain)
}

// Chain is the number of a chain in decimal.
type Chain string

// Valid reports whether it is a number in decimal, without leading zeros.
func (c Chain) Valid() bool { return c.valid() }

func (c Chain) valid() bool {
	if len(c) == 0 || len(c) > 10 || c[0] == '0' {
		return false
	}
	return strings.Trim(string(c), "0123456789") == ""
}

// Month is a calendar month in UTC, "2006-01".
type Month string

// MonthOf returns the month of a moment.
func MonthOf(t time.Time) Month { return Month(t.UTC().Format(monthLayout)) }

const monthLayout = "2006-01"

func (m Month) valid() bool {
	_, err := time.Parse(monthLayout, string(m))
	return err == nil
}

// Units counts a token; see Token for the size of one unit.
type Units int64

// Quote is the price at which an amount of a token entered the books.
type Quote struct {
	Token Token
	// Rate is in nano-USD for one whole token.
	Rate   money.NanoUSD
	Source string
	At     time.Time
}

// maxSource bounds the name of a price source, in bytes.
const maxSource = 64

// Validate checks that the quote is complete.
func (q Quote) Validate() error {
	_, known := q.Token.decimals()
	switch {
	case !known:
		return fmt.Errorf("token %q is not in the books", q.Token)
	case q.Rate <= 0 || q.Rate > MaxAmount:
		return fmt.Errorf("a rate of %d is out of range", q.Rate)
	case q.Source == "" || len(q.Source) > maxSource:
		return fmt.Errorf("the source must have 1 to %d bytes", maxSource)
	case q.At.IsZero():
		return fmt.Errorf("the time is missing")
	}
	return nil
}

// Value returns what units are worth: down is rounded down, for the credit of a consumer,
// and even is rounded half to even, for what the platform holds.
func (q Quote) Value(units Units) (down, even money.NanoUSD, err error) {
	if err := q.Validate(); err != nil {
		return 0, 0, fmt.Errorf("quote: %w", err)
	}
	if units <= 0 {
		return 0, 0, fmt.Errorf("%d units are out of range", units)
	}
	whole := q.Token.whole()
	hi, lo := bits.Mul64(uint64(units), uint64(q.Rate))
	if hi >= whole {
		return 0, 0, money.ErrOverflow
	}
	quotient, remainder := bits.Div64(hi, lo, whole)
	if quotient >= uint64(MaxAmount) {
		return 0, 0, money.ErrOverflow
	}
	down, even = money.NanoUSD(quotient), money.NanoUSD(quotient)
	if remainder > whole/2 || remainder == whole/2 && quotient&1 == 1 {
		even++
	}
	return down, even, nil
}

// Worth returns what the books' units of a coin are worth, rounded half to even. The books
// have units below zero while more was spent than is recorded to have arrived: they are
// worth as much less than nothing.
func (q Quote) Worth(units Units) (money.NanoUSD, error) {
	switch {
	case units == 0:
		return 0, q.Validate()
	case units < 0:
		_, even, err := q.Value(-units)
		return -even, err
	default:
		_, even, err := q.Value(units)
		return even, err
	}
}

// Buys returns how many units an amount buys, rounded down.
func (q Quote) Buys(amount money.NanoUSD) (Units, error) {
	if err := q.Validate(); err != nil {
		return 0, fmt.Errorf("quote: %w", err)
	}
	if err := positive("amount", amount); err != nil {
		return 0, err
	}
	hi, lo := bits.Mul64(uint64(amount), q.Token.whole())
	if hi >= uint64(q.Rate) {
		return 0, money.ErrOverflow
	}
	quotient, _ := bits.Div64(hi, lo, uint64(q.Rate))
	if quotient > uint64(MaxAmount) {
		return 0, money.ErrOverflow
	}
	return Units(quotient), nil
}

// whole returns how many units a whole token has.
func (t Token) whole() uint64 {
	decimals, _ := t.decimals()
	whole := uint64(1)
	for range decimals {
		whole *= 10
	}
	return whole
}
