package audio

import "math/bits"

// codecKind says how the duration of a codec's frame is found.
type codecKind int

const (
	codecNone  codecKind = iota // not audio, or not known
	codecFixed                  // every frame has units samples
	codecOpus
	codecVorbis
	codecFLAC
	codecMPEG
)

// codec computes the duration of one stream's frames.
type codec struct {
	kind codecKind
	// rate and units are the samples in a second and in a frame of codecFixed; rate is
	// also that of Vorbis and FLAC.
	rate, units uint64
	flac        flacInfo
	vorbis      vorbis
}

// add counts a frame or, of MPEG, all the frames in p.
func (c *codec) add(t *tally, p []byte) {
	switch c.kind {
	case codecFixed:
		t.add(c.units, c.rate)
	case codecOpus:
		t.add(opusSamples(p), opusRate)
	case codecVorbis:
		t.add(c.vorbis.samples(p), c.rate)
	case codecFLAC:
		if f, ok := parseFLAC(p[:min(len(p), maxFlacHeader)], c.flac); ok {
			t.add(f.block, f.rate)
		} else if len(p) > 0 {
			t.add(c.flac.block, c.flac.rate) // players conceal a broken frame
		}
	case codecMPEG:
		for len(p) > 0 {
			f, ok := parseMPEG(p)
			if !ok {
				return
			}
			t.add(f.samples, f.rate)
			if f.free || f.size >= uint64(len(p)) {
				return
			}
			p = p[f.size:]
		}
	case codecNone:
	}
}

const (
	opusRate = 48000
	// maxOpusSamples is the longest packet, 120 ms.
	maxOpusSamples = 5760
)

// opusSamples reads the first bytes of a packet, which have the length of a frame and the
// number of frames.
func opusSamples(p []byte) uint64 {
	if len(p) == 0 {
		return 0
	}
	var frame uint64
	switch mode := p[0] >> 3; {
	case mode >= 16:
		frame = 120 << (mode & 3)
	case mode >= 12:
		frame = 480 << (mode & 1)
	default:
		frame = [4]uint64{480, 960, 1920, 2880}[mode&3]
	}
	switch {
	case p[0]&3 == 0:
		return frame
	case p[0]&3 < 3:
		return 2 * frame
	case len(p) < 2:
		return 0
	}
	return min(uint64(p[1]&63)*frame, maxOpusSamples)
}

// vorbis has the sizes of a Vorbis stream's blocks by its headers. A packet plays for a
// quarter of its block and a quarter of the block before. Its first bits name a mode, and
// the mode names one of two sizes.
type vorbis struct {
	channels    uint64
	short, long uint64
	// big has a bit for each of the modes, set for long blocks. Without modes every block
	// counts as long.
	big    uint64
	modes  int
	before uint64
}

// parseVorbis reads the first header packet.
func parseVorbis(p []byte) (v vorbis, rate uint64, ok bool) {
	if len(p) < 30 || string(p[:7]) != "\x01vorbis" {
		return v, 0, false
	}
	short, long := p[28]&15, p[28]>>4
	if short < 6 || long > 13 || short > long || p[11] == 0 {
		return v, 0, false
	}
	rate = le32(p[12:])
	return vorbis{channels: uint64(p[11]), short: 1 << short, long: 1 << long}, rate, rate > 0 && rate <= maxSampleRate
}

// setup reads the modes from the third header packet.
func (v *vorbis) setup(p []byte) {
	if big, modes, ok := readModes(p, v.channels); ok {
		v.big, v.modes = big, modes
	}
}

// samples returns how long a packet plays, in samples.
func (v *vorbis) samples(p []byte) uint64 {
	if len(p) == 0 || p[0]&1 != 0 {
		return 0 // no audio
	}
	block := v.long
	if v.modes > 0 {
		mode := int(p[0]>>1) & (1<<bits.Len(uint(v.modes-1)) - 1)
		if mode < v.modes && v.big>>mode&1 == 0 {
			block = v.short
		}
	}
	played := (v.before + block) / 4
	if v.before == 0 {
		played = 0
	}
	v.before = block
	return played
}

// parseAAC reads an AudioSpecificConfig. Its first rate is the core's, whose frames
// have 1024 samples; HE-AAC doubles both.
func parseAAC(b []byte) (rate, units uint64, ok bool) {
	r := bitReader{b: b}
	kind := r.objectType()
	rate = r.sampleRate()
	r.bits(4) // channels
	units = 1024
	if kind == aacSBR || kind == aacPS {
		r.sampleRate()
		kind = r.objectType()
	}
	if kind == aacUSAC {
		units = 4096
	}
	return rate, units, !r.short && rate > 0 && rate <= maxSampleRate
}

// Object types that matter to the length of a frame.
const (
	aacSBR  = 5
	aacPS   = 29
	aacUSAC = 42
)

// bitReader reads most significant bits first.
type bitReader struct {
	b     []byte
	at    int
	short bool // bits or fields beyond the end were read
}

func (r *bitReader) bits(n int) (value uint64) {
	for range n {
		value <<= 1
		if r.at >= len(r.b)*8 {
			r.short = true
			continue
		}
		value |= uint64(r.b[r.at/8] >> (7 - r.at%8) & 1)
		r.at++
	}
	return value
}

func (r *bitReader) objectType() uint64 {
	if kind := r.bits(5); kind != 31 {
		return kind
	}
	return 32 + r.bits(6)
}

func (r *bitReader) sampleRate() uint64 {
	switch index := r.bits(4); {
	case index == 15:
		return r.bits(24)
	case index > 12:
		return 0
	default:
		return [13]uint64{96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350}[index]
	}
}
