// Command tinygguf writes a small model with random weights that an engine can
// load:
//
//	tinygguf -o tiny.gguf -seed 7
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"svc.internal/deploy/engine/gguf"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "tinygguf:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	c := gguf.Default()
	flags := flag.NewFlagSet("tinygguf", flag.ContinueOnError)
	path := flags.String("o", "tiny.gguf", "`file` to write")
	flags.StringVar(&c.Name, "name", c.Name, "name that engines show")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the weights")
	flags.IntVar(&c.Layers, "layers", c.Layers, "transformer blocks")
	flags.IntVar(&c.Width, "width", c.Width, "size of an embedding")
	flags.IntVar(&c.Heads, "heads", c.Heads, "attention heads")
	flags.IntVar(&c.FeedForward, "ff", c.FeedForward, "size of the blocks' hidden layers")
	flags.IntVar(&c.Context, "context", c.Context, "longest sequence, in tokens")
	flags.BoolVar(&c.Half, "half", c.Half, "16-bit weights")
	flags.Float64Var(&c.Sharpness, "sharpness", c.Sharpness, "how much the model prefers some tokens")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	if err := c.Validate(); err != nil {
		return err
	}
	file, err := os.Create(*path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return gguf.Write(file, c)
}
