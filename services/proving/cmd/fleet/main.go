// Command fleet runs the marketplace as a fleet of separate processes on this
// machine: PostgreSQL, nats-server, two of each service with mutual TLS between
// them, two provider agents, a reference that the verifier compares them with, and an engine.
// With -grouped a gateway and a router run in the process of each hub.
//
//	fleet up                    starts it in the background and returns when it is ready
//	fleet run                   runs it in the foreground
//	fleet status [-json]        shows the processes
//	fleet restart <name>...     restarts processes, or all of a service, one after the other
//	fleet down                  stops it, in order
//
// Everything is in the folder that -dir names, one fleet at a time. ENGINE_URL,
// DATABASE_URL, SVC_LOG_LEVEL and SVC_OTLP_ENDPOINT mean what they mean to the
// single process.
package main

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

	"svc.internal/pkg/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once; a guard ends the others.
	context.AfterFunc(ctx, stop)
	err := command(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

const usage = `usage: fleet <command> [flags]

  up                  start the fleet in the background; returns when it is ready
  run                 run the fleet in the foreground
  status              show the processes (-json for programs)
  restart <name>...   restart processes (catalog-1), or services (catalog), one after the other
  down                stop the fleet, in order

"fleet up -h" lists the flags.
`

// options are the flags of all commands, and the environment.
type options struct {
	dir, bin string
	free     bool
	drain    time.Duration
	json     bool
	// references is how many nodes of the platform the verifier compares providers with.
	references int
	// grouped runs a gateway and a router in the process of each hub.
	grouped bool
	names   []string

	DatabaseURL  config.Secret `env:"DATABASE_URL"`
	EngineURL    string        `env:"ENGINE_URL"`
	LogLevel     string        `env:"SVC_LOG_LEVEL" envDefault:"info"`
	OTLPEndpoint string        `env:"SVC_OTLP_ENDPOINT"`
}

func command(ctx context.Context, args, environ []string, out, diagnostics io.Writer) error {
	commands := map[string]func(context.Context, options, io.Writer) error{
		"up": up, "run": run, "status": status, "restart": restart, "down": down,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprint(diagnostics, usage)
		if len(args) > 0 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
			return nil
		}
		return errors.New("a command is needed")
	}
	o, err := parse(args[0], args[1:], environ, diagnostics)
	if err != nil {
		return err
	}
	return commands[args[0]](ctx, o, out)
}

func parse(name string, args, environ []string, diagnostics io.Writer) (options, error) {
	o, err := config.Load[options](environ)
	if err != nil {
		return o, err
	}
	flags := flag.NewFlagSet("fleet "+name, flag.ContinueOnError)
	flags.SetOutput(diagnostics)
	flags.StringVar(&o.dir, "dir", ".run/fleet", "`folder` of everything that the fleet writes")
	flags.StringVar(&o.bin, "bin", ".bin/fleet", "`folder` of the programs")
	flags.BoolVar(&o.free, "free-ports", false, "listen on ports that are free instead of 8080 to 8083 and from 9400")
	flags.DurationVar(&o.drain, "drain-delay", time.Second,
		"how long a process says that it stops before it stops listening")
	flags.IntVar(&o.references, "references", 1,
		"how many references the verifier compares the providers with; without any, benchmarks are waived")
	flags.BoolVar(&o.grouped, "grouped", false, "run a gateway and a router in the process of each hub")
	if name == "status" {
		flags.BoolVar(&o.json, "json", false, "print JSON")
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.names = flags.Args()
	switch {
	case name == "restart" && len(o.names) == 0:
		return o, errors.New("restart: name a process or a service; fleet status lists them")
	case name != "restart" && len(o.names) > 0:
		return o, fmt.Errorf("%q is not a flag", o.names[0])
	}
	return o, nil
}
