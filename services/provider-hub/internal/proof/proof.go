// Package proof shows, long after an attempt, that a hub of this fleet gave the attempt
// to a provider. The attempt carries a proof, and the provider's work receipt repeats it.
// Any hub with the fleet's secret knows a genuine proof from a made-up one, even where
// the journal that knew of the attempt is lost.
//
// A proof is a byte for the version, the name of the dispatching hub and the price
// version, each behind its length in one byte, and an HMAC-SHA-256 over both and over
// request, attempt, provider, epoch and model. So a provider that knows of a request, but
// was not given it, has nothing to show. OPEN of chat carries a proof, because agents
// make work receipts for chat alone.
//
// A work receipt whose proof no hub knows is refused for good. To change the secret, so
// that no hub meets a proof that it cannot know: first give every hub the new secret as
// SVC_HUB_WORK_RECEIPT_SECRET_PREVIOUS, and restart them; then swap the two secrets on
// every hub, and restart them; a week later, when no agent keeps receipts of the old
// secret, remove the previous one. The word pepper stands for the secret that is derived
// from the pepper: it is the previous one in the second step of a fleet that sets a
// secret for the first time.
package proof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/mac"
	"svc.internal/pkg/workreceipt"
)

const (
	version = 1
	domain  = "svc dispatch proof v1\n"
	// maxText bounds the name of a hub and of a price version, in bytes.
	maxText = 40
)

// Secret is shared by the hubs of a fleet: 32 bytes. It prints as redacted.
type Secret [sha256.Size]byte

// Derive makes the secret of proofs from another secret. The derived secret says nothing
// of the other.
func Derive(from []byte) Secret {
	of := hmac.New(sha256.New, from)
	of.Write([]byte("svc.internal/services/provider-hub: secret of dispatch proofs"))
	return Secret(of.Sum(nil))
}

// String hides the secret.
func (Secret) String() string { return "[redacted]" }

// GoString hides the secret.
func (Secret) GoString() string { return "[redacted]" }

// Secrets are the secrets whose proofs a hub accepts. It issues with Current. Previous is
// nil unless the fleet changes its secret.
type Secrets struct {
	Current  Secret
	Previous *Secret
}

// Issue makes the proof of an attempt; see Secret.Issue.
func (s Secrets) Issue(a Attempt, d Dispatch) []byte { return s.Current.Issue(a, d) }

// Check reads a proof under either secret; see Secret.Check.
func (s Secrets) Check(proof []byte, a Attempt) (Dispatch, bool) {
	d, ok := s.Current.Check(proof, a)
	if !ok && s.Previous != nil {
		d, ok = s.Previous.Check(proof, a)
	}
	return d, ok
}

// Attempt is what a proof is for.
type Attempt struct {
	Request  ids.RequestID
	Attempt  uint32
	Provider ids.ProviderID
	Epoch    int64
	Model    string
}

// Dispatch is what a proof says of its attempt's dispatch.
type Dispatch struct{ Hub, PriceVersion string }

// Issue makes the proof of an attempt. It returns nil for names that are longer than any
// of ours.
func (s Secret) Issue(a Attempt, d Dispatch) []byte {
	if len(d.Hub) > maxText || len(d.PriceVersion) > maxText || len(a.Model) > workreceipt.MaxModel {
		return nil
	}
	out := make([]byte, 0, 3+len(d.Hub)+len(d.PriceVersion)+sha256.Size)
	out = append(out, version)
	out = append(append(out, byte(len(d.Hub))), d.Hub...)
	out = append(append(out, byte(len(d.PriceVersion))), d.PriceVersion...)
	return s.sum(out, out, a)
}

// macs are under the one or two secrets of the fleet.
var macs mac.Pool

// sum appends the HMAC over the head of a proof and its attempt.
func (s Secret) sum(dst, head []byte, a Attempt) []byte {
	m := macs.Get((*mac.Key)(&s))
	defer macs.Put(m)
	b := append(append(m.Buf, domain...), head...)
	b = append(append(b, a.Request[:]...), a.Provider[:]...)
	b = binary.BigEndian.AppendUint32(b, a.Attempt)
	b = binary.BigEndian.AppendUint64(b, uint64(a.Epoch))
	b = binary.BigEndian.AppendUint16(b, uint16(len(a.Model)))
	m.Buf = append(b, a.Model...)
	return m.Append(dst, m.Buf)
}

// Check reads a proof, and reports whether it is genuine and of this attempt.
func (s Secret) Check(proof []byte, a Attempt) (Dispatch, bool) {
	d, head, ok := parse(proof)
	if !ok || !hmac.Equal(s.sum(nil, head, a), proof[len(head):]) {
		return Dispatch{}, false
	}
	return d, true
}

// parse reads the head of a proof.
func parse(proof []byte) (d Dispatch, head []byte, ok bool) {
	if len(proof) == 0 || proof[0] != version {
		return Dispatch{}, nil, false
	}
	rest := proof[1:]
	for _, text := range []*string{&d.Hub, &d.PriceVersion} {
		if len(rest) == 0 || rest[0] > maxText || len(rest) <= int(rest[0]) {
			return Dispatch{}, nil, false
		}
		n := int(rest[0])
		*text, rest = string(rest[1:1+n]), rest[1+n:]
	}
	if len(rest) != sha256.Size {
		return Dispatch{}, nil, false
	}
	return d, proof[:len(proof)-len(rest)], true
}
