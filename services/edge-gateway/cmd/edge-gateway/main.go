// Command edge-gateway runs an edge gateway as a process of its own; see the
// service's README for its settings.
package main

import (
	"context"
	"errors"
	"os"

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
	os.Exit(node.Main(node.EdgeGateway, &program{node.DefaultConfig(), edgegateway.DefaultConfig()}))
}
