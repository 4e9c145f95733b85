package auditor

import (
	"math/big"
	"strings"
)

// hash returns a required hash, and address a required address.
func (r *record) hash(key string) (h hash32) {
	if raw := r.bytes(key); len(raw) == len(h) {
		copy(h[:], raw)
	} else {
		r.fail(key, "is no hash")
	}
	return h
}

func (r *record) address(key string) (a address) {
	if raw := r.bytes(key); len(raw) == len(a) {
		copy(a[:], raw)
	} else {
		r.fail(key, "is no address")
	}
	return a
}

// maxDigits bounds a number of any size: those of chains have 78.
const maxDigits = 80

// large returns a required whole number of any size, written as a number or as text.
func (r *record) large(key string) *big.Int {
	text := strings.Trim(string(r.need(key)), `"`)
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || len(text) > maxDigits {
		r.fail(key, "is no whole number")
		return new(big.Int)
	}
	return n
}

// largeOr returns a number of any size; nil when it is missing or null.
func (r *record) largeOr(key string) *big.Int {
	if _, ok := r.given(key); !ok {
		return nil
	}
	return r.large(key)
}
