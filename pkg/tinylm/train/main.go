// Command train makes tinylm's weights: it samples the generated corpus, trains
// the recurrent network by truncated back-propagation through time with Adam,
// and writes the weights file.
//
// The same flags give the same file, byte for byte, in every build for amd64
// with the default GOAMD64 (a higher GOAMD64 may fuse products with sums). The
// command uses one core. GOEXPERIMENT=simd makes it several times faster and does
// not change the result.
//
//	GOEXPERIMENT=simd go run ./tinylm/train -out tinylm/weights.bin
package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/tinylm/internal/weights"
)

// recipe is everything that decides the result.
type recipe struct {
	embed, hidden int
	rows, length  int // rows of a batch, and steps through time
	steps         int
	rate          float64
	seed          uint64
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		slog.Error("training failed", "error", err)
		os.Exit(1)
	}
}

func run(args []string, progress io.Writer) error {
	r := recipe{rows: 16, length: 96}
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	out := flags.String("out", "weights.bin", "file to write")
	flags.IntVar(&r.steps, "steps", 4200, "optimizer steps")
	flags.IntVar(&r.embed, "embed", 32, "width of the embedding")
	flags.IntVar(&r.hidden, "hidden", 256, "width of the state")
	flags.Float64Var(&r.rate, "rate", 0.004, "peak learning rate")
	flags.Uint64Var(&r.seed, "seed", 1, "seed of the initial weights and of the corpus sampler")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.steps < 1 || r.embed < 1 || r.hidden < 1 || r.embed > weights.MaxWidth || r.hidden > weights.MaxWidth {
		return fmt.Errorf("steps and widths must be positive, and widths at most %d", weights.MaxWidth)
	}
	save := func(s *weights.Set) error {
		if err := os.WriteFile(*out, s.Encode(), 0o600); err != nil {
			return fmt.Errorf("write weights: %w", err)
		}
		return nil
	}
	return train(r, clock.System, progress, save)
}

// train follows the recipe and reports every hundredth step. It saves the weights
// after each evaluation, so that a run that is cut short leaves weights to look at.
// The last evaluation is at the end.
func train(r recipe, clk clock.Clock, progress io.Writer, save func(*weights.Set) error) error {
	const every, evaluations = 100, 10
	params := weights.New(r.embed, r.hidden)
	initialize(params, rand.New(rand.NewPCG(r.seed, 1))) //nolint:gosec // a seed must give the same weights again
	net, opt, text := newNetwork(params, r.rows, r.length), newAdam(params), newFeed(r.seed, r.rows, r.length)
	began, sum := clk.Now(), 0.0
	fmt.Fprintf(progress, "parameters=%d bytes_per_step=%d steps=%d\n", params.Count(), r.rows*r.length, r.steps)
	for step := range r.steps {
		b := text.next()
		sum += net.loss(b)
		net.backward(b)
		opt.update(params, net.grads, rateAt(step, r.steps, r.rate))
		if done := step + 1; done%every == 0 || done == r.steps {
			elapsed := clk.Now().Sub(began)
			eta := elapsed * time.Duration(r.steps-done) / time.Duration(done)
			fmt.Fprintf(progress, "step=%d loss=%.4f elapsed=%s eta=%s\n", done, sum/float64((step%every)+1),
				elapsed.Round(time.Second), eta.Round(time.Second))
			sum = 0
		}
		if done := step + 1; done%max(r.steps/evaluations, 1) == 0 || done == r.steps {
			loss := evaluate(params)
			fmt.Fprintf(progress, "step=%d held_out_nats=%.4f held_out_bits=%.4f\n", done, loss, bits(loss))
			if err := save(params); err != nil {
				return err
			}
		}
	}
	return nil
}
