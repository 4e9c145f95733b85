package plan

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
)

// secret derives everything that is random (package dice).
type secret prompt.Secret

func (s secret) parts(o probe.Offer, number int64) [][]byte {
	return [][]byte{o.Provider[:], []byte(o.Model), binary.BigEndian.AppendUint64(nil, uint64(number))}
}

// dice returns the choices of a purpose for an offer and a number, such as that of an hour.
func (s secret) dice(purpose string, o probe.Offer, number int64) *rand.Rand {
	return dice.New(prompt.Secret(s), "plan "+purpose, s.parts(o, number)...)
}

// id returns the id of a probe of an hour: the same whenever the hour is planned, so that
// two replicas that plan it make one probe.
func (s secret) id(o probe.Offer, name string, hour time.Time) probe.ID {
	return derived(hour, dice.Bytes(prompt.Secret(s), "plan id "+name, s.parts(o, hour.Unix())...))
}

// derived returns an id, a UUID of version 7, of a time and of bytes that nobody foresees.
func derived(at time.Time, random [32]byte) probe.ID {
	var id probe.ID
	copy(id[6:], random[:])
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// positive returns a number drawn evenly from (0, 1].
func positive(d *rand.Rand) float64 { return 1 - d.Float64() }
