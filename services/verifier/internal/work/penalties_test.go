package work_test

import (
	"testing"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/work"
)

func TestAPenaltyNamesTheFamilyThatLed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		verdict standing.Verdict
		want    string
	}{
		{standing.Verdict{Kind: standing.Misrepresentation, Leading: evidence.Recall}, "recall"},
		{standing.Verdict{Kind: standing.Misrepresentation}, ""},
		{standing.Verdict{Kind: standing.Benchmark}, "benchmark"},
	} {
		if got := work.PenaltyOf(tc.verdict, [32]byte{}).Family; got != tc.want {
			t.Errorf("%s led by %s: got %q, want %q", tc.verdict.Kind, tc.verdict.Leading, got, tc.want)
		}
	}
}
