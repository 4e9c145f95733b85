package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/config"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
)

// rewindTimeout bounds the whole of a rewind.
const rewindTimeout = time.Minute

// Rewinder is the subcommand "rewind" of a service's program. It has the service's
// durable consumer deliver again what was stored since a time, for a database that lost
// its last commits. It reads the service's settings and is on the bus as the service.
type Rewinder struct {
	Name    string
	Program Program
	// Durable is the name of the consumer in each of the streams.
	Durable string
	Streams []string
}

// Main runs it with the arguments after "rewind" and returns the exit code: 0 when all
// streams are rewound, and otherwise 2.
func (r Rewinder) Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return r.run(ctx, args, os.Environ(), os.Stdout, os.Stderr)
}

func (r Rewinder) run(ctx context.Context, args, environ []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("rewind", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {
		fmt.Fprintf(errs, "usage: %s rewind -since 2006-01-02T15:04:05Z [-stream %s] [-config file.yaml]\n", r.Name,
			strings.Join(r.Streams, "|"))
	}
	file := flags.String("config", "", "file of settings (YAML); the environment wins over it")
	text := flags.String("since", "", "the `time` since which messages are delivered again, RFC 3339")
	only := flags.String("stream", "", "rewind this stream only")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	since, err := time.Parse(time.RFC3339Nano, *text)
	streams := r.Streams
	if *only != "" {
		streams = []string{*only}
	}
	if err != nil || flags.NArg() > 0 || !slices.Contains(r.Streams, streams[0]) {
		flags.Usage()
		return 2
	}
	if err := config.Read(r.Program, *file, environ); err != nil {
		fmt.Fprintf(errs, "%s rewind: %v\n", r.Name, err)
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, rewindTimeout)
	defer cancel()
	if err := r.rewind(ctx, streams, since, out, errs); err != nil {
		fmt.Fprintf(errs, "%s rewind: %v\n", r.Name, err)
		return 2
	}
	return 0
}

// rewind checks all streams before it changes the first.
func (r Rewinder) rewind(ctx context.Context, streams []string, since time.Time, out, errs io.Writer) error {
	conn, err := r.connect(ctx, errs)
	if err != nil {
		return err
	}
	defer conn.Close()
	var faults []error
	for _, stream := range streams {
		faults = append(faults, conn.Reach(ctx, stream, since))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	for _, stream := range streams {
		n, err := conn.Rewind(ctx, stream, r.Durable, since)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d messages since %s are delivered again\n", stream, n, since.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// connect opens no listener of the service, which may be running.
func (r Rewinder) connect(ctx context.Context, errs io.Writer) (*bus.Conn, error) {
	process := r.Program.Process()
	log, err := telemetry.NewLog(telemetry.Config{LogLevel: "warn", LogFormat: "text"}, errs)
	if err != nil {
		return nil, err
	}
	creds, err := serve.LoadCredentials(process.TLS, log)
	if err != nil {
		return nil, err
	}
	cfg := process.busConfig(r.Program.Specs(), creds)
	cfg.Name, cfg.Log = r.Name+" rewind", log
	return bus.Connect(ctx, cfg)
}
