package main

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/internal/corpus"
	"svc.internal/pkg/tinylm/internal/weights"
)

// small is a recipe that takes well under a second.
func small() recipe {
	return recipe{embed: 8, hidden: 24, rows: 4, length: 32, steps: 60, rate: 0.01, seed: 5}
}

func TestTrainingLowersTheLoss(t *testing.T) {
	r := small()
	params := weights.New(r.embed, r.hidden)
	initialize(params, rand.New(rand.NewPCG(1, 1)))
	net, opt, text := newNetwork(params, r.rows, r.length), newAdam(params), newFeed(r.seed, r.rows, r.length)
	var first, last float64
	for step := range r.steps {
		b := text.next()
		loss := net.loss(b)
		net.backward(b)
		opt.update(params, net.grads, r.rate)
		if step < 5 {
			first += loss / 5
		}
		if step >= r.steps-5 {
			last += loss / 5
		}
	}
	if last > first-1.5 {
		t.Errorf("the loss went from %.3f to %.3f nats in %d steps: got %.3f, want at most %.3f", first, last, r.steps, last,
			first-1.5)
	}
}

// TestGradientsMatchFiniteDifferences compares each tensor's gradient with the
// slope of the loss. It takes the second batch, so that carried state counts, and
// conversations that begin in the middle. It checks the six largest gradients of
// each tensor, because float32 can measure their slopes, and two random gradients.
func TestGradientsMatchFiniteDifferences(t *testing.T) {
	params := weights.New(4, 8)
	initialize(params, rand.New(rand.NewPCG(2, 2)))
	text := newFeed(11, 3, 40)
	carried := newNetwork(params, 3, 40)
	carried.loss(text.next())
	b := text.next()
	state := append([]float32(nil), carried.start...)
	net := newNetwork(params, 3, 40)
	lossAt := func() float64 {
		copy(net.start, state)
		return net.loss(b)
	}
	lossAt()
	net.backward(b)
	rng := rand.New(rand.NewPCG(3, 3))
	for k, tensor := range params.Tensors() {
		grad := net.grads.Tensors()[k]
		order := make([]int, len(tensor))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Compare(math.Abs(float64(grad[b])),
				math.Abs(float64(grad[a])))
		})
		for _, i := range append(order[:6:6], rng.IntN(len(tensor)), rng.IntN(len(tensor))) {
			const h = 1e-2
			was := tensor[i]
			tensor[i] = was + h
			up := lossAt()
			tensor[i] = was - h
			down := lossAt()
			tensor[i] = was
			slope := (up - down) / (2 * h)
			if math.Abs(slope-float64(grad[i])) > 0.02*math.Abs(slope)+3e-5 {
				t.Errorf("tensor %d, parameter %d: gradient %.6f, slope: got %v, want at most %v", k, i, grad[i],
					math.Abs(slope-float64(grad[i])), 0.02*math.Abs(slope)+3e-5)
			}
		}
		if largest := math.Abs(float64(grad[order[0]])); largest < 1e-4 {
			t.Errorf("tensor %d: the largest gradient: got %v, want at least 1e-4", k, largest)
		}
	}
}

func TestSameRecipeGivesTheSameFile(t *testing.T) {
	files := make([][]byte, 2)
	for i := range files {
		r := small()
		r.steps = 2
		err := train(r, clock.NewManual(time.Unix(0, 0)), io.Discard, func(s *weights.Set) error {
			files[i] = s.Encode()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Errorf("two files of the same recipe: got %q, want %q", files[0], files[1])
	}
}

func TestFreshConversationForgetsTheState(t *testing.T) {
	params := weights.New(8, 24)
	initialize(params, rand.New(rand.NewPCG(1, 1)))
	b := pad([]corpus.Exchange{{Question: "Hello", Answer: "Hi"}, {Question: "Bye", Answer: "See you"}})
	net := newNetwork(params, 2, len(b.input)/2)
	first := net.loss(b)
	if second := net.loss(b); first != second {
		t.Errorf("the loss of a conversation behind a state: got %v, want %v", second, first)
	}
}

func TestFeedWeighsAnswersAndMarksBeginnings(t *testing.T) {
	f := newFeed(2, 2, 200)
	b := f.next()
	if !b.fresh[0] {
		t.Error("the beginnings of the streams: b.fresh[0]: got false, want true")
	} else if !b.fresh[1] {
		t.Error("the beginnings of the streams: b.fresh[1]: got false, want true")
	}
	for cell := range b.input {
		if cell%2 == 0 && cell+2 < len(b.input) && !b.fresh[cell+2] && b.target[cell] != b.input[cell+2] {
			t.Fatalf("cell %d: the target is not the next input", cell)
		}
		if b.input[cell] == 3 && b.weight[cell] != 1 {
			t.Fatalf("cell %d after byte: b.weight[cell]: got %v, want 1, where b.input[cell] == 3", cell, b.weight[cell])
		}
		if b.input[cell] == 2 && b.weight[cell] != questionWeight {
			t.Fatalf("cell %d after byte: b.weight[cell]: got %v, want %v, where b.input[cell] == 2", cell, b.weight[cell],
				questionWeight)
		}
	}
}

func TestRateRisesThenFalls(t *testing.T) {
	switch a, b, c := rateAt(0, 1000, 1), rateAt(50, 1000, 1), rateAt(999, 1000, 1); {
	case a != 0.02:
		t.Errorf("rates: got %v, want 0.02", a)
	case b != 1:
		t.Errorf("rateAt(50, 1000, 1): got %v, want 1", b)
	case c > 0.02 || c < 0.01:
		t.Errorf("rateAt(999, 1000, 1): got %v, want at most 0.02 and at least 0.01", c)
	}
}

func TestCommandWritesWeightsAndReportsProgress(t *testing.T) {
	out, progress := filepath.Join(t.TempDir(), "w.bin"), &strings.Builder{}
	if err := run([]string{"-steps", "1", "-embed", "4", "-hidden", "8", "-out", out}, progress); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := weights.Decode(file); err != nil {
		t.Error(err)
	}
	if err := run([]string{"-hidden", "0"}, progress); err == nil {
		t.Error("a network without a state was accepted")
	}
	for _, want := range []string{"step=1 loss=", "eta=", "held_out_bits="} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("progress lacks %q:\n%s", want, progress)
		}
	}
}

// TestServerComputesTheTrainedNetwork compares the probabilities that the
// inference package reports with the probabilities of the training code.
func TestServerComputesTheTrainedNetwork(t *testing.T) {
	file, err := os.ReadFile("../weights.bin")
	if err != nil {
		t.Fatal(err)
	}
	params, err := weights.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	model, err := tinylm.Load()
	if err != nil {
		t.Fatal(err)
	}
	state, err := model.Read(t.Context(), tinylm.Prompt([]tinylm.Message{{Role: tinylm.RoleUser, Text: "Hello"}}))
	if err != nil {
		t.Fatal(err)
	}
	x, want := corpus.Exchange{Question: "Hello"}, 0.0
	_, err = state.Generate(t.Context(), tinylm.Params{TopP: 1, MaxTokens: 200}, func(token tinylm.Token) error {
		x.Answer += string(rune(token.Byte))
		want -= token.Logprob
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b := pad([]corpus.Exchange{x})
	b.weight[len(b.weight)-1] = 0 // the end of the answer is not among the tokens
	n := float64(len(x.Answer))
	if got := newNetwork(params, 1, len(b.input)).loss(b) * n; math.Abs(got-want) > 1e-3*n {
		t.Errorf("-ln p of %q is %.4f to the trainer and %.4f to the server: got %v, want at most %v", x.Answer, got, want,
			math.Abs(got-want), 1e-3*n)
	}
}
