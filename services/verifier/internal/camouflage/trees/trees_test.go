package trees_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"svc.internal/services/verifier/internal/camouflage/trees"
)

// samples returns n samples of each kind with three numbers. Those with label true have the
// first two on the same side of 0 where apart says so, which no single number shows.
func samples(n int, apart bool) (all [][]float64, labels []bool) {
	d := rand.New(rand.NewPCG(1, 1))
	for i := range 2 * n {
		label := i%2 == 0
		a, b := d.NormFloat64(), d.NormFloat64()
		if apart && (a*b > 0) != label {
			b = -b
		}
		all, labels = append(all, []float64{a, b, d.NormFloat64()}), append(labels, label)
	}
	return all, labels
}

func TestKindsThatAreAlikeAreNotToldApart(t *testing.T) {
	t.Parallel()
	all, labels := samples(1_000, false)
	got, err := trees.Cross(all, labels, trees.Usual())
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got.AUC-.5) > 3*got.Error {
		t.Errorf("AUC: got %.3f, want .5 ± %.3f", got.AUC, 3*got.Error)
	}
}

func TestWhatTwoNumbersShowTogetherIsFound(t *testing.T) {
	t.Parallel()
	all, labels := samples(1_000, true)
	got, err := trees.Cross(all, labels, trees.Usual())
	if err != nil {
		t.Fatal(err)
	}
	if got.AUC < .95 {
		t.Errorf("AUC: got %.3f, want .95 at least", got.AUC)
	}
	if noise := got.Gain[2]; noise > .1 {
		t.Errorf("the part of the number that says nothing: got %.2f, want .1 at most", noise)
	}
}

func TestTheSameSamplesGiveTheSameTrees(t *testing.T) {
	t.Parallel()
	all, labels := samples(200, true)
	var runs [2]trees.Crossed
	for i := range runs {
		var err error
		if runs[i], err = trees.Cross(all, labels, trees.Usual()); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(runs[0], runs[1]) {
		t.Errorf("two runs: got %v and %v, want the same", runs[0], runs[1])
	}
}

func TestAUCCountsPairs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		scores []float64
		want   float64
	}{
		{"all above", []float64{3, 4, 1, 2}, 1},
		{"all below", []float64{1, 2, 3, 4}, 0},
		{"all equal", []float64{1, 1, 1, 1}, .5},
		{"one pair of four is wrong", []float64{2, 4, 1, 3}, .75},
	} {
		if got := trees.AUC(tc.scores, []bool{true, true, false, false}); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestTheErrorIsThatOfTheDesign(t *testing.T) {
	t.Parallel()
	if got := trees.Error(.55, 2_000, 2_000); math.Abs(got-.009) > .0005 {
		t.Errorf("error of .55 with 2,000 of each: got %.4f, want .009", got)
	}
}

func TestSamplesOfOneKindAreRefused(t *testing.T) {
	t.Parallel()
	_, err := trees.Grow([][]float64{{1}, {2}}, []bool{true, true}, trees.Usual())
	if !errors.Is(err, trees.ErrSamples) {
		t.Errorf("error: got %v, want %v", err, trees.ErrSamples)
	}
}

func TestSamplesWithOtherNumbersAreRefused(t *testing.T) {
	t.Parallel()
	_, err := trees.Grow([][]float64{{1}, {2, 3}}, []bool{true, false}, trees.Usual())
	if !errors.Is(err, trees.ErrSamples) {
		t.Errorf("error: got %v, want %v", err, trees.ErrSamples)
	}
}
