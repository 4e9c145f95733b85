package audio

// blockOf takes a block: the number of its track, its time against the
// cluster's, flags, and one or more frames.
func (f *mkvFile) blockOf(b []byte) error {
	number, n := element(b, true)
	if n == 0 || len(b) < n+3 {
		return nil
	}
	t, err := f.trackOf(number)
	if t == nil || err != nil {
		return err
	}
	relative, flags, b := int64(int16(be16(b[n:]))), b[n+2], b[n+3:]
	ticks := uint64(max(0, int64(min(f.time, maxUnits))+relative))
	at := mul(ticks, f.scale)
	before := t.played.total()
	if !f.frames(t, b, flags>>1&3) {
		return nil
	}
	t.times.add(at, at+t.played.total()-before)
	f.block.track, f.block.time = t, at
	return nil
}

// trackOf returns the track of a block; nil for a track without sound. The first block of
// a track fixes the track's codec.
func (f *mkvFile) trackOf(number uint64) (*mkvTrack, error) {
	for i := range f.tracks[:f.count] {
		t := &f.tracks[i]
		if t.number != number || t.kind != soundTrack {
			continue
		}
		if t.codec.kind == codecNone {
			c, ok := t.describe()
			if !ok || t.encoded {
				return nil, ErrFormat
			}
			t.codec = c
		}
		return t, nil
	}
	return nil, nil
}

// describe returns the codec of a track.
func (t *mkvTrack) describe() (c codec, ok bool) {
	switch t.name {
	case "A_OPUS":
		return codec{kind: codecOpus}, true
	case "A_VORBIS":
		return vorbisOf(t.private)
	case "A_FLAC":
		if len(t.private) < 8 {
			return c, false
		}
		info, ok := parseStreamInfo(t.private[8:])
		return codec{kind: codecFLAC, flac: info}, ok
	case "A_MPEG/L1", "A_MPEG/L2", "A_MPEG/L3":
		return codec{kind: codecMPEG}, true
	case "A_AAC":
		if rate, units, ok := parseAAC(t.private); ok {
			return codec{kind: codecFixed, rate: rate, units: units}, true
		}
		return codec{kind: codecFixed, rate: t.rate, units: 2048}, t.rate > 0
	}
	return c, false
}

// vorbisOf reads the three headers, which stand one behind the other after
// their number and the sizes of the first two.
func vorbisOf(b []byte) (c codec, ok bool) {
	if len(b) == 0 || b[0] != 2 {
		return c, false
	}
	b = b[1:]
	first, b, ok := xiphSize(b)
	if !ok {
		return c, false
	}
	second, b, ok := xiphSize(b)
	if !ok || first+second > len(b) {
		return c, false
	}
	v, rate, ok := parseVorbis(b[:first])
	v.setup(b[first+second:])
	return codec{kind: codecVorbis, rate: rate, vorbis: v}, ok
}

// xiphSize reads a size: the sum of the bytes up to the first byte that is not 255, which
// is part of the sum.
func xiphSize(b []byte) (size int, rest []byte, ok bool) {
	for i, c := range b {
		size += int(c)
		if c != 255 {
			return size, b[i+1:], true
		}
	}
	return 0, nil, false
}

// How the frames of a block are laced.
const (
	laceNone  = 0
	laceXiph  = 1
	laceFixed = 2
)

// frames counts the frames of a block; it reports false for a block that cannot be read.
func (f *mkvFile) frames(t *mkvTrack, b []byte, lace byte) bool {
	if lace == laceNone {
		f.w.steps++
		t.codec.add(&t.played, b)
		return true
	}
	if len(b) == 0 {
		return false
	}
	count := int(b[0]) + 1
	var sizes [256]int
	rest, ok := laceSizes(sizes[:count], b[1:], lace)
	if !ok {
		return false
	}
	for _, size := range sizes[:count] {
		f.w.steps++
		t.codec.add(&t.played, rest[:size])
		rest = rest[size:]
	}
	return true
}

// laceSizes reads the sizes of a block's frames and returns the frames. The last frame
// takes the bytes that the others leave.
func laceSizes(sizes []int, b []byte, lace byte) (frames []byte, ok bool) {
	last := len(sizes) - 1
	if lace == laceFixed {
		for i := range sizes {
			sizes[i] = len(b) / len(sizes)
		}
		return b, len(b)%len(sizes) == 0
	}
	sum := 0
	for i := range last {
		if lace == laceXiph {
			sizes[i], b, ok = xiphSize(b)
			if !ok {
				return nil, false
			}
		} else {
			v, n := element(b, true)
			if n == 0 || v > maxUnits {
				return nil, false
			}
			b = b[n:]
			sizes[i] = int(v)
			if i > 0 { // a difference, with half the range below 0
				sizes[i] += sizes[i-1] - (1<<(7*n-1) - 1)
			}
		}
		if sizes[i] < 0 || sizes[i] > len(b) {
			return nil, false
		}
		sum += sizes[i]
	}
	if sum > len(b) {
		return nil, false
	}
	sizes[last] = len(b) - sum
	return b, true
}
