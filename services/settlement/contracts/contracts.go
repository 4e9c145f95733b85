// Package contracts has what the contracts on chains compile to: Collateral, which holds the collateral of providers,
// and TestUSD, the dollar of development chains. README.md says what they do.
//
// The artifacts are committed, so that a build needs no compiler. `make contracts` makes them anew, and CI compares
// them with the sources. A contract's code on a chain is held against its artifact before any money goes there.
package contracts

import (
	_ "embed" // the artifacts
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

var (
	//go:embed artifacts/Collateral.json
	collateral []byte
	//go:embed artifacts/TestUSD.json
	testUSD []byte
)

// Artifact is what one contract compiles to.
type Artifact struct {
	// Contract is the contract's name.
	Contract string
	// Compiler is the compiler's full version.
	Compiler string
	// ABI describes the contract's functions, events and errors, in JSON.
	ABI json.RawMessage
	// Creation is the code that a deployment runs, before the arguments of the constructor.
	Creation Code
	// Runtime is the code of a deployed contract with zeros for its immutable values.
	Runtime Code
	// Immutables are the places of the immutable values in Runtime, in order.
	Immutables []Place
}

// Code is code of the chain's machine. Its text is hexadecimal behind 0x.
type Code []byte

// Place is a part of code.
type Place struct {
	Start, Length int
}

// UnmarshalText reads code.
func (c *Code) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	if !ok {
		return fmt.Errorf("code without 0x")
	}
	code, err := hex.DecodeString(digits)
	if err != nil {
		return fmt.Errorf("read code: %w", err)
	}
	*c = code
	return nil
}

// Collateral is the contract that holds collateral.
func Collateral() (Artifact, error) { return Parse(collateral) }

// TestUSD is the dollar of development chains.
func TestUSD() (Artifact, error) { return Parse(testUSD) }

// Parse reads an artifact.
func Parse(text []byte) (Artifact, error) {
	var a Artifact
	if err := json.Unmarshal(text, &a); err != nil {
		return Artifact{}, fmt.Errorf("read an artifact: %w", err)
	}
	end := 0
	for _, p := range a.Immutables {
		if p.Start < end || p.Length <= 0 || p.Length > len(a.Runtime)-p.Start {
			return Artifact{}, fmt.Errorf("read the artifact of %s: an immutable value at %d is outside its code",
				a.Contract, p.Start)
		}
		end = p.Start + p.Length
	}
	return a, nil
}

// Matches reports whether the code of a deployed contract is that of the artifact. The immutable values are not
// compared: a caller reads them from the contract.
func (a Artifact) Matches(code []byte) bool {
	if len(code) != len(a.Runtime) {
		return false
	}
	at := 0
	for _, p := range a.Immutables {
		if string(code[at:p.Start]) != string(a.Runtime[at:p.Start]) {
			return false
		}
		at = p.Start + p.Length
	}
	return string(code[at:]) == string(a.Runtime[at:])
}
