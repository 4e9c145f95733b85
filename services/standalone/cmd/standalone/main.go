// Command standalone runs the whole marketplace, or any subset of its
// services, in one process.
//
//	standalone [-services a,b] [-config file.yaml] [-check | -print]
//	standalone next-day
//	standalone operator-code
//
// next-day ends the day of the demo that runs in SVC_DATA_DIR: its database and its
// development chains go on after the next midnight. operator-code writes the code by which the
// demo's operator signs in now.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/governor"
	"svc.internal/pkg/memory"
	"svc.internal/pkg/node"
	"svc.internal/services/standalone"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "standalone:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == "next-day" {
		return standalone.NextDay(ctx, dataDir(), os.Stdout)
	}
	if len(args) == 1 && args[0] == "operator-code" {
		return standalone.OperatorCode(dataDir(), os.Stdout)
	}
	flags := flag.NewFlagSet("standalone", flag.ContinueOnError)
	services := flags.String("services", "", "comma-separated subset to run here (default: all of "+
		strings.Join(node.Names(), ", ")+")")
	var options node.Options
	options.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	cfg := standalone.DefaultConfig()
	if err := cfg.Select(*services); err != nil {
		return err
	}
	if done, err := options.Read(&cfg, os.Environ(), os.Stdout); err != nil || done {
		return err
	}
	clock.Spread()
	memory.Fit()
	go governor.Run(ctx)
	return standalone.Run(ctx, cfg, standalone.Streams{Out: os.Stdout, Log: os.Stderr})
}

// dataDir is the data directory of the environment, or the default one.
func dataDir() string {
	if dir := os.Getenv("SVC_DATA_DIR"); dir != "" {
		return dir
	}
	return standalone.DefaultConfig().DataDir
}
