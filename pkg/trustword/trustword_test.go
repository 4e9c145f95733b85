package trustword

import (
	"math"
	"testing"
)

func TestOnlyManyPassedVerificationsAreHigh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		probation bool
		trust     float64
		want      string
	}{
		{false, 0, Normal}, {false, 0.9499, Normal}, {false, 0.95, High}, {false, 1, High}, {false, math.NaN(), Normal},
		{true, 0, Probation}, {true, 1, Probation},
	} {
		if got := Of(c.probation, c.trust); got != c.want {
			t.Errorf("probation %t, trust %v: got %q, want %q", c.probation, c.trust, got, c.want)
		}
	}
}
