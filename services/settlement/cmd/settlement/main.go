// Command settlement runs settlement as a process of its own, and has a tool for
// operators.
//
//	settlement [-config file.yaml] [-check]
//	settlement rewind -since TIME [-config file.yaml]
//	settlement verify [--json] [--chain [-config file.yaml] [-rpc 8453=URL,URL]]
//
// Without a subcommand it serves; see the service's README for its settings.
// rewind has the usage that was published since a time delivered again. verify recomputes
// every invariant from the database that DATABASE_URL names, on one view of it, and prints
// a table. With --chain it compares with the chains of the settings too, and -rpc has it
// ask others than the configured RPCs. It exits with 0 where all hold, with 1 for drift,
// and with 2 when it could not decide, as where a chain cannot be asked.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/config"
	"svc.internal/pkg/node"
	"svc.internal/services/settlement"
)

type program struct {
	node.Config `yaml:",inline"`
	Settlement  settlement.Config `yaml:"settlement"`
}

// Validate returns every fault.
func (p *program) Validate() error {
	return errors.Join(p.Check(p.Specs()...), p.Settlement.Validate(),
		p.Settlement.CheckListeners(p.GRPCAddr, p.GRPCAdvertise, p.AdminAddr))
}

// Specs are the services of the process.
func (p *program) Specs() []node.Spec { return []node.Spec{settlement.Spec()} }

// Build adds the service to the process.
func (p *program) Build(ctx context.Context, n *node.Node) error {
	return settlement.Build(ctx, p.Settlement, n)
}

// chains are the settings that verify needs: those of chains, without the rest of what a process must have.
func (p *program) chains(file string) (settlement.Config, error) {
	err := config.Fill(p, file, os.Environ())
	return p.Settlement, err
}

func main() {
	p := &program{node.DefaultConfig(), settlement.DefaultConfig()}
	if len(os.Args) >= 2 && os.Args[1] == "rewind" {
		rewinder := node.Rewinder{Name: node.Settlement, Program: p, Durable: bus.DurableSettlement,
			Streams: []string{bus.UsageStream.Name}}
		os.Exit(rewinder.Main(os.Args[2:]))
	}
	if len(os.Args) >= 2 && os.Args[1] == "verify" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := runVerify(ctx, os.Stdout, os.Stderr, os.Getenv("DATABASE_URL"), p.chains, os.Args[2:])
		stop()
		os.Exit(code)
	}
	os.Exit(node.Main(node.Settlement, p))
}
