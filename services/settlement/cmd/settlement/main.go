// Command settlement runs settlement as a process of its own; see the
// service's README for its settings.
package main

import (
	"context"
	"errors"
	"os"

	"svc.internal/pkg/node"
	"svc.internal/services/settlement"
)

type program struct {
	node.Config `yaml:",inline"`
	Settlement  settlement.Config `yaml:"settlement"`
}

// Validate returns every fault.
func (p *program) Validate() error {
	return errors.Join(p.Check(p.Specs()...), p.Settlement.Validate())
}

// Specs are the services of the process.
func (p *program) Specs() []node.Spec { return []node.Spec{settlement.Spec()} }

// Build adds the service to the process.
func (p *program) Build(ctx context.Context, n *node.Node) error {
	return settlement.Build(ctx, p.Settlement, n)
}

func main() {
	os.Exit(node.Main(node.Settlement, &program{node.DefaultConfig(), settlement.DefaultConfig()}))
}
