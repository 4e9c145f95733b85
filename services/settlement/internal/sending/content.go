package sending

import (
	"encoding/binary"

	"golang.org/x/crypto/sha3"

	"svc.internal/services/settlement/internal/chain"
)

// At returns the call that a prepared request becomes with a nonce.
func (p Prepared) At(nonce uint64) Call {
	c := Call{Request: p.Request, Sender: p.Sender, Nonce: nonce, Gas: p.Gas}
	c.Hash = c.content()
	return c
}

// content hashes what a call does as the signer does: chain (8 bytes), sender (20), nonce (8), destination (20), value
// (32) and data. Fees are no part of it.
func (c Call) content() chain.Hash {
	value := c.Value.Bytes()
	text := binary.BigEndian.AppendUint64(nil, uint64(c.Chain))
	text = append(text, c.Sender[:]...)
	text = binary.BigEndian.AppendUint64(text, c.Nonce)
	text = append(text, c.To[:]...)
	text = append(text, value[:]...)
	return keccak256(append(text, c.Data...))
}

func keccak256(data []byte) chain.Hash {
	h := sha3.NewLegacyKeccak256()
	h.Write(data)
	return chain.Hash(h.Sum(nil))
}

// selector of transfer(address,uint256).
var transfer = []byte{0xa9, 0x05, 0x9c, 0xbb}

// Transfer returns the data by which a token's contract moves an amount to an address.
func Transfer(to chain.Address, amount chain.Amount) []byte {
	data := make([]byte, 4+32+32)
	word := amount.Bytes()
	copy(data, transfer)
	copy(data[4+12:], to[:])
	copy(data[4+32:], word[:])
	return data
}

// SameContent reports whether two calls of one nonce do the same.
func (c Call) SameContent(other Call) bool { return c.content() == other.Hash }
