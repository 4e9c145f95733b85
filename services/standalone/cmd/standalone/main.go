// Command standalone runs the whole marketplace, or any subset of its
// services, in one process.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"svc.internal/pkg/config"
	"svc.internal/services/standalone"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "standalone:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("standalone", flag.ContinueOnError)
	services := flags.String("services", "", "comma-separated subset to run here (default: all of "+strings.Join(standalone.AllServices(), ", ")+")")
	check := flags.Bool("check", false, "check the configuration and exit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg, err := config.Load[standalone.Config](os.Environ())
	if err != nil {
		return err
	}
	if err := cfg.Select(*services); err != nil || *check {
		return err
	}
	return standalone.Run(ctx, cfg, standalone.Streams{Out: os.Stdout, Log: os.Stderr})
}
