package audio

import "math/bits"

// vorbisCodebook is the pattern that every codebook begins with.
const vorbisCodebook = 0x564342

// setupReader reads the third header of a Vorbis stream for its modes alone. The modes
// come last, so everything before them is walked as a decoder walks it.
type setupReader struct {
	b  []byte
	at int
	// bad reports whether no decoder takes the header. Nothing more of a bad header is
	// read.
	bad bool
}

// readModes returns the modes as vorbis keeps them. ok is false for a header that no
// decoder takes.
func readModes(p []byte, channels uint64) (big uint64, modes int, ok bool) {
	r := setupReader{b: p}
	r.skip(7 * 8)
	for range r.bits(8) + 1 {
		r.codebook()
	}
	for range r.bits(6) + 1 {
		r.skip(16)
	}
	for range r.bits(6) + 1 {
		r.floor()
	}
	for range r.bits(6) + 1 {
		r.residue()
	}
	for range r.bits(6) + 1 {
		r.mapping(channels)
	}
	modes = int(r.bits(6)) + 1
	for i := range modes {
		big |= r.bits(1) << i
		r.expect(32, 0)
		r.skip(8)
	}
	r.expect(1, 1)
	return big, modes, !r.bad
}

// bits reads at most 32 bits, least significant first; 0 once the header is bad.
func (r *setupReader) bits(n int) (value uint64) {
	if r.bad || n > len(r.b)*8-r.at {
		r.bad = true
		return 0
	}
	for got := 0; got < n; {
		take := min(8-r.at%8, n-got)
		part := uint64(r.b[r.at/8]>>(r.at%8)) & (1<<take - 1)
		value |= part << got
		got, r.at = got+take, r.at+take
	}
	return value
}

// skip skips n bits, however many.
func (r *setupReader) skip(n uint64) {
	if r.bad || n > uint64(len(r.b)*8-r.at) {
		r.bad = true
		return
	}
	r.at += int(n)
}

func (r *setupReader) expect(n int, want uint64) {
	if r.bits(n) != want {
		r.bad = true
	}
}

func (r *setupReader) codebook() {
	r.expect(24, vorbisCodebook)
	dimensions, entries := r.bits(16), r.bits(24)
	if r.bits(1) == 0 {
		r.lengths(entries)
	} else {
		r.skip(5)
		for done := uint64(0); done < entries && !r.bad; {
			n := r.bits(bits.Len64(entries - done))
			// Otherwise the walk would not end, because each length may have no codeword
			// at all.
			r.bad = r.bad || n > entries-done
			done += n
		}
	}
	values := uint64(0)
	switch r.bits(4) {
	case 0:
		return
	case 1:
		values = lattice(entries, dimensions)
	case 2:
		values = mul(entries, dimensions)
	default:
		r.bad = true
	}
	r.skip(64)
	width := r.bits(4) + 1
	r.skip(1)
	r.skip(mul(values, width))
}

// lengths skips the lengths of codewords that are given one by one.
func (r *setupReader) lengths(entries uint64) {
	if r.bits(1) == 0 {
		r.skip(5 * entries)
		return
	}
	for ; entries > 0 && !r.bad; entries-- {
		if r.bits(1) == 1 {
			r.skip(5)
		}
	}
}

// lattice returns the largest number whose power of so many dimensions is no more than
// entries.
func lattice(entries, dimensions uint64) uint64 {
	if dimensions == 0 {
		return 0
	}
	low, high := uint64(0), entries
	for low < high {
		middle := (low + high + 1) / 2
		power := uint64(1)
		for i := uint64(0); i < dimensions && power <= entries && middle > 1; i++ {
			power *= middle
		}
		if power <= entries {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

func (r *setupReader) floor() {
	switch r.bits(16) {
	case 0:
		r.skip(8 + 16 + 16 + 6 + 8)
		r.skip(8 * (r.bits(4) + 1))
	case 1:
		r.floor1()
	default:
		r.bad = true
	}
}

func (r *setupReader) floor1() {
	var partitions [31]uint64
	count, classes := r.bits(5), uint64(0)
	for i := range count {
		partitions[i] = r.bits(4)
		classes = max(classes, partitions[i]+1)
	}
	var dimensions [16]uint64
	for i := range classes {
		dimensions[i] = r.bits(3) + 1
		subclasses := r.bits(2)
		if subclasses > 0 {
			r.skip(8)
		}
		r.skip(8 << subclasses)
	}
	r.skip(2)
	width := r.bits(4)
	for _, class := range partitions[:count] {
		r.skip(dimensions[class] * width)
	}
}

func (r *setupReader) residue() {
	if r.bits(16) > 2 {
		r.bad = true
	}
	r.skip(24 + 24 + 24)
	count := r.bits(6) + 1
	r.skip(8)
	books := 0
	for range count {
		cascade := r.bits(3)
		if r.bits(1) == 1 {
			cascade |= r.bits(5) << 3
		}
		books += bits.OnesCount64(cascade)
	}
	r.skip(8 * uint64(books))
}

func (r *setupReader) mapping(channels uint64) {
	r.expect(16, 0)
	submaps := uint64(1)
	if r.bits(1) == 1 {
		submaps = r.bits(4) + 1
	}
	if r.bits(1) == 1 {
		steps := r.bits(8) + 1
		r.skip(steps * 2 * uint64(bits.Len64(channels-1)))
	}
	r.expect(2, 0)
	if submaps > 1 {
		r.skip(4 * channels)
	}
	r.skip(24 * submaps)
}
