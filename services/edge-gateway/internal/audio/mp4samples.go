package audio

// mp4Tables are the tables with the places of a track's samples and their durations: the
// boxes stts, stsz, stsc, and stco or its long form co64.
type mp4Tables struct {
	times, sizes, runs, chunks []byte
	long                       bool
}

// samples walks the tables of a track. Only samples that lie within the file count.
func (f *mp4File) samples(t *mp4Track) error {
	s := &t.tables
	if len(s.sizes) < 12 || len(s.chunks) < 8 || len(s.runs) < 8 {
		return nil // a track whose samples are in fragments
	}
	each, left := be32(s.sizes[4:]), be32(s.sizes[8:])
	sizes := s.sizes[12:]
	times := timesOf(s.times)
	runs := runsOf(s.runs)
	width := 4
	if s.long {
		width = 8
	}
	chunks := s.chunks[8:]
	for n := uint64(1); len(chunks) >= width && left > 0; n++ {
		f.w.steps++
		at := be32(chunks)
		if s.long {
			at = at<<32 | be32(chunks[4:])
		}
		chunks = chunks[width:]
		count := min(runs.of(n), left)
		left -= count
		for ; count > 0; count-- {
			size := each
			if each == 0 {
				if len(sizes) < 4 {
					return nil
				}
				size, sizes = be32(sizes), sizes[4:]
			}
			there, err := f.sample(t, at, size, times.next())
			if err != nil {
				return err
			}
			if !there {
				// The samples that follow in the chunk lie still further behind the end.
				count--
				if each == 0 {
					sizes = sizes[min(4*count, uint64(len(sizes))):]
				}
				times.skip(count)
				break
			}
			at += size
		}
	}
	return nil
}

// sample counts one sample and reports whether it is there. Overlapping samples would
// make the walk more than linear; no recorder writes them.
func (f *mp4File) sample(t *mp4Track, at, size, ticks uint64) (there bool, err error) {
	f.w.steps++
	all := uint64(len(f.w.data))
	if at > all || size > all-at {
		return false, nil
	}
	if size == 0 {
		return true, nil // it plays nothing
	}
	if f.spent += size; f.spent > all {
		return false, ErrFormat
	}
	t.ticks.add(ticks, t.timescale)
	t.codec.add(&t.played, f.w.data[at:at+size])
	return true, nil
}

// mp4Times reads runs of durations.
type mp4Times struct {
	b           []byte
	left, delta uint64
}

func timesOf(b []byte) mp4Times {
	if len(b) < 8 {
		return mp4Times{}
	}
	return mp4Times{b: b[8:]}
}

// next returns the duration of the next sample; 0 when there are no more durations.
func (t *mp4Times) next() uint64 {
	for t.left == 0 {
		if len(t.b) < 8 {
			return 0
		}
		t.left, t.delta, t.b = be32(t.b), be32(t.b[4:]), t.b[8:]
	}
	t.left--
	return t.delta
}

// skip skips the durations of n samples.
func (t *mp4Times) skip(n uint64) {
	for n > t.left && len(t.b) >= 8 {
		n -= t.left
		t.left, t.delta, t.b = be32(t.b), be32(t.b[4:]), t.b[8:]
	}
	t.left -= min(n, t.left)
}

// mp4Runs reads how many samples the chunks have.
type mp4Runs struct {
	b    []byte
	each uint64
}

func runsOf(b []byte) mp4Runs { return mp4Runs{b: b[8:]} }

// of returns how many samples a chunk has. Chunks are asked for in their order.
func (r *mp4Runs) of(chunk uint64) uint64 {
	for len(r.b) >= 12 && be32(r.b) <= chunk {
		r.each, r.b = be32(r.b[4:]), r.b[12:]
	}
	return r.each
}
