package limit

import (
	"testing"
	"testing/quick"
	"time"
)

func TestARateTakesAsManyRequestsAtOnceAsItHasRoom(t *testing.T) {
	if err := quick.Check(func(perMinute uint16, micros uint32) bool {
		m := Meter{PerMinute: int32(perMinute%300) + 1, Ahead: time.Duration(micros) * time.Microsecond}
		room := m.Room()
		for m.Room() > 0 {
			room--
			m = m.Take()
		}
		return room == 0 || room < 0 && m.Ahead > time.Minute
	}, nil); err != nil {
		t.Error(err)
	}
}

func TestARateThatIsLoweredHasLessThanNoRoom(t *testing.T) {
	m := Meter{PerMinute: 2, Ahead: 2 * time.Minute}
	if got, want := m.Room(), int64(-2); got != want {
		t.Errorf("room: got %d, want %d", got, want)
	}
}

func TestTheTighterRateIsTheOneWithLessRoom(t *testing.T) {
	none, two, five := Meter{PerMinute: Unlimited}, Meter{PerMinute: 2}, Meter{PerMinute: 5}
	for _, tc := range []struct {
		m, other Meter
		want     bool
	}{
		{two, five, true}, {five, two, false}, {two, two, false}, {two, none, true}, {none, two, false}, {none, none, false},
		{Meter{PerMinute: 5, Ahead: time.Minute}, two, true},
	} {
		if got := tc.m.Tighter(tc.other); got != tc.want {
			t.Errorf("%+v is tighter than %+v: got %t, want %t", tc.m, tc.other, got, tc.want)
		}
	}
}

func TestALimitOfAnAccountsOwnReplacesTheDefaults(t *testing.T) {
	d := Defaults{LLMPerMinute: 1, MultimodalPerMinute: 2, EmbeddingPerMinute: 3, ZeroPricedPerMinute: 4,
		ImagePerMinute: 5, AudioPerMinute: Unlimited}
	unboundedZero := d
	unboundedZero.ZeroPricedPerMinute = Unlimited
	for _, tc := range []struct {
		defaults Defaults
		own      int32
		want     [Classes]int32
	}{
		{d, 0, [Classes]int32{1, 2, 3, 4, 5, Unlimited}},
		{d, 3, [Classes]int32{3, 3, 3, 3, 3, 3}},
		{d, 9, [Classes]int32{9, 9, 9, 4, 9, 9}},
		{d, Unlimited, [Classes]int32{-1, -1, -1, -1, -1, -1}},
		{unboundedZero, 9, [Classes]int32{9, 9, 9, 9, 9, 9}},
	} {
		if got := tc.defaults.ForKey(tc.own); got != tc.want {
			t.Errorf("own limit %d: got %v, want %v", tc.own, got, tc.want)
		}
	}
}
