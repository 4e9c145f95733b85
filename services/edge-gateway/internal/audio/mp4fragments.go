package audio

// Flags that say which fields the boxes of a fragment have.
const (
	tfhdBase        = 0x1
	tfhdDescription = 0x2
	tfhdDelta       = 0x8
	tfhdSize        = 0x10
	tfhdFromMoof    = 0x20000

	trunOffset     = 0x1
	trunFirstFlags = 0x4
	trunDelta      = 0x100
	trunSize       = 0x200
	trunFlags      = 0x400
	trunShift      = 0x800
)

// mp4Fragment is the state of a traf box.
type mp4Fragment struct {
	track *mp4Track
	// base is the place that offsets count from; at is where the next run begins.
	base, at    uint64
	delta, size uint64
	// start is when the fragment begins, ticks how long it plays.
	start, ticks uint64
}

// fragment reads a moof box.
func (f *mp4File) fragment(moof mp4Box) error {
	follows := moof.head // where the data of a track without an offset begins
	return f.w.each(moof.body, moof.at, func(b mp4Box) error {
		if b.kind != "traf" {
			return nil
		}
		var frag mp4Fragment
		err := f.w.each(b.body, b.at, func(b mp4Box) error {
			switch {
			case b.kind == "tfhd":
				frag = f.fragmentHeader(b.body, moof.head, follows)
			case b.kind == "tfdt" && frag.track != nil:
				if at := versioned(b.body, 4, 8); len(b.body) >= at+4 {
					frag.start = be32(b.body[at:])
					if at == 8 {
						frag.start |= be32(b.body[4:]) << 32
					}
				}
			case b.kind == "trun" && frag.track != nil:
				return f.run(&frag, b.body)
			}
			return nil
		})
		if t := frag.track; t != nil {
			follows = frag.at
			if frag.ticks > 0 {
				start := min(frag.start, maxUnits)
				t.next = min(start+frag.ticks, maxUnits)
				t.places.add(start, t.next)
			}
		}
		return err
	})
}

// fragmentHeader reads a tfhd box.
func (f *mp4File) fragmentHeader(b []byte, moof, follows uint64) (frag mp4Fragment) {
	t := f.find(b, 4)
	if t == nil {
		return frag // a track without sound
	}
	frag = mp4Fragment{track: t, base: follows, delta: t.delta, size: t.size, start: t.next}
	r := fieldReader{b: b[8:]}
	flags := be32(b)
	if flags&tfhdFromMoof != 0 {
		frag.base = moof
	}
	if flags&tfhdBase != 0 {
		frag.base = r.next()<<32 | r.next()
	}
	if flags&tfhdDescription != 0 {
		r.next()
	}
	if flags&tfhdDelta != 0 {
		frag.delta = r.next()
	}
	if flags&tfhdSize != 0 {
		frag.size = r.next()
	}
	frag.at = frag.base
	return frag
}

// run reads a trun box.
func (f *mp4File) run(frag *mp4Fragment, b []byte) error {
	if len(b) < 8 {
		return nil
	}
	flags, count := be32(b), be32(b[4:])
	r := fieldReader{b: b[8:]}
	if flags&trunOffset != 0 {
		frag.at = frag.base + uint64(int64(int32(r.next())))
	}
	if flags&trunFirstFlags != 0 {
		r.next()
	}
	if flags&trunSize == 0 && frag.size == 0 {
		return nil // nothing in any of them
	}
	for ; count > 0 && !r.short; count-- {
		delta, size := frag.delta, frag.size
		if flags&trunDelta != 0 {
			delta = r.next()
		}
		if flags&trunSize != 0 {
			size = r.next()
		}
		if flags&trunFlags != 0 {
			r.next()
		}
		if flags&trunShift != 0 {
			r.next()
		}
		if r.short {
			return nil
		}
		there, err := f.sample(frag.track, frag.at, size, delta)
		if err != nil || !there {
			return err
		}
		frag.at += size
		frag.ticks = min(frag.ticks+delta, maxUnits)
	}
	return nil
}

// fieldReader reads fields of four bytes.
type fieldReader struct {
	b     []byte
	short bool // bits or fields beyond the end were read
}

func (r *fieldReader) next() uint64 {
	if len(r.b) < 4 {
		r.short = true
		return 0
	}
	v := be32(r.b)
	r.b = r.b[4:]
	return v
}
