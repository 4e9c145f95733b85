// Command chaos injects faults into a marketplace under load and has an auditor judge its
// money; see package svc.internal/services/proving/internal/chaos. It exits 1 when
// something went wrong, and then keeps all files of the run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/services/proving/internal/chaos"
	"svc.internal/services/proving/internal/chaos/plan"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	right, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "  "+err.Error())
	}
	if err != nil || !right {
		os.Exit(1) //nolint:gocritic // nothing is left to do
	}
}

// options are the flags of the command line.
type options struct {
	cfg        chaos.Config
	dir        string
	keep       bool
	json, list bool
}

func parse(args []string, errOut io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.IntVar(&o.cfg.Faults, "faults", 0, "do `n` faults; 0 is each cell twice")
	seed := flags.String("seed", "", "the `number` that decides the run; empty is a new one")
	cells := flags.String("cells", "", "only cells whose names match the `expression`")
	flags.StringVar(&o.cfg.Plant, "plant", "", "plant a `fault`, one of "+strings.Join(crash.Plants(), ", "))
	flags.IntVar(&o.cfg.Callers, "callers", 0, "`n` clients at once; 0 is 20")
	flags.IntVar(&o.cfg.Lanes, "lanes", 0, "`n` faults at once; 0 is 3")
	flags.StringVar(&o.cfg.BinDir, "bin", "",
		"use the programs in a `folder`, built with the tag crashpoints, instead of building them")
	flags.StringVar(&o.dir, "dir", filepath.Join(".run", "chaos"), "the `folder` that gets a folder for the run")
	flags.BoolVar(&o.keep, "keep", false, "keep the files of a run in which nothing went wrong")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON")
	flags.BoolVar(&o.list, "list", false, "print the names of all cells")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("chaos: %q is not understood", flags.Arg(0))
	}
	if o.cfg.Faults < 0 || o.cfg.Callers < 0 || o.cfg.Lanes < 0 {
		return o, errors.New("chaos: the numbers of faults, clients and lanes must not be negative")
	}
	if o.cfg.Plant != "" && !slices.Contains(crash.Plants(), o.cfg.Plant) {
		return o, fmt.Errorf("chaos: %q is not a fault that can be planted", o.cfg.Plant)
	}
	o.cfg.Seed = rand.Uint64() //nolint:gosec // any will do
	var err error
	if *seed != "" {
		if o.cfg.Seed, err = strconv.ParseUint(*seed, 10, 64); err != nil {
			return o, fmt.Errorf("chaos: %q is no seed", *seed)
		}
	}
	if *cells != "" {
		if o.cfg.Match, err = regexp.Compile(*cells); err != nil {
			return o, fmt.Errorf("chaos: cells: %w", err)
		}
	}
	o.cfg.Dir = filepath.Join(o.dir, strconv.FormatUint(o.cfg.Seed, 10))
	return o, nil
}

func run(ctx context.Context, args []string, out, errOut io.Writer) (right bool, err error) {
	o, err := parse(args, errOut)
	if err != nil {
		return false, err
	}
	if o.list {
		for _, c := range plan.Cells() {
			fmt.Fprintln(out, c.Name())
		}
		return true, nil
	}
	if o.cfg.Dir, err = filepath.Abs(o.cfg.Dir); err != nil {
		return false, fmt.Errorf("chaos: %w", err)
	}
	if err := chaos.Clean(o.cfg.Dir); err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.cfg.Dir, 0o700); err != nil {
		return false, fmt.Errorf("chaos: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(o.cfg.Dir, "chaos.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return false, fmt.Errorf("chaos: %w", err)
	}
	defer log.Close()
	fmt.Fprintf(errOut, "  seed %d\n", o.cfg.Seed)
	shown := newShow(errOut, log)
	o.cfg.Progress = shown.progress
	report, err := chaos.Run(ctx, o.cfg)
	shown.end()
	if err != nil {
		return false, fmt.Errorf("%w\n  The files are in %s. To do it again:\n  %s", err, o.cfg.Dir, o.cfg.Replay())
	}
	if o.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		err = report.Print(out)
	}
	right = len(report.Wrong()) == 0
	if right && !o.keep {
		err = errors.Join(err, chaos.Clean(o.cfg.Dir))
	}
	return right, err
}

// every is how often a line is written where it cannot be overwritten.
const every = 10 * time.Second
