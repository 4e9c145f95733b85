// Command edge-gateway runs an edge gateway as a process of its own, and asks one.
//
//	edge-gateway [-config file.yaml] [-check]
//	edge-gateway ask -url URL -model ID -key-file FILE [-timeout 1m]
//
// Without a subcommand it serves; see the service's README for its settings. ask asks the
// public API at URL, which ends in /v1, for one short chat completion under the consumer's
// key in FILE, prints who answered, and ends with 1 where no completion came. It is what
// helm test runs.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"svc.internal/pkg/node"
	edgegateway "svc.internal/services/edge-gateway"
)

type program struct {
	node.Config `yaml:",inline"`
	Gateway     edgegateway.Config `yaml:"gateway"`
}

// Validate returns every fault.
func (p *program) Validate() error {
	return errors.Join(p.Check(p.Specs()...), p.Gateway.Validate())
}

// Specs are the services of the process.
func (p *program) Specs() []node.Spec { return []node.Spec{edgegateway.Spec()} }

// Build adds the service to the process.
func (p *program) Build(ctx context.Context, n *node.Node) error {
	return edgegateway.Build(ctx, p.Gateway, n)
}

func main() {
	if len(os.Args) >= 2 && os.Args[1] == "ask" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(ask(ctx, os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(node.Main(node.EdgeGateway, &program{node.DefaultConfig(), edgegateway.DefaultConfig()}))
}
