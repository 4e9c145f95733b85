package user

import (
	"crypto/sha256"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
)

// Pace is a rate by the generic cell rate algorithm: AtOnce attempts at once, and
// then one more each Every. Nobody waits for longer than Every, unless others
// take what becomes free.
type Pace struct {
	AtOnce   int
	Interval time.Duration
}

// The paces of attempts to sign in with one e-mail that fail, or are under way. One
// network has NetworkPace. Strangers, which are the networks that the e-mail's user
// has not signed in from, have StrangersPace together besides.
//
// So one network tries 2,170 passwords in its first day and 2,160 in each further
// one, and all strangers together 2,500 and 2,400: of the 2^40 values of a password
// with 40 random bits 8 in 10^7 within a year. Every known network adds as much as
// one network may try; all of them make it 7 in 10^6.
var (
	NetworkPace   = Pace{AtOnce: 10, Interval: 40 * time.Second}
	StrangersPace = Pace{AtOnce: 100, Interval: 36 * time.Second}
)

// Of the networks that a user has signed in from, the last MaxNetworks are known,
// each for NetworkKept after its last sign-in.
const (
	MaxNetworks = 8
	NetworkKept = 30 * 24 * time.Hour
)

// maxNetwork bounds what a gateway says of a network, in bytes.
const maxNetwork = 64

// Strangers is what attempts of strangers are counted under together. It is no
// digest of a network.
var Strangers Digest

// Attempt is one attempt to sign in with an e-mail, as it was counted.
type Attempt struct {
	// Network is the mark of the network that the attempt comes from.
	Network Digest
	// Known reports whether the e-mail's user has signed in from there before.
	Known bool
}

// Counts are when all that a pace has at once is free again. The zero time is long
// past.
type Counts struct{ Network, Strangers time.Time }

// Room refuses an attempt that finds no room at a moment, with the time until
// there is some.
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

// wait is how long there is no room for one more, when all of the pace is free at
// full.
func (p Pace) wait(full, now time.Time) time.Duration {
	return full.Add(-time.Duration(p.AtOnce-1) * p.Interval).Sub(now)
}

// checkNetwork refuses what no gateway says of a network. Callers whose network is
// not known share the empty one.
func checkNetwork(network string) error {
	if len(network) > maxNetwork {
		return invalid("network", "must have at most %d bytes", maxNetwork)
	}
	return nil
}

// markPurpose keeps marks apart from all else that is hashed under the pepper.
const markPurpose = "sign-in network "

// mark is what a network is remembered by for one e-mail. Under the pepper nobody
// who reads the store learns an address, or that two users share a network.
func (u *Users) mark(e Email, network string) Digest {
	return Digest(u.Pepper.Hash(apikey.Sum(markPurpose + string(e) + " " + network)))
}

// origin is what the calls of a network are told apart by in memory.
func origin(network string) Digest { return sha256.Sum256([]byte(network)) }
