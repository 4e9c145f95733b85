// Package idempotency remembers requests that carried an Idempotency-Key, so that a
// repeat is answered once and billed once, whichever gateway it reaches.
//
// The first request with a key claims the key while it runs. A claim is a lease of Lease
// (60 s), which its gateway renews. A claim ends in one of three ways. The answer is
// kept, sealed by the gateway, so that the caller's own key opens it and nothing here
// does. Or the claim notes that there is an answer which is not kept. Or the claim is
// forgotten because nothing was billed, and the next request with the key runs. A claim
// and its answer are remembered for Life (24 h) after the claim was made.
//
// Answers are kept apart from the claims, within one quota of bytes for each account and
// one for all accounts (see Quota). Accounts that never paid have half of the latter
// together. An answer beyond a quota is not kept, and its claim says so.
//
// A gateway may die, or be unable to say how its request ended. The claim then lapses,
// and the ledger's knowledge of the request, and of the requests that it was continued
// as, decides (see HolderFate). A request never runs again while it may still be billed,
// or once it was billed. The key of a request that cost nothing may be claimed anew, even
// with another body.
package idempotency

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/limit"
)

const (
	// Lease is how long a claim lasts without a renewal.
	Lease = time.Minute
	// Life is how long a claim and its answer are remembered.
	Life = 24 * time.Hour
	// MaxSealed bounds a kept answer in bytes: 1 MiB and what sealing adds, at most 4
	// KiB.
	MaxSealed = 1<<20 + 4<<10
	// MaxLive bounds the claims of one key.
	MaxLive = 10_000
	// MaxLiveOfAccount bounds the claims of all keys that an account has or had.
	MaxLiveOfAccount = 100_000
	// KeptOfAccount bounds the kept answers of one account in bytes. Each answer counts
	// KeptRow more than its own bytes.
	KeptOfAccount = 64 << 20
	// KeptRow is what an answer takes of a quota beside its own bytes.
	KeptRow = 256
)

// Quota is how many bytes of answers may be kept, of one account and in all.
type Quota struct{ OfAccount, InAll int64 }

// Digest is the SHA-256 of a text that may be long or secret.
type Digest [sha256.Size]byte

// Ask is a request that carries an Idempotency-Key: the consumer key, the digest of the
// Idempotency-Key, the digest of route and body, and the request id.
type Ask struct {
	Key     ids.KeyID
	Token   Digest
	Content Digest
	Request ids.RequestID
}

// State is the stored state of a claim.
type State string

// The states. A claim begins Running and ends once.
const (
	Running  State = "running"
	Answered State = "answered"
	NotKept  State = "not_kept"
)

// Record is what the store has under a token. A record older than Life counts as none.
type Record struct {
	Request ids.RequestID
	Content Digest
	State   State
	// Lapsed reports whether the lease ended without a renewal.
	Lapsed bool
	// Sealed is the answer of an Answered claim.
	Sealed []byte
}

// HolderFate is what the ledger knows of the request that holds a claim.
type HolderFate string

const (
	// CostNothing means that it was never admitted, its hold was given back, or it was
	// settled at nothing.
	CostNothing HolderFate = "nothing"
	// Undecided means that its hold is open and nobody has said that anything was served.
	Undecided HolderFate = "undecided"
	// Served means that it is billed, or will be.
	Served HolderFate = "served"
)

// Decision says how a claim stands for a request that asks.
type Decision int

// The decisions.
const (
	// Granted: the asking request has the claim and runs.
	Granted Decision = iota + 1
	// Busy: another request runs.
	Busy
	// Replay: the key was answered, and here is the answer.
	Replay
	// Gone: the key was answered, and the answer is not here.
	Gone
	// Reused: the key stands for another request.
	Reused
	// Lapsed: the fate of the holder decides (see After).
	Lapsed
)

// Stands returns how c, nil for none, stands for ask.
func (c *Record) Stands(ask Ask) Decision {
	switch {
	case c == nil, c.State == Running && c.Request == ask.Request:
		return Granted
	case c.State == Running && c.Lapsed:
		return Lapsed
	case c.Content != ask.Content:
		return Reused
	case c.State == Answered:
		return Replay
	case c.State == NotKept:
		return Gone
	}
	return Busy
}

// After returns how a lapsed claim stands for ask, given the fate of its holder. Granted
// means that the claim passes to ask, even with another content, because a request that
// cost nothing is forgotten.
func (c *Record) After(fate HolderFate, ask Ask) Decision {
	same := c.Content == ask.Content
	switch {
	case fate == CostNothing:
		return Granted
	case !same:
		return Reused
	case fate == Served:
		return Gone
	}
	return Busy
}

// Answer is the answer to an Ask.
type Answer struct {
	Standing Decision
	// Request is the request that has the claim.
	Request ids.RequestID
	// Sealed is set for Replay.
	Sealed []byte
}

// End is how the holder ends its claim: Answered with a sealed answer, NotKept, or Forget
// for a claim that shall not stand.
type End struct {
	Key     ids.KeyID
	Token   Digest
	Request ids.RequestID
	State   State
	Sealed  []byte
}

// Forget ends a claim whose holder believes that it cost nothing.
const Forget State = "forgotten"

// Validate refuses an end that cannot be stored.
func (e End) Validate() error {
	switch {
	case e.State != Answered && e.State != NotKept && e.State != Forget:
		return fault.New(fault.Invalid, fault.InvalidValue, "end is not known").On("end")
	case (e.State == Answered) != (len(e.Sealed) > 0):
		return fault.New(fault.Invalid, fault.InvalidValue, "an answer is kept with KEY_END_ANSWERED and never otherwise").On(
			"answer")
	case len(e.Sealed) > MaxSealed:
		return fault.New(fault.Invalid, fault.InvalidValue, "the answer has more than %d bytes", MaxSealed).On("answer")
	}
	return nil
}

// Outcome is the fate of the answer when its claim ended.
type Outcome string

// The outcomes. Only a Kept answer is there for a repeat.
const (
	// NoEnd: the claim was not the caller's to end, or it was forgotten.
	NoEnd Outcome = ""
	Kept  Outcome = "kept"
	// NotOffered: the gateway had no answer to keep, because it was a stream or above 1
	// MiB.
	NotOffered Outcome = "not_offered"
	// AccountFull and StoreFull: the account's quota, or the quota of all, has no room.
	AccountFull Outcome = "account_full"
	StoreFull   Outcome = "store_full"
	// UnpaidFull: the account never paid, and the half for such accounts has no room.
	UnpaidFull Outcome = "unpaid_full"
	// SlotTaken: the store could not make room for this hour.
	SlotTaken Outcome = "slot_taken"
)

// Outcomes returns every outcome of an answer.
func Outcomes() []Outcome {
	return []Outcome{Kept, NotOffered, AccountFull, StoreFull, UnpaidFull, SlotTaken}
}

// Store keeps claims, exactly over all replicas and callers.
type Store interface {
	// ReadKey answers ask without a lock. Granted and Lapsed are not final: ClaimKey
	// decides.
	ReadKey(ctx context.Context, ask Ask) (Answer, error)
	// ClaimKey answers ask. A granted claim is stored with a lease from now. Calls for
	// one key wait for each other.
	ClaimKey(ctx context.Context, ask Ask) (Answer, error)
	// FinishKey ends the claim of e.Request, and does nothing when that request has none.
	// An answer for which the quota has no room ends the claim as NotKept. A claim that
	// is forgotten ends as NotKept when its request was billed, and lapses when that is
	// undecided.
	FinishKey(ctx context.Context, e End, quota Quota) (Outcome, error)
}

// TooMany refuses one more claim of a key that has MaxLive.
func TooMany() error {
	return fault.New(fault.Exhausted, fault.RateLimitExceeded,
		"This key has used %d Idempotency-Keys within 24 hours.", MaxLive).After(time.Minute)
}

// TooManyOfAccount refuses one more claim of an account that has MaxLiveOfAccount.
func TooManyOfAccount() error {
	return fault.New(fault.Exhausted, fault.RateLimitExceeded,
		"The keys of this account have used %d Idempotency-Keys within 24 hours.", MaxLiveOfAccount).After(time.Minute)
}

// Claims answers gateways, as many at a time as there are slots.
type Claims struct {
	Store Store
	// Reads are for looking at a claim, New for asking for one, and Running for renewing
	// or ending one, so that a flood of new claims keeps nobody from renewing.
	Reads, New, Running *limit.FairSemaphore[ids.KeyID]
	// Quota bounds the kept answers.
	Quota Quota
	// Observe gets the outcome of each answer.
	Observe func(Outcome)
}

// Claim asks for the right to run a request.
func (c *Claims) Claim(ctx context.Context, ask Ask) (Answer, error) {
	a, err := answerIn(ctx, c.Reads, ask, c.Store.ReadKey)
	if err == nil && (a.Standing == Granted || a.Standing == Lapsed) {
		calls := c.New
		if a.Request == ask.Request {
			calls = c.Running
		}
		a, err = answerIn(ctx, calls, ask, c.Store.ClaimKey)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("claim an idempotency key: %w", err)
	}
	return a, nil
}

func answerIn(
	ctx context.Context, calls *limit.FairSemaphore[ids.KeyID], ask Ask,
	from func(context.Context, Ask) (Answer, error),
) (a Answer, err error) {
	err = calls.Do(ctx, ask.Key, func() (err error) {
		a, err = from(ctx, ask)
		return err
	})
	return a, err
}

// Finish ends a claim.
func (c *Claims) Finish(ctx context.Context, e End) error {
	if err := e.Validate(); err != nil {
		return err
	}
	outcome := NoEnd
	err := c.Running.Do(ctx, e.Key, func() (err error) {
		outcome, err = c.Store.FinishKey(ctx, e, c.Quota)
		return err
	})
	if err != nil {
		return fmt.Errorf("end the claim of an idempotency key: %w", err)
	}
	if outcome != NoEnd {
		c.Observe(outcome)
	}
	return nil
}
