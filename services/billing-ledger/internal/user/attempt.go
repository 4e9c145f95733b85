package user

import (
	"crypto/sha256"
	"time"

	"svc.internal/pkg/fault"
)

// Of the attempts of one e-mail, MaxAttempts from one network and MaxAttemptsAnywhere
// from all together may have failed, or be under way, within AttemptWindow. Whoever
// guesses from one network so shuts out nobody elsewhere.
const (
	MaxAttempts         = 10
	MaxAttemptsAnywhere = 100
	AttemptWindow       = 15 * time.Minute
)

// maxNetwork bounds what a gateway says of a network, in bytes.
const maxNetwork = 64

// Attempt is one attempt to sign in with an e-mail.
type Attempt struct {
	At time.Time
	// Network is the digest of what the gateway says of where it comes from.
	Network Digest
}

// networkOf is what attempts from a network are counted by. Whose network is not
// known shares one with all such.
func networkOf(text string) (Digest, error) {
	if len(text) > maxNetwork {
		return Digest{}, invalid("network", "must have at most %d bytes", maxNetwork)
	}
	return sha256.Sum256([]byte(text)), nil
}

// Try adds an attempt to those that were made, oldest first, if there is room for
// it. It is counted before anything is compared, so that attempts side by side
// are no more than the bounds either.
func Try(made []Attempt, next Attempt) (counting []Attempt, err error) {
	var near []Attempt // from the same network
	for _, one := range made {
		if !one.At.After(next.At.Add(-AttemptWindow)) {
			continue
		}
		counting = append(counting, one)
		if one.Network == next.Network {
			near = append(near, one)
		}
	}
	if wait := max(full(near, MaxAttempts, next.At), full(counting, MaxAttemptsAnywhere, next.At)); wait > 0 {
		return nil, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"too many attempts to sign in with this e-mail failed; try again later").After(wait)
	}
	return append(counting, next), nil
}

// full is how long it takes until fewer than most of some attempts count.
func full(made []Attempt, most int, now time.Time) time.Duration {
	if len(made) < most {
		return 0
	}
	return made[len(made)-most].At.Add(AttemptWindow).Sub(now)
}
