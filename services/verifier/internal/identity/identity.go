// Package identity tells which accounts are of one person.
//
// Hubs say in presence by what an account is known, as opaque digests: its user, its proven
// wallet, its payout address, and the key with which a node signs its work receipts. The
// first three make one owner of several accounts, wherever owners are counted. The key does
// not, because nobody proves that it is theirs.
package identity

import (
	"bytes"
	"slices"

	"svc.internal/pkg/ids"
)

// Size is the length of an identity: a byte for the kind, and a digest.
const Size = 17

// MaxOfSession bounds the identities of a session.
const MaxOfSession = 8

// Kind is by what an account is known, as events.v1.Session has it.
type Kind byte

// The kinds.
const (
	User       Kind = 1
	Wallet     Kind = 2
	Payout     Kind = 3
	ReceiptKey Kind = 4
)

// Identity is one thing by which an account is known.
type Identity [Size]byte

// Parse reads an identity, and reports whether its length and kind are right.
func Parse(b []byte) (Identity, bool) {
	if len(b) != Size {
		return Identity{}, false
	}
	id := Identity(b)
	return id, id.Kind() >= User && id.Kind() <= ReceiptKey
}

// Kind returns by what the account is known.
func (i Identity) Kind() Kind { return Kind(i[0]) }

// Digest returns the digest.
func (i Identity) Digest() [Size - 1]byte { return [Size - 1]byte(i[1:]) }

// owns reports whether accounts that share the identity have one owner.
func (i Identity) owns() bool { return i.Kind() != ReceiptKey }

// Set returns the identities in order and each once, at most limit.
func Set(all []Identity, limit int) []Identity {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Identity) int { return bytes.Compare(a[:], b[:]) })
	all = slices.Compact(all)
	return slices.Clip(all[:min(len(all), limit)])
}

// Owners counts the owners of accounts. The zero value has no accounts. It is not safe for
// concurrent use.
type Owners struct {
	above  map[ids.ProviderID]ids.ProviderID
	shared map[Identity]ids.ProviderID
}

// Add adds an account with identities. An account may be added several times.
func (o *Owners) Add(account ids.ProviderID, known ...Identity) {
	if o.above == nil {
		o.above, o.shared = map[ids.ProviderID]ids.ProviderID{}, map[Identity]ids.ProviderID{}
	}
	if _, there := o.above[account]; !there {
		o.above[account] = account
	}
	for _, one := range known {
		if !one.owns() {
			continue
		}
		if other, there := o.shared[one]; there {
			o.join(account, other)
		} else {
			o.shared[one] = account
		}
	}
}

// join makes one owner of two. The account with the first id stands for it, so that the
// order of calls does not matter.
func (o *Owners) join(a, b ids.ProviderID) {
	a, b = o.Of(a), o.Of(b)
	if slices.Compare(a[:], b[:]) > 0 {
		a, b = b, a
	}
	if a != b {
		o.above[b] = a
	}
}

// Of returns the account that stands for an account's owner: the account itself where
// nothing is known of it.
func (o *Owners) Of(account ids.ProviderID) ids.ProviderID {
	top := account
	for {
		above, there := o.above[top]
		if !there || above == top {
			break
		}
		top = above
	}
	for account != top { // the next call is shorter
		next := o.above[account]
		o.above[account] = top
		account = next
	}
	return top
}

// Len returns the number of owners of the accounts that were added.
func (o *Owners) Len() int {
	n := 0
	for account, above := range o.above {
		if account == above {
			n++
		}
	}
	return n
}
