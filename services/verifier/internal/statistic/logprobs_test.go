package statistic_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"svc.internal/services/verifier/internal/exact"
	"svc.internal/services/verifier/internal/statistic"
)

func TestEqualDistributionsAreWithoutDistance(t *testing.T) {
	t.Parallel()
	m := model(11, 40, 1)
	ours, theirs := greedyOf(m), answer(m, 5, positionFull.best)
	got := must(t)(statistic.Declared(ours, theirs, text(ours), true))
	if !slices.Equal(got, statistic.Parts{0, 0}) {
		t.Errorf("got %v, want [0 0]", got)
	}
	if got := must(t)(statistic.Declared(ours, theirs, text(ours), false)); len(got) != 1 {
		t.Errorf("sampled: got %d parts, want 1", len(got))
	}
}

// Each cheat declares something else of the same tokens; none may look as good as noise.
func TestNoWayOfHidingLogprobsLooksHonest(t *testing.T) {
	t.Parallel()
	m := model(12, 60, 1)
	ours := greedyOf(m)
	r := rand.New(rand.NewPCG(9, 9))
	declare := func(spoil func(*statistic.Position)) float64 {
		theirs := answer(m, 5, positionFull.best)
		for i := range theirs {
			theirs[i].Top = slices.Clone(theirs[i].Top)
			spoil(&theirs[i])
		}
		return must(t)(statistic.Declared(ours, theirs, text(ours), true))[0]
	}
	noisy := make([]statistic.Position, len(m))
	for i, p := range m {
		noisy[i] = p.noisy(r, 0.02).at(p.best(), 5)
	}
	honest := must(t)(statistic.Declared(ours, noisy, text(ours), true))[0]
	for name, got := range map[string]float64{
		"all improbable": declare(func(p *statistic.Position) {
			for i := range p.Top {
				p.Top[i].Logprob -= 20 * exact.Nats
			}
		}),
		"the first left out": declare(func(p *statistic.Position) {
			p.Top = append(p.Top[1:5:5], statistic.Entry{Token: "zz", Logprob: p.Top[4].Logprob})
		}),
		"other names": declare(func(p *statistic.Position) {
			for i := range p.Top {
				p.Top[i].Token += "z"
			}
		}),
		"flat": declare(func(p *statistic.Position) {
			for i := range p.Top {
				p.Top[i].Logprob = -1_609_438
			}
		}),
	} {
		if got < 5*honest {
			t.Errorf("%s: got %v, want more than five times the honest %v", name, got, honest)
		}
	}
}

func TestInventedTokensCountBesideThoseTheyHide(t *testing.T) {
	t.Parallel()
	m := model(12, 60, 1)
	ours, theirs := greedyOf(m), answer(m, 5, positionFull.best)
	for i := range theirs {
		theirs[i].Top = slices.Clone(theirs[i].Top)
		for j := range theirs[i].Top {
			theirs[i].Top[j] = statistic.Entry{Token: "z" + token(j), Logprob: -1_609_438}
		}
	}
	// Five invented fifths lie 2 nats above what the reference may say of them.
	if got := must(t)(statistic.Declared(ours, theirs, text(ours), true))[0]; got < 1.9 {
		t.Errorf("got %v, want at least 1.9", got)
	}
}

func TestAProviderThatSamplesContradictsItself(t *testing.T) {
	t.Parallel()
	m := model(13, 60, 1)
	r := rand.New(rand.NewPCG(4, 4))
	choice := make([]int, len(m))
	for i, p := range m {
		choice[i] = p.sample(r, 1)
	}
	i, j := 0, 0
	ours := answer(m, 20, func(positionFull) int { i++; return choice[i-1] })
	theirs := answer(m, 5, func(positionFull) int { j++; return choice[j-1] })
	if got := must(t)(statistic.Declared(ours, theirs, text(ours), true)); got[1] < 0.2 {
		t.Errorf("got %v, want a second part above 0.2", got)
	}
}

// A provider that samples may say that the token was its best, beside a list that says
// otherwise.
func TestTheListCountsAndNotTheNumberBesideTheToken(t *testing.T) {
	t.Parallel()
	m := model(13, 60, 1)
	ours := greedyOf(m)
	for name, lie := range map[string]func(*statistic.Position){
		"a number above its entry":    func(p *statistic.Position) { p.Top[0], p.Top[1] = p.Top[1], p.Top[0] },
		"a token that the list lacks": func(p *statistic.Position) { p.Top[0].Token = "hidden" },
	} {
		theirs := answer(m, 5, positionFull.best)
		for i := range theirs {
			theirs[i].Top = slices.Clone(theirs[i].Top)
			lie(&theirs[i])
			theirs[i].Top[0].Logprob, theirs[i].Top[1].Logprob = -1_000_000, -2_000_000
			for j := 2; j < 5; j++ {
				theirs[i].Top[j].Logprob = -4_000_000
			}
			theirs[i].Own.Logprob = -1_000_000
		}
		want := 1.0
		if name == "a token that the list lacks" {
			want = 2 // 3 nats, of which 2 count
		}
		got := must(t)(statistic.Declared(ours, theirs, text(ours), true))[1]
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: got the second part %v, want %v", name, got, want)
		}
	}
}

func TestDeclaredListsMustBeWholeAndJoin(t *testing.T) {
	t.Parallel()
	m := model(14, 40, 1)
	ours := greedyOf(m)
	short := answer(m, 4, positionFull.best)
	dup := answer(m, 5, positionFull.best)
	dup[3].Top = slices.Clone(dup[3].Top)
	dup[3].Top[2].Token = dup[3].Top[1].Token
	other := answer(m, 5, positionFull.best)
	other[5].Own.Token = "?"
	ended := append(answer(m, 5, positionFull.best), statistic.Position{
		Own: statistic.Entry{Token: "</s>", Logprob: -1}, Top: short[0].Top,
	})
	for _, c := range []struct {
		name   string
		theirs []statistic.Position
		want   statistic.Void
	}{
		{"four of five", short, statistic.NoLogprobs},
		{"no list", nil, statistic.NoLogprobs},
		{"twice the same", dup, statistic.Malformed},
		{"another text", other, statistic.NotJoined},
		{"too few", other[:5], statistic.NotJoined},
		{"an end token", ended, statistic.None},
		{"two end tokens", append(ended, ended[len(ended)-1]), statistic.NotJoined},
		{"one token", []statistic.Position{{Own: statistic.Entry{Token: text(ours)}, Top: dup[0].Top}}, statistic.Misaligned},
	} {
		if _, got := statistic.Declared(ours, c.theirs, text(ours), true); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPositionsAreComparedWhereTheyBeginAlike(t *testing.T) {
	t.Parallel()
	m := model(15, 40, 1)
	ours, theirs := greedyOf(m), answer(m, 5, positionFull.best)
	// The provider joins two tokens to one, as another tokenizer does.
	theirs[10].Own.Token += theirs[11].Own.Token
	theirs = slices.Delete(theirs, 11, 12)
	if got := must(t)(statistic.Declared(ours, theirs, text(ours), true)); got[0] != 0 {
		t.Errorf("got %v, want 0", got)
	}
}

func TestRatiosAreAboveOneForTheirAlternativeOnly(t *testing.T) {
	t.Parallel()
	for _, temperature := range []statistic.Temperature{statistic.Cool, statistic.Hot} {
		r := rand.New(rand.NewPCG(7, uint64(10*temperature)))
		honest, cheat := 0.0, 0.0
		const n = 300
		for i := range n {
			m := model(uint64(100+i), 60, 1)
			play := func(t float64) []statistic.Position {
				return answer(m, 20, func(p positionFull) int { return p.sample(r, t) })
			}
			h, _ := statistic.RatioAtTemperature(play(1), temperature)
			c, _ := statistic.RatioAtTemperature(play(float64(temperature)), temperature)
			honest, cheat = honest+h/n, cheat+c/n
		}
		if honest > 1.1 {
			t.Errorf("temperature %v: honest mean: got %v, want about 1 at most", temperature, honest)
		}
		if cheat < 4 {
			t.Errorf("temperature %v: cheat's mean: got %v, want above 4", temperature, cheat)
		}
	}
}

func TestTheRatioAgainstAModelIsTheProduct(t *testing.T) {
	t.Parallel()
	m := model(16, 30, 1)
	ours, theirs := greedyOf(m), greedyOf(m)
	for i := range theirs {
		theirs[i].Own.Logprob -= 10_000
	}
	theirs[4].Own.Logprob -= 200_000
	if got, v := statistic.RatioAgainst(ours, theirs); v != statistic.None {
		t.Errorf("got %v and %q, want %v", got, v, math.Exp(-0.5))
	} else if math.Abs(got-math.Exp(-0.5)) > 1e-12 {
		t.Errorf("got %v and %q, want %v", got, v, math.Exp(-0.5))
	}
	if got, _ := statistic.RatioAgainst(theirs, ours); math.Abs(got-math.Exp(0.5)) > 1e-12 {
		t.Errorf("got %v, want %v", got, math.Exp(0.5))
	}
	for i := range theirs {
		theirs[i].Own.Logprob = -90 * exact.Nats
	}
	if got, _ := statistic.RatioAgainst(theirs, ours); got != statistic.MaxRatio {
		t.Errorf("got %v, want %v", got, statistic.MaxRatio)
	}
	if got, _ := statistic.RatioAgainst(ours, theirs); got != 0 {
		t.Errorf("got %v, want 0", got)
	}
}

func TestRatiosNeedTheSameTokens(t *testing.T) {
	t.Parallel()
	m := model(17, 30, 1)
	ours := greedyOf(m)
	other := greedyOf(m)
	other[7].Own.Token = "?"
	if _, got := statistic.RatioAgainst(ours, other); got != statistic.NoReference {
		t.Errorf("got %q, want %q", got, statistic.NoReference)
	}
	if _, got := statistic.RatioAgainst(ours, ours[:29]); got != statistic.NoReference {
		t.Errorf("got %q, want %q", got, statistic.NoReference)
	}
	if _, got := statistic.RatioAtTemperature(ours, 1); got != statistic.NoReference {
		t.Errorf("got %q, want %q", got, statistic.NoReference)
	}
}

func TestConsensusNeedsThreeOwnersAndFindsTheOdd(t *testing.T) {
	t.Parallel()
	m, other := model(18, 1, 1)[0], model(19, 1, 1)[0]
	r := rand.New(rand.NewPCG(5, 5))
	var peers []statistic.Peer
	for _, owner := range []string{"a", "b", "c"} {
		peers = append(peers, statistic.Peer{Owner: owner, Top: m.noisy(r, 0.02).at(0, 5).Top})
	}
	odd := statistic.Peer{Owner: "d", Top: other.at(0, 5).Top}
	// Many providers of one owner have one voice.
	for range 9 {
		peers = append(peers, odd)
	}
	apart, v := statistic.Consensus(peers)
	if v != statistic.None {
		t.Fatalf("got void %q, want none", v)
	}
	if honest, cheat := slices.Max(apart[:3]), slices.Min(apart[3:]); cheat < 5*honest {
		t.Errorf("got %v for the odd one and %v for the others, want five times as much", cheat, honest)
	}
	for want, peers := range map[statistic.Void][]statistic.Peer{
		statistic.NoReference: append(slices.Clone(peers[:2]), statistic.Peer{Owner: "a", Top: odd.Top}),
		statistic.NoLogprobs:  append(slices.Clone(peers[:3]), statistic.Peer{Owner: "e"}),
		statistic.TooLarge:    slices.Repeat(peers[:3], 22),
	} {
		if _, got := statistic.Consensus(peers); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
