package audio

// sampleTable notes one box of a stbl box.
func (w *walk) sampleTable(t *mp4Track, b mp4Box) error {
	s := &t.tables
	switch b.kind {
	case "stsd":
		if t.codec.kind != codecNone || len(b.body) < 8 {
			return ErrFormat
		}
		return w.descriptions(t, b)
	case "stts":
		return setOnce(&s.times, b.body)
	case "stsz":
		return setOnce(&s.sizes, b.body)
	case "stz2":
		return ErrFormat // sizes of 4 bits and the like: no recorder writes them
	case "stsc":
		return setOnce(&s.runs, b.body)
	case "stco", "co64":
		s.long = b.kind == "co64"
		return setOnce(&s.chunks, b.body)
	}
	return nil
}

// descriptions reads a stsd box. A track may have several sample descriptions if all are
// of the same codec; the description whose frames last longest counts.
func (w *walk) descriptions(t *mp4Track, b mp4Box) error {
	count := 0
	return w.each(b.body[8:], b.at+8, func(b mp4Box) error {
		c, ok := w.describe(b)
		if count++; !ok || count > maxEntries || t.codec.kind != codecNone && t.codec.kind != c.kind {
			return ErrFormat
		}
		if t.codec.kind == codecNone || nanosOf(c.units, c.rate) > nanosOf(t.codec.units, t.codec.rate) {
			t.codec = c
		}
		return nil
	})
}

// soundEntry is the size of a sample description before its boxes, in its
// first version.
const soundEntry = 28

// describe reads one sample description.
func (w *walk) describe(b mp4Box) (c codec, ok bool) {
	if len(b.body) < soundEntry {
		return c, false
	}
	rate := be16(b.body[24:])
	inner := soundEntry
	switch be16(b.body[8:]) {
	case 0:
	case 1:
		inner += 16
	case 2:
		inner += 36
	default:
		return c, false
	}
	boxes := b.body[min(inner, len(b.body)):]
	switch b.kind {
	case "mp4a":
		return w.mpeg4Audio(boxes, rate)
	case ".mp3":
		return codec{kind: codecMPEG}, true
	case "Opus":
		return codec{kind: codecOpus}, true
	case "fLaC":
		config, found := w.child(boxes, "dfLa")
		if !found || len(config) < 8 {
			return c, false
		}
		info, ok := parseStreamInfo(config[8:])
		return codec{kind: codecFLAC, flac: info}, ok
	case "alac":
		config, found := w.child(boxes, "alac")
		if !found || len(config) < 28 {
			return c, false
		}
		units, rate := be32(config[4:]), be32(config[24:])
		return codec{kind: codecFixed, rate: rate, units: units},
			units > 0 && units <= 1<<16 && rate > 0 && rate <= maxSampleRate
	}
	return c, false
}

// child returns the content of the first box of a kind.
func (w *walk) child(b []byte, kind string) ([]byte, bool) {
	for {
		box, rest, _, ok := w.box(b, 0)
		if !ok {
			return nil, false
		}
		if box.kind == kind {
			return box.body, true
		}
		b = rest
	}
}

// Descriptors of an esds box, and the kinds of streams in them.
const (
	esDescriptor      = 3
	decoderDescriptor = 4
	decoderSpecific   = 5

	streamAAC    = 0x40
	streamMPEG2  = 0x69
	streamMPEG1  = 0x6b
	streamAACLow = 0x66 // AAC of MPEG-2, and two other profiles
	streamAACTop = 0x68
)

// mpeg4Audio reads the boxes of a mp4a description. QuickTime puts them one level deeper.
// Where they do not name the kind of AAC, the rate of the description may be twice that
// of the core.
func (w *walk) mpeg4Audio(boxes []byte, rate uint64) (codec, bool) {
	esds, found := w.child(boxes, "esds")
	if !found {
		if wave, ok := w.child(boxes, "wave"); ok {
			esds, found = w.child(wave, "esds")
		}
	}
	fallback := codec{kind: codecFixed, rate: rate, units: 2048}
	if !found || len(esds) < 4 {
		return fallback, rate > 0
	}
	es, ok := w.descriptor(esds[4:], esDescriptor)
	if !ok || len(es) < 3 {
		return codec{}, false
	}
	skip := 3
	if es[2]&0x80 != 0 {
		skip += 2
	}
	if es[2]&0x40 != 0 {
		if len(es) <= skip {
			return codec{}, false
		}
		skip += 1 + int(es[skip])
	}
	if es[2]&0x20 != 0 {
		skip += 2
	}
	config, ok := w.descriptor(es[min(skip, len(es)):], decoderDescriptor)
	if !ok || len(config) < 13 {
		return codec{}, false
	}
	switch kind := config[0]; {
	case kind == streamMPEG1 || kind == streamMPEG2:
		return codec{kind: codecMPEG}, true
	case kind != streamAAC && (kind < streamAACLow || kind > streamAACTop):
		return codec{}, false
	}
	specific, ok := w.descriptor(config[13:], decoderSpecific)
	if !ok {
		return fallback, rate > 0
	}
	core, units, ok := parseAAC(specific)
	return codec{kind: codecFixed, rate: core, units: units}, ok
}

// descriptor returns the content of the first descriptor of a kind.
func (w *walk) descriptor(b []byte, kind byte) ([]byte, bool) {
	for len(b) >= 2 {
		w.steps++
		found := b[0]
		size, n := 0, 1
		for more := true; more && n < len(b) && n <= 4; n++ {
			size = size<<7 | int(b[n]&0x7f)
			more = b[n]&0x80 != 0
		}
		b = b[n:]
		size = min(size, len(b))
		if found == kind {
			return b[:size], true
		}
		b = b[size:]
	}
	return nil, false
}
