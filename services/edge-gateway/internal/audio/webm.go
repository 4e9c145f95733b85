package audio

import (
	"bytes"
	"math"
)

// Elements of EBML and Matroska that matter here.
const (
	idEBML     = 0x1a45dfa3
	idSegment  = 0x18538067
	idInfo     = 0x1549a966
	idTracks   = 0x1654ae6b
	idCluster  = 0x1f43b675
	idTrack    = 0xae
	idSound    = 0xe1
	idGroup    = 0xa0
	idScale    = 0x2ad7b1
	idNumber   = 0xd7
	idType     = 0x83
	idCodec    = 0x86
	idPrivate  = 0x63a2
	idEncoding = 0x6d80
	idRate     = 0xb5
	idTime     = 0xe7
	idSimple   = 0xa3
	idBlock    = 0xa1
	idPlays    = 0x9b

	soundTrack = 2
	// unknownLength stands for an element that ends where another begins.
	unknownLength = math.MaxUint64
	// defaultScale is the length of a tick in nanoseconds where the file gives none.
	defaultScale = 1_000_000
)

var clusterMagic = []byte{0x1f, 0x43, 0xb6, 0x75}

// levels are the elements that are entered, with their depth. All others are stepped
// over.
var levels = map[uint64]int{
	idSegment: 0, idInfo: 1, idTracks: 1, idCluster: 1, idTrack: 2, idGroup: 2, idSound: 3,
}

// mkvTrack is one audio track.
type mkvTrack struct {
	number, kind uint64
	codec        codec
	name         string
	private      []byte
	rate         uint64
	encoded      bool
	played       tally
	// times is the stretch from the first to the last time that the blocks claim.
	times span
}

// mkvFile is the state of a walk.
type mkvFile struct {
	w           *walk
	tracks      [maxTracks]mkvTrack
	count       int
	open        bool // the last track is still being read
	scale, time uint64
	// The last block of a group, for the duration that follows it.
	block struct {
		track *mkvTrack
		time  uint64
	}
	// ends is where the entered elements end.
	ends  [4]int
	depth int
}

// webm walks the elements one after the other and enters each element that holds others.
// An element's own size matters only to find an element that is too long for its place.
// Behind such an element players search for the next cluster, and so does webm.
func (w *walk) webm() (uint64, error) {
	f := mkvFile{w: w, scale: defaultScale, depth: -1}
	for pos := 0; pos < len(w.data); {
		w.steps++
		id, n := element(w.data[pos:], false)
		size, m := element(w.data[min(pos+n, len(w.data)):], true)
		level, enter := levels[id]
		body := pos + n + m
		switch {
		case n == 0 || m == 0 || !enter && !f.fits(pos, body, size):
			w.junk = true
			next := bytes.Index(w.data[pos+1:], clusterMagic)
			if next < 0 {
				pos = len(w.data)
				break
			}
			pos, f.depth = pos+1+next, min(f.depth, 0)
		case enter:
			f.enter(id, level, body, size)
			pos = body
		default:
			f.place(id)
			if err := f.leaf(id, w.data[body:body+int(size)]); err != nil {
				return 0, err
			}
			pos = body + int(size)
		}
	}
	return f.longest()
}

// element reads an id with its marker, or a size without it; n is 0 for none.
func element(b []byte, size bool) (v uint64, n int) {
	if len(b) == 0 || b[0] == 0 {
		return 0, 0
	}
	n = 1
	for mask := byte(0x80); b[0]&mask == 0; mask >>= 1 {
		n++
	}
	if n > len(b) || !size && n > 4 {
		return 0, 0
	}
	v = uint64(b[0])
	if size {
		v &= 1<<(8-n) - 1
	}
	for _, c := range b[1:n] {
		v = v<<8 | uint64(c)
	}
	if size && v == 1<<(7*n)-1 {
		v = unknownLength
	}
	return v, n
}

// fits reports whether an element ends within the element that holds it.
func (f *mkvFile) fits(pos, body int, size uint64) bool {
	for f.depth >= 0 && pos >= f.ends[f.depth] {
		f.depth--
	}
	end := len(f.w.data)
	if f.depth >= 0 {
		end = f.ends[f.depth]
	}
	return body <= end && size <= uint64(end-body)
}

// enter begins an element that holds others. It is no longer than the element around it.
// An element without a length ends with the element around it or with the next element of
// its level.
func (f *mkvFile) enter(id uint64, level, body int, size uint64) {
	for f.depth >= level || f.depth >= 0 && body > f.ends[f.depth] {
		f.depth--
	}
	end := len(f.w.data)
	if f.depth >= 0 {
		end = f.ends[f.depth]
	}
	if size < uint64(max(end-body, 0)) {
		end = body + int(size)
	}
	for f.depth < level {
		f.depth++
		f.ends[f.depth] = end
	}
	switch id {
	case idCluster:
		f.time = 0
	case idGroup:
		f.block.track = nil
	case idTrack:
		f.begin()
	}
}

// begin begins a track. A track without sound gives its place to the next.
func (f *mkvFile) begin() {
	if f.open && f.tracks[f.count-1].kind != soundTrack {
		f.count--
	}
	if f.open = f.count < maxTracks; f.open {
		f.tracks[f.count] = mkvTrack{}
		f.count++
	}
}

// leaf reads an element that holds no others.
func (f *mkvFile) leaf(id uint64, b []byte) error {
	switch id {
	case idScale:
		f.scale = number(b)
		return nil
	case idTime:
		f.time = number(b)
		return nil
	case idSimple, idBlock:
		return f.blockOf(b)
	case idPlays:
		if t := f.block.track; t != nil {
			t.times.add(f.block.time, mul(f.block.time/max(f.scale, 1)+number(b), f.scale))
		}
		return nil
	}
	if !f.open {
		return nil
	}
	t := &f.tracks[f.count-1]
	switch id {
	case idNumber:
		t.number = number(b)
	case idType:
		t.kind = number(b)
	case idCodec:
		t.name = string(bytes.TrimRight(b[:min(len(b), 32)], "\x00"))
	case idPrivate:
		t.private = b
	case idEncoding:
		t.encoded = true
	case idRate:
		t.rate = float(b)
	}
	return nil
}

// number reads an unsigned number.
func number(b []byte) (v uint64) {
	for _, c := range b[:min(len(b), 8)] {
		v = v<<8 | uint64(c)
	}
	return v
}

// float reads a rate, a float of 4 or 8 bytes; 0 for anything else.
func float(b []byte) uint64 {
	var v float64
	switch len(b) {
	case 4:
		v = float64(math.Float32frombits(uint32(be32(b))))
	case 8:
		v = math.Float64frombits(be32(b)<<32 | be32(b[4:]))
	}
	if !(v >= 1 && v <= maxSampleRate) {
		return 0
	}
	return uint64(v)
}

// longest returns how long the longest track plays.
func (f *mkvFile) longest() (uint64, error) {
	var longest uint64
	found := false
	for i := range f.tracks[:f.count] {
		t := &f.tracks[i]
		if t.kind != soundTrack {
			continue
		}
		found = true
		longest = max(longest, t.played.total(), min(t.times.length(), tooLong))
	}
	if !found {
		return 0, ErrFormat
	}
	return longest, nil
}
