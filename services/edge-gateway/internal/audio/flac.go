package audio

import "bytes"

// flacInfo is the rate and the block size that a FLAC stream declares before its frames.
type flacInfo struct{ rate, block uint64 }

// streamInfoBytes is the size of the first block of a FLAC stream.
const streamInfoBytes = 34

func parseStreamInfo(b []byte) (flacInfo, bool) {
	if len(b) < streamInfoBytes {
		return flacInfo{}, false
	}
	return flacInfo{rate: be32(b[10:]) >> 12, block: be16(b[2:])}, true
}

// flacFrame is a frame header.
type flacFrame struct {
	rate, block uint64
	// number counts samples, or frames if fixed.
	number uint64
	fixed  bool
}

// maxFlacHeader is the longest frame header.
const maxFlacHeader = 16

// parseFLAC reads a frame header and checks its checksum.
func parseFLAC(b []byte, info flacInfo) (f flacFrame, ok bool) {
	if len(b) < 6 || b[0] != 0xff || b[1]&0xfe != 0xf8 {
		return f, false
	}
	size, rate, channels, depth := b[2]>>4, b[2]&15, b[3]>>4, b[3]>>1&7
	if size == 0 || rate == 15 || channels > 10 || depth == 3 || b[3]&1 != 0 {
		return f, false
	}
	f.fixed = b[1]&1 == 0
	at, ok := 4, false
	if f.number, at, ok = codedNumber(b, at); !ok || at+5 > len(b) {
		return f, false
	}
	switch {
	case size == 1:
		f.block = 192
	case size <= 5:
		f.block = 576 << (size - 2)
	case size == 6:
		f.block, at = uint64(b[at])+1, at+1
	case size == 7:
		f.block, at = be16(b[at:])+1, at+2
	default:
		f.block = 256 << (size - 8)
	}
	switch rate {
	case 12:
		f.rate, at = uint64(b[at])*1000, at+1
	case 13:
		f.rate, at = be16(b[at:]), at+2
	case 14:
		f.rate, at = be16(b[at:])*10, at+2
	default:
		f.rate = [12]uint64{0, 88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000}[rate]
	}
	if f.rate == 0 || info.rate != 0 && info.rate < f.rate {
		f.rate = info.rate // of two rates the slower, which plays longer
	}
	return f, at < len(b) && crc8Of(b[:at]) == b[at]
}

// codedNumber reads a number in the long form of UTF-8. It needs five more bytes behind
// the number, which every frame has.
func codedNumber(b []byte, at int) (number uint64, next int, ok bool) {
	lead := b[at]
	more := 0
	for mask := byte(0x80); lead&mask != 0 && more < 8; mask >>= 1 {
		more++
	}
	switch {
	case more == 0:
		return uint64(lead), at + 1, true
	case more == 1 || more == 8 || at+more > len(b):
		return 0, 0, false
	}
	number = uint64(lead) & (1<<(7-more) - 1)
	for _, c := range b[at+1 : at+more] {
		if c&0xc0 != 0x80 {
			return 0, 0, false
		}
		number = number<<6 | uint64(c&0x3f)
	}
	return number, at + more, true
}

// flac finds all frames by their checksummed headers and adds up their blocks. A frame
// whose whole checksum holds is believed about its place in the stream, so that a gap
// counts as long as players make it.
func (w *walk) flac() (uint64, error) {
	info, pos, ok := w.flacMetadata()
	if !ok {
		return 0, ErrFormat
	}
	var t tally
	var places span
	var current flacFrame
	var sum uint16
	open := false
	place := func() {
		if open && sum == 0 {
			places.add(current.place(info))
		}
	}
	for pos < len(w.data) {
		w.steps++
		if f, ok := parseFLAC(w.data[pos:min(pos+maxFlacHeader, len(w.data))], info); ok {
			place()
			t.add(f.block, f.rate)
			current, open, sum = f, true, 0
		}
		next := bytes.IndexByte(w.data[pos+1:], 0xff)
		if next < 0 {
			next = len(w.data) - pos - 1
		}
		if open {
			sum = crc16Of(sum, w.data[pos:pos+1+next])
		}
		pos += 1 + next
	}
	place()
	return max(t.total(), nanosOf(places.length(), info.rate)), nil
}

// place returns where in the stream a frame begins and ends, in samples.
func (f flacFrame) place(info flacInfo) (start, end uint64) {
	start = f.number
	if f.fixed {
		start = mul(f.number, max(info.block, f.block))
	}
	return start, start + f.block
}

// flacMetadata skips the blocks before the frames.
func (w *walk) flacMetadata() (info flacInfo, pos int, ok bool) {
	for pos = 4; len(w.data)-pos >= 4; {
		w.steps++
		head := be32(w.data[pos:])
		body := w.data[pos+4:]
		size := min(int(head&0xffffff), len(body))
		if pos == 4 {
			if head>>24&0x7f != 0 {
				return info, 0, false
			}
			if info, ok = parseStreamInfo(body[:size]); !ok {
				return info, 0, false
			}
		}
		pos += 4 + size
		if head>>31 == 1 {
			return info, pos, true
		}
	}
	return info, 0, false
}

// span is the stretch from the first sample to the last that were added.
type span struct {
	low, high uint64
	any       bool
}

func (s *span) add(start, end uint64) {
	if !s.any {
		s.low, s.high, s.any = start, end, true
		return
	}
	s.low, s.high = min(s.low, start), max(s.high, end)
}

func (s *span) length() uint64 { return s.high - s.low }
