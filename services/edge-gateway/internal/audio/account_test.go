package audio

import (
	"bytes"
	"errors"
	"testing"
)

// amr is a file of so many frames of AMR at 4.75 kbit/s: 13 bytes for 20 ms.
func amr(frames int) []byte {
	return append([]byte("#!AMR\n"), repeat(frames, cat(0x04, make([]byte, 12)))...)
}

// tail is an ID3v1 tag.
func tail() []byte { return cat("TAG", make([]byte, 125)) }

// wholeFiles has a file of each container that says where it ends, and what it
// measures.
func wholeFiles() map[Format][]byte {
	return map[Format][]byte{
		WAV: wavFile(wavFmt(1, 1, 8000, 2, 16), wavData(16000, 16000)), MP3: repeat(12, mp3Frame()), FLAC: flacFile(0, 3),
		Ogg: oggOpus(1, 60, truly), MP4: newM4A(30).file(), WebM: webmOpus(60, inTime),
	}
}

// 393 s of AMR were served for the 312 ms of the MP3 behind or before them.
func TestSoundOfAnotherContainerIsRefused(t *testing.T) {
	const frames = 393 * 50
	mp3 := repeat(12, mp3Frame())
	for name, data := range map[string][]byte{
		"before": cat(amr(frames), mp3), "behind": cat(mp3, amr(frames)), "between": cat(mp3, amr(frames), mp3),
		"behind a tag":        cat("ID3", 4, 0, 0, 0, 0, 0, 10, make([]byte, 10), amr(frames), mp3),
		"behind the last tag": cat(mp3, tail(), amr(frames)),
	} {
		if millis, _, err := Measure(data); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got %d ms, %v; want %v", name, millis, err, ErrJunk)
		}
	}
	for format, file := range wholeFiles() {
		if millis, _, err := Measure(cat(file, amr(frames))); !errors.Is(err, ErrJunk) {
			t.Errorf("behind %s: got %d ms, %v; want %v", format, millis, err, ErrJunk)
		}
	}
}

// What recorders write beside sound is no junk.
func TestTagsAndZerosAreNoJunk(t *testing.T) {
	ape := cat("APETAGEX", le(4, 2000), le(4, 40), le(4, 1), le(4, 1<<31), make([]byte, 8), make([]byte, 40-32),
		"APETAGEX", make([]byte, 24))
	oldAPE := cat("item item", "APETAGEX", le(4, 1000), le(4, 9+32), le(4, 1), make([]byte, 12))
	lyrics := cat("LYRICSBEGIN", "la la la", "000008LYRICS200")
	mp3 := repeat(12, mp3Frame())
	check(t, []measured{
		{"tags", cat(mp3, ape, lyrics, tail()), MP3, 314},
		{"an old tag", cat(mp3, oldAPE, tail()), MP3, 314},
		{"a tag of today behind", cat(mp3, "ID3", 4, 0, 0x10, 0, 0, 0, 10, make([]byte, 20)), MP3, 314},
		{"zeros behind", cat(mp3, make([]byte, 3000)), MP3, 314},
		{"zeros behind a tag", cat("ID3", 4, 0, 0, 0, 0, 0, 10, make([]byte, 10+500), mp3), MP3, 314},
		{"a tag behind flac", cat(flacFile(0, 3), tail()), FLAC, 1536},
		{"zeros behind ogg", cat(oggOpus(1, 50, truly), make([]byte, 100)), Ogg, 1000},
		{"zeros behind wav", cat(wavFile(wavFmt(1, 1, 8000, 2, 16), wavData(16000, 16000)), make([]byte, 5)), WAV, 1000},
	})
}

// FuzzPolyglot puts one file behind another, with something between: what is
// accepted plays at least as long as both. The second opinion is the length of
// each by itself.
func FuzzPolyglot(f *testing.F) {
	formats := []Format{WAV, MP3, FLAC, Ogg, MP4, WebM}
	files := wholeFiles()
	second := [][]byte{amr(500), repeat(60, cat(0xff, 0xf1, 0x50, 0x80, 0x02, 0x1f, 0xfc, make([]byte, 13)))} // AMR, ADTS
	for _, format := range formats {
		second = append(second, files[format])
	}
	for a := range formats {
		for b := range second {
			f.Add(uint8(a), uint8(b), []byte(nil))
			f.Add(uint8(a), uint8(b), []byte("RIFF\x10\x00\x00\x00WAVE"))
		}
	}
	f.Add(uint8(1), uint8(0), tail())
	f.Fuzz(func(t *testing.T, a, b uint8, between []byte) {
		first, behind := files[formats[int(a)%len(formats)]], second[int(b)%len(second)]
		whole := cat(first, between, behind)
		agreesWithScanners(t, whole)
		millis, format, err := Measure(whole)
		if err != nil {
			return
		}
		own, _, err := Measure(first)
		if err != nil {
			t.Fatal(err)
		}
		least := own
		if other, _, err := Measure(behind); err == nil {
			least += other
		} else {
			least += 500 * 20
		}
		// A tag or box may hold what follows it: then it is no sound.
		if within := bytes.HasPrefix(bytes.TrimLeft(between, "\x00"), []byte("ID3")); millis < least-1 && len(between) == 0 &&
			!within {
			t.Fatalf("%s: got %d ms, want at least %d", format, millis, least)
		}
	})
}
