package audio

import (
	"bytes"
	"testing"
)

// stepsPerByte bounds the work: a frame of MPEG that is no part of the stream
// is looked at with the ten that might follow it, every four bytes.
const stepsPerByte = 4

// fuzz measures whatever begins as a format does: it must not panic, not take
// more than linear time, and give a duration or an error.
func fuzz(f *testing.F, want Format, seeds ...[]byte) {
	for _, seed := range seeds {
		if _, format, err := Measure(seed); format != want {
			f.Fatalf("a seed: got %q, want %q", format, want)
		} else if err != nil {
			f.Fatalf("got the error %v, want none", err)
		}
		f.Add(seed)
		f.Add(seed[:len(seed)/2])
		f.Add(append(bytes.Clone(seed), seed...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		w := walk{data: data}
		millis, _, err := w.measure()
		if (err == nil) != (millis > 0) {
			t.Fatalf("err == nil: got %t, want %t", err == nil, millis > 0)
		}
		if millis > MaxDuration.Milliseconds() {
			t.Fatalf("millis: got %d, want at most %d", millis, MaxDuration.Milliseconds())
		}
		if most := stepsPerByte*len(data) + 100; w.steps > most {
			t.Fatalf("steps for %d bytes: got %d, want at most %d", len(data), w.steps, most)
		}
		if !bytes.Equal(before, data) {
			t.Fatalf("the file afterwards: got %q, want %q", data, before)
		}
	})
}

func FuzzWAV(f *testing.F) {
	data := wavData(64, 64)
	fuzz(f, WAV, wavFile(wavFmt(1, 1, 8000, 2, 16), data), wavFile(wavFmt(0x11, 1, 8000, 32, 4), data),
		wavFile(wavFmt(2, 1, 8000, 32, 4), wavData(0, 64)), wavFile(cat("LIST", le(4, 1), "xx"), wavFmt(3, 2, 8000, 8, 32),
			data, data))
}

func FuzzMP3(f *testing.F) {
	fuzz(f, MP3, repeat(12, mp3SlowFrame()), cat(xingFrame(1), repeat(12, mp3Frame())), cat(repeat(12, mp3SlowFrame()),
		repeat(3, mp3Frame()), "TAG", make([]byte, 125)))
}

func FuzzFLAC(f *testing.F) {
	fuzz(f, FLAC, flacFile(0, 3), flacFile(1000, 2), cat(flacFile(0, 2), flacFrameOf(7)))
}

func FuzzOgg(f *testing.F) {
	fuzz(f, Ogg, oggOpus(1, 60, truly), oggSpeex(3), oggFLAC(3),
		oggVorbis(func(int) uint64 { return 0 }, [][]byte{vorbisShort, vorbisLong, vorbisLong}),
		cat(oggOpus(1, 2, truly), oggSpeex(2)))
}

func FuzzMP4(f *testing.F) {
	fragments := newM4A(0)
	fragments.fragments, fragments.inFragment, fragments.mvex = 2, 3, trex(1024, 8)
	edited := newM4A(3)
	edited.edits = cat(be(4, 4000), be(4, 0), be(4, 1<<16))
	opus := newM4A(3)
	opus.entry, opus.sample = soundBox("Opus", 48000, nil), opusPacket()
	fuzz(f, MP4, newM4A(3).file(), fragments.file(), edited.file(), opus.file())
}

func FuzzWebM(f *testing.F) {
	p := opusPacket()
	opus := webmTrack("A_OPUS", opusHead())
	ident, comment, setup := vorbisHeaders()
	vorbis := webmTrack("A_VORBIS", cat(2, len(ident), len(comment), ident, comment, setup))
	fuzz(f, WebM, webmOpus(60, inTime), webmFile(opus, webmCluster(0, webmBlock(0, 0x06, cat(2, 0x83, 0xbf, p, p, p)))),
		webmFile(opus, webmCluster(0, webmBlock(0, 0x02, cat(2, 3, 3, p, p, p)))),
		webmFile(vorbis, webmCluster(0, webmBlock(0, 0, vorbisLong), webmBlock(0, 0, vorbisShort))))
}

// What would be slow were it not for a bound.
func TestMeasuringIsLinear(t *testing.T) {
	const size = 1 << 20
	fill := func(start, unit []byte) []byte {
		return append(bytes.Clone(start), bytes.Repeat(unit, (size-len(start))/len(unit))...)
	}
	overlap := newM4A(100)
	overlap.chunks, overlap.perChunk, overlap.said = size/8, 1<<30, 1<<32-1
	for name, data := range map[string][]byte{
		"heads of mp3":     fill(repeat(12, mp3SlowFrame()), []byte{0xff, 0xfb, 0x90, 0xc0}),
		"heads of slow":    fill(repeat(12, mp3SlowFrame()), []byte{0xff, 0xe3, 0x18, 0xc0}),
		"ff":               fill(repeat(12, mp3SlowFrame()), []byte{0xff}),
		"heads of flac":    fill(flacFile(0, 1), flacHeader(1)),
		"pages of ogg":     fill(oggOpus(1, 1, truly), cat("OggS", make([]byte, 22), 1, 255)),
		"large pages":      fill(oggOpus(1, 1, truly), cat("OggS", make([]byte, 22), 200, repeat(200, []byte{255}))),
		"clusters of webm": fill(webmOpus(1, inTime), clusterMagic),
		"voids of webm":    fill(webmOpus(1, inTime), []byte{0xec, 0x80}),
		"boxes":            fill(newM4A(1).file(), box("free")),
		"samples of m4a":   overlap.file(),
		"tags":             fill(nil, cat("ID3", 4, 0, 0, 0, 0, 0, 0)),
		"chunks":           fill(wavFile(wavFmt(1, 1, 8000, 2, 16)), cat("data", le(4, 2), 0, 0)),
	} {
		w := walk{data: data}
		_, _, err := w.measure()
		if most := stepsPerByte * len(data); w.steps > most {
			t.Errorf("%s: %d steps for %d bytes, %v: got %d, want at most %d", name, w.steps, len(data), err, w.steps, most)
		}
	}
}

func BenchmarkMeasure(b *testing.B) {
	for name, data := range map[string][]byte{
		"mp3": repeat(20<<20/417, mp3Frame()), "ogg": oggOpus(1, 200_000, truly), "webm": webmOpus(200_000, inTime),
		"flac": flacFile(0, 50_000),
		"wav":  wavFile(wavFmt(1, 1, 8000, 2, 16), wavData(20<<20, 20<<20)), "m4a": newM4A(200_000).file(),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Measure(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
