package openaiapi

import (
	"bytes"
	"encoding/binary"
)

// What a picture is taken for. Engines cut it into patches, most of 28 pixels,
// and scale it down to a bound of their own, or fill tiles with it, also with a
// small one.
//
//	family                  tokens                          most
//	Qwen-VL, GLM-V, Kimi    w/28 × h/28, larger ones 32     16,384
//	Pixtral, Mistral Small  w/16 × h/16 (w/28 × h/28)       4,160 (3,080)
//	LLaVA-OneVision         729 a tile of 384, up to 10     7,290
//	InternVL                256 a tile of 448, up to 13     3,328, also of a small one
//	Idefics3, SmolVLM       169 a tile of 364, up to 17     2,950, also of a small one
//	OpenAI's tiles          85 + 170 a tile of 512          1,445
//
// The estimate is Qwen's, the most usual one; the bound covers all of them.
const (
	pictureTokens   = 1024 // of an unknown size
	pictureLeast    = 85
	maxPicture      = 16_384
	pictureBound    = 16_640
	smallBound      = 4_608
	patch           = 28
	boundPixels     = 100 // a token each, and tileBound
	tileBound       = 1_024
	maxSegments     = 512 // of a JPEG or GIF before its size
	maxPictureSide  = 1 << 20
	maxBase64Window = 32
)

// picture counts a picture: data:image/…;base64,… by the size in its own head,
// whatever type the address says, and others by what they can be at most.
func (p *parser) picture(address []byte) {
	tokens, bound := int64(pictureTokens), int64(pictureBound)
	if hasScheme(address, "data:") {
		if comma := bytes.IndexByte(address, ','); comma >= 0 && bytes.HasSuffix(bytes.ToLower(address[:min(comma, 256)]),
			[]byte(";base64")) {
			if w, h, ok := pictureSize(encoded(address[comma+1:])); ok {
				tokens, bound = tokensOfPicture(w, h)
			}
		}
	}
	p.req.PromptTokens += tokens
	p.req.PromptBound += bound
}

// tokensOfPicture gives the estimate and the bound of a picture of a size.
func tokensOfPicture(w, h int64) (tokens, bound int64) {
	tokens = (w+patch-1)/patch*((h+patch-1)/patch) + 2
	tokens = min(max(tokens, pictureLeast), maxPicture)
	bound = max(w*h/boundPixels+tileBound, tokens, smallBound)
	return tokens, min(bound, pictureBound)
}

// encoded is a file in base64. It is read at the few places that matter, so
// that the time does not depend on its size.
type encoded []byte

// at gives n bytes of the file from an offset, at most 16; nil when they are not
// there, or are no base64 without line ends.
func (e encoded) at(buf *[maxBase64Window]byte, offset, n int) []byte {
	first, last := offset/3, (offset+n+2)/3 // groups of four characters
	if offset < 0 || last*4 > len(e) && (last-1)*4 >= len(e) {
		return nil
	}
	got := 0
	for group := first; group < last; group++ {
		chars := e[group*4 : min(group*4+4, len(e))]
		var v uint32
		have := 0
		for _, c := range chars {
			d := base64Values[c]
			if d == notBase64 {
				break
			}
			v = v<<6 | uint32(d)
			have++
		}
		if have < 2 {
			return nil
		}
		v <<= 6 * (4 - uint(have))
		buf[got], buf[got+1], buf[got+2] = byte(v>>16), byte(v>>8), byte(v)
		got += have - 1
		if have < 4 {
			break
		}
	}
	from := offset - first*3
	if from+n > got {
		return nil
	}
	return buf[from : from+n]
}

const notBase64 = 0xff

var base64Values = func() (t [256]byte) {
	for i := range t {
		t[i] = notBase64
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = byte(i)
	}
	return t
}()

// pictureSize reads the size from the head of a PNG, JPEG, GIF or WebP file.
func pictureSize(e encoded) (w, h int64, ok bool) {
	var buf [maxBase64Window]byte
	head := e.at(&buf, 0, 12)
	if head == nil {
		return 0, 0, false
	}
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		w, h = e.pngSize()
	case head[0] == 0xff && head[1] == 0xd8:
		w, h = e.jpegSize()
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		w, h = e.gifSize()
	case bytes.HasPrefix(head, []byte("RIFF")) && bytes.HasSuffix(head, []byte("WEBP")):
		w, h = e.webpSize()
	}
	return w, h, w > 0 && h > 0 && w <= maxPictureSide && h <= maxPictureSide
}

func (e encoded) pngSize() (w, h int64) {
	var buf [maxBase64Window]byte
	b := e.at(&buf, 12, 12)
	if b == nil || string(b[:4]) != "IHDR" {
		return 0, 0
	}
	return int64(binary.BigEndian.Uint32(b[4:])), int64(binary.BigEndian.Uint32(b[8:]))
}

// jpegSize steps over the segments to the head of the frame.
func (e encoded) jpegSize() (w, h int64) {
	var buf [maxBase64Window]byte
	pos := 2
	for range maxSegments {
		b := e.at(&buf, pos, 9)
		if b == nil || b[0] != 0xff {
			return 0, 0
		}
		switch marker := b[1]; {
		case marker == 0xff: // a fill byte
			pos++
		case marker == 0x01 || marker >= 0xd0 && marker <= 0xd8: // without a length
			pos += 2
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc:
			return int64(binary.BigEndian.Uint16(b[7:])), int64(binary.BigEndian.Uint16(b[5:]))
		case marker == 0xd9 || marker == 0xda || binary.BigEndian.Uint16(b[2:]) < 2:
			return 0, 0
		default:
			pos += 2 + int(binary.BigEndian.Uint16(b[2:]))
		}
	}
	return 0, 0
}

// gifSize is the screen, or as far as the first picture reaches beyond it.
func (e encoded) gifSize() (w, h int64) {
	var buf [maxBase64Window]byte
	b := e.at(&buf, 6, 7)
	if b == nil {
		return 0, 0
	}
	w, h = int64(binary.LittleEndian.Uint16(b)), int64(binary.LittleEndian.Uint16(b[2:]))
	pos := 13
	if b[4]&0x80 != 0 {
		pos += 3 << (b[4]&7 + 1)
	}
	extension := false
	for range maxSegments {
		if extension {
			size := e.at(&buf, pos, 1)
			if size == nil {
				return 0, 0
			}
			pos += 1 + int(size[0])
			extension = size[0] != 0
			continue
		}
		kind := e.at(&buf, pos, 1)
		if kind == nil {
			return 0, 0
		}
		switch kind[0] {
		case 0x21:
			pos, extension = pos+2, true
		case 0x2c:
			b := e.at(&buf, pos+1, 8)
			if b == nil {
				return 0, 0
			}
			right := int64(binary.LittleEndian.Uint16(b)) + int64(binary.LittleEndian.Uint16(b[4:]))
			bottom := int64(binary.LittleEndian.Uint16(b[2:])) + int64(binary.LittleEndian.Uint16(b[6:]))
			return max(w, right), max(h, bottom)
		default:
			return 0, 0
		}
	}
	return 0, 0
}

func (e encoded) webpSize() (w, h int64) {
	var buf [maxBase64Window]byte
	b := e.at(&buf, 12, 18)
	if b == nil {
		return 0, 0
	}
	switch string(b[:4]) {
	case "VP8 ":
		if !bytes.Equal(b[11:14], []byte{0x9d, 0x01, 0x2a}) {
			return 0, 0
		}
		return int64(binary.LittleEndian.Uint16(b[14:]) & 0x3fff), int64(binary.LittleEndian.Uint16(b[16:]) & 0x3fff)
	case "VP8L":
		if b[8] != 0x2f {
			return 0, 0
		}
		v := binary.LittleEndian.Uint32(b[9:])
		return int64(v&0x3fff) + 1, int64(v>>14&0x3fff) + 1
	case "VP8X":
		return int64(b[12]) | int64(b[13])<<8 | int64(b[14])<<16 + 1, int64(b[15]) | int64(b[16])<<8 | int64(b[17])<<16 + 1
	}
	return 0, 0
}
