package evidence

import (
	"math/big"
	"testing"
)

// expectation is E[e] of a bet for a chance of b = 1, calculated exactly with the numbers
// that are really used.
func expectation(b bet, chance *big.Rat) *big.Rat {
	exceeded := new(big.Rat).Mul(chance, new(big.Rat).SetFloat64(b.exceeded))
	passed := new(big.Rat).Sub(big.NewRat(1, 1), chance)
	passed.Mul(passed, new(big.Rat).SetFloat64(b.passed))
	return exceeded.Add(exceeded, passed)
}

func TestNoBetIsFavourableUnderItsNull(t *testing.T) {
	t.Parallel()
	one, almost := big.NewRat(1, 1), new(big.Rat).SetFloat64(1-0x1p-51)
	for _, c := range []struct {
		name string
		bets []bet
		null int64 // in hundredths
	}{{"hidden", hiddenBets[:], 1}, {"confirm", confirmBets[:], 5}} {
		for i, b := range c.bets {
			for thousandths := int64(0); thousandths <= 10*c.null; thousandths++ {
				chance := big.NewRat(thousandths, 1_000)
				if got := expectation(b, chance); got.Cmp(one) > 0 {
					t.Errorf("%s bet %d at %s: got E[e] = %s, want at most 1", c.name, i, chance, got.FloatString(20))
				}
			}
			if got := expectation(b, big.NewRat(c.null, 100)); got.Cmp(almost) < 0 {
				t.Errorf("%s bet %d at its null: got E[e] = %s, want 1", c.name, i, got.FloatString(20))
			}
		}
	}
}

// A provider that fails probes and organic attempts at the same rate p, independently, has
// both kinds of discordant pair with the chance p(1−p).
func TestPairsAreFairAtAnyRateOfFailures(t *testing.T) {
	t.Parallel()
	for i, b := range pairBets {
		for hundredths := range int64(101) {
			p := big.NewRat(hundredths, 100)
			discordant := new(big.Rat).Mul(p, new(big.Rat).Sub(big.NewRat(1, 1), p))
			got := new(big.Rat).Sub(big.NewRat(1, 1), new(big.Rat).Add(discordant, discordant))
			for _, e := range []float64{b.exceeded, b.passed} {
				got.Add(got, new(big.Rat).Mul(discordant, new(big.Rat).SetFloat64(e)))
			}
			if got.Cmp(big.NewRat(1, 1)) != 0 {
				t.Errorf("bet %d at %s: got E[e] = %s, want 1", i, p, got.FloatString(20))
			}
		}
	}
}

// Recovery bets against rates of .05 and more.
func TestNoCheatGainsByRecovery(t *testing.T) {
	t.Parallel()
	b := bet{exceeded: recoveryExceeded, passed: recoveryPassed}
	for hundredths := int64(5); hundredths <= 100; hundredths++ {
		if got := expectation(b, big.NewRat(hundredths, 100)); got.Cmp(new(big.Rat).SetFloat64(1+0x1p-51)) > 0 {
			t.Errorf("rate .%02d: got E[R] = %s, want at most 1", hundredths, got.FloatString(20))
		}
	}
}

// 1−λ+λe has the expectation 1 where that of e is 1, and is positive for every e.
func TestRatioBetsAreFairAndNeverRuinous(t *testing.T) {
	t.Parallel()
	for _, share := range ratioBets {
		if share <= 0 || share >= 1 {
			t.Errorf("λ = %v: want it between 0 and 1", share)
		}
		for _, e := range []float64{2, 5, 20} {
			// e with the chance 1/e, else 0.
			up, down := (1-share)+float64(share*e), 1-share
			if got := up/e + down*(1-1/e); got > 1+1e-15 || got < 1-1e-15 {
				t.Errorf("λ = %v, e = %v: got %v, want 1", share, e, got)
			}
		}
	}
}

func TestStepsAreCutAtBothEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ m, capital, e, want float64 }{
		{ceiling, 1, 2, ceiling}, {ceiling / 2, 0, 2, ceiling}, {floor, 0, .5, 0}, {0, 0, 95, 0}, {1, .5, 2, 3},
	} {
		if got := step(c.m, c.capital, c.e); got != c.want {
			t.Errorf("(%v + %v)·%v: got %v, want %v", c.m, c.capital, c.e, got, c.want)
		}
	}
}
