// Command catalog runs the catalog as a process of its own; see the
// service's README for its settings.
package main

import (
	"context"
	"errors"
	"os"

	"svc.internal/pkg/node"
	"svc.internal/services/catalog"
)

type program struct {
	node.Config `yaml:",inline"`
	Catalog     catalog.Config `yaml:"catalog"`
}

// Validate returns every fault.
func (p *program) Validate() error {
	return errors.Join(p.Check(p.Specs()...), p.Catalog.Validate())
}

// Specs are the services of the process.
func (p *program) Specs() []node.Spec { return []node.Spec{catalog.Spec()} }

// Build adds the service to the process.
func (p *program) Build(ctx context.Context, n *node.Node) error {
	return catalog.Build(ctx, p.Catalog, n)
}

func main() {
	os.Exit(node.Main(node.Catalog, &program{node.DefaultConfig(), catalog.DefaultConfig()}))
}
