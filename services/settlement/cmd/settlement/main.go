// Command settlement runs settlement as a process of its own, and has a tool for
// operators.
//
//	settlement [-config file.yaml] [-check]
//	settlement rewind -since TIME [-config file.yaml]
//	settlement verify [--json] [--chain [-config file.yaml] [-rpc 8453=URL,URL]]
//	settlement adopt --chain N [--apply --reason WHY] [--json] [-config file.yaml]
//
// Without a subcommand it serves; see the service's README for its settings.
// rewind has the usage that was published since a time delivered again. verify recomputes
// every invariant from the database that DATABASE_URL names, on one view of it, and prints
// a table. With --chain it compares with the chains of the settings too, and -rpc has it
// ask others than the configured RPCs. It exits with 0 where all hold, with 1 for drift,
// and with 2 when it could not decide, as where a chain cannot be asked.
// adopt shows what a database that was restored from an older copy lost of a chain, and
// with --apply takes it in.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/node"
	"svc.internal/services/settlement"
)

func main() {
	p := &program{node.DefaultConfig(), settlement.DefaultConfig()}
	if len(os.Args) >= 2 && os.Args[1] == "rewind" {
		rewinder := node.Rewinder{Name: node.Settlement, Program: p, Durable: bus.DurableSettlement,
			Streams: []string{bus.UsageStream.Name}}
		os.Exit(rewinder.Main(os.Args[2:]))
	}
	if len(os.Args) >= 2 && os.Args[1] == "verify" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := runVerify(ctx, os.Stdout, os.Stderr, os.Environ(), p.chains, os.Args[2:])
		stop()
		os.Exit(code)
	}
	if len(os.Args) >= 2 && os.Args[1] == "adopt" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := runAdopt(ctx, os.Stdout, os.Stderr, p, os.Args[2:])
		stop()
		os.Exit(code)
	}
	os.Exit(node.Main(node.Settlement, p))
}
