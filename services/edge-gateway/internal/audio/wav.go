package audio

const (
	wavPCM        = 1
	wavMSADPCM    = 2
	wavFloat      = 3
	wavALaw       = 6
	wavMuLaw      = 7
	wavIMAADPCM   = 0x11
	wavExtensible = 0xfffe

	// maxSampleRate and maxChannels are more than any recorder has.
	maxSampleRate = 768_000
	maxChannels   = 64
	// unknownSize stands in a chunk whose writer could not go back to write the size.
	unknownSize = 1<<32 - 1
)

// wavForm is the layout of a WAV file's samples: blocks of so many bytes, each with a
// head that holds the first samples of all channels. A form without compression has no
// head and one sample in a block.
type wavForm struct {
	rate, block, head, first, nibblesPerSample uint64
}

// samples returns how many samples n bytes hold. A part of a sample counts as one.
func (f *wavForm) samples(n uint64) uint64 {
	if f.head == 0 {
		return (n + f.block - 1) / f.block
	}
	whole := n / f.block * f.of(f.block)
	if rest := n % f.block; rest > f.head {
		whole += f.of(rest)
	}
	return whole
}

// of returns how many samples one compressed block of n bytes holds.
func (f *wavForm) of(n uint64) uint64 { return (n-f.head)*2/f.nibblesPerSample + f.first }

// wav adds up the data chunks. A data chunk whose size goes past the end of the file ends
// there. Bytes behind a data chunk that are no chunk are more of its data.
func (w *walk) wav() (uint64, error) {
	var form *wavForm
	var long uint64 // the size of the data by an RF64 header
	var samples uint64
	var began bool
	for pos := 12; len(w.data)-pos >= 8; {
		w.steps++
		rest := uint64(len(w.data) - pos - 8)
		id, size := string(w.data[pos:pos+4]), le32(w.data[pos+4:])
		body := w.data[pos+8:]
		if id == "data" {
			if form == nil {
				return 0, ErrFormat
			}
			if size == unknownSize && long != 0 {
				size = long
			}
			if size == 0 || size == unknownSize {
				size = rest
			}
			size = min(size, rest)
			samples, began = samples+form.samples(size), true
		} else if !isChunk(id) || size > rest {
			if !began {
				return 0, ErrFormat
			}
			samples += form.samples(rest + 8)
			break
		}
		switch id {
		case "ds64":
			if size >= 16 {
				long = uint64(le32(body[8:])) | le32(body[12:])<<32
			}
		case "fmt ":
			if form != nil {
				return 0, ErrFormat // players differ over which of two counts
			}
			if form = parseWAVForm(body[:size]); form == nil {
				return 0, ErrFormat
			}
		}
		pos += 8 + int(size+size&1)
	}
	if form == nil {
		return 0, ErrFormat
	}
	return nanosOf(samples, form.rate), nil
}

// isChunk reports whether four bytes can name a chunk.
func isChunk(id string) bool {
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

// parseWAVForm reads a fmt chunk; nil for a form that is not measured.
func parseWAVForm(b []byte) *wavForm {
	if len(b) < 16 {
		return nil
	}
	tag, channels, rate, align, bits := le16(b), le16(b[2:]), le32(b[4:]), le16(b[12:]), le16(b[14:])
	if tag == wavExtensible {
		if len(b) < 26 {
			return nil
		}
		tag = le16(b[24:])
	}
	if channels == 0 || channels > maxChannels || rate == 0 || rate > maxSampleRate {
		return nil
	}
	switch tag {
	case wavALaw, wavMuLaw:
		bits = 8
	case wavPCM, wavFloat:
	case wavIMAADPCM:
		return adpcm(rate, channels, align, bits, 4, 1)
	case wavMSADPCM:
		return adpcm(rate, channels, align, bits, 7, 2)
	default:
		return nil
	}
	if bits == 0 || bits > 64 {
		return nil
	}
	// Some players use the bits and some the alignment.
	block := (bits + 7) / 8 * channels
	if align != 0 {
		block = min(block, align)
	}
	return &wavForm{rate: rate, block: block}
}

// adpcm is a form of 4 bits a sample, in blocks whose head has so many bytes and samples
// a channel.
func adpcm(rate, channels, align, bits, head, first uint64) *wavForm {
	if align <= head*channels || bits != 4 {
		return nil
	}
	return &wavForm{rate: rate, block: align, head: head * channels, first: first, nibblesPerSample: channels}
}
