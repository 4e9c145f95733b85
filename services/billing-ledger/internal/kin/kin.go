// Package kin says by what accounts and providers of one owner are recognised where no user has
// both.
//
// An account or a provider bears marks. A mark is a cause and the digest of its evidence: the
// wallet that signed, the address to which earnings go, the address that a deposit came from, or
// the card that paid. A provider bears the marks of its user's account, too. An account and a
// provider are kin when they bear marks of the same evidence, whatever the causes: the wallet
// that a deposit came from may be the wallet that owns a provider.
//
// Kinship is not handed on. Of three where the first shares a card with the second, and the second
// a wallet with the third, the first and the third are strangers: else one address that many
// use would make one owner of them all.
//
// A source of deposits that more than MaxSharers accounts have in common makes none of them kin,
// unless somebody has signed with it. An exchange pays out from a few hot wallets for all of its
// customers, so such a source says only that they use the same exchange. An owner may hide
// behind that bound with many accounts that it funds from one wallet. Each of them needs a
// deposit that counts, and the wallet must neither own a provider nor be paid by one.
//
// Marks are only added. They count from then on: what was settled before is not held, and what
// is held stays held when its evidence says nothing any more.
package kin

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/ids"
)

const (
	// MaxSharers is how many accounts may deposit from one source and be kin by it. The view kin
	// has the same number.
	MaxSharers = 8
	// MaxMarks bounds the marks of one cause of an account or a provider, other than payout addresses.
	// A further mark of a payment is not stored, because the payment must not fail for it. A wallet
	// that cannot mark is not linked. The trigger bound_marks has the same number.
	MaxMarks = 1000
	// MaxPayoutAddresses bounds the payout addresses that mark a provider. It is larger, because a
	// provider that had so many would be paid at an address that does not mark it. At the 10 changes
	// that provider-hub accepts in a day that takes 27 years. The trigger bound_marks has the same number.
	MaxPayoutAddresses = 100_000
	// MaxWallets is how many wallets may ever sign for an account. The trigger mark_wallet has the
	// same number, and says why.
	MaxWallets = 64
)

// Cause says where the evidence was seen.
type Cause string

// The causes, the surest first. Where the causes of two marks differ, the rule of the kinship is
// the less sure one.
const (
	// Wallet is a wallet that signed for its account or provider. The database marks an account with
	// it when it stores the identity of the account's user (mark_wallet).
	Wallet Cause = "wallet"
	// PayoutAddress is where a provider's earnings go, or went.
	PayoutAddress Cause = "payout_address"
	// DepositSource is an address that a credited deposit came from.
	DepositSource Cause = "deposit_source"
	// Card is a card that paid. The database marks with it when it stores the payment (mark_card).
	Card Cause = "card"
)

// Causes returns all causes, the surest first.
func Causes() []Cause { return []Cause{Wallet, PayoutAddress, DepositSource, Card} }

// Evidence is what two bearers may share. It is stored as a digest alone, and never printed. The
// zero value is no evidence.
type Evidence struct{ address ethereum.Address }

// ErrZeroAddress is the error of the zero address.
var ErrZeroAddress = errors.New("the zero address belongs to nobody")

// OfAddress returns the evidence of an address of an Ethereum-like chain, in whatever letters it is
// written. The address is the same on all chains. The zero address is refused, because it belongs
// to nobody: newly minted tokens come from it. The error is ErrZeroAddress.
func OfAddress(address string) (Evidence, error) {
	a, err := ethereum.ParseAddress(address)
	if err != nil {
		return Evidence{}, err
	}
	if a.IsZero() {
		return Evidence{}, ErrZeroAddress
	}
	return Evidence{a}, nil
}

// IsZero reports whether it is no evidence.
func (e Evidence) IsZero() bool { return e.address.IsZero() }

// String hides the evidence from logs.
func (Evidence) String() string { return "[evidence]" }

// GoString hides the evidence from logs.
func (Evidence) GoString() string { return "[evidence]" }

// Digest is what is stored. Whoever lacks the key cannot test an address.
func (e Evidence) Digest(key []byte) [sha256.Size]byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("address:"))
	mac.Write(e.address[:])
	return [sha256.Size]byte(mac.Sum(nil))
}

// Mark is one mark of an account or of a provider. Exactly one of Account and Provider is set.
type Mark struct {
	Account  ids.AccountID
	Provider ids.ProviderID
	Cause    Cause
	Evidence Evidence
}

// Check refuses what is no mark of an address.
func (m Mark) Check() error {
	switch {
	case m.Account.IsZero() == m.Provider.IsZero():
		return errors.New("a mark is an account's or a provider's")
	case m.Evidence.IsZero():
		return errors.New("a mark needs evidence")
	case m.Cause == PayoutAddress && m.Provider.IsZero():
		return errors.New("an account has no payout address")
	}
	switch m.Cause {
	case Wallet, PayoutAddress, DepositSource:
		return nil
	case Card: // its evidence is no address
	}
	return fmt.Errorf("%.32q is no cause of a mark by an address", string(m.Cause))
}

// Stored is a mark as it is stored.
type Stored struct {
	Account  ids.AccountID
	Provider ids.ProviderID
	Cause    Cause
	Digest   [sha256.Size]byte
}

// Stored returns the mark as it is stored.
func (m Mark) Stored(key []byte) Stored {
	return Stored{m.Account, m.Provider, m.Cause, m.Evidence.Digest(key)}
}

// Compare orders marks, so that of those who store the same marks at once nobody waits in a circle.
// The trigger mark_linked_provider inserts in the same order.
func (s Stored) Compare(o Stored) int {
	return cmp.Or(bytes.Compare(s.Account[:], o.Account[:]), bytes.Compare(s.Provider[:], o.Provider[:]),
		bytes.Compare(s.Digest[:], o.Digest[:]), cmp.Compare(s.Cause, o.Cause))
}
