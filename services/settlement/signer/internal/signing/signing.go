// Package signing is what the chain-signer does: it holds what it is asked for against its
// policy and its record, and then signs it with a key.
//
// The order is the rule. A transaction's nonce is recorded, and the record committed, before
// its key is used; a process that dies between the two has promised a content that it will
// sign again and no other. A signature that does not recover to the key's address is
// never handed out.
package signing

import (
	"context"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/evm"
	"svc.internal/services/settlement/signer/internal/keys"
	"svc.internal/services/settlement/signer/internal/policy"
	"svc.internal/services/settlement/signer/internal/record"
)

// Signer signs.
type Signer struct {
	Policy *policy.Policy
	Ring   *keys.Ring
	Store  record.Store
}

// Signed is a signed transaction.
type Signed struct {
	Raw            []byte
	Hash, CallHash chain.Hash
	Sender         chain.Address
}

// Transaction signs a transaction. Its sender is the key's; index is for the key deposit
// alone. The faults are those of SignTransaction in the contract.
func (s *Signer) Transaction(ctx context.Context, t policy.Transaction, index uint32) (Signed, error) {
	key, err := s.Ring.Find(t.Key, index)
	if err != nil {
		return Signed{}, err
	}
	t.Sender = key.Address()
	if t.Cancel {
		t.To = t.Sender
	}
	use, err := s.Policy.Check(t)
	if err != nil {
		return Signed{}, err
	}
	hash := record.CallHash(t)
	err = s.Store.Record(ctx, t, use, hash, func(before record.History) (record.Entry, error) {
		return record.Decide(t, use, hash, before)
	})
	if err != nil {
		return Signed{}, err
	}
	crash.At("signer.nonce.committed")
	unsigned := evm.Compose(t)
	signature, err := sign(ctx, key, unsigned.Digest())
	if err != nil {
		return Signed{}, err
	}
	signed := Signed{CallHash: hash, Sender: t.Sender}
	signed.Raw, signed.Hash, err = unsigned.Sign(signature)
	return signed, err
}

// Statement signs a daily statement, and returns whose signature it is.
func (s *Signer) Statement(ctx context.Context, statement evm.Statement) (evm.Signature, chain.Address, error) {
	key, err := s.Ring.Find(policy.Statement, 0)
	if err != nil {
		return evm.Signature{}, chain.Address{}, err
	}
	signature, err := sign(ctx, key, statement.Digest())
	return signature, key.Address(), err
}

// Sweep is the part of a sweep that the caller chooses.
type Sweep struct {
	Chain chain.ID
	Token chain.Address
	Index uint32
	Value chain.Amount
	// ValidAfter and ValidBefore are in seconds of Unix time.
	ValidAfter, ValidBefore uint64
	Nonce                   [32]byte
}

// Sweep authorizes the transfer of a token from a deposit address to the treasury, and
// returns that address.
func (s *Signer) Sweep(ctx context.Context, w Sweep) (evm.Signature, chain.Address, error) {
	token, treasury, err := s.Policy.Sweep(w.Chain, w.Token)
	if err != nil {
		return evm.Signature{}, chain.Address{}, err
	}
	key, err := s.Ring.Find(policy.Deposit, w.Index)
	if err != nil {
		return evm.Signature{}, chain.Address{}, err
	}
	signature, err := sign(ctx, key, evm.Authorization{
		Chain: w.Chain, Token: token.Address, Name: token.Name, Version: token.Version, From: key.Address(), To: treasury,
		Value: w.Value, ValidAfter: w.ValidAfter, ValidBefore: w.ValidBefore, Nonce: w.Nonce,
	}.Digest())
	return signature, key.Address(), err
}

// Next returns a key's address, and the nonce above the highest that was signed with it for a
// chain.
func (s *Signer) Next(ctx context.Context, id chain.ID, name policy.Key, index uint32) (chain.Address, uint64, error) {
	c, err := s.Policy.Chain(id)
	if err != nil {
		return chain.Address{}, 0, err
	}
	key, err := s.Ring.Find(name, index)
	if err != nil {
		return chain.Address{}, 0, err
	}
	highest, signed, err := s.Store.Highest(ctx, id, key.Address())
	if err != nil {
		return chain.Address{}, 0, err
	}
	return key.Address(), record.History{Any: signed, Highest: highest}.Next(c.First[name]), nil
}

// Senders lists the senders of a chain behind an address; more reports that there are others.
func (s *Signer) Senders(
	ctx context.Context, id chain.ID, after chain.Address,
) (list []record.Sender, more bool, err error) {
	if _, err := s.Policy.Chain(id); err != nil {
		return nil, false, err
	}
	list, err = s.Store.Senders(ctx, id, after, record.MaxPage+1)
	return list[:min(len(list), record.MaxPage)], len(list) > record.MaxPage, err
}

// Signed lists what is on record of a sender's nonces from one on; more reports that there are others.
func (s *Signer) Signed(
	ctx context.Context, id chain.ID, sender chain.Address, from uint64,
) (list []record.Signed, more bool, err error) {
	if _, err := s.Policy.Chain(id); err != nil {
		return nil, false, err
	}
	list, err = s.Store.Signed(ctx, id, sender, from, record.MaxPage+1)
	return list[:min(len(list), record.MaxPage)], len(list) > record.MaxPage, err
}

// sign uses a key, and holds the signature against the key's address.
func sign(ctx context.Context, key keys.Key, digest evm.Digest) (evm.Signature, error) {
	raw, err := key.Sign(ctx, digest)
	if err != nil {
		return evm.Signature{}, fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "the key does not sign now")
	}
	signature := evm.Signature(raw)
	if !evm.Signed(digest, signature, key.Address()) {
		return evm.Signature{}, fault.New(fault.Internal, fault.InternalError,
			"the signature is not that of the key's address")
	}
	return signature, nil
}
