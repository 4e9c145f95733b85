package audio

import "testing"

func TestM4ACountsSamplesAndTimes(t *testing.T) {
	plain := newM4A(125) // 8 s
	slow := newM4A(125)
	slow.delta = 2048
	fast := newM4A(125)
	fast.delta = 1
	early := newM4A(125)
	early.moovFirst = true
	twice := newM4A(125)
	twice.edits = repeat(2, cat(be(4, 4000), be(4, 0), be(4, 1<<16)))
	often := newM4A(125)
	often.edits = repeat(3, cat(be(4, 1<<31), be(4, 0), be(4, 1<<16)))
	silence := newM4A(125)
	silence.edits = cat(be(4, 9000), be(4, 1<<32-1), be(4, 1<<16), be(4, 8000), be(4, 1024), be(4, 1<<16))
	he := newM4A(125)
	he.entry, he.timescale = aacEntry(0x2d, 0x8c, 0x08), 16000 // SBR over 8 kHz
	he.delta = 1
	bare := newM4A(125)
	bare.entry = soundBox("mp4a", 16000, nil)
	opus := newM4A(50)
	opus.entry, opus.sample, opus.delta, opus.timescale = soundBox("Opus", 48000, nil), opusPacket(), 0, 48000
	alac := newM4A(10)
	alac.entry = soundBox("alac", 8000, box("alac", be(4, 0), be(4, 4096), make([]byte, 16), be(4, 8000)))
	mp3 := newM4A(38)
	mp3.entry, mp3.sample, mp3.delta = soundBox(".mp3", 44100, nil), mp3Frame(), 0
	flac := newM4A(10)
	flac.entry = soundBox("fLaC", 8000, box("dfLa", be(4, 0), be(4, 1<<31|34), streamInfo(8000)))
	flac.sample, flac.delta = flacFrameOf(1), 0
	check(t, []measured{
		{"plain", plain.file(), MP4, 8000},
		{"moov before mdat", early.file(), MP4, 8000},
		{"times that are too long", slow.file(), MP4, 16000},
		{"times that are too short", fast.file(), MP4, 8000},
		{"half of it twice", twice.file(), MP4, 8000},
		{"all of it three times", often.file(), MP4, 24000},
		{"silence before", silence.file(), MP4, 8000},
		{"HE-AAC", he.file(), MP4, 16000},
		{"AAC that does not say which", bare.file(), MP4, 16000},
		{"opus", opus.file(), MP4, 1000},
		{"alac", alac.file(), MP4, 5120},
		{"mp3", mp3.file(), MP4, 993},
		{"flac", flac.file(), MP4, 5120},
	})
}

func TestM4AFragmentsAdd(t *testing.T) {
	m := newM4A(0)
	m.fragments, m.inFragment, m.mvex = 5, 25, trex(1024, 8)
	untimed := m
	untimed.mvex = trex(1, 8)
	both := newM4A(125)
	both.fragments, both.inFragment, both.mvex = 5, 25, trex(1024, 8)
	cut := m.file()
	check(t, []measured{
		{"fragments only", m.file(), MP4, 8000},
		{"fragments whose times are too short", untimed.file(), MP4, 8000},
		{"behind a track", both.file(), MP4, 16000},
		{"cut", cut[:len(cut)-80], MP4, 7360},
	})
	sizeless := m
	sizeless.mvex = trex(1024, 0)
	refuse(t, ErrNothing, map[string][]byte{"no sizes": sizeless.file()})
	// A fragment that claims a time of its own.
	traf := func(at, offset uint64) []byte {
		return box("moof", box("traf", box("tfhd", be(4, tfhdFromMoof|tfhdDelta|tfhdSize|tfhdDescription), be(4, 1), be(4, 1),
			be(4, 1024), be(4, 8)),
			box("tfdt", be(4, 1<<24), be(8, at)),
			box("trun", be(4, trunOffset|trunFirstFlags|trunDelta|trunSize|trunFlags|trunShift), be(4, 1), be(4, offset),
				be(4, 0),
				be(4, 1024), be(4, 8), be(4, 0), be(4, 0))))
	}
	at := func(time uint64) []byte {
		return cat(traf(time, uint64(len(traf(0, 0))+8)), box("mdat", make([]byte, 8)))
	}
	empty := newM4A(0)
	check(t, []measured{{"a hole", cat(empty.file(), at(16000), at(31*1024+16000)), MP4, 2048}})
}

func TestM4ASamplesMustBeThere(t *testing.T) {
	overlap := newM4A(100)
	overlap.chunks, overlap.said = 50, 5000
	plain := newM4A(100).file()
	broken := func(change func(*m4a)) []byte {
		m := newM4A(100)
		change(&m)
		return m.file()
	}
	refuse(t, ErrFormat, map[string][]byte{
		"samples over and over": overlap.file(),
		"no timescale":          broken(func(m *m4a) { m.timescale = 0 }),
		"another codec":         broken(func(m *m4a) { m.entry = soundBox("ac-3", 48000, nil) }),
		"two codecs":            broken(func(m *m4a) { m.entry = cat(m.entry, soundBox("Opus", 48000, nil)) }),
		"no rate":               broken(func(m *m4a) { m.entry = aacEntry(0x17, 0x88, 0, 0, 0, 0) }),
		"two tables of times":   broken(func(m *m4a) { m.more = box("stts", be(4, 0), be(4, 1), be(4, 1), be(4, 9)) }),
		"two descriptions":      broken(func(m *m4a) { m.more = box("stsd", be(4, 0), be(4, 1), m.entry) }),
		"boxes only":            plain[:1000],
		"no moov":               cat(box("ftyp", "M4A "), box("mdat", make([]byte, 1000))),
	})
	short := newM4A(100)
	short.said = 50
	check(t, []measured{{"fewer samples than bytes", short.file(), MP4, 3200}})
}

func TestM4ATimesOfMissingSamplesAreLeftOut(t *testing.T) {
	runs := timesOf(cat(be(4, 0), be(4, 4), be(4, 2), be(4, 10), be(4, 0), be(4, 99), be(4, 3), be(4, 20), be(4, 2),
		be(4, 30)))
	got := []uint64{runs.next()}
	runs.skip(2)
	got = append(got, runs.next())
	runs.skip(1)
	got = append(got, runs.next(), runs.next(), runs.next())
	runs.skip(1 << 40)
	for i, want := range []uint64{10, 20, 30, 30, 0} {
		if got[i] != want {
			t.Errorf("the times: got %d, want %d", got[i], want)
		}
	}
}

func TestWebMCountsBlocksAndTimes(t *testing.T) {
	still := func(int) (uint64, int) { return 0, 0 }
	later := func(n int) (uint64, int) { return inTimeBut(n, 5000) }
	stretched := func(n int) (uint64, int) { return uint64(n/50) * 2000, n % 50 * 40 }
	opus := webmTrack("A_OPUS", opusHead())
	p := opusPacket()
	group := func(plays uint64) []byte {
		return ebml(idGroup, ebml(idBlock, 0x81, be(2, 0), 0, p), ebml(idPlays, be(4, plays)))
	}
	aac := webmTrack("A_AAC", []byte{0x15, 0x88}) // LC, 8 kHz, mono
	check(t, []measured{
		{"opus", webmOpus(500, inTime), WebM, 10_000},
		{"times that stand still", webmOpus(500, still), WebM, 10_000},
		{"times that begin late", webmOpus(500, later), WebM, 10_000},
		{"times twice as long", webmOpus(100, stretched), WebM, 3980},
		{"block group", webmFile(opus, webmCluster(0, group(3), group(5))), WebM, 40},
		{"a duration that is longer", webmFile(opus, webmCluster(0, group(700))), WebM, 700},
		{"xiph lacing", webmFile(opus, webmCluster(0, webmBlock(0, 0x02, cat(2, 3, 3, p, p, p)))), WebM, 60},
		{"fixed lacing", webmFile(opus, webmCluster(0, webmBlock(0, 0x04, cat(2, p, p, p)))), WebM, 60},
		{"EBML lacing", webmFile(opus, webmCluster(0, webmBlock(0, 0x06, cat(2, 0x83, 0xbf, p, p, p)))), WebM, 60},
		{"lacing that lies", webmFile(opus, webmCluster(0, webmBlock(0, 0x02, cat(2, 3, 200, p, p, p)), webmBlock(0, 0, p))),
			WebM, 20},
		{"aac", webmFile(aac, webmCluster(0, webmBlock(0, 0, []byte{1, 2}))), WebM, 128},
		{"mp3", webmFile(webmTrack("A_MPEG/L3", nil), webmCluster(0, webmBlock(0, 0, mp3SlowFrame()))), WebM, 72},
		{"flac", webmFile(webmTrack("A_FLAC", cat("fLaC", be(4, 1<<31|34), streamInfo(8000))),
			webmCluster(0, webmBlock(0, 0, flacFrameOf(0)))), WebM, 512},
		{"another track's block", webmFile(opus, webmCluster(0, webmBlock(0, 0, p), ebml(idSimple, 0x82, be(2, 900), 0, p))),
			WebM, 20},
	})
	refuse(t, ErrFormat, map[string][]byte{
		"no track":      webmFile(nil, webmCluster(0, webmBlock(0, 0, p))),
		"another codec": webmFile(webmTrack("A_AC3", nil), webmCluster(0, webmBlock(0, 0, p))),
		"header only":   cat(ebml(0x1a45dfa3, ebml(0x4282, "webm"))),
		"frames without their first bytes": webmFile(ebml(idTracks, ebml(idTrack, ebml(idNumber, 1), ebml(idType, 2),
			ebml(idCodec, "A_OPUS"), ebml(idEncoding, "x"))), webmCluster(0, webmBlock(0, 0, p))),
	})
}

func inTimeBut(block int, late uint64) (uint64, int) {
	cluster, relative := inTime(block)
	return cluster + late, relative
}

func TestWebMElementsThatAreTooLongHideNothing(t *testing.T) {
	cluster := func(at uint64) []byte { return webmCluster(at, webmBlock(0, 0, opusPacket())) }
	hiding := cat(ebmlID(0xec), []byte{0x08, 0xff, 0xff, 0xff, 0xff})
	within := ebml(idCluster, ebml(idTime, 0), cat(ebmlID(0xec), []byte{0x10, 0, 0, 100}))
	opus := webmTrack("A_OPUS", opusHead())
	many := repeat(20, cluster(20))
	void := ebml(0xec, cluster(0))
	check(t, []measured{
		{"beyond the file", webmFile(opus, cluster(0), hiding, cluster(20), cluster(40)), WebM, refused},
		{"beyond its cluster", webmFile(opus, cluster(0), within, many), WebM, refused},
		{"no element at all", webmFile(opus, cluster(0), []byte{0, 0, 0}, cluster(20)), WebM, refused},
		{"within what is void", webmFile(opus, cluster(0), void, cluster(20)), WebM, 40},
	})
}
