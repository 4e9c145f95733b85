package main

import (
	"context"
	"errors"
	"os"

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
