package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Fingerprint names a pepper and says nothing else of it.
type Fingerprint [8]byte

// fingerprintPurpose keeps fingerprints apart from everything else that is hashed under a pepper.
const fingerprintPurpose = "svc fingerprint of a pepper v1"

// Fingerprint returns the name of the pepper.
func (p Pepper) Fingerprint() Fingerprint {
	mac := hmac.New(sha256.New, p[:])
	mac.Write([]byte(fingerprintPurpose))
	return Fingerprint(mac.Sum(nil))
}

// Number is the place of a pepper in the order in which a store met its peppers. The first has 1.
type Number int16

// Stored is a hash with the number of its pepper, as stores keep them.
type Stored struct {
	Hash   Hash
	Pepper Number
}

// Peppers are the peppers that a service accepts: one, or two while the installation changes its
// pepper. New hashes are made with the current pepper.
type Peppers struct{ current, previous numbered }

type numbered struct {
	pepper Pepper
	number Number
}

// Only returns peppers with one pepper, the first of its store.
func Only(p Pepper) Peppers { return Numbered(p, 1, Pepper{}, 0) }

// Numbered returns peppers with their numbers. A zero previous pepper is none.
func Numbered(current Pepper, number Number, previous Pepper, previousNumber Number) Peppers {
	return Peppers{numbered{current, number}, numbered{previous, previousNumber}}
}

// Current returns the pepper of new hashes.
func (p Peppers) Current() Pepper { return p.current.pepper }

// CurrentNumber returns the number of the current pepper.
func (p Peppers) CurrentNumber() Number { return p.current.number }

// Each calls fn with one or two peppers, the current one first, until fn returns false.
func (p Peppers) Each(fn func(Pepper, Number) bool) {
	if fn(p.current.pepper, p.current.number) && !p.previous.pepper.IsZero() {
		fn(p.previous.pepper, p.previous.number)
	}
}

// Hash returns the peppered form of a digest under the current pepper.
func (p Peppers) Hash(d Digest) Stored { return Stored{p.current.pepper.Hash(d), p.current.number} }

// Hashes returns the forms under which a digest may be stored: one or two.
func (p Peppers) Hashes(d Digest) [][]byte {
	all := make([][]byte, 0, 2)
	for pepper := range p.Each {
		hash := pepper.Hash(d)
		all = append(all, hash[:])
	}
	return all
}

// Renewed returns the form that takes the place of a stored one, and whether there is one. A form of
// a newer pepper stays: while replicas are restarted one after the other, those with the older
// pepper must not undo what those with the newer one have renewed.
func (p Peppers) Renewed(d Digest, kept Stored) (Stored, bool) {
	if p.current.number <= kept.Pepper {
		return Stored{}, false
	}
	return p.Hash(d), true
}

// String hides the peppers.
func (Peppers) String() string { return "[redacted]" }

// GoString hides the peppers.
func (Peppers) GoString() string { return "[redacted]" }
