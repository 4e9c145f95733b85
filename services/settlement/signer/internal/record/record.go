// Package record decides, from what the signer has signed before, whether it signs a
// transaction.
//
// A nonce has one content for ever: what is signed under it may be signed again, with
// higher fees too, and a chain mines one of these. Beside its content it may be cancelled. A
// nonce that was cancelled before it had any content gets none, because whoever cancelled it
// could not know of one. The content is recorded and committed before it is signed, so
// nothing is signed that a second replica, or this process after a crash, would not know.
//
// A nonce is at most MaxAhead above the highest of its sender. So a caller that has lost its
// mind, or its database, cannot leave nonces far ahead that a chain would take up later.
// Where a sender has no record yet, its first nonce is that of the settings: a signer that
// has lost its database signs nothing of a sender that was used before until an operator has
// said where it goes on. Deposit addresses are apart from this, because whatever their nonce,
// they pay the treasury alone.
//
// What a content moves is counted once, on the day on which it was recorded. Of fees counts
// the most that one nonce can cost: a bump counts as far as it is higher.
package record

import (
	"context"
	"encoding/binary"
	"time"

	"golang.org/x/crypto/sha3"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/policy"
)

// MaxAhead is how far above the highest nonce of its sender a nonce may be.
const MaxAhead = 16

// CallHash names the content of a nonce: chain, sender, nonce, destination, value and data,
// and no fees.
func CallHash(t policy.Transaction) chain.Hash {
	var head []byte
	head = binary.BigEndian.AppendUint64(head, uint64(t.Chain))
	head = append(head, t.Sender[:]...)
	head = binary.BigEndian.AppendUint64(head, t.Nonce)
	head = append(head, t.To[:]...)
	value := t.Value.Bytes()
	head = append(head, value[:]...)
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write(append(head, t.Data...)) // a hash never fails
	return chain.Hash(h.Sum(nil))
}

// History is what has been signed before a transaction.
type History struct {
	// Now is the time of the database.
	Now time.Time
	// Content is the content of the transaction's nonce; zero where it has none.
	Content chain.Hash
	// Cancelled reports whether the nonce has been cancelled.
	Cancelled bool
	// Any reports whether the sender has signed anything on the chain, and Highest is the
	// highest nonce of it.
	Any     bool
	Highest uint64
	// Ceiling is the most that the nonce can cost as it stands.
	Ceiling chain.Amount
	// Moved and Fees are what the key has used today.
	Moved, Fees chain.Amount
}

// Next returns the nonce above the highest; first where there is none.
func (s History) Next(first uint64) uint64 {
	if !s.Any {
		return first
	}
	return max(first, s.Highest+1)
}

// Entry is what must be recorded before a transaction is signed.
type Entry struct {
	// Nonce reports whether the nonce's content, or its cancel, is new.
	Nonce bool
	// Ceiling is what the nonce can cost from now on, and Increase is how much more that
	// is. A zero Increase records nothing.
	Ceiling, Increase chain.Amount
}

// Store is where the record is kept.
type Store interface {
	// Record reads what has been signed, lets decide choose, and commits the entry. All of it happens
	// under a lock of the key on the chain. It returns the fault of decide.
	Record(ctx context.Context, t policy.Transaction, use policy.Use, hash chain.Hash,
		decide func(History) (Entry, error)) error
	// Highest returns the highest nonce of a sender on a chain; any is false where there is
	// none.
	Highest(ctx context.Context, id chain.ID, sender chain.Address) (highest uint64, any bool, err error)
	// Senders lists up to limit senders of a chain behind an address, by address.
	Senders(ctx context.Context, id chain.ID, after chain.Address, limit int) ([]Sender, error)
	// Signed lists up to limit nonces of a sender that have a record, from a nonce on.
	Signed(ctx context.Context, id chain.ID, sender chain.Address, from uint64, limit int) ([]Signed, error)
}

// MaxPage bounds the rows that Senders and Signed list at once.
const MaxPage = 500

// Sender is an address whose transactions were signed.
type Sender struct {
	Address chain.Address
	Key     policy.Key
	Highest uint64
}

// Signed is what is on record of a nonce.
type Signed struct {
	Nonce uint64
	// Content is zero where only the cancel was signed.
	Content   chain.Hash
	Cancelled bool
	// Asset and Amount are of the content.
	Asset  chain.Address
	Amount chain.Amount
}

// Decide returns what must be recorded of a transaction, or a fault: nonce_used, nonce_gap or
// cap_exceeded.
func Decide(t policy.Transaction, use policy.Use, hash chain.Hash, s History) (Entry, error) {
	entry := Entry{Nonce: true}
	switch {
	case t.Cancel:
		entry.Nonce = !s.Cancelled
	case s.Content == hash:
		entry.Nonce = false
	case !s.Content.IsZero():
		return Entry{}, fault.New(fault.Precondition, fault.NonceUsed, "the nonce has another content").On("nonce")
	case s.Cancelled:
		return Entry{}, fault.New(fault.Precondition, fault.NonceUsed, "the nonce was cancelled").On("nonce")
	}
	if entry.Nonce && s.Content.IsZero() {
		if err := inReach(t, use, s); err != nil {
			return Entry{}, err
		}
	}
	if entry.Nonce && use.Capped {
		if err := within(use.Amount, s.Moved, use.Cap.Day, s.Now, "value"); err != nil {
			return Entry{}, err
		}
	}
	if increase, more := use.Fee.Sub(s.Ceiling); more && !increase.IsZero() {
		if err := within(increase, s.Fees, use.FeesCap.Day, s.Now, "fees"); err != nil {
			return Entry{}, err
		}
		entry.Ceiling, entry.Increase = use.Fee, increase
	}
	return entry, nil
}

// inReach refuses a new nonce that is below the first of its key, or far above the highest.
func inReach(t policy.Transaction, use policy.Use, s History) error {
	next := s.Next(use.First)
	switch {
	case t.Key == policy.Deposit && !s.Any:
		return nil
	case t.Nonce < use.First:
		return fault.New(fault.Precondition, fault.NonceGap, "the first nonce of the settings is %d", use.First).On("nonce")
	case t.Nonce >= next && t.Nonce-next >= MaxAhead:
		return fault.New(fault.Precondition, fault.NonceGap, "the nonce is too far ahead: %d comes next", next).On("nonce")
	}
	return nil
}

// within holds a day's sum against its cap.
func within(amount, before, limit chain.Amount, now time.Time, what string) error {
	if sum, ok := before.Add(amount); ok && sum.Cmp(limit) <= 0 {
		return nil
	}
	day := now.UTC().Truncate(24 * time.Hour)
	return fault.New(fault.Exhausted, fault.CapExceeded, "the %s of a day are at most %s, and %s of it are used",
		what, limit, before).After(day.Add(24 * time.Hour).Sub(now))
}
