package audio

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Small encoders of silence, so that no test needs a recording.

func le(n int, v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v)[:n] }
func be(n int, v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v)[8-n:] }

func cat(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		case int:
			b = append(b, byte(p))
		}
	}
	return b
}

func repeat(n int, p []byte) []byte { return bytes.Repeat(p, n) }

// WAV.

func wavFmt(tag, channels, rate, align, bits uint64) []byte {
	return cat("fmt ", le(4, 16), le(2, tag), le(2, channels), le(4, rate), le(4, 1), le(2, align), le(2, bits))
}

func wavData(said uint64, n int) []byte { return cat("data", le(4, said), make([]byte, n)) }

func wavFile(chunks ...[]byte) []byte {
	return cat("RIFF", le(4, 1<<20), "WAVE", bytes.Join(chunks, nil))
}

// MP3: frames of MPEG 1 layer III, 128 kbit/s, 44.1 kHz: 417 bytes, 1152
// samples; and of MPEG 2.5 layer III, 8 kbit/s, 8 kHz: 72 bytes, 576 samples.

func mp3Frame() []byte     { return cat(0xff, 0xfb, 0x90, 0xc0, make([]byte, 413)) }
func mp3SlowFrame() []byte { return cat(0xff, 0xe3, 0x18, 0xc0, make([]byte, 68)) }

// FLAC at 8 kHz, mono, 8 bits, 4096 samples a frame.

func streamInfo(rate uint64) []byte {
	return cat(be(2, 4096), be(2, 4096), make([]byte, 6), be(4, rate<<12|7<<4), make([]byte, 20))
}

func utf8Number(n uint64) []byte {
	switch {
	case n < 0x80:
		return cat(int(n))
	case n < 0x800:
		return cat(int(0xc0|n>>6), int(0x80|n&63))
	}
	return cat(int(0xe0|n>>12), int(0x80|n>>6&63), int(0x80|n&63))
}

func flacHeader(number uint64) []byte {
	head := cat(0xff, 0xf8, 0xc4, 0x02, utf8Number(number))
	return append(head, crc8Of(head))
}

func flacFrameOf(number uint64) []byte {
	frame := cat(flacHeader(number), 0, 0) // a constant subframe
	return append(frame, be(2, uint64(crc16Of(0, frame)))...)
}

func flacFile(first, n uint64) []byte {
	b := cat("fLaC", be(4, 1<<31|34), streamInfo(8000))
	for i := range n {
		b = append(b, flacFrameOf(first+i)...)
	}
	return b
}

// Ogg.

type oggWriter struct {
	b      []byte
	serial uint64
	seq    uint64
}

func (o *oggWriter) page(flags int, granule uint64, packets ...[]byte) {
	var lacing, body []byte
	for _, p := range packets {
		lacing = append(lacing, repeat(len(p)/255, []byte{255})...)
		lacing = append(lacing, byte(len(p)%255))
		body = append(body, p...)
	}
	o.raw(flags, granule, lacing, body)
}

func (o *oggWriter) raw(flags int, granule uint64, lacing, body []byte) {
	page := cat("OggS", 0, flags, le(8, granule), le(4, o.serial), le(4, o.seq), le(4, 0), len(lacing), lacing, body)
	binary.LittleEndian.PutUint32(page[22:], crc32Of(0, page))
	o.seq++
	o.b = append(o.b, page...)
}

func opusHead() []byte { return cat("OpusHead", 1, 1, le(2, 0), le(4, 48000), le(2, 0), 0) }

// opusPacket is one frame of 20 ms.
func opusPacket() []byte { return cat(0xf8, 0xff, 0xfe) }

// oggOpus has n packets of 20 ms, 50 in a page, with the granules of the caller.
func oggOpus(serial uint64, n int, granule func(packets int) uint64) []byte {
	o := oggWriter{serial: serial}
	o.page(oggFirst, 0, opusHead())
	o.page(0, 0, []byte("OpusTags"))
	for done := 0; done < n; {
		var packets [][]byte
		for ; done < n && len(packets) < 50; done++ {
			packets = append(packets, opusPacket())
		}
		flags := 0
		if done == n {
			flags = oggLast
		}
		o.page(flags, granule(done), packets...)
	}
	return o.b
}

func truly(packets int) uint64 { return uint64(packets) * 960 }

// vorbisHeaders are the headers of a stream at 8 kHz with blocks of 256 and 2048 and
// two modes, the first short.
func vorbisHeaders() (ident, comment, setup []byte) {
	ident = cat("\x01vorbis", le(4, 0), 2, le(4, 8000), make([]byte, 12), 0xb8, 1)
	w := setupHead()
	w.put(6, 1) // two modes
	for _, big := range []uint64{0, 1} {
		w.put(1, big)
		w.put(16, 0)
		w.put(16, 0)
		w.put(8, 0)
	}
	w.put(1, 1)
	return ident, cat("\x03vorbis", le(4, 0), le(4, 0), 1), w.b
}

// setupHead is a third header up to its modes, with everything in it that there
// may be.
func setupHead() (w bitWriter) {
	for _, c := range "\x05vorbis" {
		w.put(8, uint64(c))
	}
	book := func(dimensions, entries uint64) {
		w.put(24, vorbisCodebook)
		w.put(16, dimensions)
		w.put(24, entries)
	}
	w.put(8, 3)
	book(2, 9) // each length is given; 3 by 3 values
	w.put(2, 0)
	w.put(45, 0)
	w.put(4, 1)
	w.put(64, 1)
	w.put(4, 6)
	w.put(1, 1)
	w.put(3*7, 0x55)
	book(2, 3) // some lengths left out; 6 values
	w.put(2, 2)
	w.put(13, 0b00001_1_0_00001_1)
	w.put(4, 2)
	w.put(64, 1)
	w.put(5, 0)
	w.put(6, 0)
	book(1, 5) // in order: none of one bit, 3 of two, 2 of three
	w.put(1, 1)
	w.put(5, 0)
	w.put(3, 0)
	w.put(3, 3)
	w.put(2, 2)
	w.put(4, 0)
	book(1, 0)
	w.put(6, 0)
	w.put(6+16, 0) // one time
	w.put(6, 1)    // two floors
	w.put(16, 0)
	w.put(54, 0)
	w.put(4, 1)
	w.put(16, 0x0101)
	w.put(16, 1)
	w.put(5, 2)
	w.put(8, 0x12) // classes 2 and 1
	for _, subclasses := range []uint64{0, 1, 0} {
		w.put(3, subclasses)
		w.put(2, subclasses)
		w.put(int(8*subclasses+8<<subclasses), 0)
	}
	w.put(2, 0)
	w.put(4, 7)
	w.put(7*(1+2), 0)
	w.put(6, 0) // one residue
	w.put(16+72, 2)
	w.put(6, 1)
	w.put(8, 0)
	w.put(3+1, 5)
	w.put(3+1+5, 0x1ff)
	w.put(8*(2+3+5), 0)
	w.put(6, 0) // one mapping
	w.put(16, 0)
	w.put(1, 1)
	w.put(4, 1)
	w.put(1, 1)
	w.put(8, 0)
	w.put(2*1, 2)
	w.put(2, 0)
	w.put(4*2, 0x10)
	w.put(24*2, 0)
	return w
}

// bitWriter writes least significant bits first.
type bitWriter struct {
	b []byte
	n int
}

func (w *bitWriter) put(n int, v uint64) {
	for i := range n {
		if w.n%8 == 0 {
			w.b = append(w.b, 0)
		}
		if i < 64 && v>>i&1 != 0 {
			w.b[w.n/8] |= 1 << (w.n % 8)
		}
		w.n++
	}
}

// Packets of short and long blocks.
var vorbisShort, vorbisLong = []byte{0, 0}, []byte{2, 0}

func oggVorbis(granule func(page int) uint64, pages ...[][]byte) []byte {
	ident, comment, setup := vorbisHeaders()
	o := oggWriter{serial: 7}
	o.page(oggFirst, 0, ident)
	o.page(0, 0, comment, setup)
	for i, packets := range pages {
		o.page(0, granule(i), packets...)
	}
	return o.b
}

func oggSpeex(n int) []byte {
	head := cat("Speex   ", make([]byte, 28), le(4, 8000), le(4, 0), make([]byte, 12), le(4, 160), le(4, 0),
		le(4, 2), make([]byte, 12))
	o := oggWriter{serial: 9}
	o.page(oggFirst, 0, head)
	o.page(0, 0, []byte("comment"))
	for i := range n {
		o.page(0, uint64(i+1)*320, []byte{1, 2, 3})
	}
	return o.b
}

func oggFLAC(n uint64) []byte {
	o := oggWriter{serial: 3}
	o.page(oggFirst, 0, cat("\x7fFLAC", 1, 0, be(2, 1), "fLaC", be(4, 34), streamInfo(8000)))
	o.page(0, 0, cat(be(4, 4<<24|1<<31)))
	for i := range n {
		o.page(0, (i+1)*4096, flacFrameOf(i))
	}
	return o.b
}

// MP4.

func box(kind string, parts ...any) []byte {
	body := cat(parts...)
	return cat(be(4, uint64(len(body)+8)), kind, body)
}

// m4a is an AAC track at 16 kHz, with samples of 8 bytes in one chunk.
type m4a struct {
	entry            []byte // of stsd
	timescale        uint64
	samples          int    // in mdat
	said             uint64 // in stsz
	delta            uint64
	moovFirst        bool
	edits            []byte
	fragments        int
	inFragment       int
	sample           []byte
	chunks, perChunk int
	mvex, more       []byte // boxes of moov and of stbl
}

func aacEntry(config ...byte) []byte {
	specific := cat(5, len(config), config)
	decoder := cat(4, 13+len(specific), 0x40, make([]byte, 12), specific)
	es := cat(3, 3+len(decoder), 0, 0, 0, decoder)
	return soundBox("mp4a", 16000, box("esds", make([]byte, 4), es))
}

func soundBox(kind string, rate uint64, inner []byte) []byte {
	return box(kind, make([]byte, 6), be(2, 1), make([]byte, 8), be(2, 1), be(2, 16), make([]byte, 4), be(2, rate),
		be(2, 0), inner)
}

func newM4A(samples int) m4a {
	// AAC LC, 16 kHz, mono.
	return m4a{entry: aacEntry(0x14, 0x08), timescale: 16000, samples: samples, said: uint64(samples), delta: 1024,
		sample: make([]byte, 8), chunks: 1, perChunk: samples}
}

func (m m4a) file() []byte {
	ftyp := box("ftyp", "M4A ", be(4, 0))
	mdat := box("mdat", repeat(m.samples, m.sample))
	b := cat(ftyp, mdat, m.moov(len(ftyp)+8))
	if m.moovFirst {
		b = cat(ftyp, m.moov(len(ftyp)+len(m.moov(0))+8), mdat)
	}
	for range m.fragments {
		b = append(b, m.fragment()...)
	}
	return b
}

func (m m4a) moov(offset int) []byte {
	offsets := repeat(m.chunks, be(4, uint64(offset)))
	stbl := box("stbl",
		box("stsd", be(4, 0), be(4, 1), m.entry),
		box("stts", be(4, 0), be(4, 1), be(4, m.said), be(4, m.delta)),
		box("stsc", be(4, 0), be(4, 1), be(4, 1), be(4, uint64(m.perChunk)), be(4, 1)),
		box("stsz", be(4, 0), be(4, uint64(len(m.sample))), be(4, m.said)),
		box("stco", be(4, 0), be(4, uint64(m.chunks)), offsets), m.more)
	var edts []byte
	if m.edits != nil {
		edts = box("edts", box("elst", be(4, 0), be(4, uint64(len(m.edits)/12)), m.edits))
	}
	trak := box("trak",
		box("tkhd", be(4, 0), be(8, 0), be(4, 1), make([]byte, 64)), edts,
		box("mdia",
			box("mdhd", be(4, 0), be(8, 0), be(4, m.timescale), be(4, 1), be(4, 0)),
			box("hdlr", be(8, 0), "soun", make([]byte, 12)),
			box("minf", stbl)))
	return box("moov", box("mvhd", be(4, 0), be(8, 0), be(4, 1000), be(4, 1), make([]byte, 80)), trak, m.mvex)
}

// fragment takes the duration and the size of its samples from trex.
func (m m4a) fragment() []byte {
	moof := func(offset uint64) []byte {
		return box("moof", box("traf",
			box("tfhd", be(4, tfhdFromMoof), be(4, 1)),
			box("trun", be(4, trunOffset), be(4, uint64(m.inFragment)), be(4, offset))))
	}
	return cat(moof(uint64(len(moof(0))+8)), box("mdat", repeat(m.inFragment, m.sample)))
}

func trex(delta, size uint64) []byte {
	return box("mvex", box("trex", be(4, 0), be(4, 1), be(4, 1), be(4, delta), be(4, size), be(4, 0)))
}

// WebM.

func ebml(id uint64, parts ...any) []byte {
	body := cat(parts...)
	return cat(ebmlID(id), be(4, 1<<28|uint64(len(body))), body)
}

func ebmlID(id uint64) []byte {
	n := 1
	for id>>(8*n) != 0 {
		n++
	}
	return be(n, id)
}

func webmTrack(codec string, private []byte) []byte {
	return ebml(idTracks, ebml(idTrack, ebml(idNumber, 1), ebml(idType, soundTrack), ebml(idCodec, codec),
		ebml(idPrivate, private), ebml(idSound, ebml(idRate, be(4, uint64(math.Float32bits(8000)))))))
}

func webmBlock(at int, flags int, frames []byte) []byte {
	return ebml(idSimple, 0x81, be(2, uint64(at)), flags, frames)
}

func webmCluster(at uint64, blocks ...[]byte) []byte {
	return ebml(idCluster, ebml(idTime, be(4, at)), bytes.Join(blocks, nil))
}

func webmFile(track []byte, clusters ...[]byte) []byte {
	return cat(ebml(0x1a45dfa3, ebml(0x4282, "webm")),
		ebmlID(idSegment), []byte{0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		ebml(idInfo, ebml(idScale, be(3, defaultScale))), track, bytes.Join(clusters, nil))
}

// webmOpus has n blocks of 20 ms, 50 in a cluster, at the times of the caller.
func webmOpus(n int, at func(block int) (cluster uint64, relative int)) []byte {
	var clusters [][]byte
	for done := 0; done < n; {
		var blocks [][]byte
		start, _ := at(done)
		for ; done < n && len(blocks) < 50; done++ {
			_, relative := at(done)
			blocks = append(blocks, webmBlock(relative, 0x80, opusPacket()))
		}
		clusters = append(clusters, webmCluster(start, blocks...))
	}
	return webmFile(webmTrack("A_OPUS", opusHead()), clusters...)
}

func inTime(block int) (uint64, int) { return uint64(block/50) * 1000, block % 50 * 20 }
