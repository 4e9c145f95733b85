package keys

import (
	"fmt"
	"slices"
	"strings"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/policy"
)

// Ring has the keys by their names.
type Ring struct {
	named   map[policy.Key]Key
	deposit *Deposit
}

// NewRing returns a ring of keys. deposit may be nil. Each address belongs to one key, because
// nonces and caps belong to keys.
func NewRing(named map[policy.Key]Key, deposit *Deposit) (*Ring, error) {
	of := map[chain.Address]policy.Key{}
	for name, key := range named {
		if other, taken := of[key.Address()]; taken {
			return nil, fmt.Errorf("the keys %s and %s are one: %s", min(name, other), max(name, other), key.Address())
		}
		of[key.Address()] = name
	}
	return &Ring{named, deposit}, nil
}

// Find returns a key. Its fault is unknown_key. index is for the key deposit alone.
func (r *Ring) Find(name policy.Key, index uint32) (Key, error) {
	if name == policy.Deposit && r.deposit != nil {
		return r.deposit.At(index)
	}
	if key, ok := r.named[name]; ok {
		return key, nil
	}
	return nil, unknown(name)
}

// Xpub returns the extended public key of the deposit addresses. Its fault is unknown_key.
func (r *Ring) Xpub() (string, error) {
	if r.deposit == nil {
		return "", unknown(policy.Deposit)
	}
	return r.deposit.Xpub(), nil
}

func unknown(name policy.Key) error {
	return fault.New(fault.NotFound, fault.UnknownKey, "there is no key %.40q here", name).On("key")
}

// Named is a key's name and address.
type Named struct {
	Name    policy.Key
	Address chain.Address
}

// List returns the keys that have one address, by name.
func (r *Ring) List() []Named {
	var list []Named
	for name, key := range r.named {
		list = append(list, Named{name, key.Address()})
	}
	slices.SortFunc(list, func(a, b Named) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return list
}
