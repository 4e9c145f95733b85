// Package development says which addresses the chain-signer's development keys have, for
// whoever sets up a development chain. It is apart from package signer, so that such a
// program links neither a client of KMS nor a library of chains.
package development

import (
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/keys/seed"
	"svc.internal/services/settlement/signer/internal/policy"
)

// Addresses returns the addresses of the development keys of a seed's file, by the names of
// the keys. It makes the file where it is missing. The key deposit has no one address.
func Addresses(seedFile string) (map[string]chain.Address, error) {
	secret, err := seed.Open(seedFile)
	if err != nil {
		return nil, err
	}
	addresses := map[string]chain.Address{}
	for _, name := range policy.Keys() {
		if name == policy.Deposit {
			continue
		}
		if addresses[string(name)], err = secret.Address(string(name)); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}
