// Command sim plays histories of the whole fleet, with faults, in virtual time,
// and says which of them lose or double money; see package sim.
//
//	sim [-seed N] [-histories N] [-for 1m] [-workers N] [-strict] [-trace] [-json]
//
// Seeds count up from -seed. -trace prints what happens in the first history,
// byte for byte the same for the same seed. A history that breaks something is
// printed with the fewest faults that still do, and its trace.
//
// Its exit code is 0 when nothing is wrong, 1 when something is, and 2 when that
// could not be told.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"svc.internal/services/proving/internal/sim"
)

// The exit codes.
const (
	clean = iota
	wrong
	unknown
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	var c sim.Campaign
	var trace, asJSON bool
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Uint64Var(&c.Seed, "seed", 1, "seed of the first history")
	flags.IntVar(&c.Histories, "histories", 0, "how many histories (default 10000, or as many as -for allows)")
	flags.DurationVar(&c.For, "for", 0, "how long to play histories")
	flags.IntVar(&c.Workers, "workers", runtime.GOMAXPROCS(0), "how many histories at once")
	flags.BoolVar(&c.Config.Strict, "strict", false, "known limits of the design are failures too")
	flags.BoolVar(&trace, "trace", false, "print the first history's trace and play no other")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return clean
		}
		return unknown
	}
	broken, err := play(c, trace, asJSON, out, errs)
	switch {
	case err != nil:
		fmt.Fprintln(errs, "sim:", err)
		return unknown
	case broken:
		return wrong
	}
	return clean
}

func play(c sim.Campaign, trace, asJSON bool, out, errs io.Writer) (broken bool, err error) {
	if trace {
		c.Config.Seed, c.Config.Trace = c.Seed, &sim.Trace{}
		result, err := (&sim.Runner{}).Run(c.Config)
		if err == nil {
			err = result.Print(out, c.Config.Trace)
		}
		return len(result.Broken) > 0, err
	}
	if terminal(errs) && !asJSON {
		c.Progress = func(r sim.Report) { fmt.Fprintf(errs, "\r%s", r.Line()) }
	}
	report, err := c.Play()
	if c.Progress != nil {
		fmt.Fprintln(errs)
	}
	switch {
	case err != nil:
	case asJSON:
		err = report.JSON(out)
	default:
		err = report.Print(out)
	}
	return len(report.Failures) > 0, err
}

// terminal reports whether a person watches.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
