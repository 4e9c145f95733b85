package audio

import (
	"bytes"
	"errors"
	"testing"
)

type measured struct {
	name   string
	data   []byte
	format Format
	millis int64
}

// refused stands for the duration of a file with bytes that are not accounted for.
const refused = 0

func check(t *testing.T, cases []measured) {
	t.Helper()
	for _, c := range cases {
		millis, format, err := Measure(c.data)
		if c.millis == refused {
			if !errors.Is(err, ErrFormat) || millis != 0 {
				t.Errorf("%s: got %d ms of %q, %v; want %v", c.name, millis, format, err, ErrJunk)
			}
			continue
		}
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", c.name, err)
		case millis != c.millis:
			t.Errorf("%s: millis: got %d, want %d", c.name, millis, c.millis)
		case format != c.format:
			t.Errorf("%s: format: got %q, want %q", c.name, format, c.format)
		}
	}
}

func refuse(t *testing.T, want error, cases map[string][]byte) {
	t.Helper()
	for name, data := range cases {
		if millis, format, err := Measure(data); !errors.Is(err, want) {
			t.Errorf("%s: %d ms of %q, %v: got the error %v, want %v", name, millis, format, err, err, want)
		} else if millis != 0 {
			t.Errorf("%s: %d ms of %q, %v: millis: got %d, want 0", name, millis, format, err, millis)
		}
	}
}

func TestOnlyTheBytesTellTheContainer(t *testing.T) {
	zip := cat("PK\x03\x04", make([]byte, 4000))
	refuse(t, ErrFormat, map[string][]byte{
		"empty": nil, "short": []byte("RIFF"), "zip": zip, "text": []byte("just some words, and then some more"),
		"zeros": make([]byte, 5000), "aiff": cat("FORM", be(4, 4), "AIFF", make([]byte, 100)),
		"avi":                 cat("RIFF", le(4, 4), "AVI ", make([]byte, 100)),
		"adts":                repeat(50, cat(0xff, 0xf1, 0x50, 0x80, 0x02, make([]byte, 16))),
		"zip after a tag":     cat("ID3", 4, 0, 0, 0, 0, 0, 10, make([]byte, 10), zip),
		"ff without end":      repeat(5000, []byte{0xff}),
		"a riff without form": cat("RIFF", le(4, 4), "WAVE", "PK\x03\x04", make([]byte, 100)),
	})
}

func TestATagDoesNotHideWhatFollows(t *testing.T) {
	tag := cat("ID3", 4, 0, 0, 0, 0, 1, 10, make([]byte, 138))
	check(t, []measured{
		{"mp3", cat(tag, tag, repeat(50, mp3Frame())), MP3, 1307},
		{"flac", cat(tag, flacFile(0, 10)), FLAC, 5120},
		{"wav", cat(tag, wavFile(wavFmt(1, 1, 8000, 2, 16), wavData(16000, 16000))), WAV, 1000},
		{"with frames in it", cat("ID3", 4, 0, 0, 0, 0, 6, 65, repeat(2, mp3Frame())[:833], repeat(50, mp3Frame())), MP3,
			1307},
	})
}

func TestNothingToPlayIsAnError(t *testing.T) {
	refuse(t, ErrNothing, map[string][]byte{
		"wav":  wavFile(wavFmt(1, 1, 8000, 2, 16), wavData(0, 0)),
		"flac": flacFile(0, 0),
		"ogg":  oggOpus(1, 0, truly),
		"m4a":  newM4A(0).file(),
		"webm": webmOpus(0, inTime),
	})
}

func TestNoMoreThanADay(t *testing.T) {
	hour := wavFmt(1, 1, 1, 1, 8)
	check(t, []measured{{"a day", wavFile(hour, wavData(86400, 86400)), WAV, 86_400_000}})
	late := func(int) uint64 { return 1 << 60 }
	day := func(int) uint64 { return 48000*86400 + 1 }
	refuse(t, ErrTooLong, map[string][]byte{
		"wav":  wavFile(hour, wavData(86401, 86401)),
		"ogg":  cat(oggOpus(1, 50, truly), oggOpus(2, 100, func(n int) uint64 { return truly(n) + day(0)*uint64(n/100) })),
		"webm": webmOpus(51, func(n int) (uint64, int) { return uint64(n/50) << 30, 0 }),
	})
	// A granule that is none of a day is none at all.
	check(t, []measured{{"granules from nowhere", oggOpus(1, 50, late), Ogg, 1000}})
}

func TestMillisecondsAreRoundedUp(t *testing.T) {
	form := wavFmt(1, 1, 8000, 2, 16)
	check(t, []measured{
		{"one sample", wavFile(form, wavData(2, 2)), WAV, 1},
		{"half a sample", wavFile(form, wavData(1, 1)), WAV, 1},
		{"a millisecond", wavFile(form, wavData(16, 16)), WAV, 1},
		{"and a sample", wavFile(form, wavData(18, 18)), WAV, 2},
	})
}

func TestSumsOfManyRatesLoseNothing(t *testing.T) {
	var sum tally
	for range 44100 {
		sum.add(1, 44100)
	}
	sum.add(8000, 8000)
	sum.add(0, 5)
	sum.add(5, 0)
	if sum.total() != 2_000_000_000 {
		t.Errorf("two seconds: got %d, want 2_000_000_000", sum.total())
	}
	for range 3 {
		sum.add(1<<63, 1<<40)
		sum.add(1<<63, 7)
		sum.add(1<<63, 1)
	}
	if sum.total() != tooLong {
		t.Errorf("for ever: got %d, want %d", sum.total(), tooLong)
	}
	if third, wrapped := nanosOf(1, 3), nanosOf(18_446_744_074, 1); third != 333_333_334 {
		t.Errorf("a third of a second: got %d, want 333_333_334", third)
	} else if wrapped != tooLong {
		t.Errorf("wrapped: got %d, want %d", wrapped, tooLong)
	}
}

func TestChecksumsAreThoseOfTheFormats(t *testing.T) {
	// The check values of CRC-8/SMBUS, CRC-16/UMTS and of CRC-32/CKSUM before its
	// last steps.
	digits := []byte("123456789")
	if got := crc8Of(digits); got != 0xf4 {
		t.Errorf("CRC-8: got %#x, want 0xf4", got)
	}
	if got := crc16Of(0, digits); got != 0xfee8 {
		t.Errorf("CRC-16: got %#x, want 0xfee8", got)
	}
	if got := crc32Of(0, digits); got != 0x89a1897f {
		t.Errorf("CRC-32: got %#x, want 0x89a1897f", got)
	}
}

// Hostile test 24: three hours behind a header that says a second, and the
// other way round.
func TestAHeaderDoesNotChangeTheDuration(t *testing.T) {
	const hours = 3 * 3600
	form := wavFmt(7, 1, 1000, 1, 8)
	opus3h := bytes.Repeat([]byte{0xfb, 0x06}, 1) // six frames of 20 ms
	long := oggWriter{serial: 5}
	long.page(oggFirst, 0, opusHead())
	long.page(0, 0, []byte("OpusTags"))
	for n := range hours * 1000 / 120 / 200 {
		var packets [][]byte
		for range 200 {
			packets = append(packets, opus3h)
		}
		long.page(0, min(uint64(n)*5760*200, 48000), packets...)
	}
	m3h := newM4A(hours * 16000 / 1024)
	m3h.delta = 1
	m1s := newM4A(16)
	m1s.said, m1s.perChunk, m1s.moovFirst = hours*16, hours*16, true
	slow := mp3SlowFrame()
	copy(slow[13:], cat("Info", be(4, 1), be(4, 14)))
	webm3h := webmOpus(hours*50, func(n int) (uint64, int) { return min(uint64(n/50), 1000), 0 })
	check(t, []measured{
		{"wav says a second", wavFile(form, wavData(1000, hours*1000)), WAV, hours * 1000},
		{"wav says three hours", wavFile(form, wavData(hours*1000, 1000)), WAV, 1000},
		{"ogg says a second", long.b, Ogg, hours * 1000},
		{"m4a says ten seconds", m3h.file(), MP4, hours * 16000 / 1024 * 64},
		{"m4a says three hours", m1s.file(), MP4, 1024},
		{"webm says a second", webm3h, WebM, hours * 1000},
		{"mp3 says a second", cat(slow, repeat(hours*8000/576, mp3SlowFrame())), MP3, hours * 1000},
		{"mp3 says three hours", cat(xingFrame(1<<20), repeat(38, mp3Frame())), MP3, 993},
		{"flac says nothing", flacFile(0, 10), FLAC, 5120},
	})
}

func xingFrame(frames uint64) []byte {
	f := mp3Frame()
	copy(f[21:], cat("Xing", be(4, 1), be(4, frames)))
	return f
}
