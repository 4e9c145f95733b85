// Package calldata reads the data of the calls that the signer may sign: nine functions of
// tokens and of the contract that holds collateral (contracts/Collateral.sol).
//
// It accepts one encoding alone, that of abi.encode: a selector, a word of 32 bytes for each
// argument, and nothing behind them. A word with bits outside its type is refused, because
// a contract may read it in another way.
package calldata

import (
	"errors"
	"strings"

	"golang.org/x/crypto/sha3"

	"svc.internal/services/settlement/internal/chain"
)

// Function is a function of a contract, by its signature.
type Function string

// The functions of a token.
const (
	Transfer                  Function = "transfer(address,uint256)"
	TransferWithAuthorization Function = "transferWithAuthorization(" +
		"address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
)

// The functions of the contract that holds collateral.
const (
	RequestRefund Function = "requestRefund(bytes32,address)"
	CancelRefund  Function = "cancelRefund(bytes32,address)"
	ExecuteRefund Function = "executeRefund(bytes32,address)"
	Appeal        Function = "appeal(bytes32)"
	ProposeSlash  Function = "proposeSlash(bytes32,bytes32,address,uint256)"
	ExecuteSlash  Function = "executeSlash(bytes32)"
	Resolve       Function = "resolve(bytes32,bool)"
	Lapse         Function = "lapse(bytes32)"
)

// Functions returns every function that is read.
func Functions() []Function {
	return []Function{Transfer, TransferWithAuthorization, RequestRefund, CancelRefund, ExecuteRefund, Appeal,
		ProposeSlash, ExecuteSlash, Resolve, Lapse}
}

const (
	selectorBytes = 4
	wordBytes     = 32
)

var (
	errFunction = errors.New("the data calls no function that is known here")
	errLength   = errors.New("the data has not one word for each argument")
	errWord     = errors.New("an argument has bits outside its type")
)

// Selector is the first four bytes of a call.
type Selector [selectorBytes]byte

// Selector returns the function's selector.
func (f Function) Selector() Selector {
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write([]byte(f)) // a hash never fails
	return Selector(h.Sum(nil)[:selectorBytes])
}

// Types returns the types of the arguments.
func (f Function) Types() []string {
	_, list, _ := strings.Cut(strings.TrimSuffix(string(f), ")"), "(")
	return strings.Split(list, ",")
}

// bySelector finds a function.
var bySelector = func() map[Selector]Function {
	found := map[Selector]Function{}
	for _, f := range Functions() {
		found[f.Selector()] = f
	}
	return found
}()

// Call is a call that was read.
type Call struct {
	Function Function
	words    [][wordBytes]byte
}

// Read reads the data of a call.
func Read(data []byte) (Call, error) {
	if len(data) < selectorBytes {
		return Call{}, errFunction
	}
	f, known := bySelector[Selector(data[:selectorBytes])]
	if !known {
		return Call{}, errFunction
	}
	types, rest := f.Types(), data[selectorBytes:]
	if len(rest) != wordBytes*len(types) {
		return Call{}, errLength
	}
	call := Call{Function: f}
	for i, typ := range types {
		word := [wordBytes]byte(rest[wordBytes*i:])
		if !fits(word, typ) {
			return Call{}, errWord
		}
		call.words = append(call.words, word)
	}
	return call, nil
}

// fits reports whether a word has no bits outside its type.
func fits(word [wordBytes]byte, typ string) bool {
	used, highest := wordBytes, byte(0xff)
	switch typ {
	case "address":
		used = len(chain.Address{})
	case "uint8":
		used = 1
	case "bool":
		used, highest = 1, 1
	}
	for _, b := range word[:wordBytes-used] {
		if b != 0 {
			return false
		}
	}
	return word[wordBytes-1] <= highest
}

// Address returns the argument at a place, which is an address.
func (c Call) Address(at int) chain.Address {
	return chain.Address(c.words[at][wordBytes-len(chain.Address{}):])
}

// Amount returns the argument at a place, which is a uint256.
func (c Call) Amount(at int) chain.Amount {
	amount, err := chain.AmountOf(c.words[at][:])
	if err != nil {
		return chain.Amount{} // a word is never longer than an amount
	}
	return amount
}
