package hold

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
)

// SliceOpen is the error of a decision about an account that has an open slice of credit (package
// slice). Nothing was decided. The owner of the slice decides, or gives the slice back.
type SliceOpen struct {
	Account ids.AccountID
	// Owner is the id of the process that owns the slice. Address is where other replicas reach it,
	// empty when there are none.
	Owner   [16]byte
	Address string
}

func (s SliceOpen) Error() string {
	return fmt.Sprintf("account %s has an open slice of owner %s", s.Account, hex.EncodeToString(s.Owner[:]))
}

// AsSliceOpen returns the open slice that an error is about, and false for any other error.
func AsSliceOpen(err error) (SliceOpen, bool) {
	if open, ok := errors.AsType[SliceOpen](err); ok {
		return open, true
	}
	if open, ok := errors.AsType[*SliceOpen](err); ok && open != nil {
		return *open, true
	}
	return SliceOpen{}, false
}

// SlicesOpen is the error of a decision about several keys of which some have accounts with open slices. The
// caller gets no decision of the batch.
type SlicesOpen struct {
	// First is one of the slices.
	First SliceOpen
	// Of has the open slice of each key whose account has one. It is read after the decision, so a slice that was
	// closed in between is missing.
	Of map[ids.KeyID]SliceOpen
}

func (s SlicesOpen) Error() string {
	return fmt.Sprintf("%v, and so have accounts of %d keys", s.First, len(s.Of))
}

// Unwrap returns the first slice.
func (s SlicesOpen) Unwrap() error { return s.First }

// MayBePlain reports whether the reservation may be plain (see Account). One of a gateway model, or with a
// price for cached input, is not.
func (r Reservation) MayBePlain() bool { return !r.Gateway && r.Rates.PayoutCachedInput == 0 }

// Slices admits plain requests of busy accounts from memory, and writes their holds soon after. It
// only ever admits: every refusal is the Decider's.
type Slices interface {
	// Admit admits the reservation and returns what its hold will say, or returns false when it is
	// in doubt.
	Admit(ctx context.Context, r Reservation) (Decision, Pin, bool)
	// Leave leaves the next decision about the key's account to the Decider. When it returns nil, the holds of
	// what was admitted from memory are written, or the slice counts as dead.
	Leave(ctx context.Context, key ids.KeyID) error
	// Recall closes a slice of an account that the Decider met and that Owns reports as one of these.
	Recall(ctx context.Context, account ids.AccountID) error
	// Saw hears what the Decider decided. It does not wait.
	Saw(r Reservation, d Decision)
	// Owns reports whether the slice is one of these.
	Owns(open SliceOpen) bool
}
