package workreceipt

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"svc.internal/pkg/ids"
)

func sample() Receipt {
	return Receipt{
		Request: ids.RequestID{1, 15: 2}, Attempt: 3, Provider: ids.ProviderID{4}, Epoch: 5, Model: "acme/tiny",
		Claimed: true, ClaimedPrompt: 6, ClaimedCompletion: 7, SentTokens: 8, SentBytes: 90, Complete: true,
		EndedAt: time.UnixMilli(1_790_000_000_123).UTC(), Proof: []byte("proof"),
	}
}

func testKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func TestASignatureCoversEveryField(t *testing.T) {
	key := testKey(1)
	signed := Sign(key, sample())
	if err := signed.Verify(public(key)); err != nil {
		t.Fatal(err)
	}
	if err := signed.Verify(public(testKey(2))); !errors.Is(err, ErrSignature) {
		t.Errorf("under another key: got the error %v, want %v", err, ErrSignature)
	}
	if err := signed.Verify(nil); !errors.Is(err, ErrSignature) {
		t.Errorf("without a key: got the error %v, want %v", err, ErrSignature)
	}
	for name, change := range map[string]func(*Signed){
		"request": func(s *Signed) { s.Request[3]++ }, "attempt": func(s *Signed) { s.Attempt++ },
		"provider": func(s *Signed) { s.Provider[3]++ }, "epoch": func(s *Signed) { s.Epoch++ },
		"model": func(s *Signed) { s.Model += "x" }, "claimed prompt": func(s *Signed) { s.ClaimedPrompt++ },
		"claimed completion": func(s *Signed) { s.ClaimedCompletion++ },
		"no claim":           func(s *Signed) { s.Claimed, s.ClaimedPrompt, s.ClaimedCompletion = false, 0, 0 },
		"tokens":             func(s *Signed) { s.SentTokens++ }, "bytes": func(s *Signed) { s.SentBytes++ },
		"complete":   func(s *Signed) { s.Complete = false },
		"end":        func(s *Signed) { s.EndedAt = s.EndedAt.Add(time.Millisecond) },
		"proof":      func(s *Signed) { s.Proof = []byte("proog") },
		"moved text": func(s *Signed) { s.Model, s.Proof = "acme/tin", []byte("yproof") },
		"signature":  func(s *Signed) { s.Signature[9]++ },
	} {
		altered := signed
		change(&altered)
		if err := altered.Verify(public(key)); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: got the error %v, want %v", name, err, ErrSignature)
		}
	}
}

func TestAReceiptOutOfBoundsIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Receipt){
		"no request":  func(r *Receipt) { r.Request = ids.RequestID{} },
		"no provider": func(r *Receipt) { r.Provider = ids.ProviderID{} },
		"attempt 0":   func(r *Receipt) { r.Attempt = 0 }, "huge attempt": func(r *Receipt) { r.Attempt = 1 << 31 },
		"no model":           func(r *Receipt) { r.Model = "" },
		"long model":         func(r *Receipt) { r.Model = string(make([]byte, MaxModel+1)) },
		"no proof":           func(r *Receipt) { r.Proof = nil },
		"long proof":         func(r *Receipt) { r.Proof = make([]byte, MaxProof+1) },
		"tokens below zero":  func(r *Receipt) { r.SentTokens = -1 },
		"tokens that wrap":   func(r *Receipt) { r.SentTokens = MaxCount + 1 },
		"bytes below zero":   func(r *Receipt) { r.SentBytes = -1 },
		"claim below zero":   func(r *Receipt) { r.ClaimedPrompt = -1 },
		"counts of no claim": func(r *Receipt) { r.Claimed = false },
		"before time":        func(r *Receipt) { r.EndedAt = time.UnixMilli(-1) },
		"after time":         func(r *Receipt) { r.EndedAt = time.UnixMilli(maxMilliseconds + 1) },
	} {
		r := sample()
		change(&r)
		if err := Sign(testKey(1), r).Verify(public(testKey(1))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got the error %v, want %v", name, err, ErrMalformed)
		}
	}
}
