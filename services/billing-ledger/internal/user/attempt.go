package user

import (
	"crypto/sha256"
	"time"

	"svc.internal/pkg/fault"
)

// Pace is a rate by the generic cell rate algorithm: AtOnce attempts at once, and then
// one more each Interval. Nobody waits for longer than Interval, unless others take what
// becomes free.
type Pace struct {
	AtOnce   int
	Interval time.Duration
}

// The paces of attempts to sign in with one e-mail that fail or are under way. They hold
// over all replicas. One network has NetworkPace. The strangers, which are the networks
// that the e-mail's user has not signed in from, have StrangersPace together besides.
//
// So one network tries 2,170 passwords on its first day and 2,160 on each further day,
// and all strangers together 2,500 and 2,400. Of the 2^40 values of a password with 40
// random bits, strangers find 8 in 10^7 within a year. Each known network adds as much as
// one network may try; if all of them were hostile, it would be 7 in 10^6.
//
// An attempt keeps at most two rows, until its pace is whole again.
var (
	NetworkPace   = Pace{AtOnce: 10, Interval: 40 * time.Second}
	StrangersPace = Pace{AtOnce: 100, Interval: 36 * time.Second}
)

// Of the networks that a user signed up or in from, the last MaxNetworks are known, each
// for NetworkKept after its last use. A known network counts apart from the strangers.
const (
	MaxNetworks = 8
	NetworkKept = 30 * 24 * time.Hour
)

// maxNetwork bounds the name of a network from a gateway, in bytes.
const maxNetwork = 64

// Strangers stands for all strangers together. It is not the digest of a network.
var Strangers Digest

// Attempt is one counted attempt to sign in with an e-mail.
type Attempt struct {
	// Network is the mark of the network that the attempt comes from.
	Network Digest
	// Known reports whether the e-mail's user has signed in from that network before.
	Known bool
}

// Counts are the moments at which a pace is whole again. The zero time is long past.
type Counts struct{ Network, Strangers time.Time }

// Room refuses an attempt that finds no room at a moment, and says how long until there
// is room.
func (c Counts) Room(known bool, now time.Time) error {
	wait := NetworkPace.wait(c.Network, now)
	if !known {
		wait = max(wait, StrangersPace.wait(c.Strangers, now))
	}
	if wait <= 0 {
		return nil
	}
	return fault.New(fault.Exhausted, fault.RateLimitExceeded,
		"too many attempts to sign in with this e-mail failed; try again later").After(wait)
}

// wait returns how long there is no room for one more attempt, when the pace is whole
// again at full.
func (p Pace) wait(full, now time.Time) time.Duration {
	return full.Add(-time.Duration(p.AtOnce-1) * p.Interval).Sub(now)
}

// origin returns the digest that tells networks apart in memory.
func origin(network string) Digest { return sha256.Sum256([]byte(network)) }
