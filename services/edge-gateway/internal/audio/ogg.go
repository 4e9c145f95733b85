package audio

import "bytes"

const (
	oggPageHeader = 27
	// maxStreams is how many streams of a file may be open at a time.
	maxStreams = 16
	// headBytes is the length of a packet's beginning that any codec needs.
	headBytes = 80
	// maxSetup bounds the third header of Vorbis.
	maxSetup = 64 << 10

	oggContinued = 1
	oggFirst     = 2
	oggLast      = 4
)

var oggMagic = []byte("OggS")

// oggStream is one logical stream.
type oggStream struct {
	serial     uint32
	open, over bool
	codec      codec
	headers    int // packets of headers still to come
	// base is how long the file was when the stream began, because a stream behind others
	// adds to them.
	base    uint64
	played  tally
	packets int

	// The packet under way.
	begun          bool
	head           [headBytes]byte
	headLen        int
	setup          []byte // of Vorbis, the third header
	first, granule uint64 // the granule positions seen
	granules       bool
}

// oggFile is the state of a walk.
type oggFile struct {
	w       *walk
	streams [maxStreams]oggStream
	longest uint64
}

// ogg walks the pages whose checksum holds. Pages whose checksum fails are searched for
// pages within, as players do. To keep this linear, no more bytes may be checked in vain
// than the file has.
func (w *walk) ogg() (uint64, error) {
	f := oggFile{w: w}
	vain := 0
	for pos := 0; len(w.data)-pos >= oggPageHeader; {
		w.steps++
		page, checked := pageAt(w.data[pos:])
		w.steps += checked / 64
		if page == nil {
			if vain += checked; vain > len(w.data) {
				return 0, ErrFormat
			}
			next := bytes.Index(w.data[pos+1:], oggMagic)
			if next < 0 {
				break
			}
			pos += 1 + next
			continue
		}
		if err := f.page(page); err != nil {
			return 0, err
		}
		pos += len(page)
	}
	return f.longest, nil
}

// pageAt returns the page that b begins with, if any, and over how many bytes its
// checksum was computed.
func pageAt(b []byte) (page []byte, checked int) {
	if !bytes.HasPrefix(b, oggMagic) || b[4] != 0 {
		return nil, 0
	}
	size := oggPageHeader + int(b[26])
	if size > len(b) {
		return nil, 0
	}
	for _, n := range b[oggPageHeader:size] {
		size += int(n)
	}
	if size > len(b) {
		return nil, 0
	}
	sum := crc32Of(0, b[:22])
	sum = crc32Of(sum, []byte{0, 0, 0, 0})
	if sum = crc32Of(sum, b[26:size]); uint64(sum) != le32(b[22:]) {
		return nil, size
	}
	return b[:size], size
}

// page takes the packets of a page.
func (f *oggFile) page(b []byte) error {
	s, err := f.stream(uint32(le32(b[14:])), b[5])
	if err != nil {
		return err
	}
	granule := le32(b[6:]) | le32(b[10:])<<32
	lacing, body := b[oggPageHeader:oggPageHeader+int(b[26])], b[oggPageHeader+int(b[26]):]
	skip := b[5]&oggContinued != 0 && !s.begun
	if b[5]&oggContinued == 0 {
		s.drop()
	}
	packets := s.packets
	for _, n := range lacing {
		f.w.steps++
		if !skip {
			s.gather(body[:n])
		}
		body = body[n:]
		if n < 255 {
			if !skip {
				s.packet()
			}
			skip = false
		}
	}
	if s.packets > packets {
		s.mark(granule)
	}
	f.longest = max(f.longest, s.end())
	s.over = s.over || b[5]&oggLast != 0
	return nil
}

// stream returns the stream of a page, or begins it. A stream that begins after something
// was played stands behind it; streams that play together begin together.
func (f *oggFile) stream(serial uint32, flags byte) (*oggStream, error) {
	first := flags&oggFirst != 0
	var free *oggStream
	for i := range f.streams {
		s := &f.streams[i]
		if s.open && s.serial == serial {
			if !first || s.packets == 0 {
				return s, nil
			}
			free = s
			break
		}
		if free == nil && s.over || !s.open && (free == nil || free.open) {
			free = s // a place that was never used before a place of a stream that has ended
		}
	}
	// A stream cannot be played without its first page, nor does a file have so many
	// streams.
	if !first || free == nil {
		return nil, ErrFormat
	}
	*free = oggStream{serial: serial, open: true, base: f.longest}
	return free, nil
}

// end returns how long the file plays up to the end of the stream.
func (s *oggStream) end() uint64 {
	return min(s.base+max(s.played.total(), nanosOf(s.granule-s.first, s.codec.granuleRate())), tooLong)
}

// mark notes the position that a page claims for the end of its last packet. The claim of
// the first page is compared with the packets on it.
func (s *oggStream) mark(granule uint64) {
	if granule > maxUnits || s.played.units == 0 {
		return // none, or less than 0, or of headers
	}
	if !s.granules {
		s.granules = true
		s.first = granule - min(granule, s.played.units)
		s.granule = granule
	}
	s.granule = max(s.granule, granule)
}

func (s *oggStream) drop() { s.begun, s.headLen, s.setup = false, 0, s.setup[:0] }

// gather keeps as much of a packet as will be needed.
func (s *oggStream) gather(p []byte) {
	s.begun = true
	s.headLen += copy(s.head[s.headLen:], p)
	if s.codec.kind != codecVorbis || s.headers != 1 {
		return
	}
	if len(s.setup)+len(p) > maxSetup {
		s.setup, s.headers = nil, 0 // no such header: every block counts as long
		return
	}
	s.setup = append(s.setup, p...)
}

// packet counts the packet that was gathered.
func (s *oggStream) packet() {
	head := s.head[:s.headLen]
	switch {
	case s.packets == 0:
		s.codec, s.headers = oggCodec(head)
	case s.headers > 0:
		s.headers--
		if s.headers == 0 && s.codec.kind == codecVorbis {
			s.codec.vorbis.setup(s.setup)
			s.setup = nil
		}
	case s.codec.kind != codecFLAC || len(head) > 0 && head[0] == 0xff: // else one more header
		s.codec.add(&s.played, head)
	}
	s.packets++
	s.drop()
}

// oggCodec returns the codec by a stream's first packet, and how many packets of headers
// follow.
func oggCodec(p []byte) (codec, int) {
	switch {
	case bytes.HasPrefix(p, []byte("OpusHead")):
		return codec{kind: codecOpus, rate: opusRate}, 1
	case bytes.HasPrefix(p, []byte("\x01vorbis")):
		if v, rate, ok := parseVorbis(p); ok {
			return codec{kind: codecVorbis, rate: rate, vorbis: v}, 2
		}
	case bytes.HasPrefix(p, []byte("\x7fFLAC")) && len(p) >= 17:
		if info, ok := parseStreamInfo(p[17:]); ok {
			return codec{kind: codecFLAC, rate: info.rate, flac: info}, 0
		}
	case bytes.HasPrefix(p, []byte("Speex   ")) && len(p) >= headBytes:
		return speex(p), 1
	}
	return codec{}, 0
}

// speex reads a Speex header. The mode decides the size of a frame, so a smaller size is
// not believed.
func speex(p []byte) codec {
	rate, mode, frame, frames := le32(p[36:]), le32(p[40:]), le32(p[56:]), le32(p[64:])
	if rate == 0 || rate > maxSampleRate || mode > 2 || frame > 1<<16 || frames > 1<<10 {
		return codec{}
	}
	return codec{kind: codecFixed, rate: rate, units: max(frame, 160<<mode) * max(frames, 1)}
}

// granuleRate returns how many granules a second has.
func (c *codec) granuleRate() uint64 {
	if c.kind == codecNone {
		return 0
	}
	return c.rate
}
