// Package quant has the quantization classes that providers are judged by.
//
// A class is the width of a weight in bits, of which verification knows seven. A
// provider's statement is free text ("q4_k_m", "w8a8"). Parse finds the class that the
// statement names. Only false statements are punished: a statement that names no class is
// judged by the lowest class that has a reference, and a statement that names several by
// the lowest of these.
package quant

import (
	"slices"
	"strconv"
	"strings"
)

// Class is the width of a weight in bits.
type Class uint8

// The classes.
const (
	Bits16 Class = 16
	Bits8  Class = 8
	Bits6  Class = 6
	Bits5  Class = 5
	Bits4  Class = 4
	Bits3  Class = 3
	Bits2  Class = 2
)

// Unknown is the class of a statement that names none.
const Unknown Class = 0

// Classes returns every class, the widest first.
func Classes() []Class { return []Class{Bits16, Bits8, Bits6, Bits5, Bits4, Bits3, Bits2} }

// Known reports whether c is a class.
func (c Class) Known() bool { return slices.Contains(Classes(), c) }

// String returns the number of bits, or "unknown".
func (c Class) String() string {
	if !c.Known() {
		return "unknown"
	}
	return strconv.Itoa(int(c))
}

// maxStatement bounds the bytes of a statement that is read.
const maxStatement = 64

// whole are words that name a class without a number of bits, or with the bits of
// something else. Full precision is one class: fp32 weights are served as well as fp16.
var whole = map[string]Class{
	"none": Bits16, "fp32": Bits16, "f32": Bits16, "float32": Bits16, "float16": Bits16,
	"bfloat16": Bits16, "tf32": Bits16,
}

// methods are words for methods whose usual width counts where no word names bits.
var methods = map[string]Class{"awq": Bits4, "gptq": Bits4, "bnb": Bits4}

// prefixes stand before a number of bits: "q4", "iq2", "w4a16", "mxfp4".
var prefixes = []string{"mxfp", "nvfp", "int", "bf", "fp", "nf", "iq", "q", "w", "f"}

// Parse returns the class that the statement names, or Unknown.
func Parse(statement string) Class {
	if len(statement) > maxStatement {
		return Unknown
	}
	words := strings.FieldsFunc(strings.ToLower(statement), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	stated, usual := Unknown, Unknown
	for i, w := range words {
		c := width(w)
		if c == Unknown && i+1 < len(words) && isBits(words[i+1]) {
			c = number(w) // "4-bit"
		}
		stated = lower(stated, c)
		usual = lower(usual, methods[w])
	}
	if stated != Unknown {
		return stated
	}
	return usual
}

// lower returns the lower of two classes, Unknown being none.
func lower(a, b Class) Class {
	if a == Unknown || (b != Unknown && b < a) {
		return b
	}
	return a
}

// width returns the class of one word.
func width(word string) Class {
	if c, ok := whole[word]; ok {
		return c
	}
	for _, p := range prefixes {
		rest, ok := strings.CutPrefix(word, p)
		if !ok {
			continue
		}
		if p == "w" {
			rest, _, _ = strings.Cut(rest, "a") // the activations' width is no weight's
		}
		if c := number(rest); c != Unknown {
			return c
		}
	}
	for _, unit := range []string{"bits", "bit"} {
		if rest, ok := strings.CutSuffix(word, unit); ok {
			return number(rest)
		}
	}
	return Unknown
}

func isBits(word string) bool { return word == "bit" || word == "bits" }

// number returns the class of a number of bits.
func number(s string) Class {
	n, err := strconv.ParseUint(s, 10, 8)
	if c := Class(n); err == nil && c.Known() {
		return c
	}
	return Unknown
}

// Judged returns the class by which a statement is judged, given the classes that have a
// reference: the stated class, or the lowest of these. It reports false where no class has
// a reference, and where the stated class has none.
func Judged(stated Class, references []Class) (Class, bool) {
	if stated.Known() {
		return stated, slices.Contains(references, stated)
	}
	low := Unknown
	for _, c := range references {
		if c.Known() {
			low = lower(low, c)
		}
	}
	return low, low != Unknown
}

// Cheaper returns the next lower class of those given, against which a family's power is
// calibrated.
func Cheaper(c Class, of []Class) (Class, bool) {
	next := Unknown
	for _, other := range of {
		if other.Known() && other < c && other > next {
			next = other
		}
	}
	return next, next != Unknown
}
