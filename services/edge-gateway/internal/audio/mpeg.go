package audio

import "bytes"

const (
	// maxLeadingJunk is how far into a file its first frame may stand, in bytes.
	maxLeadingJunk = 64 << 10
	// maxJunk bounds the bytes of the whole file that are in no frame: tags and damage.
	maxJunk = 256 << 10
	// chainLength is how many frames in a row are a stream and not chance.
	chainLength = 10
	// mpegHeaderBytes is the length of a frame's header.
	mpegHeaderBytes = 4
)

// mpegFrame is a frame header.
type mpegFrame struct {
	// form is common to all frames of a stream: version, layer and rate.
	form                uint32
	samples, rate, size uint64
	// free reports whether the frame does not give its size.
	free bool
	// info is where an index of the stream would stand in the frame.
	info int
}

// mpegBitRates are in kbit/s, by generation, layer and the code in the header.
var mpegBitRates = [2][3][16]uint16{{
	{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
	{0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
	{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
}, {
	{0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
	{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
	{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
}}

// parseMPEG reads a frame header.
func parseMPEG(b []byte) (f mpegFrame, ok bool) {
	if len(b) < mpegHeaderBytes || b[0] != 0xff || b[1]&0xe0 != 0xe0 {
		return f, false
	}
	version, layer, bitRate, rate := b[1]>>3&3, 4-int(b[1]>>1&3), b[2]>>4, b[2]>>2&3
	if version == 1 || layer == 4 || bitRate == 15 || rate == 3 {
		return f, false
	}
	f.form = uint32(b[1]&0x1e)<<8 | uint32(b[2]&0x0c)
	f.rate = [3]uint64{44100, 48000, 32000}[rate]
	generation := 1
	switch version {
	case 2:
		generation, f.rate = 2, f.rate/2
	case 0:
		generation, f.rate = 2, f.rate/4
	}
	f.samples = 1152
	switch {
	case layer == 1:
		f.samples = 384
	case layer == 3 && generation == 2:
		f.samples = 576
	}
	f.info = infoOffset(generation, b[3]>>6 == 3)
	f.free = bitRate == 0
	padding := uint64(b[2] >> 1 & 1)
	bits := uint64(mpegBitRates[generation-1][layer-1][bitRate]) * 1000
	if layer == 1 {
		f.size = (12*bits/f.rate + padding) * 4
	} else {
		f.size = f.samples/8*bits/f.rate + padding
	}
	return f, true
}

// infoOffset returns where in a layer III frame the samples begin. Encoders put an index
// there in place of samples.
func infoOffset(generation int, mono bool) int {
	switch {
	case generation == 1 && !mono:
		return 36
	case generation == 2 && mono:
		return 13
	}
	return 21
}

// mp3 walks frame by frame. It steps over a frame that fits the stream. A frame of
// another form begins another stream if enough frames of its form follow. Otherwise it
// may be chance or a trap: some players step over it and some look for frames within it.
// So it counts, and the frames in it count too. Frames without a size are counted in the
// same way, but make no stream.
func (w *walk) mp3() (uint64, error) {
	var t tally
	var junk int
	var form uint32
	locked := false
	for pos := 0; pos < len(w.data); {
		w.steps++
		f, ok := parseMPEG(w.data[pos:])
		switch {
		case !ok:
			next := bytes.IndexByte(w.data[pos+1:], 0xff)
			if next < 0 {
				next = len(w.data) - pos - 1
			}
			junk += next + 1
			pos += next + 1
			if junk > maxJunk || !locked && junk > maxLeadingJunk {
				return 0, ErrFormat
			}
		case locked && f.form == form && !f.free:
			t.add(f.samples, f.rate)
			pos += int(f.size)
		case !f.free && w.chained(pos, f):
			if locked || !isIndex(w.data[pos:], f) {
				t.add(f.samples, f.rate)
			}
			form, locked = f.form, true
			pos += int(f.size)
		default:
			t.add(f.samples, f.rate)
			pos += mpegHeaderBytes
		}
	}
	if !locked {
		return 0, ErrFormat
	}
	return t.total(), nil
}

// chained reports whether a frame is followed by others of its form, or ends with the
// file.
func (w *walk) chained(pos int, f mpegFrame) bool {
	if f.size > uint64(len(w.data)-pos) {
		return false
	}
	for range chainLength {
		w.steps++
		pos += int(f.size)
		if pos >= len(w.data) || isTag(w.data[pos:]) {
			return true
		}
		next, ok := parseMPEG(w.data[pos:])
		if !ok || next.form != f.form || next.free {
			return false
		}
		f = next
	}
	return true
}

// isTag reports whether b begins with one of the tags that stand at the end of a file.
func isTag(b []byte) bool {
	for _, tag := range []string{"TAG", "APETAGEX", "LYRICSBEGIN", "ID3"} {
		if bytes.HasPrefix(b, []byte(tag)) {
			return true
		}
	}
	return false
}

// isIndex reports whether a frame holds an index of the stream instead of sound.
func isIndex(b []byte, f mpegFrame) bool {
	b = b[:min(uint64(len(b)), f.size)]
	for _, mark := range []struct {
		at   int
		name string
	}{{f.info, "Xing"}, {f.info, "Info"}, {36, "VBRI"}} {
		if mark.at <= len(b) && bytes.HasPrefix(b[mark.at:], []byte(mark.name)) {
			return true
		}
	}
	return false
}
