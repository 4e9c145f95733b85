package chain

import (
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/holiman/uint256"
)

// Amount counts the smallest units of a token on its chain, 0 to 2^256 − 1: wei of a coin, and millionths of USDC. In
// PostgreSQL it is a numeric(78,0).
type Amount struct{ units uint256.Int }

// NewAmount returns an amount of units.
func NewAmount(units uint64) Amount { return Amount{*uint256.NewInt(units)} }

// AmountOf returns an amount of big-endian bytes, at most 32.
func AmountOf(bytes []byte) (Amount, error) {
	if len(bytes) > 32 {
		return Amount{}, fmt.Errorf("an amount has at most 32 bytes, not %d", len(bytes))
	}
	var a Amount
	a.units.SetBytes(bytes)
	return a, nil
}

// ParseAmount reads an amount in decimal.
func ParseAmount(text string) (Amount, error) {
	var a Amount
	if err := a.units.SetFromDecimal(text); err != nil || text == "" || text[0] == '+' {
		return Amount{}, fmt.Errorf("%.80q is not an amount in decimal below 2^256", text)
	}
	return a, nil
}

// String returns the amount in decimal.
func (a Amount) String() string { return a.units.Dec() }

// Decimal returns the amount in whole tokens of so many decimals: 1500000 of a token with six is 1.5.
func (a Amount) Decimal(decimals int) string {
	digits := a.units.Dec()
	if decimals <= 0 {
		return digits
	}
	digits = strings.Repeat("0", max(0, decimals+1-len(digits))) + digits
	whole, fraction := digits[:len(digits)-decimals], strings.TrimRight(digits[len(digits)-decimals:], "0")
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// Bytes returns the amount as a word of 32 bytes, big-endian.
func (a Amount) Bytes() [32]byte { return a.units.Bytes32() }

// IsZero reports whether the amount is nothing.
func (a Amount) IsZero() bool { return a.units.IsZero() }

// Cmp is −1, 0 or 1 where a is below, equal to, or above b.
func (a Amount) Cmp(b Amount) int { return a.units.Cmp(&b.units) }

// Add returns a + b, and whether it is below 2^256.
func (a Amount) Add(b Amount) (Amount, bool) {
	var sum Amount
	_, overflow := sum.units.AddOverflow(&a.units, &b.units)
	return sum, !overflow
}

// Sub returns a − b, and whether it is not below zero.
func (a Amount) Sub(b Amount) (Amount, bool) {
	var rest Amount
	_, underflow := rest.units.SubOverflow(&a.units, &b.units)
	return rest, !underflow
}

// MulDiv returns a·numerator/denominator, rounded down, and whether it is below 2^256 and the denominator above zero.
func (a Amount) MulDiv(numerator, denominator uint64) (Amount, bool) {
	if denominator == 0 {
		return Amount{}, false
	}
	var out Amount
	_, overflow := out.units.MulDivOverflow(&a.units, uint256.NewInt(numerator), uint256.NewInt(denominator))
	return out, !overflow
}

// Units returns what the books count of an amount of a token with so many decimals, and the dust that they leave out.
// ok is false for more than the books can count, 2^63 − 1.
func (a Amount) Units(decimals int) (units int64, dust Amount, ok bool) {
	scale := unitScale(decimals)
	var whole uint256.Int
	whole.DivMod(&a.units, &scale, &dust.units)
	if !whole.IsUint64() || int64(whole.Uint64()) < 0 {
		return 0, Amount{}, false
	}
	return int64(whole.Uint64()), dust, true
}

// AmountOfUnits returns the amount on the chain of units of the books of a token with so many decimals. ok is false for
// negative units.
func AmountOfUnits(units int64, decimals int) (amount Amount, ok bool) {
	if units < 0 {
		return Amount{}, false
	}
	scale := unitScale(decimals)
	amount.units.Mul(uint256.NewInt(uint64(units)), &scale)
	return amount, true
}

// unitScale is how many smallest units of a token one unit of the books has.
func unitScale(decimals int) uint256.Int {
	var scale uint256.Int
	scale.Exp(uint256.NewInt(10), uint256.NewInt(uint64(max(0, decimals-ledgerDecimals))))
	return scale
}

// MarshalText returns the amount in decimal.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads an amount in decimal.
func (a *Amount) UnmarshalText(text []byte) error {
	var err error
	*a, err = ParseAmount(string(text))
	return err
}

// Value is the amount for PostgreSQL.
func (a Amount) Value() (driver.Value, error) { return a.String(), nil }

// Scan reads the amount from PostgreSQL.
func (a *Amount) Scan(from any) error {
	text, ok := from.(string)
	if !ok {
		return fmt.Errorf("an amount is read from text, not from %T", from)
	}
	var err error
	*a, err = ParseAmount(text)
	return err
}
