// Command provider-hub runs a provider hub as a process of its own; see the
// service's README for its settings.
package main

import (
	"context"
	"errors"
	"os"

	"svc.internal/pkg/node"
	providerhub "svc.internal/services/provider-hub"
)

type program struct {
	node.Config `yaml:",inline"`
	Hub         providerhub.Config `yaml:"hub"`
}

// Validate returns every fault.
func (p *program) Validate() error {
	return errors.Join(p.Check(p.Specs()...), p.Hub.Validate(),
		p.Hub.CheckListeners(p.Hub.WSAddr, p.GRPCAddr, p.GRPCAdvertise, p.AdminAddr))
}

// Specs are the services of the process.
func (p *program) Specs() []node.Spec { return []node.Spec{providerhub.Spec(p.Hub.HubID)} }

// Build adds the service to the process.
func (p *program) Build(ctx context.Context, n *node.Node) error {
	return providerhub.Build(ctx, p.Hub, n)
}

func main() {
	os.Exit(node.Main(node.ProviderHub, &program{node.DefaultConfig(), providerhub.DefaultConfig()}))
}
