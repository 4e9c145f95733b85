package agentwire

import (
	"math"
	"testing"
)

func TestASequenceBeginsAtOneAndHasNoGaps(t *testing.T) {
	var out, in Sequence
	for want := uint32(1); want <= 3; want++ {
		if got := out.Next(); got != want {
			t.Errorf("next: got %d, want %d", got, want)
		}
		if !in.Follows(want) {
			t.Errorf("frame %d: got refused, want accepted", want)
		}
	}
	for name, seq := range map[string]uint32{"repeated": 3, "left out": 5, "zero": 0} {
		at := in
		if at.Follows(seq) {
			t.Errorf("%s: got accepted, want refused", name)
		}
	}
}

func TestCreditIsBounded(t *testing.T) {
	c := Credit(ConnWindow)
	if !c.Grant(MaxCredit - ConnWindow) {
		t.Errorf("a grant up to %d: got refused, want accepted", MaxCredit)
	}
	if c.Grant(1) {
		t.Errorf("a grant beyond %d: got accepted, want refused", MaxCredit)
	}
	c = math.MaxInt32
	if c.Grant(math.MaxUint32) {
		t.Error("the largest grant: got accepted, want refused")
	}
}

func TestSpendTakesNoMoreThanBothCreditsHave(t *testing.T) {
	for name, tc := range map[string]struct {
		want         int
		stream, conn Credit
		got          int
	}{
		"all that is wanted":       {want: 100, stream: 200, conn: 300, got: 100},
		"one DATA":                 {want: 1 << 20, stream: 1 << 20, conn: 1 << 20, got: MaxData},
		"the stream's credit":      {want: 100, stream: 7, conn: 300, got: 7},
		"the connection's credit":  {want: 100, stream: 200, conn: 9, got: 9},
		"no credit of the stream":  {want: 100, stream: 0, conn: 300, got: 0},
		"a connection used up":     {want: 100, stream: 200, conn: 0, got: 0},
		"nothing is wanted":        {want: 0, stream: 200, conn: 300, got: 0},
		"credit that was exceeded": {want: 100, stream: -5, conn: 300, got: 0},
	} {
		stream, conn := tc.stream, tc.conn
		if got := Spend(tc.want, &stream, &conn); got != tc.got {
			t.Errorf("%s: got %d, want %d", name, got, tc.got)
		}
		if left := tc.stream - Credit(tc.got); stream != left {
			t.Errorf("%s: the stream: got %d left, want %d", name, stream, left)
		}
		if left := tc.conn - Credit(tc.got); conn != left {
			t.Errorf("%s: the connection: got %d left, want %d", name, conn, left)
		}
	}
}

func TestAWindowIsExceededByTheFirstByteBeyondIt(t *testing.T) {
	w := NewWindow(100)
	if !w.Take(100) {
		t.Error("the whole window: got refused, want accepted")
	}
	if w.Take(1) {
		t.Error("a byte beyond it: got accepted, want refused")
	}
}

func TestCreditIsGrantedAgainByQuarters(t *testing.T) {
	w := NewWindow(100)
	for _, step := range []struct{ used, due int64 }{{24, 0}, {1, 25}, {0, 0}, {60, 60}, {24, 0}} {
		if !w.Take(step.used) {
			t.Fatalf("%d bytes: got refused, want accepted", step.used)
		}
		w.Owe(step.used)
		if got := int64(w.Grant()); got != step.due {
			t.Errorf("after %d bytes more: got a grant of %d, want %d", step.used, got, step.due)
		}
	}
	// 24 bytes are used and not granted, so 76 are left.
	if !w.Take(76) {
		t.Error("what was granted again: got refused, want accepted")
	}
	if w.Take(1) {
		t.Error("what is not granted yet: got accepted, want refused")
	}
}
