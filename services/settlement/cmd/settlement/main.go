// Command settlement runs settlement as a process of its own, and has a tool for
// operators.
//
//	settlement [-config file.yaml] [-check]
//	settlement rewind -since TIME [-config file.yaml]
//
// Without a subcommand it serves; see the service's README for its settings.
// rewind has the usage that was published since a time delivered again.
package main

import (
	"context"
	"errors"
	"os"

	"svc.internal/pkg/bus"
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

func main() {
	p := &program{node.DefaultConfig(), settlement.DefaultConfig()}
	if len(os.Args) >= 2 && os.Args[1] == "rewind" {
		rewinder := node.Rewinder{Name: node.Settlement, Program: p, Durable: bus.DurableSettlement,
			Streams: []string{bus.UsageStream.Name}}
		os.Exit(rewinder.Main(os.Args[2:]))
	}
	os.Exit(node.Main(node.Settlement, p))
}
