// Command svc-agent offers the models of local inference engines to the
// marketplace.
//
//	svc-agent run      connects and serves until it is stopped
//	svc-agent check    reads models.json and asks every engine once
//	svc-agent status   tells where the account stands, and why requests come or do not
//	svc-agent version  prints the version
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	err := command(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUnfit):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "svc-agent:", err)
		os.Exit(1)
	}
}

const usage = `usage: svc-agent <command> [flags]

  run      connect to the hub and serve requests until stopped
  check    read models.json and ask every engine whether it serves its models
  status   tell where the account stands, and why requests come or do not
  version  print the version

"svc-agent run -h" lists the flags of run, and so for the others. The hub's address and the provider key come
from SVC_WS_URL and SVC_PROVIDER_KEY (the key itself, or file:/path/to/it).
`

func command(ctx context.Context, args, environ []string, out, diagnostics io.Writer) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "run":
		return run(ctx, args, environ, diagnostics)
	case "check":
		return check(ctx, args, environ, out, diagnostics)
	case "status":
		return status(ctx, args, environ, out, diagnostics)
	case "version":
		_, err := fmt.Fprintln(out, "svc-agent", version())
		return err
	case "help", "-h", "-help", "--help":
		_, err := fmt.Fprint(out, usage)
		return err
	default:
		fmt.Fprint(diagnostics, usage)
		return fmt.Errorf("%q is not a command", name)
	}
}
