package wide

import (
	"encoding/json"
	"testing"
	"time"

	"inference-bench/internal/hdr"
)

func TestDisturbancesTakeTurnsThereAndBack(t *testing.T) {
	for of, want := range map[int][]int{2: {0, 1, 1, 0, 0, 1}, 3: {0, 1, 2, 2, 1, 0, 0, 1, 2}} {
		for n, w := range want {
			if got := turn(n, of); got != w {
				t.Errorf("turn %d of %d: %d, want %d", n, of, got, w)
			}
		}
	}
}

func TestALargeBodyIsARequestOfExactlyItsSize(t *testing.T) {
	for _, size := range []int{200, 4096, 10 << 20} {
		body := largeBody(Answer, size)
		var asked struct {
			Model    string
			Messages []struct{ Content string }
		}
		if err := json.Unmarshal(body, &asked); err != nil || len(body) != size || asked.Model != Answer ||
			len(asked.Messages) != 1 {
			t.Errorf("%d bytes for %d: %v", len(body), size, err)
		}
	}
}

func TestARoundIsItsPercentilesInMilliseconds(t *testing.T) {
	var h hdr.H
	for range 98 {
		h.Record(int64(20 * time.Millisecond))
	}
	h.Record(int64(40 * time.Millisecond))
	h.Record(int64(80 * time.Millisecond))
	var g Gaps
	g.add(&h)
	if near := func(v, want float64) bool { return v > 0.98*want && v < 1.02*want }; !near(g.P50[0], 20) ||
		!near(g.P99[0], 40) {
		t.Errorf("%+v", g)
	}
}

func TestOneNoisyRoundDoesNotDecide(t *testing.T) {
	without, with := Gaps{P99: []float64{20, 21, 90, 20}}, Gaps{P99: []float64{22, 23, 20, 200}}
	if added, ok := with.Over(without); !ok || added != 2 {
		t.Errorf("%v, %v", added, ok)
	}
	if added, ok := with.Over(Gaps{}); ok {
		t.Errorf("without rounds: %v", added)
	}
	if m := Median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("median %v", m)
	}
}
