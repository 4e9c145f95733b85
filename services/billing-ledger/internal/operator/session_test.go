package operator

import (
	"math"
	"testing"
	"time"

	"svc.internal/services/billing-ledger/internal/user"
)

// Somebody who knows an operator's password guesses codes all day, as fast as a pace has room.
func TestADayOfGuessesFindsACodeSeldom(t *testing.T) {
	const day = 24 * time.Hour
	for what, c := range map[string]struct {
		pace user.Pace
		most float64
	}{
		"strange networks":           {StrangersPace, 0.0025},
		"the operator's own network": {NetworkPace, 0.0044},
	} {
		tries := float64(c.pace.AtOnce) + float64(day/c.pace.Interval)
		finds := 1 - math.Pow(1-float64(2*codeSkew+1)/1_000_000, tries)
		if finds > c.most {
			t.Errorf("%s: %v tries find a code with a probability of %.5f, want at most %.5f", what, tries, finds, c.most)
		}
	}
}
