package memory

import (
	"runtime"
	"testing"
	"time"
)

func TestRoomLastsForThePauseWithinItsBounds(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, c := range map[string]struct {
		kept, allocated uint64
		took            time.Duration
		want            int
	}{
		"busy: the bound":                {40 * mib, 65 * mib, time.Second, maxGrowth},
		"busy after a rest, in one step": {20 * mib, 16 * mib, 250 * time.Millisecond, maxGrowth},
		"in between: for the pause":      {60 * mib, 20 * mib, 2 * time.Second, 50},
		"idle, small: the least room":    {32 * mib, 16 * mib, time.Minute, 50},
		"idle, large: the least room":    {160 * mib, 16 * mib, time.Minute, 10},
		"idle, huge: not none":           {8192 * mib, 16 * mib, time.Minute, 1},
		"idle, tiny: the bound":          {4 * mib, mib, time.Minute, maxGrowth},
		"busy, tiny: the least room":     {4 * mib, 12 * mib, time.Second, 400},
		"in between, tiny: the pause":    {4 * mib, 4 * mib, time.Second, 300},
		"nothing kept":                   {0, mib, time.Second, maxGrowth},
		"no time":                        {mib, mib, 0, maxGrowth},
	} {
		if got := growth(c.kept, c.allocated, c.took); got != c.want {
			t.Errorf("%s: got %d percent, want %d", name, got, c.want)
		}
	}
}

func TestAnIdleProcessGetsLessRoomThanABusyOne(t *testing.T) {
	t.Parallel()
	percent, times := 0, 0
	p := newPacer(func(to int) { percent, times = to, times+1 })
	keep := make([]byte, 48<<20)
	runtime.GC()
	p.collected(p.at.Add(time.Hour))
	if percent <= 0 {
		t.Errorf("after an idle hour: got %d percent, want some", percent)
	}
	if percent >= maxGrowth/2 {
		t.Errorf("after an idle hour: got %d percent, want less than %d", percent, maxGrowth/2)
	}
	p.collected(p.at.Add(time.Hour))
	if times != 1 {
		t.Errorf("after another idle hour: set %d times, want 1", times)
	}
	keep = append(keep, make([]byte, 48<<20)...)
	p.collected(p.at.Add(time.Millisecond))
	if percent != maxGrowth {
		t.Errorf("after a busy millisecond: got %d percent, want %d", percent, maxGrowth)
	}
	runtime.KeepAlive(keep)
}

func TestThePacerHearsOfEachCollection(t *testing.T) {
	heard := make(chan int)
	var p *pacer
	p = newPacer(func(percent int) {
		p.percent = -step // so that the next growth is set too
		select {
		case heard <- percent:
		case <-t.Context().Done():
		}
	})
	p.percent = -step
	p.arm()
	for n := range 3 {
		runtime.GC()
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Fatalf("collection %d went unheard", n+1)
		}
	}
}
