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
				t.Errorf("turn %d of %d: got %d, want %d", n, of, got, w)
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
		switch err := json.Unmarshal(body, &asked); {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case len(body) != size:
			t.Errorf("len(body): got %d, want %d", len(body), size)
		case asked.Model != Answer:
			t.Errorf("asked.Model: got %q, want %q", asked.Model, Answer)
		case len(asked.Messages) != 1:
			t.Errorf("len(asked.Messages): got %d, want 1", len(asked.Messages))
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
	if near := func(v, want float64) bool { return v > 0.98*want && v < 1.02*want }; !near(g.P50[0], 20) {
		t.Error("near(g.P50[0], 20): got false, want true")
	} else if !near(g.P99[0], 40) {
		t.Error("near(g.P99[0], 40): got false, want true")
	}
}

func TestOneNoisyRoundDoesNotDecide(t *testing.T) {
	without, with := Gaps{P99: []float64{20, 21, 90, 20}}, Gaps{P99: []float64{22, 23, 20, 200}}
	if added, ok := with.Over(without); !ok {
		t.Error("ok of with.Over(without): got false, want true")
	} else if added != 2 {
		t.Errorf("added: got %v, want 2", added)
	}
	if added, ok := with.Over(Gaps{}); ok {
		t.Errorf("without rounds: %v", added)
	}
	if m := Median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("median: got %v, want 2", m)
	}
}
