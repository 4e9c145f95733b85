package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Layout of a segment's header, little endian:
//
//	magic [8] | version u32 | segment number u64 | CRC-32C of the above u32
const (
	magic         = "HUBJRNL\n"
	formatVersion = 1
	headerSize    = 24
	segmentSuffix = ".seg"
)

// segment is one file of the journal, as the index knows it. The journal's
// mutex guards it.
type segment struct {
	number uint64
	size   int64 // bytes, with what is queued and not yet written
	live   list  // attempts whose one needed record lies here
}

func newSegment(number uint64, size int64) *segment {
	return &segment{number: number, size: size, live: list{which: bySegment}}
}

func (s *segment) name() string { return segmentName(s.number) }

func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

// parseSegmentName returns the number of a segment's file. Files with other names in the
// folder are left alone.
func parseSegmentName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, err == nil && segmentName(number) == name
}

func (c checksummer) appendHeader(buf []byte, number uint64) []byte {
	start := len(buf)
	buf = append(buf, magic...)
	buf = binary.LittleEndian.AppendUint32(buf, formatVersion)
	buf = binary.LittleEndian.AppendUint64(buf, number)
	return binary.LittleEndian.AppendUint32(buf, c.plain(buf[start:]))
}

var errHeader = errors.New("segment header is damaged")

// checkHeader returns errHeader for a damaged header, and any other error for a sound
// header that this version must not touch.
func (c checksummer) checkHeader(b []byte, number uint64) error {
	if len(b) < headerSize || string(b[:len(magic)]) != magic ||
		c.plain(b[:headerSize-4]) != binary.LittleEndian.Uint32(b[headerSize-4:]) {
		return errHeader
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return fmt.Errorf("segment %d has format version %d, this build reads %d", number, v, formatVersion)
	}
	if n := binary.LittleEndian.Uint64(b[12:]); n != number {
		return fmt.Errorf("segment %d says in its header that it is segment %d", number, n)
	}
	return nil
}

// gap is a range of bytes of a segment in which no record verifies.
type gap struct{ from, to int64 }

// scan calls visit for each record of a segment that verifies, in order, and returns the
// gaps between them. After a bad record it looks for the next offset at which a record
// verifies. Because checksums are bound to their position, the journal wrote that record
// there.
func (c checksummer) scan(b []byte, number uint64, visit func(offset int64, size int, r record)) ([]gap, error) {
	var gaps []gap
	at := 0
	if err := c.checkHeader(b, number); err != nil {
		if !errors.Is(err, errHeader) {
			return nil, err
		}
		gaps = append(gaps, gap{from: 0, to: int64(min(headerSize, len(b)))})
	}
	at = min(headerSize, len(b))
	for at < len(b) {
		r, n, err := c.decodeRecord(b[at:], number, int64(at))
		if err == nil {
			visit(int64(at), n, r)
			at += n
			continue
		}
		next := at + 1
		for next < len(b) && !c.verifies(b[next:], number, int64(next)) {
			next++
		}
		gaps = appendGap(gaps, gap{from: int64(at), to: int64(next)})
		at = next
	}
	return gaps, nil
}

func (c checksummer) verifies(b []byte, number uint64, offset int64) bool {
	_, _, err := c.decodeRecord(b, number, offset)
	return err == nil
}

// appendGap joins g to the gap before it when the two touch.
func appendGap(gaps []gap, g gap) []gap {
	if n := len(gaps); n > 0 && gaps[n-1].to == g.from {
		gaps[n-1].to = g.to
		return gaps
	}
	return append(gaps, g)
}
