// Package workreceipt is a provider's signed statement of what it sent of one
// attempt's answer: the third evidence source of served work, beside the hub's journal
// and the gateway's count.
//
// What is signed (Ed25519) is this, numbers big-endian, texts and bytes behind
// their length in two bytes:
//
//	"svc provider receipt v1\n"
//	request id, 16 bytes   attempt, 4   provider id, 16   epoch, 8
//	model id, text
//	claimed, 1 (0 or 1)    claimed prompt and completion tokens, 8 each
//	sent tokens, 8         sent bytes, 8
//	complete, 1 (0 or 1)   end in Unix milliseconds, 8
//	proof, bytes
//
// The first line separates the domain: a key that signs other things too cannot
// be made to sign a receipt. A signature says that the holder of the key stands
// by the numbers, and nothing of whether they are true; that the attempt was
// the provider's at all is what the proof shows to hubs.
//
// Package agentwire/frame has receipts as messages.
//
// Bounds: a model id is 1 to 200 bytes, a proof 1 to 128, counts are at most
// 2^40.
package workreceipt

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"time"

	"svc.internal/pkg/ids"
)

// Bounds of a receipt.
const (
	MaxModel = 200
	MaxProof = 128
	MaxCount = 1 << 40
)

// domain begins the signed text. A change of the form needs another domain.
const domain = "svc provider receipt v1\n"

// Receipt is what a provider says that it sent.
type Receipt struct {
	Request  ids.RequestID
	Attempt  uint32
	Provider ids.ProviderID
	// Epoch is the epoch of the session on which the request arrived.
	Epoch int64
	Model string
	// Claimed reports whether the engine reported usage; the counts are that usage.
	Claimed                          bool
	ClaimedPrompt, ClaimedCompletion int64
	// SentTokens are completion tokens by the agent's count. SentBytes are the bytes of
	// their content.
	SentTokens, SentBytes int64
	Complete              bool
	// EndedAt is to the millisecond.
	EndedAt time.Time
	// Proof is the hub's proof, as it came with the request.
	Proof []byte
}

// Signed is a receipt with its signature.
type Signed struct {
	Receipt
	Signature [ed25519.SignatureSize]byte
}

// Key identifies a receipt.
type Key struct {
	Request ids.RequestID
	Attempt uint32
}

// Key returns the key of the receipt.
func (r Receipt) Key() Key { return Key{r.Request, r.Attempt} }

// ErrMalformed is the error for a receipt that no agent makes.
var ErrMalformed = errors.New("the receipt is malformed")

// ErrSignature is the error for a signature that is not the key's, or not of this
// receipt.
var ErrSignature = errors.New("the receipt's signature does not verify")

// Validate refuses a receipt that no agent makes.
func (r Receipt) Validate() error {
	switch {
	case r.Request.IsZero(), r.Provider.IsZero(), r.Attempt < 1, r.Attempt > 1<<30,
		r.Model == "", len(r.Model) > MaxModel, len(r.Proof) == 0, len(r.Proof) > MaxProof,
		!r.Claimed && (r.ClaimedPrompt != 0 || r.ClaimedCompletion != 0),
		r.EndedAt.UnixMilli() < 0, r.EndedAt.UnixMilli() > maxMilliseconds:
		return ErrMalformed
	}
	for _, n := range []int64{r.ClaimedPrompt, r.ClaimedCompletion, r.SentTokens, r.SentBytes} {
		if n < 0 || n > MaxCount {
			return ErrMalformed
		}
	}
	return nil
}

// maxMilliseconds is the year 9999.
const maxMilliseconds = 253_402_300_799_999

// Canonical returns the signed text.
func (r Receipt) Canonical() []byte {
	b := make([]byte, 0, len(domain)+110+len(r.Model)+len(r.Proof))
	b = append(b, domain...)
	b = append(b, r.Request[:]...)
	b = binary.BigEndian.AppendUint32(b, r.Attempt)
	b = append(b, r.Provider[:]...)
	b = number(b, r.Epoch)
	b = text(b, r.Model)
	b = truth(b, r.Claimed)
	for _, n := range []int64{r.ClaimedPrompt, r.ClaimedCompletion, r.SentTokens, r.SentBytes} {
		b = number(b, n)
	}
	b = truth(b, r.Complete)
	b = number(b, r.EndedAt.UnixMilli())
	return text(b, string(r.Proof))
}

func number(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func truth(b []byte, yes bool) []byte {
	if yes {
		return append(b, 1)
	}
	return append(b, 0)
}

// Sign signs a receipt, which must be valid.
func Sign(key ed25519.PrivateKey, r Receipt) Signed {
	return Signed{Receipt: r, Signature: [ed25519.SignatureSize]byte(ed25519.Sign(key, r.Canonical()))}
}

// Verify checks the receipt, and that the holder of key signed it.
func (s Signed) Verify(key ed25519.PublicKey) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, s.Canonical(), s.Signature[:]) {
		return ErrSignature
	}
	return nil
}
