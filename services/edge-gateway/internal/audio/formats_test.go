package audio

import "testing"

func TestWAVCountsTheDataThatIsThere(t *testing.T) {
	form := wavFmt(1, 2, 8000, 4, 16)
	second := wavData(32000, 32000)
	list := cat("LIST", le(4, 6), "INFOxx")
	ext := cat("fmt ", le(4, 40), le(2, wavExtensible), le(2, 1), le(4, 8000), le(4, 1), le(2, 4), le(2, 32), le(2, 22),
		le(2, 24), le(4, 4), le(2, 3), make([]byte, 14))
	// Data of 256 bytes a block: 4 bytes of head and a sample, 252 of two each.
	ima, ms := wavFmt(0x11, 1, 5050, 256, 4), wavFmt(2, 1, 5000, 256, 4)
	rf64 := func(size uint64, after []byte) []byte {
		return cat("RF64", le(4, unknownSize), "WAVE", "ds64", le(4, 28), le(8, 1), le(8, size), le(12-4, 0), le(4, 0), form,
			"data", le(4, unknownSize), make([]byte, 32000), after)
	}
	check(t, []measured{
		{"plain", wavFile(form, second), WAV, 1000},
		{"other chunks around", wavFile(list, form, list, second, list), WAV, 1000},
		{"several", wavFile(form, second, list, second, second), WAV, 3000},
		{"size 0", wavFile(form, wavData(0, 32000)), WAV, 1000},
		{"size unknown", wavFile(form, wavData(unknownSize, 32000)), WAV, 1000},
		{"cut", wavFile(form, wavData(320000, 32000)), WAV, 1000},
		{"more than its header says", wavFile(form, wavData(32, 32000)), WAV, 1000},
		{"more behind a chunk that is too long", wavFile(form, wavData(32000, 32000),
			cat("LIST", le(4, 1<<30), make([]byte, 32000-8))), WAV, refused},
		{"a zip behind", wavFile(form, second, cat("PK\x03\x04", make([]byte, 32000-4))), WAV, refused},
		{"float", wavFile(ext, second), WAV, 1000},
		{"a-law", wavFile(wavFmt(6, 1, 8000, 1, 8), second), WAV, 4000},
		{"mu-law", wavFile(wavFmt(7, 1, 8000, 1, 8), second), WAV, 4000},
		{"24 bits", wavFile(wavFmt(1, 1, 8000, 3, 24), wavData(24000, 24000)), WAV, 1000},
		{"an alignment that is too large", wavFile(wavFmt(1, 1, 8000, 60000, 16), wavData(16000, 16000)), WAV, 1000},
		{"no alignment", wavFile(wavFmt(1, 1, 8000, 0, 16), wavData(16000, 16000)), WAV, 1000},
		{"IMA", wavFile(ima, wavData(2560, 2560)), WAV, 1000},
		{"half a block of IMA", wavFile(ima, wavData(5040, 2560+128)), WAV, 1050},
		{"MS", wavFile(ms, wavData(2560, 2560)), WAV, 1000},
		{"RF64", rf64(32000, list), WAV, 1000},
		{"RF64 that says less", rf64(32, nil), WAV, 1000},
		{"RF64 without a size", rf64(0, nil), WAV, 1000},
	})
	refuse(t, ErrFormat, map[string][]byte{
		"no form":        wavFile(second),
		"form behind":    wavFile(second, form),
		"two forms":      wavFile(form, form, second),
		"no rate":        wavFile(wavFmt(1, 1, 0, 2, 16), second),
		"too high":       wavFile(wavFmt(1, 1, maxSampleRate+1, 2, 16), second),
		"no channels":    wavFile(wavFmt(1, 0, 8000, 2, 16), second),
		"too many":       wavFile(wavFmt(1, maxChannels+1, 8000, 2, 16), second),
		"no bits":        wavFile(wavFmt(1, 1, 8000, 2, 0), second),
		"mp3 within":     wavFile(wavFmt(0x55, 1, 8000, 1, 0), second),
		"a block of one": wavFile(wavFmt(0x11, 1, 8000, 4, 4), second),
		"3 bits":         wavFile(wavFmt(0x11, 1, 8000, 256, 3), second),
	})
}

func TestMP3IsWalkedFrameByFrame(t *testing.T) {
	layer1 := cat(0xff, 0xff, 0x14, 0xc0, make([]byte, 28))  // 32 kbit/s, 48 kHz: 32 bytes, 8 ms
	layer2 := cat(0xff, 0xfd, 0x14, 0xc0, make([]byte, 92))  // 32 kbit/s, 48 kHz: 96 bytes, 24 ms
	mpeg2 := cat(0xff, 0xf3, 0x14, 0xc0, make([]byte, 20))   // 8 kbit/s, 24 kHz: 24 bytes, 24 ms
	half := cat(0xff, 0xfb, 0x50, 0xc0, make([]byte, 208-4)) // 64 kbit/s: 208 bytes
	free := cat(0xff, 0xfb, 0x00, 0xc0, make([]byte, 400))
	junk := repeat(1000, []byte("junk"))
	check(t, []measured{
		{"a second", repeat(38, mp3Frame()), MP3, 993},
		{"layer I", repeat(100, layer1), MP3, 800},
		{"layer II", repeat(100, layer2), MP3, 2400},
		{"MPEG 2", repeat(100, mpeg2), MP3, 2400},
		{"MPEG 2.5", repeat(100, mp3SlowFrame()), MP3, 7200},
		{"of many bit rates", repeat(50, cat(mp3Frame(), half)), MP3, 2613},
		{"an index before", cat(xingFrame(1), repeat(38, mp3Frame())), MP3, 993},
		{"junk before", cat(junk, repeat(38, mp3Frame())), MP3, refused},
		{"junk between and behind", cat(repeat(19, mp3Frame()), junk, repeat(19, mp3Frame()), junk), MP3, refused},
		{"a tag behind", cat(repeat(38, mp3Frame()), "TAG", make([]byte, 125)), MP3, 993},
		{"a tag behind a short one", cat(repeat(3, mp3Frame()), "TAG", make([]byte, 125)), MP3, 79},
		{"one file behind another", cat(repeat(20, mp3SlowFrame()), repeat(50, mpeg2)), MP3, 1440 + 1200},
		{"a frame that is cut", cat(repeat(37, mp3Frame()), mp3Frame()[:100]), MP3, 993},
	})
	refuse(t, ErrFormat, map[string][]byte{
		"free format":      repeat(50, free),
		"a frame alone":    cat(mp3Frame(), junk),
		"too much before":  cat(0xff, repeat(17, junk), repeat(38, mp3Frame())),
		"too much between": cat(repeat(38, mp3Frame()), repeat(66, junk), repeat(38, mp3Frame())),
		"a head only":      cat(0xff, 0xfb, 0x90, 0xc0, make([]byte, 100)),
	})
}

// A frame of another form may be stepped over or searched by a player, so it is
// refused.
func TestMP3FramesCannotHideInAFrame(t *testing.T) {
	trap := cat(0xff, 0xfb, 0xe0, 0xc0) // 320 kbit/s, 44.1 kHz: 1044 bytes
	hidden := repeat(14, mp3SlowFrame())
	file := repeat(10, mp3SlowFrame())
	for range 10 {
		file = append(file, cat(trap, hidden)...)
	}
	check(t, []measured{{"frames within frames", file, MP3, refused}})
	// So are frames without a size once the stream has begun.
	free := cat(0xff, 0xe3, 0x08, 0xc0, make([]byte, 20))
	check(t, []measured{{"free frames", cat(repeat(15, mp3SlowFrame()), repeat(10, free)), MP3, refused}})
}

func TestFLACFramesAreFoundByTheirChecksums(t *testing.T) {
	broken := func(n uint64) []byte {
		b := flacFile(0, n)
		for i := range b {
			if i > 42 && b[i] == 0xff && i+11 <= len(b) {
				b[i+7] ^= 1 // the subframe: the frame's own checksum fails
			}
		}
		return b
	}
	check(t, []measured{
		{"plain", flacFile(0, 100), FLAC, 51200},
		{"from the middle", flacFile(1000, 100), FLAC, 51200},
		{"with a gap", cat(flacFile(0, 10), flacFrameOf(19)), FLAC, 20 * 512},
		{"frames of a bad checksum", broken(10), FLAC, refused},
		{"the same number over and over", cat(flacFile(0, 1), repeat(99, flacFrameOf(0))), FLAC, 51200},
		{"junk between", cat(flacFile(0, 10), repeat(500, []byte{0xff, 0xf8, 0xc4}), flacFrameOf(10)), FLAC, refused},
		{"a head of a bad checksum", cat(flacFile(0, 10), flacHeader(10)[:5], 0, 0, 0, 0, 0, 0), FLAC, refused},
		{"a number from nowhere in a bad frame", cat(flacFile(0, 10), flacHeader(5000), 1, 2, 3, 4, 5, 6), FLAC, refused},
	})
	noInfo := cat("fLaC", be(4, 1<<31|4<<24|34), streamInfo(8000))
	refuse(t, ErrFormat, map[string][]byte{"no stream info": noInfo, "short": cat("fLaC", be(4, 1<<31|8), be(8, 0)),
		"cut": flacFile(0, 1)[:20]})
	// The head says 48 kHz and the frames 8: the slower counts.
	fast := flacFile(0, 10)
	copy(fast[8:], streamInfo(48000))
	slow := flacFile(0, 10)
	copy(slow[8:], streamInfo(4000))
	check(t, []measured{{"a fast head", fast, FLAC, 5120}, {"a slow head", slow, FLAC, 10240}})
}

func TestOggPacketsAndPositionsAreBothCounted(t *testing.T) {
	speexOnly, flacOnly := oggSpeex(25), oggFLAC(10)
	lacking := func(int) uint64 { return 0 }
	none := func(int) uint64 { return 1<<64 - 1 }
	check(t, []measured{
		{"opus", oggOpus(1, 500, truly), Ogg, 10_000},
		{"opus without positions", oggOpus(1, 500, none), Ogg, 10_000},
		{"opus whose positions lie", oggOpus(1, 500, lacking), Ogg, 10_000},
		{"opus with a gap", oggOpus(1, 100, func(n int) uint64 { return truly(n) + uint64(n/100)*48000 }), Ogg, 3000},
		{"opus from the middle", oggOpus(1, 100, func(n int) uint64 { return truly(n) + 1<<40 }), Ogg, 2000},
		{"one behind the other", cat(oggOpus(1, 100, truly), oggOpus(2, 50, truly), oggOpus(1, 50, truly)), Ogg, 4000},
		{"speex", speexOnly, Ogg, 1000},
		{"flac", flacOnly, Ogg, 5120},
		{"junk between pages", cat(oggOpus(1, 50, truly), repeat(300, []byte("OggS")), oggOpus(2, 50, truly)), Ogg, refused},
	})
}

func TestOggStreamsSideBySideDoNotAdd(t *testing.T) {
	a, b := oggWriter{serial: 1}, oggWriter{serial: 2}
	a.page(oggFirst, 0, opusHead())
	b.page(oggFirst, 0, opusHead())
	heads := cat(a.b, b.b)
	a.b, b.b = nil, nil
	a.page(0, 0, []byte("OpusTags"))
	b.page(0, 0, []byte("OpusTags"))
	for i := range 50 {
		a.page(0, truly(i+1), opusPacket())
		b.page(0, truly(2*i+2), opusPacket(), opusPacket())
	}
	check(t, []measured{{"two", cat(heads, a.b, b.b), Ogg, 2000}})

	// One that begins later adds, and the first may still go on.
	var late oggWriter
	late.serial = 3
	late.page(oggFirst, 0, opusHead())
	late.page(0, 0, []byte("OpusTags"))
	late.page(0, truly(50), repeatPackets(50)...)
	a.b = nil
	for i := range 200 {
		a.page(0, truly(51+i), opusPacket())
	}
	first := cat(heads[:len(heads)/2], oggOpus(1, 50, truly)[len(heads)/2:])
	check(t, []measured{{"late", cat(first, late.b, a.b), Ogg, 5000}})
}

func repeatPackets(n int) (packets [][]byte) {
	for range n {
		packets = append(packets, opusPacket())
	}
	return packets
}

func TestOggPagesThatAreNoneAreSearched(t *testing.T) {
	good := oggOpus(1, 50, truly)
	bad := oggOpus(1, 50, truly)
	bad[len(bad)-1] ^= 1
	check(t, []measured{{"bad page between", cat(bad, good), Ogg, refused}})
	// The page with the bad checksum holds good ones.
	inner := oggWriter{serial: 1}
	for i := range 10 {
		inner.page(0, truly(51+i), opusPacket())
	}
	outer := oggWriter{serial: 1}
	outer.raw(0, 0, repeat(len(inner.b)/255+1, []byte{255}), cat(inner.b, make([]byte, 255-len(inner.b)%255)))
	outer.b[22] ^= 1
	check(t, []measured{{"pages in a page", cat(good, outer.b), Ogg, refused}})
	var many []byte
	for range 3000 {
		many = append(many, cat("OggS", make([]byte, 22), 1, 255)...)
	}
	var lost oggWriter
	lost.page(0, 5, opusPacket())
	refuse(t, ErrFormat, map[string][]byte{"pages without end": cat(good, many, make([]byte, 300)),
		"no first page": lost.b})
	var streams []byte
	for i := range uint64(maxStreams + 1) {
		o := oggWriter{serial: i}
		o.page(oggFirst, 0, opusHead())
		streams = append(streams, o.b...)
	}
	refuse(t, ErrFormat, map[string][]byte{"too many streams": streams})
}

func TestOpusPacketsTellTheirLength(t *testing.T) {
	for _, c := range []struct {
		packet []byte
		want   uint64
	}{
		{nil, 0}, {[]byte{0}, 480}, {[]byte{1 << 3}, 960}, {[]byte{3 << 3}, 2880}, {[]byte{12 << 3}, 480},
		{[]byte{15 << 3}, 960},
		{[]byte{16 << 3}, 120}, {[]byte{31 << 3}, 960}, {[]byte{31<<3 | 1}, 1920}, {[]byte{31<<3 | 2}, 1920},
		{[]byte{31<<3 | 3}, 0}, {[]byte{31<<3 | 3, 3}, 2880}, {[]byte{3<<3 | 3, 63}, maxOpusSamples},
	} {
		if got := opusSamples(c.packet); got != c.want {
			t.Errorf("%x: got %d, want %d", c.packet, got, c.want)
		}
	}
}

func TestVorbisPacketsPlayAsTheirBlocksDo(t *testing.T) {
	short, long := vorbisShort, vorbisLong
	zero := func(int) uint64 { return 0 }
	many := [][]byte{long}
	for range 125 {
		many = append(many, long) // 125 times 1024 samples
	}
	mixed := [][]byte{short, short, long, long, short} // 128, 576, 1024, 576
	check(t, []measured{
		{"long", oggVorbis(zero, many), Ogg, 16000},
		{"mixed", oggVorbis(zero, mixed), Ogg, 288},
		{"with true positions", oggVorbis(func(int) uint64 { return 125 * 1024 }, many), Ogg, 16000},
	})
	ident, comment, setup := vorbisHeaders()
	private := cat(2, len(ident), len(comment), ident, comment, setup)
	check(t, []measured{{"laced by hand", webmFile(webmTrack("A_VORBIS", private),
		webmCluster(0, webmBlock(0, 0, long), webmBlock(0, 0x02, cat(2, 2, 2, short, short, long)))), WebM, 160}})
	// A setup that no decoder takes: every block counts as long.
	setup[10] ^= 0xff
	private = cat(2, len(ident), len(comment), ident, comment, setup)
	check(t, []measured{{"unknown modes", webmFile(webmTrack("A_VORBIS", private),
		webmCluster(0, webmBlock(0, 0, short), webmBlock(0, 0, short))), WebM, 128}})
	o := oggWriter{serial: 7}
	o.page(oggFirst, 0, ident)
	o.page(0, 0, comment)
	for range 2 {
		o.raw(0, 0, repeat(255, []byte{255}), make([]byte, 255*255))
	}
	o.page(oggContinued, 0, nil)
	o.page(0, 0, short, short)
	check(t, []measured{{"a setup that is too long", o.b, Ogg, 128}})
}

func TestVorbisSetupIsReadUpToItsModes(t *testing.T) {
	_, _, setup := vorbisHeaders()
	switch big, modes, ok := readModes(setup, 2); {
	case !ok:
		t.Errorf("%d modes, long ones %b, %v: ok of readModes(setup, 2): got false, want true", modes, big, ok)
	case modes != 2:
		t.Errorf("%d modes, long ones %b, %v: modes: got %d, want 2", modes, big, ok, modes)
	case big != 2:
		t.Errorf("%d modes, long ones %b, %v: big: got %b, want 2", modes, big, ok, big)
	}
	for n := range len(setup) {
		if _, _, ok := readModes(setup[:n], 2); ok {
			t.Errorf("a setup of %d bytes of %d was read", n, len(setup))
		}
	}
	if _, _, ok := readModes(setup, 3); ok {
		t.Error("a setup for two channels was read as one for three")
	}
	for _, c := range []struct{ entries, dimensions, want uint64 }{
		{0, 1, 0}, {1, 9, 1}, {8, 3, 2}, {9, 2, 3}, {10, 2, 3}, {1<<24 - 1, 1, 1<<24 - 1}, {1<<24 - 1, 65535, 1}, {7, 0, 0},
	} {
		if got := lattice(c.entries, c.dimensions); got != c.want {
			t.Errorf("%d entries of %d dimensions: got %d, want %d", c.entries, c.dimensions, got, c.want)
		}
	}
}

func FuzzVorbisSetup(f *testing.F) {
	_, _, setup := vorbisHeaders()
	f.Add(setup, uint64(2))
	f.Add(setup[:len(setup)/2], uint64(1))
	f.Fuzz(func(t *testing.T, p []byte, channels uint64) {
		if _, modes, ok := readModes(p, channels%255+1); ok && modes < 1 {
			t.Errorf("modes: got %d, want at least 1", modes)
		} else if ok && modes > 64 {
			t.Errorf("modes: got %d, want at most 64", modes)
		}
	})
}
