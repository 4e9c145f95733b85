package journal

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
)

// MaxPayload is the largest payload, in bytes, that a record may carry.
const MaxPayload = 64 << 10

// Layout of a record, little endian:
//
//	payload length u32 | kind u8 | request [16] | attempt u32 | time i64 (Unix ns) | payload | CRC-32C u32
//
// The checksum covers the segment's number and the record's offset, which are
// not stored, and then every byte before it. A record therefore verifies only
// where it was written: neither a stale block of another file nor a payload
// that happens to look like a record can be taken for one.
const (
	lengthAt       = 0
	kindAt         = 4
	requestAt      = 5
	attemptAt      = 21
	timeAt         = 25
	payloadAt      = 33
	checksumSize   = 4
	recordOverhead = payloadAt + checksumSize
	progressSize   = 16
)

// Kind says what a record states about an attempt.
type Kind uint8

// The kinds of record. Their values are part of the disk format.
const (
	KindDispatch Kind = 1 // the request is about to leave for a provider
	KindCommit   Kind = 2 // the gateway has committed to this attempt
	KindProgress Kind = 3 // so much has been relayed so far
	KindFinal    Kind = 4 // the attempt's usage, not yet settled
	KindSettled  Kind = 5 // billing has settled the attempt
	KindVoid     Kind = 6 // the attempt ended with nothing billable
)

// String names the kind as operators know it.
func (k Kind) String() string {
	switch k {
	case KindDispatch:
		return "DISPATCH"
	case KindCommit:
		return "COMMIT"
	case KindProgress:
		return "PROGRESS"
	case KindFinal:
		return "FINAL"
	case KindSettled:
		return "SETTLED"
	case KindVoid:
		return "VOID"
	default:
		return fmt.Sprintf("KIND(%d)", uint8(k))
	}
}

// Key names one attempt to serve one request.
type Key struct {
	Request [16]byte // request id, a UUIDv7
	Attempt uint32   // number of the attempt within the request
}

// String prints the request id in hexadecimal, then the attempt's number.
func (k Key) String() string {
	return fmt.Sprintf("%s/%d", hex.EncodeToString(k.Request[:]), k.Attempt)
}

// Progress is how much of an answer has been relayed, counted from its start.
type Progress struct {
	Tokens uint64 // output tokens, by the hub's own count
	Bytes  uint64 // bytes of the answer
}

func (p Progress) encode() []byte {
	buf := make([]byte, 0, progressSize)
	buf = binary.LittleEndian.AppendUint64(buf, p.Tokens)
	return binary.LittleEndian.AppendUint64(buf, p.Bytes)
}

func decodeProgress(payload []byte) Progress {
	return Progress{
		Tokens: binary.LittleEndian.Uint64(payload),
		Bytes:  binary.LittleEndian.Uint64(payload[8:]),
	}
}

// record is one entry of a segment. A decoded payload aliases the input.
type record struct {
	kind    Kind
	key     Key
	at      int64 // Unix nanoseconds
	payload []byte
}

func recordSize(payload int) int64 { return int64(payload) + recordOverhead }

var (
	errShort    = errors.New("record is cut short")
	errShape    = errors.New("record is malformed")
	errChecksum = errors.New("record fails its checksum")
)

// checksummer makes CRC-32C sums bound to a position.
type checksummer struct{ table *crc32.Table }

func newChecksummer() checksummer {
	return checksummer{table: crc32.MakeTable(crc32.Castagnoli)}
}

func (c checksummer) plain(b []byte) uint32 { return crc32.Checksum(b, c.table) }

func (c checksummer) at(segment uint64, offset int64, b []byte) uint32 {
	var position [16]byte
	binary.LittleEndian.PutUint64(position[:], segment)
	binary.LittleEndian.PutUint64(position[8:], uint64(offset))
	return crc32.Update(crc32.Checksum(position[:], c.table), c.table, b)
}

// appendRecord adds to buf the encoding of r for its place in the segment.
func (c checksummer) appendRecord(buf []byte, segment uint64, offset int64, r record) []byte {
	start := len(buf)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(r.payload)))
	buf = append(buf, byte(r.kind))
	buf = append(buf, r.key.Request[:]...)
	buf = binary.LittleEndian.AppendUint32(buf, r.key.Attempt)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(r.at))
	buf = append(buf, r.payload...)
	return binary.LittleEndian.AppendUint32(buf, c.at(segment, offset, buf[start:]))
}

// decodeRecord reads the record that starts b, which lies at the offset of the
// segment, and returns its size in bytes.
func (c checksummer) decodeRecord(b []byte, segment uint64, offset int64) (record, int, error) {
	if len(b) < recordOverhead {
		return record{}, 0, errShort
	}
	length := binary.LittleEndian.Uint32(b[lengthAt:])
	kind := Kind(b[kindAt])
	if !validShape(kind, length) {
		return record{}, 0, errShape
	}
	end := payloadAt + int(length)
	if len(b) < end+checksumSize {
		return record{}, 0, errShort
	}
	if c.at(segment, offset, b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return record{}, 0, errChecksum
	}
	r := record{
		kind:    kind,
		at:      int64(binary.LittleEndian.Uint64(b[timeAt:])),
		payload: b[payloadAt:end:end],
	}
	copy(r.key.Request[:], b[requestAt:attemptAt])
	r.key.Attempt = binary.LittleEndian.Uint32(b[attemptAt:])
	return r, end + checksumSize, nil
}

func validShape(kind Kind, length uint32) bool {
	switch kind {
	case KindDispatch, KindFinal:
		return length <= MaxPayload
	case KindProgress:
		return length == progressSize
	case KindCommit, KindSettled, KindVoid:
		return length == 0
	default:
		return false
	}
}
