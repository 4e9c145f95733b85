// Package money has the units of every amount in the service, all integers.
//
// Money that moves is in nano-USD (1e-9 US dollars), an int64 and so at most about 9.2
// billion dollars. Prices are in pico-USD for one unit: a token, an image or a minute of
// audio. For a token that is exactly micro-USD per 1M tokens: a price of $0.15 per 1M
// tokens is 150,000. A request is rounded once: the consumer's charge half to even, the
// provider's payout or the vendor's cost down. No payout rate exceeds its price, so neither
// payout nor cost exceeds its charge.
package money

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// NanoUSD is an amount of money in 1e-9 US dollars.
type NanoUSD int64

// PicoUSD is a price in 1e-12 US dollars for one token, image or minute. For a
// token it equals micro-USD for 1M tokens.
type PicoUSD int64

// USD is one dollar.
const USD NanoUSD = 1_000_000_000

// ErrOverflow is the error for an amount that does not fit.
var ErrOverflow = errors.New("amount out of range")

// Tokens counts what one request is priced by, in the unit of its rates: tokens of the
// prompt and of the completion, images as Completion, or milliseconds of audio as Prompt.
type Tokens struct {
	Prompt     int64
	Completion int64
}

// Rates are the prices of one price version, each for one Unit.
type Rates struct {
	Unit         Unit
	Input        PicoUSD
	Output       PicoUSD
	PayoutInput  PicoUSD
	PayoutOutput PicoUSD
	// PayoutCachedInput is what a vendor is owed for a prompt token that it read from its
	// cache. It is 0 where such a token costs what any other prompt token does.
	PayoutCachedInput PicoUSD
}

// Free reports whether nothing is charged under these rates.
func (r Rates) Free() bool { return r.Input == 0 && r.Output == 0 }

// Validate checks the catalog's invariants: a known unit, prices in its range, no price
// for a count that the unit does not have, a payout for each priced dimension, no payout
// above its price, and no cached prompt token that costs more than another. Its error names
// the field.
func (r Rates) Validate() error {
	if !r.Unit.known() {
		return &RateError{Field: "unit", Problem: "is unknown"}
	}
	for _, d := range []struct {
		name          string
		price, payout PicoUSD
		counted       bool
	}{
		{"input", r.Input, r.PayoutInput, r.Unit.CountsPrompt()},
		{"output", r.Output, r.PayoutOutput, r.Unit.CountsCompletion()},
	} {
		switch {
		case d.price < 0 || d.price > r.Unit.MaxRate():
			return &RateError{Field: d.name + "_price", Problem: "is out of range"}
		case d.price > 0 && !d.counted:
			return &RateError{Field: d.name + "_price", Problem: "is not part of a price " + r.Unit.phrase()}
		case d.payout < 0:
			return &RateError{Field: "payout_" + d.name + "_price", Problem: "is out of range"}
		case d.payout > d.price:
			return &RateError{Field: "payout_" + d.name + "_price", Problem: "exceeds the price"}
		case d.price > 0 && d.payout == 0:
			return &RateError{Field: "payout_" + d.name + "_price", Problem: "is missing for a priced dimension"}
		}
	}
	return r.validateCached()
}

func (r Rates) validateCached() error {
	const field = "payout_cached_input_price"
	switch {
	case r.PayoutCachedInput < 0:
		return &RateError{Field: field, Problem: "is out of range"}
	case r.PayoutCachedInput > 0 && r.Unit != Token:
		return &RateError{Field: field, Problem: "is not part of a price " + r.Unit.phrase()}
	case r.PayoutCachedInput > r.PayoutInput:
		return &RateError{Field: field, Problem: "exceeds payout_input_price"}
	}
	return nil
}

// RateError says which rate breaks an invariant.
type RateError struct {
	Field   string
	Problem string
}

// Error returns the field and its problem.
func (e *RateError) Error() string { return e.Field + " " + e.Problem }

// Charge returns what a consumer pays for t: the exact sum, rounded half to even. It
// returns ErrOverflow when a count is negative or the sum does not fit.
func (r Rates) Charge(t Tokens) (NanoUSD, error) {
	divisor := r.Unit.divisor()
	hi, lo, err := weigh(t, r.Input, r.Output, divisor)
	if err != nil {
		return 0, err
	}
	quotient, remainder := bits.Div64(hi, lo, divisor)
	if half := divisor / 2; remainder > half || remainder == half && quotient&1 == 1 {
		quotient++
	}
	return fits(quotient)
}

// Payout returns what the provider earns for t: the exact sum, rounded down. It returns
// ErrOverflow when a count is negative or the sum does not fit.
func (r Rates) Payout(t Tokens) (NanoUSD, error) {
	divisor := r.Unit.divisor()
	hi, lo, err := weigh(t, r.PayoutInput, r.PayoutOutput, divisor)
	if err != nil {
		return 0, err
	}
	quotient, _ := bits.Div64(hi, lo, divisor)
	return fits(quotient)
}

// VendorCost returns what a vendor is owed for t, of whose prompt it read cached tokens from
// its cache: the exact sum, rounded down. It returns ErrOverflow when a count is negative,
// more is cached than the prompt has, or the sum does not fit.
func (r Rates) VendorCost(t Tokens, cached int64) (NanoUSD, error) {
	if cached < 0 || cached > t.Prompt {
		return 0, ErrOverflow
	}
	if r.PayoutCachedInput == 0 {
		return r.Payout(t)
	}
	divisor := r.Unit.divisor()
	hi, lo, err := weigh(Tokens{Prompt: t.Prompt - cached, Completion: t.Completion}, r.PayoutInput, r.PayoutOutput,
		divisor)
	if err != nil {
		return 0, err
	}
	h2, l2 := bits.Mul64(uint64(cached), uint64(r.PayoutCachedInput))
	lo, carry := bits.Add64(lo, l2, 0)
	hi, carry = bits.Add64(hi, h2, carry)
	if carry != 0 || hi >= divisor {
		return 0, ErrOverflow
	}
	quotient, _ := bits.Div64(hi, lo, divisor)
	return fits(quotient)
}

// weigh returns prompt·input + completion·output in 128 bits. It checks that the quotient
// by divisor fits 64 bits.
func weigh(t Tokens, input, output PicoUSD, divisor uint64) (hi, lo uint64, err error) {
	if t.Prompt < 0 || t.Completion < 0 || input < 0 || output < 0 {
		return 0, 0, ErrOverflow
	}
	h1, l1 := bits.Mul64(uint64(t.Prompt), uint64(input))
	h2, l2 := bits.Mul64(uint64(t.Completion), uint64(output))
	lo, carry := bits.Add64(l1, l2, 0)
	hi, carry = bits.Add64(h1, h2, carry)
	if carry != 0 || hi >= divisor {
		return 0, 0, ErrOverflow
	}
	return hi, lo, nil
}

func fits(v uint64) (NanoUSD, error) {
	if v > math.MaxInt64 {
		return 0, ErrOverflow
	}
	return NanoUSD(v), nil
}

// String returns the amount in dollars, exactly, with nine decimals trimmed to at least
// two, for example "0.000123" or "-5.00".
func (n NanoUSD) String() string { return decimal(int64(n), 9, 2) }

// Float returns the amount in dollars as the nearest float, for display only.
func (n NanoUSD) Float() float64 { return float64(n) / float64(USD) }

// ParseUSD reads an amount in dollars with at most nine decimals.
func ParseUSD(s string) (NanoUSD, error) {
	v, err := parseDecimal(s, 9)
	return NanoUSD(v), err
}

func decimal(v int64, scale, least int) string {
	sign := ""
	u := uint64(v)
	if v < 0 {
		sign, u = "-", -u
	}
	digits := fmt.Sprintf("%0*d", scale+1, u)
	whole, part := digits[:len(digits)-scale], digits[len(digits)-scale:]
	for len(part) > least && part[len(part)-1] == '0' {
		part = part[:len(part)-1]
	}
	return sign + whole + "." + part
}

// parseDecimal reads digits with an optional sign and point into units of
// 10^-scale. It accepts no exponent, no spaces and no digit beyond scale.
func parseDecimal(s string, scale int) (int64, error) {
	malformed := fmt.Errorf("%q is not a decimal number with at most %d decimals", clip(s), scale)
	rest, negative := s, false
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		negative, rest = rest[0] == '-', rest[1:]
	}
	var v uint64
	seen, point, decimals := 0, false, 0
	for i := range len(rest) {
		c := rest[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			return 0, malformed
		}
		if point {
			decimals++
		}
		if decimals > scale {
			return 0, malformed
		}
		seen++
		hi, lo := bits.Mul64(v, 10)
		sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
		if hi != 0 || carry != 0 {
			return 0, ErrOverflow
		}
		v = sum
	}
	if seen == 0 || point && decimals == 0 {
		return 0, malformed
	}
	for range scale - decimals {
		hi, lo := bits.Mul64(v, 10)
		if hi != 0 {
			return 0, ErrOverflow
		}
		v = lo
	}
	if v > math.MaxInt64 {
		return 0, ErrOverflow
	}
	if negative {
		return -int64(v), nil
	}
	return int64(v), nil
}

func clip(s string) string { return s[:min(len(s), 32)] }
