package calibration

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/quant"
)

// The binary form is canonical: each calibration has one, and Decode refuses all others.
//
//	"VCAL" version(2), or version(3) rules(1) for rules other than 0
//	text model | 32 bytes files | class(1) | text engine | text gpu | text family
//	u32 n | u32 hosts | u32 whole
//	u8 parts, f64 each
//	u8 ratios, each: text alternative | f64 mean | f64 variance | u32 n
//	class(1) | u32 exceeded | u32 n
//
// Numbers are big-endian, f64 are IEEE 754 bits, texts are a u8 length and UTF-8. Families
// and alternatives are written by name.
const (
	magic   = "VCAL"
	version = 2
	// versionWithRules has the rules behind it.
	versionWithRules = 3
	// MaxBinary bounds the binary form.
	MaxBinary = 16 << 10
)

// ErrBinary is the error for bytes that are no calibration.
var ErrBinary = errors.New("bytes are no calibration")

// Hash is the SHA-256 of a calibration's binary form.
type Hash [sha256.Size]byte

// Hash returns the hash that evidence names. It fails as Encode does.
func (c Calibration) Hash() (Hash, error) {
	b, err := c.Encode()
	if err != nil {
		return Hash{}, err
	}
	return sha256.Sum256(b), nil
}

// Encode returns the binary form. It fails with ErrData for a calibration beyond the
// bounds.
func (c Calibration) Encode() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	b := append([]byte(magic), version)
	if c.Rules > 0 {
		b = append([]byte(magic), versionWithRules, byte(c.Rules))
	}
	b = appendText(b, c.Stratum.Model)
	b = append(b, c.Stratum.Files[:]...)
	b = append(b, byte(c.Stratum.Class))
	b = appendText(b, c.Stratum.Engine)
	b = appendText(b, c.Stratum.GPU)
	b = appendText(b, c.Family.String())
	b = binary.BigEndian.AppendUint32(b, uint32(c.N))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Hosts))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Whole))
	b = append(b, byte(len(c.Largest)))
	for _, x := range c.Largest {
		b = appendFloat(b, x)
	}
	b = append(b, byte(len(c.Ratios)))
	for _, m := range c.Ratios {
		b = appendText(b, m.Alternative.String())
		b = appendFloat(appendFloat(b, m.Mean), m.Variance)
		b = binary.BigEndian.AppendUint32(b, uint32(m.N))
	}
	b = append(b, byte(c.Power.Class))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Power.Exceeded))
	return binary.BigEndian.AppendUint32(b, uint32(c.Power.N)), nil
}

func appendText(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }

func appendFloat(b []byte, x float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(x))
}

// Decode reads a binary form. It fails with ErrBinary for all bytes that Encode does not
// write.
func Decode(b []byte) (Calibration, error) {
	if len(b) > MaxBinary {
		return Calibration{}, fmt.Errorf("%w: %d bytes", ErrBinary, len(b))
	}
	r := reader{rest: b}
	var c Calibration
	switch string(r.take(len(magic) + 1)) {
	case magic + string(rune(version)):
	case magic + string(rune(versionWithRules)):
		c.Rules = int(r.byte())
		r.failed = r.failed || c.Rules == 0
	default:
		return Calibration{}, fmt.Errorf("%w: not version %d or %d", ErrBinary, version, versionWithRules)
	}
	c.Stratum.Model = r.text()
	copy(c.Stratum.Files[:], r.take(len(c.Stratum.Files)))
	c.Stratum.Class = quant.Class(r.byte())
	c.Stratum.Engine, c.Stratum.GPU, c.Family = r.text(), r.text(), r.family()
	c.N, c.Hosts, c.Whole = r.count(), r.count(), r.count()
	for range min(r.byte(), MaxParts+1) {
		c.Largest = append(c.Largest, r.float())
	}
	for range min(r.byte(), evidence.Alternatives+1) {
		c.Ratios = append(c.Ratios, Moments{Alternative: r.alternative(), Mean: r.float(), Variance: r.float(), N: r.count()})
	}
	c.Power = Power{Class: quant.Class(r.byte()), Exceeded: r.count(), N: r.count()}
	if r.failed || len(r.rest) != 0 {
		return Calibration{}, fmt.Errorf("%w: a wrong length or an unknown name", ErrBinary)
	}
	if err := c.check(); err != nil {
		return Calibration{}, fmt.Errorf("%w: %w", ErrBinary, err)
	}
	return c, nil
}

// reader takes bytes from the front. After the end it gives zeros and failed is true, as it
// is after a name that is none.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.rest, r.failed = nil, true
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) text() string   { return string(r.take(int(r.byte()))) }
func (r *reader) count() int     { return int(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) float() float64 { return math.Float64frombits(binary.BigEndian.Uint64(r.take(8))) }

func (r *reader) family() evidence.Family {
	f, err := evidence.ParseFamily(r.text())
	r.failed = r.failed || err != nil
	return f
}

func (r *reader) alternative() evidence.Alternative {
	g, err := evidence.ParseAlternative(r.text())
	r.failed = r.failed || err != nil
	return g
}
