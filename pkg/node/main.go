package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/governor"
	"svc.internal/pkg/memory"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
)

// Program is the configuration of a process that runs one service or more: a struct that
// holds its defaults.
type Program interface {
	config.Validator
	// Process returns the part that all processes have.
	Process() *Config
	// Specs returns the services that the process runs.
	Specs() []Spec
	// Build adds the services to the process.
	Build(ctx context.Context, n *Node) error
}

// Process gives a configuration that embeds Config this method of Program.
func (c *Config) Process() *Config { return c }

// Main runs a program with the process's arguments and environment until it is
// interrupted or terminated, and returns the exit code: 0 after an orderly stop, 1 after
// a failure, 2 for a command line or a configuration that cannot work. A second signal
// ends the process at once.
func Main(name string, program Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	clock.Spread()
	memory.Fit()
	go governor.Run(ctx)
	return run(ctx, name, os.Args[1:], os.Environ(), program, os.Stdout, os.Stderr)
}

const usage = `usage: %[1]s [-config file.yaml] [-check | -print]
       %[1]s migrate [-config file.yaml]
       %[1]s ready [-config file.yaml]

migrate brings the schema to the version that this program needs, under the
login of DATABASE_OWNER_URL, and ends. ready asks the process that serves with
the same settings whether it is ready, and ends. Without them the program serves.

-config names a file of settings; the environment wins over it.
-check reports every fault of the settings and ends.
-print shows every setting as it applies, with its variable, and ends.
`

// Options are the options of a process's command line.
type Options struct {
	// File is the configuration file, empty for none.
	File string
	// Check ends the process after the configuration has been read; Print shows the
	// configuration too.
	Check, Print bool
}

// Read reads the configuration as the options say. It returns done when no more was asked
// for. The output of -print goes to out, and the faults of reading to err. Only -check
// decides whether the configuration could work.
func (o *Options) Read(cfg any, environ []string, out io.Writer) (done bool, err error) {
	if o.Print {
		err := config.Fill(cfg, o.File, environ)
		return true, errors.Join(config.Print(out, cfg), err)
	}
	return o.Check, config.Read(cfg, o.File, environ)
}

// AddFlags adds the options to a flag set.
func (o *Options) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.File, "config", "", "file of settings (YAML); the environment wins over it")
	flags.BoolVar(&o.Check, "check", false, "report every fault of the settings and end")
	flags.BoolVar(&o.Print, "print", false, "show every setting as it applies, with its variable, and end")
}

func run(ctx context.Context, name string, args, environ []string, program Program, out, errs io.Writer) int {
	command := ""
	if len(args) > 0 && (args[0] == "migrate" || args[0] == "ready") {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() { fmt.Fprintf(errs, usage, name) }
	var options Options
	options.AddFlags(flags)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		flags.Usage()
		return 2
	}
	switch command {
	case "migrate":
		return runMigrate(ctx, name, options, environ, program, out, errs)
	case "ready":
		return runReady(ctx, name, options, environ, program, errs)
	}
	done, err := options.Read(program, environ, out)
	if err != nil {
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return 2
	}
	if done {
		return 0
	}
	if err := start(ctx, name, program, errs); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// runMigrate needs only the database's settings.
func runMigrate(
	ctx context.Context, name string, options Options, environ []string, program Program, out, errs io.Writer,
) int {
	if err := config.Fill(program, options.File, environ); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return 2
	}
	if err := migrate(ctx, name, program, out); err != nil {
		fmt.Fprintf(errs, "%s migrate: %v\n", name, err)
		return 1
	}
	return 0
}

// runReady asks the process that serves with the same settings whether it is ready. It is
// the health check of a container that has no shell and no other program.
func runReady(
	ctx context.Context, name string, options Options, environ []string, program Program, errs io.Writer,
) int {
	if err := config.Fill(program, options.File, environ); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return 2
	}
	if err := askReady(ctx, program.Process().AdminAddr); err != nil {
		fmt.Fprintf(errs, "%s ready: %v\n", name, err)
		return 1
	}
	return 0
}

// Observe sets what all gRPC clients of a process share, and then starts the telemetry of the process,
// because the client that sends traces is the first of these clients.
func Observe(cfg telemetry.Config, log io.Writer) (*telemetry.Telemetry, error) {
	serve.PrepareNames()
	return telemetry.Start(cfg, log)
}

// start builds the process and runs it until ctx ends.
func start(ctx context.Context, name string, program Program, log io.Writer) (err error) {
	tel, err := Observe(program.Process().Telemetry(name), log)
	if err != nil {
		return err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMargin)
		defer cancel()
		err = errors.Join(err, tel.Stop(stopCtx))
	}()
	n, err := New(*program.Process(), tel, program.Specs()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	began := time.Now()
	if err := program.Build(ctx, n); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it was built
		}
		return err
	}
	tel.Log.InfoContext(ctx, "starting", "services", n.Names(), "grpc", n.DispatchAddress(),
		"admin", n.AdminAddress(), "built_in", time.Since(began).Round(time.Millisecond))
	err = n.Run(ctx, Extra{})
	tel.Log.InfoContext(ctx, "stopped")
	return err
}
