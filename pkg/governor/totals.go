package governor

import "time"

// longWait is a wait of a ready goroutine for a processor that is longer than one request should
// delay another.
const longWait = time.Millisecond

// totals are what the process has done since it began.
type totals struct {
	cpu         time.Duration
	waits, long uint64 // of goroutines for a processor
}

// load is what the process did between two looks.
type load struct {
	took        time.Duration
	use         float64
	waits, long uint64
}

func (t totals) since(before totals, took time.Duration) load {
	return load{
		took: took, use: float64(t.cpu-before.cpu) / float64(max(took, 1)),
		waits: t.waits - before.waits, long: t.long - before.long,
	}
}
