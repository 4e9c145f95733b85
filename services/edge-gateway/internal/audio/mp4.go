package audio

const (
	// maxTracks is how many audio tracks a file may have.
	maxTracks = 8
	// maxEntries is how many sample descriptions a track may have.
	maxEntries = 4
)

// mp4Track is one audio track.
type mp4Track struct {
	id, timescale uint64
	codec         codec
	tables        mp4Tables
	edits         []byte
	// ticks is the sum of the times that the samples claim. played is the sum of the
	// times of their frames. places is the stretch over which the fragments say that they
	// stand.
	ticks  tally
	played tally
	places span
	// next is where the next fragment without a time of its own begins.
	next uint64
	// The defaults of fragments.
	delta, size uint64
}

// mp4File is the state of a walk.
type mp4File struct {
	w      *walk
	tracks [maxTracks]mp4Track
	count  int
	// movieScale is the unit of the edits. spent is how many bytes of samples were looked
	// at: no more than the file has, unless samples overlap.
	movieScale, spent uint64
	longest           uint64
}

// mp4Box is one box: its kind and its content, and where in the file the content and the
// box begin.
type mp4Box struct {
	kind     string
	body     []byte
	at, head uint64
}

// box returns the first box of b, which begins at a place in the file. A box whose size
// goes past the end of its container ends there.
func (w *walk) box(b []byte, at uint64) (box mp4Box, rest []byte, next uint64, ok bool) {
	w.steps++
	if len(b) < 8 {
		return box, nil, 0, false
	}
	size, head := be32(b), uint64(8)
	switch {
	case size == 1 && len(b) >= 16:
		size, head = be32(b[8:])<<32|be32(b[12:]), 16
	case size == 0:
		size = uint64(len(b))
	}
	if size < head {
		return box, nil, 0, false
	}
	size = min(size, uint64(len(b)))
	return mp4Box{string(b[4:8]), b[head:size], at + head, at}, b[size:], at + size, true
}

// each calls visit for each box of b until there is an error.
func (w *walk) each(b []byte, at uint64, visit func(mp4Box) error) error {
	for {
		box, rest, next, ok := w.box(b, at)
		if !ok {
			return nil
		}
		if err := visit(box); err != nil {
			return err
		}
		b, at = rest, next
	}
}

// mp4 walks the boxes of the file. Tracks are counted at the end of the file, because
// fragments follow them.
func (w *walk) mp4() (uint64, error) {
	f := mp4File{w: w}
	err := w.each(w.data, 0, func(b mp4Box) error {
		switch b.kind {
		case "moov":
			return f.movie(b)
		case "moof":
			return f.fragment(b)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i := range f.tracks[:f.count] {
		f.longest = max(f.longest, f.tracks[i].length(f.movieScale))
	}
	if f.count == 0 {
		return 0, ErrFormat
	}
	return f.longest, nil
}

// movie reads a moov box.
func (f *mp4File) movie(b mp4Box) error {
	return f.w.each(b.body, b.at, func(b mp4Box) error {
		switch b.kind {
		case "mvhd":
			f.movieScale = timescale(b.body)
		case "trak":
			return f.track(b)
		case "mvex":
			return f.w.each(b.body, b.at, func(b mp4Box) error {
				if t := f.find(b.body, 4); b.kind == "trex" && len(b.body) >= 24 && t != nil {
					t.delta, t.size = be32(b.body[12:]), be32(b.body[16:])
				}
				return nil
			})
		}
		return nil
	})
}

// find returns the track whose number stands at an offset of b.
func (f *mp4File) find(b []byte, offset int) *mp4Track {
	if len(b) < offset+4 {
		return nil
	}
	for i := range f.tracks[:f.count] {
		if f.tracks[i].id == be32(b[offset:]) {
			return &f.tracks[i]
		}
	}
	return nil
}

// timescale reads the ticks in a second from a mvhd or mdhd box.
func timescale(b []byte) uint64 {
	if at := versioned(b, 12, 20); len(b) >= at+4 {
		return be32(b[at:])
	}
	return 0
}

// versioned returns the place of a field behind two times, whose size depends on the
// version of the box.
func versioned(b []byte, short, long int) int {
	if len(b) > 0 && b[0] == 1 {
		return long
	}
	return short
}

// track reads a trak box. A track without sound is left out.
func (f *mp4File) track(b mp4Box) error {
	var t mp4Track
	sound := false
	err := f.w.each(b.body, b.at, func(b mp4Box) error {
		switch b.kind {
		case "tkhd":
			if at := versioned(b.body, 12, 20); len(b.body) >= at+4 {
				t.id = be32(b.body[at:])
			}
		case "edts":
			return f.w.each(b.body, b.at, func(b mp4Box) error {
				if b.kind == "elst" {
					return setOnce(&t.edits, b.body)
				}
				return nil
			})
		case "mdia":
			return f.media(&t, &sound, b)
		}
		return nil
	})
	if err != nil || !sound {
		return err
	}
	if t.timescale == 0 || t.codec.kind == codecNone || f.count == maxTracks {
		return ErrFormat
	}
	if err := f.samples(&t); err != nil {
		return err
	}
	f.tracks[f.count] = t
	f.count++
	return nil
}

// media reads a mdia box.
func (f *mp4File) media(t *mp4Track, sound *bool, b mp4Box) error {
	// The kind of the track stands before its content.
	return f.w.each(b.body, b.at, func(b mp4Box) error {
		switch b.kind {
		case "mdhd":
			t.timescale = timescale(b.body)
		case "hdlr":
			*sound = *sound || len(b.body) >= 12 && string(b.body[8:12]) == "soun"
		case "minf":
			return f.w.each(b.body, b.at, func(b mp4Box) error {
				if b.kind == "stbl" && *sound {
					return f.w.each(b.body, b.at, func(b mp4Box) error { return f.w.sampleTable(t, b) })
				}
				return nil
			})
		}
		return nil
	})
}

// setOnce takes a box that may stand once only, because players differ over which of two
// counts.
func setOnce(to *[]byte, b []byte) error {
	if *to != nil {
		return ErrFormat
	}
	*to = b[:len(b):len(b)]
	return nil
}

// length returns how long the track plays.
func (t *mp4Track) length(movieScale uint64) uint64 {
	length := max(t.played.total(), t.ticks.total(), nanosOf(t.places.length(), t.timescale))
	return max(length, t.edited(length, movieScale))
}

// edited returns how long the edits play, each for the length of the track at most. An
// edit list may play a part several times.
func (t *mp4Track) edited(length, movieScale uint64) (total uint64) {
	if len(t.edits) < 8 {
		return 0
	}
	count, entries := be32(t.edits[4:]), t.edits[8:]
	size := versioned(t.edits, 12, 20)
	for ; count > 0 && len(entries) >= size; count, entries = count-1, entries[size:] {
		duration, start := be32(entries), be32(entries[4:])
		if size == 20 {
			duration, start = duration<<32|start, be32(entries[8:])
		}
		if start != 1<<32-1 { // else silence before the beginning
			total = min(total+min(nanosOf(duration, movieScale), length), tooLong)
		}
	}
	return total
}
