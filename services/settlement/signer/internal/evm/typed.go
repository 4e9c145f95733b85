package evm

import (
	"encoding/binary"

	"golang.org/x/crypto/sha3"

	"svc.internal/services/settlement/internal/chain"
)

// The types of the messages, as EIP-712 writes them.
const (
	statementDomainType = "EIP712Domain(string name,string version)"
	statementType       = "Statement(bytes32 provider,string day,uint256 chainId,uint256 index,address beneficiary," +
		"uint256 amountNanoUsd,bytes32 root,bytes32 csv,bytes32 seal,bytes32 summary)"
	//nolint:gosec // the name of a type, and no credential
	tokenDomainType   = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
	authorizationType = "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter," +
		"uint256 validBefore,bytes32 nonce)"
)

// The domain of statements.
const (
	StatementName    = "Daily statement"
	StatementVersion = "1"
)

// word is a value in the encoding of EIP-712.
type word [32]byte

// Statement is a provider's daily statement.
type Statement struct {
	// Provider is the provider's id.
	Provider [16]byte
	// Day is YYYY-MM-DD.
	Day   string
	Chain chain.ID
	// Index is the place of the provider's leaf in the batch.
	Index       uint64
	Beneficiary chain.Address
	// Amount is in nano-USD.
	Amount uint64
	// Root is the batch's, CSV the SHA-256 of the provider's lines, Seal that of the
	// ledger's day, and Summary the keccak256 of the statement's canonical JSON.
	Root, CSV, Seal, Summary chain.Hash
}

// Digest returns what is signed of the statement.
func (s Statement) Digest() Digest {
	domain := structHash(statementDomainType, text(StatementName), text(StatementVersion))
	var provider word
	copy(provider[:], s.Provider[:])
	return typed(domain, structHash(statementType, provider, text(s.Day), unsigned(uint64(s.Chain)), unsigned(s.Index),
		address(s.Beneficiary), unsigned(s.Amount), word(s.Root), word(s.CSV), word(s.Seal), word(s.Summary)))
}

// Authorization lets anybody move a token from one address to another, once.
type Authorization struct {
	Chain chain.ID
	Token chain.Address
	// Name and Version are the token's domain.
	Name, Version string
	From, To      chain.Address
	Value         chain.Amount
	// ValidAfter and ValidBefore are in seconds of Unix time.
	ValidAfter, ValidBefore uint64
	Nonce                   [32]byte
}

// Digest returns what is signed of the authorization.
func (a Authorization) Digest() Digest {
	domain := structHash(tokenDomainType, text(a.Name), text(a.Version), unsigned(uint64(a.Chain)), address(a.Token))
	return typed(domain, structHash(authorizationType, address(a.From), address(a.To), word(a.Value.Bytes()),
		unsigned(a.ValidAfter), unsigned(a.ValidBefore), word(a.Nonce)))
}

// typed returns the digest of a message in its domain.
func typed(domain, message word) Digest {
	return Digest(keccak([]byte("\x19\x01"), domain[:], message[:]))
}

// structHash returns the hash of a struct of a type without other structs in it.
func structHash(typ string, values ...word) word {
	encoded := make([]byte, 0, len(word{})*(1+len(values)))
	kind := keccak([]byte(typ))
	encoded = append(encoded, kind[:]...)
	for _, v := range values {
		encoded = append(encoded, v[:]...)
	}
	return keccak(encoded)
}

func text(s string) word { return keccak([]byte(s)) }

func unsigned(n uint64) (w word) {
	binary.BigEndian.PutUint64(w[len(w)-8:], n)
	return w
}

func address(a chain.Address) (w word) {
	copy(w[len(w)-len(a):], a[:])
	return w
}

func keccak(parts ...[]byte) word {
	h := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		_, _ = h.Write(p) // a hash never fails
	}
	return word(h.Sum(nil))
}
