package memory

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// maxGrowth is how much the heap and the stacks may grow between two collections, in
	// percent. At 200 standalone collects half as often as at 100. At 300 and 400 its requests
	// took no less time in total, and the process more memory.
	maxGrowth = 200
	// minRoom is the least room between two collections, in bytes: of an idle process as far as maxGrowth
	// allows it, and of a busy process even beyond, because a process that keeps 6 MiB for thousands of
	// requests would otherwise collect several times a second. An idle process fills it in about a minute.
	minRoom = 16 << 20
	// pause is the time for whose allocations a process gets room. A collection of a process of many
	// sockets or streams takes 30 ms of CPU time, which is one percent of this time.
	pause = 3 * time.Second
	// step is by how much the growth must differ before it is set again, in percent, because
	// setting it stops all goroutines for a moment.
	step = 10
)

// pacer sets how much the heap may grow until the next collection.
type pacer struct {
	set func(percent int)

	mu      sync.Mutex // the runtime has several goroutines for cleanups
	percent int
	samples []metrics.Sample
	at      time.Time // of the last collection
	total   uint64    // allocated until then, in bytes
}

// The indexes of a pacer's samples.
const (
	allocated = iota
	live
	stacks
)

func newPacer(set func(percent int)) *pacer {
	p := &pacer{set: set, percent: maxGrowth, samples: []metrics.Sample{
		allocated: {Name: "/gc/heap/allocs:bytes"},
		live:      {Name: "/gc/heap/live:bytes"},
		stacks:    {Name: "/memory/classes/heap/stacks:bytes"},
	}}
	metrics.Read(p.samples)
	p.at, p.total = time.Now(), p.sample(allocated)
	return p
}

func (p *pacer) sample(index int) uint64 { return p.samples[index].Value.Uint64() }

// sentinel is what the next collection finds unused. It has a pointer, because the runtime
// keeps small objects without pointers together with others.
type sentinel struct{ _ *sentinel }

// arm has collected called after the next collection, and so on after each. It needs neither a
// timer nor a goroutine that waits.
func (p *pacer) arm() {
	runtime.AddCleanup(&sentinel{}, func(p *pacer) {
		p.arm()
		p.collected(time.Now())
	}, p)
}

// collected sets the growth after a collection.
func (p *pacer) collected(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	metrics.Read(p.samples)
	total, kept := p.sample(allocated), p.sample(live)+p.sample(stacks)
	percent := growth(kept, total-p.total, now.Sub(p.at))
	p.at, p.total = now, total
	if difference := percent - p.percent; difference >= step || difference <= -step {
		p.percent = percent
		p.set(percent)
	}
}

// growth is how much a process may grow until the next collection, in percent of what it keeps, if
// it has allocated so many bytes in the time since the last one.
func growth(kept, allocated uint64, took time.Duration) int {
	if kept == 0 || took <= 0 {
		return maxGrowth
	}
	needed := float64(allocated) / took.Seconds() * pause.Seconds()
	room, kept100 := max(needed, minRoom), float64(kept)/100
	bound := max(maxGrowth*kept100, min(needed, minRoom))
	return max(1, int(math.Ceil(min(room, bound)/kept100))) // at 0 one collection would begin the next
}
