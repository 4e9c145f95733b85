package audio

import "bytes"

// Every byte of a file must belong to its container, because bytes that one player takes
// for junk another takes for sound: 393 s of AMR fit beside an MP3 of 312 ms. So a file
// is refused that has more than tags and zeros before, between or behind the parts of its
// container. The content of a part is the container's own: no player that has recognised
// the container by its first bytes looks for another container there.

// accounted reports whether every byte belongs to the container. The elements of WebM are
// accounted for while they are walked.
func (w *walk) accounted(format Format) bool {
	switch format {
	case WAV:
		return w.wavAccounted()
	case MP3:
		return w.mp3Accounted()
	case FLAC:
		return w.flacAccounted()
	case Ogg:
		return w.oggAccounted()
	case MP4:
		return w.mp4Accounted()
	default:
		return true
	}
}

// mp3Accounted steps from frame to frame. The last frame may be cut off. A frame of
// another form begins another stream or is no frame, so it is not accounted for.
func (w *walk) mp3Accounted() bool {
	var form uint32
	pos := 0
	for locked := false; pos < len(w.data); locked = true {
		w.steps++
		f, ok := parseMPEG(w.data[pos:])
		if !ok {
			break
		}
		if f.free || (!locked || f.form != form) && !w.chained(pos, f) {
			return false
		}
		form = f.form
		pos += int(f.size)
	}
	return pos >= len(w.data) || w.onlyTags(w.data[pos:])
}

// onlyTags reports whether b holds nothing but the tags that stand behind sound.
func (w *walk) onlyTags(b []byte) bool {
	const (
		id3Bytes      = 128
		extendedBytes = 227
		apeBytes      = 32
		lyricsBytes   = 64 << 10
	)
	for b = bytes.TrimLeft(b, "\x00"); len(b) > 0; b = bytes.TrimLeft(b, "\x00") {
		w.steps++
		size := 0
		switch {
		case bytes.HasPrefix(b, []byte("TAG+")) && len(b) >= extendedBytes:
			size = extendedBytes
		case bytes.HasPrefix(b, []byte("TAG")):
			size = id3Bytes
		case bytes.HasPrefix(b, []byte("ID3")):
			size = id3Size(b)
		case bytes.HasPrefix(b, []byte("APETAGEX")) && len(b) >= apeBytes:
			size = apeBytes + int(le32(b[12:]))
		case bytes.HasPrefix(b, []byte("LYRICSBEGIN")):
			for _, end := range []string{"LYRICS200", "LYRICSEND"} {
				if at := bytes.Index(b[:min(len(b), lyricsBytes)], []byte(end)); at >= 0 && size == 0 {
					size = at + len(end)
				}
			}
		default:
			// The first version of an APE tag has its mark at its end only.
			at := bytes.Index(b, []byte("APETAGEX"))
			if at >= 0 && len(b)-at >= apeBytes && int(le32(b[at+12:])) == at+apeBytes {
				size = at + apeBytes
			}
		}
		if size == 0 || size > len(b) {
			return false
		}
		b = b[size:]
	}
	return true
}

// wavChunks are the chunks without sound that recorders write.
var wavChunks = map[string]bool{
	"fmt ": true, "fact": true, "LIST": true, "id3 ": true, "ID3 ": true, "bext": true, "cue ": true, "smpl": true,
	"inst": true,
	"PEAK": true, "JUNK": true, "junk": true, "PAD ": true, "FLLR": true, "iXML": true, "_PMX": true, "aXML": true,
	"axml": true,
	"acid": true, "afsp": true, "DISP": true, "ds64": true, "plst": true, "note": true, "labl": true, "ltxt": true,
	"umid": true,
	"chna": true, "cart": true, "levl": true, "strc": true, "MD5 ": true, "minf": true, "elm1": true, "regn": true,
	"ovwf": true,
}

// wavAccounted steps from chunk to chunk. A data chunk of unknown size ends the file.
func (w *walk) wavAccounted() bool {
	long := uint64(0)
	for pos := 12; pos < len(w.data); {
		w.steps++
		if len(w.data)-pos < 8 {
			return onlyZeros(w.data[pos:])
		}
		rest := uint64(len(w.data) - pos - 8)
		id, size := string(w.data[pos:pos+4]), le32(w.data[pos+4:])
		switch {
		case id == "data":
			if size == unknownSize && long != 0 {
				size = long
			}
			if size == 0 || size >= rest {
				return true
			}
		case !wavChunks[id] || size > rest:
			return onlyZeros(w.data[pos:])
		case id == "ds64" && size >= 16:
			long = le32(w.data[pos+16:]) | le32(w.data[pos+20:])<<32
		}
		pos += 8 + int(size+size&1)
	}
	return true
}

// flacAccounted steps from frame to frame. A frame ends where its checksum holds and
// another header begins, or where the file ends. Zeros behind it do not change a checksum
// that holds.
func (w *walk) flacAccounted() bool {
	info, pos, ok := w.flacMetadata()
	if !ok || pos == len(w.data) {
		return true // Measure returns the fault
	}
	end := len(w.data)
	if end-pos > 128 && string(w.data[end-128:end-125]) == "TAG" {
		end -= 128
	}
	var sum uint16
	for open := false; pos < end; open = true {
		w.steps++
		_, head := parseFLAC(w.data[pos:min(pos+maxFlacHeader, end)], info)
		switch {
		case head && sum == 0:
		case !open:
			return false
		}
		next := bytes.IndexByte(w.data[pos+1:end], 0xff)
		if next < 0 {
			next = end - pos - 1
		}
		sum = crc16Of(sum, w.data[pos:pos+1+next])
		pos += 1 + next
	}
	return sum == 0
}

// oggAccounted steps from page to page.
func (w *walk) oggAccounted() bool {
	for pos := 0; pos < len(w.data); {
		w.steps++
		var page []byte
		if len(w.data)-pos >= oggPageHeader {
			page, _ = pageAt(w.data[pos:])
		}
		if page == nil {
			return onlyZeros(w.data[pos:])
		}
		pos += len(page)
	}
	return true
}

// outerBoxes are the boxes that stand side by side in a file.
var outerBoxes = map[string]bool{
	"ftyp": true, "styp": true, "moov": true, "moof": true, "mdat": true, "free": true, "skip": true, "wide": true,
	"pnot": true,
	"udta": true, "uuid": true, "meta": true, "mfra": true, "sidx": true, "ssix": true, "prft": true, "emsg": true,
	"pdin": true,
	"PICT": true,
}

// mp4Accounted steps from box to box. The last box may be cut off. A second movie is not
// accounted for, because players play one of two movies and differ over which.
func (w *walk) mp4Accounted() bool {
	movies := 0
	for b := w.data; len(b) > 0; {
		box, rest, _, ok := w.box(b, 0)
		if !ok || !outerBoxes[box.kind] {
			return onlyZeros(b)
		}
		if box.kind == "moov" {
			movies++
		}
		if movies > 1 {
			return false
		}
		b = rest
	}
	return true
}

// segmentElements are the elements that stand in a segment of WebM beside the elements
// that are entered.
var segmentElements = map[uint64]bool{
	0x114d9b74: true, // SeekHead
	0x1c53bb6b: true, // Cues
	0x1254c367: true, // Tags
	0x1043a770: true, // Chapters
	0x1941a469: true, // Attachments
	0xec:       true, // Void
	0xbf:       true, // CRC-32
}

// place notes an element that stands where it does not belong.
func (f *mkvFile) place(id uint64) {
	switch {
	case f.depth < 0 && id != idEBML && id != 0xec, f.depth == 0 && !segmentElements[id] && id != idEBML:
		f.w.junk = true
	}
}

func onlyZeros(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
