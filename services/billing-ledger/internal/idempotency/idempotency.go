// Package idempotency remembers requests that carried an Idempotency-Key, so
// that a repeat is answered once and billed once, whichever gateway it reaches.
//
// The first request with a key claims it, for as long as it runs: a claim is a
// lease of Lease, which its gateway renews. In the end the answer is kept,
// sealed so that only the caller's own key opens it; or it is noted that there
// is one which is not kept; or the claim is forgotten because nothing was
// billed, and the next request with the key runs. All of it is over Life after
// the claim was made.
//
// Answers are kept apart from the claims, within a quota of bytes for each account
// and one in all (Quota), of which accounts that never paid have half together. An
// answer beyond any of them is not kept, which its claim says like any other that is
// not.
//
// A gateway may die, or be unable to say how its request ended. Its claim then
// lapses, and what the ledger knows of the request decides (Fate): it is never
// run again while it may still be billed, or once it was.
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
	// Lease is how long a claim lasts that nobody renews.
	Lease = time.Minute
	// Life is how long a claim, or the answer to it, is remembered.
	Life = 24 * time.Hour
	// MaxSealed bounds a kept answer in bytes: 1 MiB, and what sealing adds.
	MaxSealed = 1<<20 + 4<<10
	// MaxLive bounds the claims of one key.
	MaxLive = 10_000
	// MaxLiveOfAccount bounds the claims of all keys that an account has, or had.
	MaxLiveOfAccount = 100_000
	// KeptOfAccount bounds the answers that are kept of one account, in bytes,
	// with KeptRow for each.
	KeptOfAccount = 64 << 20
	// KeptRow is what an answer costs of a quota beside its bytes.
	KeptRow = 256
)

// Quota is how many bytes of answers may be kept.
type Quota struct{ OfAccount, InAll int64 }

// Digest is the SHA-256 of what may be long or secret.
type Digest [sha256.Size]byte

// Ask is a request that carries an Idempotency-Key: whose, with which (its
// digest), what for (of route and body), and by which request.
type Ask struct {
	Key     ids.KeyID
	Token   Digest
	Content Digest
	Request ids.RequestID
}

// State is what is kept of a claim.
type State string

// The states. A claim begins Running and ends once.
const (
	Running  State = "running"
	Answered State = "answered"
	NotKept  State = "not_kept"
)

// Record is what the store has under a token. One that is older than Life is as
// good as none.
type Record struct {
	Request ids.RequestID
	Content Digest
	State   State
	// Lapsed tells that nobody renewed it in time.
	Lapsed bool
	// Sealed is the answer to an Answered one.
	Sealed []byte
}

// HolderFate is what the ledger knows of the request that has a claim.
type HolderFate string

const (
	// CostNothing is of one that was never admitted, or whose hold was given
	// back, or that was settled at nothing.
	CostNothing HolderFate = "nothing"
	// Undecided is of one whose hold is open, when nobody has said that anything
	// was served.
	Undecided HolderFate = "undecided"
	// Served is of one that is billed, or will be.
	Served HolderFate = "served"
)

// Decision is how a claim stands for who asks.
type Decision int

// The standings.
const (
	// Granted: the asker has the claim, and runs.
	Granted Decision = iota + 1
	// Busy: another request runs.
	Busy
	// Replay: it was answered, and here is what.
	Replay
	// Gone: it was answered, and the answer is not here.
	Gone
	// Reused: the token stands for another request.
	Reused
	// Lapsed: what became of the holder decides, as After tells.
	Lapsed
)

// Stands is how c, nil for none, stands for ask.
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

// After is how a lapsed claim stands for ask, when it is known what became of
// its holder. Granted means that the claim passes to ask, whatever it is for: a
// request that cost nothing is forgotten.
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

// Answer is how an ask was answered.
type Answer struct {
	Standing Decision
	// Request is who has the claim.
	Request ids.RequestID
	// Sealed is set for Replay.
	Sealed []byte
}

// End is how the holder ends its claim: Answered with what is kept, NotKept, or
// with Forget, which stands for neither.
type End struct {
	Key     ids.KeyID
	Token   Digest
	Request ids.RequestID
	State   State
	Sealed  []byte
}

// Forget ends a claim of which the holder believes that it cost nothing.
const Forget State = "forgotten"

// Validate refuses what cannot be kept.
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

// Outcome is what became of the answer when a claim was ended.
type Outcome string

// The outcomes. Kept is the only one of an answer that is there for a repeat.
const (
	// NoEnd: the claim was not the caller's to end, or it was forgotten.
	NoEnd Outcome = ""
	Kept  Outcome = "kept"
	// NotOffered: the gateway has nothing to keep: a stream, or above 1 MiB.
	NotOffered Outcome = "not_offered"
	// AccountFull and StoreFull: the quota of the account, or the one in all,
	// leaves no room.
	AccountFull Outcome = "account_full"
	StoreFull   Outcome = "store_full"
	// UnpaidFull: the accounts that never paid have half of all, and this is one.
	UnpaidFull Outcome = "unpaid_full"
	// SlotTaken: the store could not make room for this hour.
	SlotTaken Outcome = "slot_taken"
)

// Outcomes are all of an answer's.
func Outcomes() []Outcome {
	return []Outcome{Kept, NotOffered, AccountFull, StoreFull, UnpaidFull, SlotTaken}
}

// Store keeps claims, exact however many ask at once and wherever.
type Store interface {
	// ReadKey tells how ask stands, and who has the claim, without a lock on
	// anything. Granted and Lapsed are not final: ClaimKey decides.
	ReadKey(ctx context.Context, ask Ask) (Answer, error)
	// ClaimKey answers ask; Granted is kept as Lease from now. The calls of one
	// key wait for each other.
	ClaimKey(ctx context.Context, ask Ask) (Answer, error)
	// FinishKey ends the claim that e.Request has, and does nothing when it has
	// none. An answer for which the quota leaves no room ends it as NotKept. What
	// is forgotten though it was billed counts as NotKept, and as lapsed where
	// that is undecided.
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

// Claims answers gateways. Its semaphores bound how many work at a time.
type Claims struct {
	Store Store
	// Reads are for the look at how an ask stands, New for those who ask for a
	// claim, and Running for those who have one: a flood of new ones does not
	// keep them from renewing or ending it.
	Reads, New, Running *limit.FairSemaphore[ids.KeyID]
	// Quota bounds what is kept.
	Quota Quota
	// Observe hears what became of each answer.
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
