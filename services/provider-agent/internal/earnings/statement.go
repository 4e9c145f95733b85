package earnings

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/ids"
)

// Signed is a statement as it is in the service's answer.
type Signed struct {
	// Statement is the text, byte for byte as it was signed.
	Statement json.RawMessage `json:"statement"`
	// Summary is the Keccak-256 hash of the text, in hexadecimal after 0x.
	Summary string `json:"summary_keccak256"`
	// Signature and Signer are empty until the statement is signed.
	Signature string `json:"signature"`
	Signer    string `json:"signer"`
}

// Statement has the parts of a statement that are compared or signed.
type Statement struct {
	Day      string `json:"day"`
	Provider string `json:"provider_id"`
	Chain    string `json:"chain_id"`
	Seal     string `json:"seal"`
	Root     string `json:"root"`
	CSV      string `json:"csv_sha256"`
	Leaf     struct {
		Index       string `json:"index"`
		Beneficiary string `json:"beneficiary"`
		Amount      string `json:"amount_nano_usd"`
	} `json:"leaf"`
	Sums    []Sum `json:"sums"`
	Blocked bool  `json:"blocked"`
}

// Sum is the sum of the lines of one kind in one account.
type Sum struct {
	Kind   string `json:"kind"`
	Lines  string `json:"lines"`
	Amount string `json:"amount_nano_usd"`
}

// The errors of statements.
var (
	// ErrUnsigned means that the statement is not signed yet.
	ErrUnsigned = errors.New("the statement is not signed yet")
	// ErrSignature means that the signature is not the service's, or is of another text.
	ErrSignature = errors.New("the statement's signature is not the service's")
	errForm      = errors.New("the statement is not of the expected form")
)

// Read reads a statement of a day, and verifies that one of the signers has signed its text.
func Read(day string, s Signed, signers ...ethereum.Address) (Statement, error) {
	var told Statement
	if err := json.Unmarshal(s.Statement, &told); err != nil {
		return told, errForm
	}
	if told.Day != day {
		return told, fmt.Errorf("%w: it is of another day", ErrSignature)
	}
	if s.Signature == "" {
		return told, ErrUnsigned
	}
	digest, err := Digest(s.Statement)
	if err != nil {
		return told, err
	}
	by, err := signerOf(digest, s.Signature)
	if err != nil || !slices.Contains(signers, by) {
		return told, ErrSignature
	}
	return told, nil
}

// The types of the signed message, as EIP-712 writes them, and its domain.
const (
	domainType    = "EIP712Domain(string name,string version)"
	statementType = "Statement(bytes32 provider,string day,uint256 chainId,uint256 index,address beneficiary," +
		"uint256 amountNanoUsd,bytes32 root,bytes32 csv,bytes32 seal,bytes32 summary)"
	domainName    = "Daily statement"
	domainVersion = "1"
)

// word is a value in the encoding of EIP-712.
type word [32]byte

// Digest returns the digest that is signed for the text of a statement.
func Digest(statement []byte) ([32]byte, error) {
	var told Statement
	if err := json.Unmarshal(statement, &told); err != nil {
		return [32]byte{}, errForm
	}
	return told.digest(ethereum.Keccak256(statement))
}

// digest returns the digest that is signed for the statement. summary is the hash of its text.
func (s Statement) digest(summary [32]byte) (word, error) {
	provider, err := ids.ParseProvider(s.Provider)
	if err != nil {
		return word{}, errForm
	}
	var id, payee word
	copy(id[:], provider[:])
	beneficiary, err := hex.DecodeString(strings.TrimPrefix(s.Leaf.Beneficiary, "0x"))
	if err != nil || len(beneficiary) != len(ethereum.Address{}) {
		return word{}, errForm
	}
	copy(payee[len(payee)-len(beneficiary):], beneficiary)
	day := text(s.Day)
	values := []word{id, day}
	for _, number := range []string{s.Chain, s.Leaf.Index} {
		w, err := unsigned(number)
		if err != nil {
			return word{}, err
		}
		values = append(values, w)
	}
	amount, err := unsigned(s.Leaf.Amount)
	if err != nil {
		return word{}, err
	}
	values = append(values, payee, amount)
	for _, hash := range []string{s.Root, s.CSV, s.Seal} {
		raw, err := hex.DecodeString(strings.TrimPrefix(hash, "0x"))
		if err != nil || len(raw) != len(word{}) {
			return word{}, errForm
		}
		values = append(values, word(raw))
	}
	domain := structHash(domainType, text(domainName), text(domainVersion))
	message := structHash(statementType, append(values, word(summary))...)
	return ethereum.Keccak256([]byte("\x19\x01"), domain[:], message[:]), nil
}

// structHash returns the hash of a struct of a type without other structs in it.
func structHash(typ string, values ...word) word {
	kind := ethereum.Keccak256([]byte(typ))
	encoded := append([]byte{}, kind[:]...)
	for _, v := range values {
		encoded = append(encoded, v[:]...)
	}
	return ethereum.Keccak256(encoded)
}

func text(s string) word { return ethereum.Keccak256([]byte(s)) }

func unsigned(number string) (w word, err error) {
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return w, errForm
	}
	for i := range 8 {
		w[len(w)-1-i] = byte(n >> (8 * i))
	}
	return w, nil
}

// signerOf returns the address whose key made a signature. The signature is r, s and the recovery id,
// which is 0 or 1.
func signerOf(digest word, signature string) (ethereum.Address, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(signature, "0x"))
	if err != nil || len(raw) != 65 || raw[64] > 1 {
		return ethereum.Address{}, ErrSignature
	}
	var s secp256k1.ModNScalar
	if s.SetByteSlice(raw[32:64]) || s.IsOverHalfOrder() {
		return ethereum.Address{}, ErrSignature // the second form that each signature has
	}
	key, _, err := ecdsa.RecoverCompact(append([]byte{27 + raw[64]}, raw[:64]...), digest[:])
	if err != nil {
		return ethereum.Address{}, ErrSignature
	}
	return ethereum.AddressOf(key.SerializeUncompressed()), nil
}
