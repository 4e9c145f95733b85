// Package slice admits the plain requests of busy accounts from memory, and writes their holds
// down soon after.
//
// A slice is credit of an account that the wallet holds for no request yet, with an epoch and one
// owner, a replica of billing-ledger. The owner admits in memory while the slice has credit and
// places left. It writes the holds of what it admitted every Every, in one transaction with all of
// its slices: each hold takes its amount from the slice, so the wallet's held credit does not
// change. What a hold says also travels with the request as a ticket (package usage). Whoever needs
// a hold that is not written yet writes it from the ticket. So an owner that is killed loses
// nothing.
//
// An owner decides by its last turn that succeeded. That turn is at most about a second old while turns
// succeed, and at most Trust old otherwise. So two things that no trigger guards may count that late: the
// end of a request, and a request that its client left at once. A request id that the exact
// path or another owner admitted just before a slice opened may be admitted once more when it is
// repeated. It has one hold all the same, and settles once.
//
// An owner only ever admits. Where it is in doubt, it writes everything, closes the slice and
// leaves the decision to the exact path (hold.Decider). It is in doubt near every bound: too little
// credit, no place, no room in a rate, a key that it does not know, a request id that may be
// a repetition. So a slice is never the reason of a refusal.
//
// The database knows of every open slice, and keeps others from deciding beside it. The exact path
// finds it under the lock on the wallet. A change of what the owner decides by (a key, a limit, a
// plan, terms, a freeze) is refused by a trigger until the owner has closed the slice. An owner
// that has not written for Lease is dead: its slice is stranded by whoever finds it. A stranded
// slice admits nothing, and keeps its credit and its places until no request of it can come any
// more. Until then its account gets no other slice. For a minute after the owner's death the account's
// rates count as used up, because nobody knows what the owner admitted last.
package slice

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Every is the pause between two regular turns. While turns succeed, a hold is written about Every after
// its admission, plus the time of the turns before its own. Those who settle and those who report wait for
// that turn, so Every also paces their transactions. Each transaction has a price of its own, which a few
// hundred requests a second share.
const Every = 200 * time.Millisecond

// Lease is how long an owner counts as alive after a turn, by the database's clock. An owner admits
// for Trust after the moment at which it began its last turn that succeeded, by its own clock. The
// difference is for clocks that run at different speeds, and for a request that was decided just before
// the end of Trust.
const (
	Lease = 3 * time.Second
	Trust = 2 * time.Second
)

// MaxPlaces bounds what an owner admits for one account between two turns. A stranded slice counts the
// places that it has left as requests under way. turn_slices.sql and the CHECK on slice.places repeat the
// number.
const MaxPlaces = 256

// Owner names the replica that owns slices.
type Owner struct {
	// ID is of one process's life.
	ID [16]byte
	// Address is where other replicas reach it, host and port; empty when there are none.
	Address string
}

// Turn is what an owner writes of one slice, and what it asks for.
type Turn struct {
	Account ids.AccountID
	// Epoch names the slice. 0 asks for a new one, or for the one that this owner has open already,
	// because a turn whose answer was lost may have opened it. With Close, 0 ends that one if it was open
	// when the transaction began.
	Epoch int64
	// Pins are the requests that were admitted since the last turn that is known to have succeeded; a turn
	// that may have succeeded sends them again. A hold that is written already is left alone.
	Pins []hold.Pin
	// Ahead are how far rates are ahead at Now, of the keys whose rates moved.
	Ahead map[ids.KeyID][limit.Classes]time.Duration
	// ZeroPriced is how far the shared rate of zero-priced models is ahead.
	ZeroPriced time.Duration
	// Now is the moment of Ahead and ZeroPriced by the database's clock, as the owner reckons it: never after
	// the true one.
	Now time.Time
	// Want is the credit and Places the number of places that the slice should have when the
	// transaction ends. The slice gets less where the account has less to spare (see State). But for
	// Pins, nothing takes from what it has, because its owner goes on admitting while the turn is under
	// way.
	Want   money.NanoUSD
	Places int64
	// Close ends the slice: its rest goes back to the wallet.
	Close bool
}

// State is what a turn left, all of one moment.
type State struct {
	// Epoch is 0 when this owner has no open slice of the account: it was closed or stranded, another owner
	// has one, a stranded one is left, or the account cannot have one.
	Epoch int64
	// Plain reports whether the account has 1 to MaxKeys keys that can be used, and neither a plan, nor
	// terms, nor a budget or cap bounds any of them. A frozen account may be plain, and gets no slice.
	Plain bool
	// Recalled reports that somebody recalls the slice who could not reach its owner. The owner closes it.
	// Amount and Places are 0 then, although the slice keeps its credit until it is closed. The turn does
	// not extend the owner's life.
	Recalled bool
	// Amount and Places are what the slice has for requests that are not written yet.
	Amount money.NanoUSD
	Places int64
	// Account decides about requests. Its Now is the database's time, and its Open counts the
	// requests under way whose holds are written. Its Free is what the account has available beside the
	// slice, which the owner does not use.
	Account hold.Account
	// Keys are the keys that can be used. Until is when a key expires; zero for never.
	Keys []Key
}

// Key is a key of an account that has a slice.
type Key struct {
	hold.Key
	Until time.Time
}

// MaxKeys is the most keys of an account that has a slice. Each turn reads all of them.
const MaxKeys = 16

// Keeper keeps slices.
type Keeper interface {
	// Turn takes turns of different accounts in one transaction, and returns their states in
	// order. It may be called again with the same pins after an error, because a
	// transaction whose end nobody saw may have been committed.
	Turn(ctx context.Context, owner Owner, turns []Turn) ([]State, error)
}
