package audio

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// A second opinion on how long a file plays. It works as players do that lose
// their place: it looks for frames byte by byte, takes what enough others of its
// kind follow, and looks again where they end. It knows nothing of how Measure
// walks a file, and shares no code with it.

// scanned is what a scanner found: the time of all frames, and of the longest.
type scanned struct{ millis, longest float64 }

func (s *scanned) add(millis float64) {
	s.millis += millis
	s.longest = max(s.longest, millis)
}

// frameAt reads a head: the size of its frame in bytes, its time in milliseconds,
// and what the frames of one stream share. A size of 0 is no head.
type frameAt func(b []byte) (size int, millis float64, kind uint32)

// mpegAt reads the head of layers I to III, its fields cut out of one number.
func mpegAt(b []byte) (int, float64, uint32) {
	if len(b) < 4 {
		return 0, 0, 0
	}
	h := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	version, layer, code, rateCode := h>>19&3, h>>17&3, h>>12&15, h>>10&3
	if h>>21 != 0x7ff || version == 1 || layer == 0 || code == 0 || code == 15 || rateCode == 3 {
		return 0, 0, 0
	}
	rate := []int{44100, 48000, 32000}[rateCode] >> []int{2, 0, 1, 0}[version]
	first := version == 3
	steps := map[bool]map[uint32][]int{
		true: {3: {32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32}, 2: {32, 16, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32,
			64, 64}, 1: {32, 8, 8, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 64}},
		false: {3: {32, 16, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16, 32, 32}, 2: {8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 16,
			16}, 1: {8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16}},
	}[first][layer]
	kilobits := 0
	for _, step := range steps[:code] {
		kilobits += step
	}
	padding := int(h >> 9 & 1)
	samples, size := 1152, 144*kilobits*1000/rate+padding
	switch {
	case layer == 3:
		samples, size = 384, (12*kilobits*1000/rate+padding)*4
	case layer == 1 && !first:
		samples, size = 576, 72*kilobits*1000/rate+padding
	}
	return size, float64(samples) * 1000 / float64(rate), h >> 10 & 0x783
}

// adtsAt reads the head of a frame of AAC.
func adtsAt(b []byte) (int, float64, uint32) {
	if len(b) < 7 || b[0] != 0xff || b[1]&0xf6 != 0xf0 || b[2]>>2&15 > 12 {
		return 0, 0, 0
	}
	rate := []int{96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350}[b[2]>>2&15]
	size := int(b[3]&3)<<11 | int(b[4])<<3 | int(b[5])>>5
	if size < 7 {
		return 0, 0, 0
	}
	return size, float64(1024*(1+int(b[6]&3))) * 1000 / float64(rate), uint32(b[1])<<8 | uint32(b[2]&0xfc)
}

// amrAt reads the head of a frame of narrow-band AMR, which plays for 20 ms.
func amrAt(b []byte) (int, float64, uint32) {
	if len(b) == 0 || b[0]&0x83 != 0 || b[0]&4 == 0 {
		return 0, 0, 0
	}
	size := []int{13, 14, 16, 18, 20, 21, 27, 32, 6, 0, 0, 0, 0, 0, 0, 1}[b[0]>>3&15]
	return size, 20, 1
}

// scan looks for frames byte by byte. A head counts when so many others of its kind
// follow one another behind it, or its frame ends with the file, or it stands where
// a frame of its kind ends. taken marks the bytes of what was counted.
func scan(b []byte, at frameAt, followers int, taken []bool) (found scanned) {
	end, stream := -1, uint32(0)
	for pos := 0; pos < len(b); {
		size, millis, kind := at(b[pos:])
		next, ok := pos+size, size > 0 && pos+size <= len(b)
		inStream := pos == end && kind == stream
		for range followers {
			if !ok || inStream || next >= len(b) {
				break
			}
			n, _, k := at(b[next:])
			ok = n > 0 && k == kind
			next += n
		}
		if !ok {
			pos++
			continue
		}
		found.add(millis)
		for i := pos; i < min(pos+size, len(b)) && taken != nil; i++ {
			taken[i] = true
		}
		pos += size
		end, stream = pos, kind
	}
	return found
}

// crc computes a checksum bit by bit.
func crc(b []byte, bits int, polynomial uint32) (sum uint32) {
	top := uint32(1) << (bits - 1)
	for _, c := range b {
		sum ^= uint32(c) << (bits - 8)
		for range 8 {
			carry := sum&top != 0
			sum <<= 1
			if carry {
				sum ^= polynomial
			}
		}
		sum &= top | (top - 1)
	}
	return sum
}

// flacHead reads the head of a frame of FLAC by its own checksum: its samples.
func flacHead(b []byte) (samples int, ok bool) {
	if len(b) < 6 || b[0] != 0xff || b[1]&0xfe != 0xf8 {
		return 0, false
	}
	n := 5 // the number of the frame, in the form of UTF-8
	for lead := b[4]; lead >= 0xc0; lead <<= 1 {
		n++
	}
	code := int(b[2] >> 4)
	if n+3 > len(b) {
		return 0, false
	}
	switch {
	case code == 1:
		samples = 192
	case code >= 2 && code <= 5:
		samples = 576 << (code - 2)
	case code == 6:
		samples = int(b[n]) + 1
		n++
	case code == 7:
		samples = int(b[n])<<8 + int(b[n+1]) + 1
		n += 2
	case code >= 8:
		samples = 256 << (code - 8)
	}
	switch b[2] & 15 {
	case 12:
		n++
	case 13, 14:
		n += 2
	}
	if samples == 0 || n >= len(b) {
		return 0, false
	}
	return samples, crc(b[:n], 8, 0x07) == uint32(b[n])
}

// scanFLAC takes for a frame what begins with a head and ends where the checksum
// of all of it holds and another head begins, or the file ends.
func scanFLAC(b []byte, rate int) (found scanned) {
	var heads []int
	for pos := range b {
		if _, ok := flacHead(b[pos:]); ok {
			heads = append(heads, pos)
		}
	}
	ends := append(append([]int(nil), heads...), len(bytes.TrimRight(b, "\x00")), len(b))
	for i := 0; i < len(heads); {
		samples, _ := flacHead(b[heads[i]:])
		next := i + 1
		for j := i + 1; j < len(ends); j++ {
			if ends[j] > heads[i] && crc(b[heads[i]:ends[j]], 16, 0x8005) == 0 {
				found.add(float64(samples) * 1000 / float64(rate))
				next = j
				break
			}
		}
		i = next
	}
	return found
}

// scanOpus counts the packets in pages of Ogg whose checksum holds, wherever they
// stand, by the first byte of each.
func scanOpus(b []byte) (found scanned) {
	for {
		at := bytes.Index(b, []byte("OggS"))
		if at < 0 || len(b)-at < 27 {
			return found
		}
		b = b[at:]
		segments := int(b[26])
		size := 27 + segments
		for _, n := range b[27:min(27+segments, len(b))] {
			size += int(n)
		}
		if size > len(b) || crc(append(append(bytes.Clone(b[:22]), 0, 0, 0, 0), b[26:size]...), 32,
			0x04c11db7) != le32of(b[22:]) {
			b = b[4:]
			continue
		}
		body, begun := b[27+segments:size], b[5]&1 == 0
		for _, n := range b[27 : 27+segments] {
			if begun && n > 0 && !bytes.HasPrefix(body, []byte("OpusHead")) && !bytes.HasPrefix(body, []byte("OpusTags")) {
				found.add(opusMillis(body[:n]))
			}
			begun = n < 255
			body = body[n:]
		}
		b = b[size:]
	}
}

func le32of(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// opusMillis is the time of a packet by its first two bytes.
func opusMillis(packet []byte) float64 {
	config := packet[0] >> 3
	millis := 0.0
	switch {
	case config < 12:
		millis = []float64{10, 20, 40, 60}[config&3]
	case config < 16:
		millis = []float64{10, 20}[config&1]
	default:
		millis = []float64{2.5, 5, 10, 20}[config&3]
	}
	switch packet[0] & 3 {
	case 1, 2:
		return 2 * millis
	case 3:
		if len(packet) > 1 {
			return float64(packet[1]&63) * millis
		}
	}
	return millis
}

// tagged reports whether what stands between frames is a tag, which players step
// over, or nothing.
func tagged(gap []byte) bool {
	gap = bytes.Trim(gap, "\x00")
	if len(gap) == 0 {
		return true
	}
	for _, mark := range []string{"ID3", "TAG", "APETAGEX", "LYRICSBEGIN", "3DI"} {
		if bytes.Contains(gap, []byte(mark)) {
			return true
		}
	}
	return false
}

// strangers is the time of frames of AAC and AMR in the parts of a file of MPEG
// that are neither its frames nor tags.
func strangers(b []byte, taken []bool) (found scanned) {
	for from := 0; from < len(b); {
		to := from
		for to < len(b) && taken[to] == taken[from] {
			to++
		}
		if gap := b[from:to]; !taken[from] && !tagged(gap) {
			for _, at := range []frameAt{adtsAt, amrAt} {
				found.add(scan(gap, at, 3, nil).millis)
			}
		}
		from = to
	}
	return found
}

// opinions are what scanners find in a file of a container that Measure has recognised.
func opinions(format Format, b []byte) map[string]scanned {
	for len(b) >= 10 && string(b[:3]) == "ID3" {
		b = b[min(len(b), 10+int(b[6]&127)<<21+int(b[7]&127)<<14+int(b[8]&127)<<7+int(b[9]&127)+int(b[5]>>4&1)*10):]
		if rest := bytes.TrimLeft(b, "\x00"); len(rest) > 0 && rest[0] == 0xff {
			b = rest
		}
	}
	switch format {
	case MP3:
		found := map[string]scanned{}
		for name, followers := range map[string]int{"after two heads": 1, "after three heads": 2, "after five heads": 4} {
			taken := make([]bool, len(b))
			found[name] = scan(b, mpegAt, followers, taken)
			other := strangers(b, taken)
			found[name+", and strangers"] = scanned{found[name].millis + other.millis, found[name].longest}
		}
		return found
	case FLAC:
		if len(b) < 21 {
			return nil
		}
		if rate := int(b[18])<<12 | int(b[19])<<4 | int(b[20])>>4; rate > 0 {
			return map[string]scanned{"frames by checksum": scanFLAC(b, rate)}
		}
	case Ogg:
		if len(b) > 36 && string(b[28:36]) == "OpusHead" {
			return map[string]scanned{"packets of Opus": scanOpus(b)}
		}
	default:
		// WAV, MP4 and WebM have no frames that can be recognised outside their container.
	}
	return nil
}

// agreesWithScanners fails when a scanner finds more than is charged, by more than
// a frame: an index may stand in the place of the first.
func agreesWithScanners(t testing.TB, data []byte) {
	t.Helper()
	if len(data) > 64<<10 {
		return
	}
	millis, format, err := Measure(data)
	if err != nil {
		return
	}
	for name, found := range opinions(format, data) {
		if float64(millis) < found.millis-found.longest-1 {
			t.Errorf("%s: got %d ms, want at least the %.0f ms of a scanner for %s, less a frame of %.0f ms", format, millis,
				found.millis, name, found.longest)
		}
	}
}

// The scanners find in whole files what is charged for them, or their opinion on
// others would be worth nothing.
func TestScannersFindWhatIsCharged(t *testing.T) {
	files := wholeFiles()
	slow := repeat(40, mp3SlowFrame())
	for name, tc := range map[string]struct {
		format Format
		data   []byte
	}{
		"mp3": {MP3, files[MP3]}, "slow mp3": {MP3, slow},
		"mp3 with tags": {MP3, cat("ID3", 4, 0, 0, 0, 0, 0, 10, make([]byte, 10), files[MP3], tail())},
		"flac":          {FLAC, files[FLAC]}, "ogg": {Ogg, files[Ogg]},
	} {
		millis, format, err := Measure(tc.data)
		if err != nil {
			t.Fatalf("%s: got the error %v, want none", name, err)
		}
		if format != tc.format {
			t.Fatalf("%s: format: got %q, want %q", name, format, tc.format)
		}
		list := opinions(format, tc.data)
		if len(list) == 0 {
			t.Errorf("%s: got no opinion, want one", name)
		}
		for how, found := range list {
			if found.millis < float64(millis)-1 || found.millis > float64(millis)+1 {
				t.Errorf("%s: got %.1f ms of a scanner for %s, want the %d charged", name, found.millis, how, millis)
			}
		}
	}
	if got := scan(amr(500)[6:], amrAt, 3, nil).millis; got != 10_000 {
		t.Errorf("got %.0f ms of AMR, want 10000", got)
	}
	adts := repeat(60, cat(0xff, 0xf1, 0x50, 0x80, 0x02, 0x1f, 0xfc, make([]byte, 9)))
	if got := scan(adts, adtsAt, 3, nil).millis; got < 1392 || got > 1394 {
		t.Errorf("got %.1f ms of AAC, want 1393", got)
	}
}

// What was found of AMR behind an MP3 is seen by the scanners.
func TestScannersSeeStrangersBehindAnMP3(t *testing.T) {
	data := cat(repeat(12, mp3Frame()), amr(500))
	if got := opinions(MP3, data)["after three heads, and strangers"].millis; got < 10_000 {
		t.Errorf("got %.0f ms, want the 10 s of AMR in it", got)
	}
}

// Files that are spliced, cut and changed at random are refused, or charged for all
// that scanners find in them. The seed is fixed; make fuzz goes on.
func TestNothingIsChargedBelowWhatScannersFind(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 24))
	var parts [][]byte
	for _, format := range []Format{MP3, FLAC, Ogg, WAV} {
		parts = append(parts, wholeFiles()[format])
	}
	parts = append(parts, repeat(40, mp3SlowFrame()), cat(xingFrame(1), repeat(12, mp3Frame())), amr(100), tail(),
		make([]byte, 40), cat("ID3", 4, 0, 0, 0, 0, 0, 10, make([]byte, 10)))
	for range 3000 {
		var data []byte
		for range 1 + r.IntN(4) {
			part := parts[r.IntN(len(parts))]
			if r.IntN(4) == 0 {
				part = part[:r.IntN(len(part)+1)]
			}
			data = append(data, part...)
		}
		if r.IntN(2) == 0 && len(data) > 0 {
			data[r.IntN(len(data))] = byte(r.IntN(256))
		}
		agreesWithScanners(t, data)
		if t.Failed() {
			return
		}
	}
}

func FuzzSecondOpinion(f *testing.F) {
	for _, file := range wholeFiles() {
		f.Add(file)
	}
	f.Add(repeat(40, mp3SlowFrame()))
	f.Add(cat(xingFrame(1), repeat(12, mp3Frame()), tail()))
	f.Add(cat(repeat(12, mp3SlowFrame()), repeat(12, mp3Frame())))
	f.Add(cat(repeat(12, mp3Frame()), amr(100)))
	f.Fuzz(func(t *testing.T, data []byte) { agreesWithScanners(t, data) })
}
