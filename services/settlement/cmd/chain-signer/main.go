// Command chain-signer runs the chain-signer as a process of its own.
//
//	chain-signer [-config file.yaml] [-check]
//
// See the README of services/settlement/signer for its settings.
package main

import (
	"context"
	"errors"
	"os"

	"svc.internal/pkg/node"
	"svc.internal/services/settlement/signer"
)

type program struct {
	node.Config `yaml:",inline"`
	Signer      signer.Config `yaml:"signer"`
}

// Validate returns every fault.
func (p *program) Validate() error {
	return errors.Join(p.Check(p.Specs()...), p.Signer.Validate(),
		p.Signer.CheckListeners(p.GRPCAddr, p.GRPCAdvertise, p.AdminAddr))
}

// Specs are the services of the process.
func (p *program) Specs() []node.Spec { return []node.Spec{signer.Spec()} }

// Build adds the service to the process.
func (p *program) Build(ctx context.Context, n *node.Node) error {
	return signer.Build(ctx, p.Signer, n)
}

func main() {
	os.Exit(node.Main(node.ChainSigner, &program{node.DefaultConfig(), signer.DefaultConfig()}))
}
