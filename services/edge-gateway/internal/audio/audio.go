// Package audio measures how long a sound file plays, in whole milliseconds, rounded up.
//
// Audio is charged by the minute, so its length must not depend on what a file says of
// itself. The first bytes alone decide the container, never a name or a declared type,
// and the duration is found by walking the frames that are really there. A length in a
// header is never believed, whether it is more than is there or less. Where a container
// has times of its own, the longer of its times and its frames counts, because that is
// the longest that any player may take. A file with bytes that belong to no part of its
// container is refused, because players differ over what they are. The only exceptions
// are tags and zeros.
//
// The containers are WAV (PCM, float, A-law, mu-law, IMA and MS ADPCM), MP3 (MPEG 1, 2
// and 2.5, layers I to III), FLAC, Ogg (Vorbis, Opus, FLAC, Speex), M4A and MP4 (AAC,
// ALAC, MP3, Opus, FLAC) and WebM or Matroska (Opus, Vorbis, AAC, MP3, FLAC).
//
// Limits: 24 hours; a few kilobytes of memory, whatever the size, and 64 more while the
// header of a Vorbis stream is read; time linear in the size; no recursion. Samples that
// a decoder drops at the beginning and the end of a compressed stream count: some
// hundredths of a second, and for AAC at a low rate some tenths.
package audio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"
)

// Format is a container.
type Format string

// The containers that are measured.
const (
	WAV  Format = "wav"
	MP3  Format = "mp3"
	FLAC Format = "flac"
	Ogg  Format = "ogg"
	MP4  Format = "m4a"
	WebM Format = "webm"
)

// MaxDuration is the longest audio that is measured.
const MaxDuration = 24 * time.Hour

// Errors of Measure.
var (
	// ErrFormat is a file that is none of the containers, that holds a codec or a form of
	// a codec that is not measured, or that is too broken to be measured.
	ErrFormat = errors.New("the file is not audio in one of these formats: flac, m4a (mp4), mp3, ogg, wav, webm")
	// ErrJunk is a file with bytes that belong to no part of its container.
	ErrJunk error = junkError{}
	// ErrNothing is a container without a single frame of audio.
	ErrNothing = errors.New("the file holds nothing that can be played")
	// ErrTooLong is audio of more than MaxDuration.
	ErrTooLong = errors.New("the audio is longer than 24 hours")
)

// junkError is an error that counts as ErrFormat too.
type junkError struct{}

func (junkError) Error() string {
	return "the file has bytes that are no part of its container, or is damaged: cut off what stands before, between " +
		"and behind the sound, or encode it again"
}

func (junkError) Unwrap() error { return ErrFormat }

// Measure returns the duration of a file in milliseconds, at least 1, and its container.
func Measure(data []byte) (millis int64, format Format, err error) {
	w := walk{data: data}
	return w.measure()
}

// walk is one pass over a file.
type walk struct {
	data []byte
	// steps counts the parts that were looked at, so that tests can check that their
	// number stays linear in the size.
	steps int
	// junk reports, for WebM, bytes that are no element in its place.
	junk bool
}

func (w *walk) measure() (int64, Format, error) {
	w.skipTags()
	format := recognise(w.data)
	var nanos uint64
	var err error
	if !w.accounted(format) {
		return 0, format, ErrJunk
	}
	switch format {
	case WAV:
		nanos, err = w.wav()
	case FLAC:
		nanos, err = w.flac()
	case Ogg:
		nanos, err = w.ogg()
	case MP4:
		nanos, err = w.mp4()
	case WebM:
		nanos, err = w.webm()
	case MP3:
		nanos, err = w.mp3()
	default:
		err = ErrFormat
	}
	switch {
	case err != nil:
		return 0, format, err
	case w.junk:
		return 0, format, ErrJunk
	case nanos == 0:
		return 0, format, ErrNothing
	case nanos > uint64(MaxDuration):
		return 0, format, ErrTooLong
	}
	return int64((nanos + uint64(time.Millisecond) - 1) / uint64(time.Millisecond)), format, nil
}

// skipTags skips ID3v2 tags before the file proper. Players skip them before they look
// for a container, whichever it is.
func (w *walk) skipTags() {
	for len(w.data) >= 10 && string(w.data[:3]) == "ID3" {
		w.steps++
		w.data = w.data[min(id3Size(w.data), len(w.data)):]
		if padding := bytes.TrimLeft(w.data, "\x00"); len(padding) > 0 && padding[0] == 0xff {
			w.data = padding // some taggers pad behind the tag
		}
	}
}

// id3Size returns the size of the ID3v2 tag that b begins with; 0 when b is too short.
func id3Size(b []byte) int {
	if len(b) < 10 {
		return 0
	}
	size := 10
	for i, c := range b[6:10] {
		size += int(c&0x7f) << (21 - 7*i)
	}
	if b[5]&0x10 != 0 {
		size += 10 // a footer
	}
	return size
}

// firstBoxes are boxes that an MP4 or QuickTime file may begin with.
var firstBoxes = []string{"ftyp", "styp", "moov", "moof", "mdat", "free", "skip", "wide", "pnot", "udta", "uuid"}

// recognise returns the container; empty for none. The containers with a name of their
// own come before MP3, which is only a pattern of bits.
func recognise(b []byte) Format {
	if len(b) < 12 {
		return ""
	}
	switch string(b[:4]) {
	case "RIFF", "RF64":
		if string(b[8:12]) == "WAVE" {
			return WAV
		}
		return ""
	case "fLaC":
		return FLAC
	case "OggS":
		return Ogg
	case "\x1a\x45\xdf\xa3":
		return WebM
	}
	for _, box := range firstBoxes {
		if string(b[4:8]) == box {
			return MP4
		}
	}
	if _, ok := parseMPEG(b); ok {
		return MP3
	}
	return ""
}

func be16(b []byte) uint64 { return uint64(binary.BigEndian.Uint16(b)) }
func be32(b []byte) uint64 { return uint64(binary.BigEndian.Uint32(b)) }
func le16(b []byte) uint64 { return uint64(binary.LittleEndian.Uint16(b)) }
func le32(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }
