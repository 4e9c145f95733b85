// Command router runs the router as a process of its own; see the
// service's README for its settings.
package main

import (
	"context"
	"errors"
	"os"

	"svc.internal/pkg/node"
	"svc.internal/services/router"
)

type program struct {
	node.Config `yaml:",inline"`
	Router      router.Config `yaml:"router"`
}

// Validate returns every fault.
func (p *program) Validate() error {
	return errors.Join(p.Check(p.Specs()...), p.Router.Validate())
}

// Specs are the services of the process.
func (p *program) Specs() []node.Spec { return []node.Spec{router.Spec()} }

// Build adds the service to the process.
func (p *program) Build(ctx context.Context, n *node.Node) error {
	return router.Build(ctx, p.Router, n)
}

func main() {
	os.Exit(node.Main(node.Router, &program{node.DefaultConfig(), router.DefaultConfig()}))
}
