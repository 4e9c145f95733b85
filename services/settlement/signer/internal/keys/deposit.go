package keys

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/btcutil/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg"

	"svc.internal/pkg/fault"
)

// MaxDepositIndex is the last index that is not hardened.
const MaxDepositIndex = hdkeychain.HardenedKeyStart - 1

var errSeed = errors.New("the seed of the deposit addresses is 32 to 64 bytes in hexadecimal")

// Deposit has the keys of the deposit addresses: m/44'/60'/0'/0/index of BIP-32.
type Deposit struct {
	xpub     string
	external *hdkeychain.ExtendedKey
}

// OpenDeposit returns the keys of a seed in hexadecimal.
func OpenDeposit(seed string) (*Deposit, error) {
	raw, err := hex.DecodeString(seed)
	if err != nil || len(raw) < 32 || len(raw) > hdkeychain.MaxSeedBytes {
		return nil, errSeed
	}
	return newDeposit(raw)
}

func newDeposit(seed []byte) (*Deposit, error) {
	key, err := hdkeychain.NewMaster(seed, &chaincfg.MainNetParams)
	if err != nil {
		return nil, fmt.Errorf("derive the deposit addresses: %w", err)
	}
	for _, step := range []uint32{44, 60, 0} {
		if key, err = key.Derive(hdkeychain.HardenedKeyStart + step); err != nil {
			return nil, fmt.Errorf("derive the deposit addresses: %w", err)
		}
	}
	public, err := key.Neuter()
	if err != nil {
		return nil, fmt.Errorf("derive the deposit addresses: %w", err)
	}
	external, err := key.Derive(0)
	if err != nil {
		return nil, fmt.Errorf("derive the deposit addresses: %w", err)
	}
	return &Deposit{public.String(), external}, nil
}

// Xpub returns the extended public key of m/44'/60'/0'.
func (d *Deposit) Xpub() string { return d.xpub }

// At returns the key of an index. One index in about 2^127 has none; its fault is
// unknown_key.
func (d *Deposit) At(index uint32) (Key, error) {
	if index > MaxDepositIndex {
		return nil, fault.New(fault.NotFound, fault.UnknownKey, "deposit indices are at most %d", MaxDepositIndex).
			On("deposit_index")
	}
	child, err := d.external.Derive(index)
	if err != nil {
		return nil, fault.Wrap(err, fault.NotFound, fault.UnknownKey, "there is no deposit key %d", index).
			On("deposit_index")
	}
	private, err := child.ECPrivKey()
	if err != nil {
		return nil, fmt.Errorf("derive deposit key %d: %w", index, err)
	}
	return newLocal(private.ToECDSA()), nil
}

// String hides the keys.
func (*Deposit) String() string { return "the deposit keys" }

// GoString hides the keys.
func (*Deposit) GoString() string { return "the deposit keys" }
