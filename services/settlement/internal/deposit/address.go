package deposit

import (
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/btcutil/hdkeychain"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/settlement/internal/chain"
)

// MaxIndex is the last index of a deposit address.
const MaxIndex = hdkeychain.HardenedKeyStart - 1

// Deriver derives deposit addresses from an extended public key, as BIP-32 says. No private key is near it.
type Deriver struct{ external *hdkeychain.ExtendedKey }

// NewDeriver reads the extended public key of m/44'/60'/0'.
func NewDeriver(xpub string) (*Deriver, error) {
	key, err := hdkeychain.NewKeyFromString(xpub)
	switch {
	case err != nil:
		return nil, errors.New("the xpub cannot be read")
	case key.IsPrivate():
		return nil, errors.New("the xpub is a private key, which belongs into no configuration")
	case key.Depth() != 3:
		return nil, fmt.Errorf("the xpub is that of depth %d, and must be that of m/44'/60'/0'", key.Depth())
	}
	external, err := key.Derive(0)
	if err != nil {
		return nil, errors.New("the xpub has no external chain")
	}
	return &Deriver{external}, nil
}

// ErrNoKey says that an index has no key, as one in about 2^127 has none.
var ErrNoKey = errors.New("the index has no key")

// At returns the address 0/index below the extended key.
func (d *Deriver) At(index uint32) (chain.Address, error) {
	if index > MaxIndex {
		return chain.Address{}, fmt.Errorf("deposit address %d: %w", index, ErrNoKey)
	}
	child, err := d.external.Derive(index)
	if err != nil {
		return chain.Address{}, fmt.Errorf("deposit address %d: %w", index, ErrNoKey)
	}
	public, err := child.ECPubKey()
	if err != nil {
		return chain.Address{}, fmt.Errorf("deposit address %d: %w", index, err)
	}
	return ethereum.AddressOf(public.SerializeUncompressed()), nil
}
