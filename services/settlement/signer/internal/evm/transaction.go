// Package evm writes what the keys of the chain-signer sign, and nothing else: transactions
// of EIP-1559, and two messages of EIP-712, the daily statement and the authorized transfer
// of a token (EIP-3009). The messages have a prefix that no transaction begins with, so none
// of them can be read as the other.
package evm

import (
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/policy"
)

// Signature is r, s and the recovery id, 0 or 1.
type Signature [65]byte

// Digest is what is signed.
type Digest [32]byte

// Unsigned is a transaction without its signature.
type Unsigned struct {
	tx     *types.Transaction
	signer types.Signer
	sender chain.Address
}

// Compose returns the transaction for a chain.
func Compose(t policy.Transaction) Unsigned {
	id := new(big.Int).SetUint64(uint64(t.Chain))
	to := common.Address(t.To)
	return Unsigned{
		tx: types.NewTx(&types.DynamicFeeTx{
			ChainID: id, Nonce: t.Nonce, GasTipCap: number(t.MaxPriorityFee), GasFeeCap: number(t.MaxFee), Gas: t.Gas,
			To: &to, Value: number(t.Value), Data: t.Data,
		}),
		signer: types.NewLondonSigner(id), sender: t.Sender,
	}
}

func number(a chain.Amount) *big.Int {
	word := a.Bytes()
	return new(big.Int).SetBytes(word[:])
}

// Digest returns what the sender signs.
func (u Unsigned) Digest() Digest { return Digest(u.signer.Hash(u.tx)) }

// Sign returns the signed transaction as it is sent, and its hash. It refuses a signature
// that is not the sender's.
func (u Unsigned) Sign(signature Signature) (raw []byte, hash chain.Hash, err error) {
	signed, err := u.tx.WithSignature(u.signer, signature[:])
	if err != nil {
		return nil, chain.Hash{}, fmt.Errorf("put a signature on a transaction: %w", err)
	}
	if raw, err = signed.MarshalBinary(); err != nil {
		return nil, chain.Hash{}, fmt.Errorf("write a transaction: %w", err)
	}
	return raw, chain.Hash(signed.Hash()), nil
}

// Signed reports whether a signature of a digest is that of an address, in its one form: with
// the lower s.
func Signed(digest Digest, signature Signature, by chain.Address) bool {
	s := new(big.Int).SetBytes(signature[32:64])
	if s.Cmp(halfOrder) > 0 {
		return false
	}
	public, err := crypto.SigToPub(digest[:], signature[:])
	return err == nil && chain.Address(crypto.PubkeyToAddress(*public)) == by
}

// halfOrder is half of the order of the curve. Chains refuse an s above it (EIP-2).
var halfOrder = new(big.Int).Rsh(crypto.S256().Params().N, 1)
