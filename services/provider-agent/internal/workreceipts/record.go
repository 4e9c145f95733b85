package workreceipts

import (
	"encoding/binary"
	"hash/crc32"

	"svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
)

// A record is its length and the CRC-32C of what follows, 4 bytes each, its kind, and its
// content: a receipt as it is sent, or the key of an acknowledged one. Numbers are
// big-endian.
const (
	recordHead = 8
	kindKept   = 1
	kindAcked  = 2
	ackSize    = 16 + 4
	// maxRecord bounds the kind and the content, in bytes.
	maxRecord = 1024
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is one line of the file.
type record struct {
	kept  *workreceipt.Signed // nil for an acknowledgement
	acked workreceipt.Key
}

func appendRecord(dst []byte, kind byte, content []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(1+len(content)))
	sum := crc32.Update(crc32.Checksum([]byte{kind}, castagnoli), castagnoli, content)
	dst = binary.BigEndian.AppendUint32(dst, sum)
	return append(append(dst, kind), content...)
}

func appendKept(dst []byte, s workreceipt.Signed) ([]byte, error) {
	content, err := frame.EncodeReceipt(s)
	if err != nil {
		return dst, err
	}
	return appendRecord(dst, kindKept, content), nil
}

func appendAcked(dst []byte, k workreceipt.Key) []byte {
	var content [ackSize]byte
	copy(content[:], k.Request[:])
	binary.BigEndian.PutUint32(content[16:], k.Attempt)
	return appendRecord(dst, kindAcked, content[:])
}

// parseRecord reads the first record of data and returns its size. size is 0 when data
// does not begin with a whole record, because a write was cut off or is damaged. ok is
// false for a whole record that this version does not know.
func parseRecord(data []byte) (r record, size int, ok bool) {
	if len(data) < recordHead {
		return record{}, 0, false
	}
	n := binary.BigEndian.Uint32(data)
	if n < 1 || n > maxRecord || len(data) < recordHead+int(n) {
		return record{}, 0, false
	}
	body := data[recordHead : recordHead+int(n)]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(data[4:]) {
		return record{}, 0, false
	}
	size = recordHead + int(n)
	switch content := body[1:]; body[0] {
	case kindAcked:
		if len(content) != ackSize {
			return record{}, size, false
		}
		return record{acked: workreceipt.Key{Request: ids.RequestID(content[:16]),
			Attempt: binary.BigEndian.Uint32(content[16:])}}, size, true
	case kindKept:
		s, err := frame.DecodeReceipt(content)
		return record{kept: &s}, size, err == nil
	default:
		return record{}, size, false
	}
}

// parse reads records up to the end of data or to bytes that are no record, and returns
// where that is.
func parse(data []byte, each func(record)) (end int) {
	for end < len(data) {
		r, size, ok := parseRecord(data[end:])
		if size == 0 {
			return end
		}
		if ok {
			each(r)
		}
		end += size
	}
	return end
}
