package money

import (
	"errors"
	"fmt"
	"math"
)

// Unit is what a price is for, and so what the counts of a request are. The zero value is
// Token.
type Unit int8

const (
	// Token prices the prompt and the completion, and is shown per 1M tokens.
	Token Unit = iota
	// Image prices images, counted as completion.
	Image
	// AudioMinute prices minutes of audio, counted as milliseconds of prompt.
	AudioMinute
)

// picoPerNano is the pico-USD in one nano-USD.
const picoPerNano = 1000

// msPerMinute is the milliseconds in one minute, which is what a price is for.
const msPerMinute = 60_000

// MaxRate is the largest price of a token: $1,000,000 per 1M.
const MaxRate PicoUSD = 1_000_000_000_000

// maxUnitRate is the largest price of an image or a minute: $1,000.
const maxUnitRate PicoUSD = 1_000_000_000_000_000

// ErrUnit is the error for a text that names no unit.
var ErrUnit = errors.New("unknown pricing unit")

// ParseUnit is the inverse of String. Empty text is Token.
func ParseUnit(s string) (Unit, error) {
	switch s {
	case "", Token.String():
		return Token, nil
	case Image.String():
		return Image, nil
	case AudioMinute.String():
		return AudioMinute, nil
	}
	return Token, fmt.Errorf("%w %q", ErrUnit, clip(s))
}

// String returns the name of the unit for consumers and in the store: per_1m_tokens,
// per_image or per_minute.
func (u Unit) String() string {
	switch u {
	case Token:
		return "per_1m_tokens"
	case Image:
		return "per_image"
	case AudioMinute:
		return "per_minute"
	}
	return fmt.Sprintf("unit(%d)", int8(u))
}

// CountsPrompt reports whether the unit counts anything as prompt.
func (u Unit) CountsPrompt() bool { return u != Image }

// CountsCompletion reports whether the unit counts anything as completion.
func (u Unit) CountsCompletion() bool { return u != AudioMinute }

// MaxRate returns the largest accepted price of the unit.
func (u Unit) MaxRate() PicoUSD {
	if u == Token {
		return MaxRate
	}
	return maxUnitRate
}

// Images returns the number of images that t counts, 0 in another unit.
func (u Unit) Images(t Tokens) int64 {
	if u != Image {
		return 0
	}
	return t.Completion
}

// AudioMS returns the milliseconds of audio that t counts, 0 in another unit.
func (u Unit) AudioMS(t Tokens) int64 {
	if u != AudioMinute {
		return 0
	}
	return t.Prompt
}

// Price returns p in dollars as the unit is shown, per 1M tokens, per image or per
// minute, exactly and with at least two decimals.
func (u Unit) Price(p PicoUSD) string { return decimal(int64(p), u.places(), 2) }

// Number returns Price as the nearest float, for display only.
func (u Unit) Number(p PicoUSD) float64 { return float64(p) / math.Pow10(u.places()) }

// ParseRate reads a price in dollars as the unit is shown: per 1M tokens with at most six
// decimals, per image or minute with at most nine. Empty text is zero.
func (u Unit) ParseRate(s string) (PicoUSD, error) {
	if s == "" {
		return 0, nil
	}
	if u == Token {
		v, err := parseDecimal(s, u.places())
		return PicoUSD(v), err
	}
	// A whole number of nano-USD, so that a whole image costs what is shown.
	nano, err := ParseUSD(s)
	if err != nil {
		return 0, err
	}
	if nano > math.MaxInt64/picoPerNano || nano < math.MinInt64/picoPerNano {
		return 0, ErrOverflow
	}
	return PicoUSD(nano * picoPerNano), nil
}

// places returns how many decimals of the shown price one pico-USD is.
func (u Unit) places() int {
	if u == Token {
		return 6
	}
	return 12
}

// divisor returns the number that turns price times count into nano-USD.
func (u Unit) divisor() uint64 {
	if u == AudioMinute {
		return picoPerNano * msPerMinute
	}
	return picoPerNano
}

// phrase returns the unit for a sentence.
func (u Unit) phrase() string {
	switch u {
	case Image:
		return "per image"
	case AudioMinute:
		return "per minute"
	case Token:
	}
	return "per token"
}

func (u Unit) known() bool { return u >= Token && u <= AudioMinute }
