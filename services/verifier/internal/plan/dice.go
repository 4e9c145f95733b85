package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
)

// secret derives everything that is random. What is derived can be computed again, and
// nobody without the secret can foresee it.
type secret prompt.Secret

// derive returns 32 bytes for a purpose, an offer and a number, such as that of an hour.
func (s secret) derive(purpose string, o probe.Offer, number int64) [32]byte {
	mac := hmac.New(sha256.New, s[:])
	mac.Write([]byte("svc plan v1 " + purpose + "\x00"))
	mac.Write(o.Provider[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(number)))
	mac.Write([]byte(o.Model))
	return [32]byte(mac.Sum(nil))
}

// dice returns the choices of a purpose. Its algorithm is fixed by the Go library for all
// versions.
func (s secret) dice(purpose string, o probe.Offer, number int64) *rand.Rand {
	return rand.New(rand.NewChaCha8(s.derive(purpose, o, number))) //nolint:gosec // ChaCha8 under a secret
}

// id returns the id of a probe of an hour: the same whenever the hour is planned, so that
// two replicas that plan it make one probe.
func (s secret) id(o probe.Offer, name string, hour time.Time) probe.ID {
	sum := s.derive("id "+name, o, hour.Unix())
	var id probe.ID
	copy(id[6:], sum[:])
	ms := uint64(hour.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// positive returns a number drawn evenly from (0, 1].
func positive(d *rand.Rand) float64 { return 1 - d.Float64() }
