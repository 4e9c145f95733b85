package main

import (
	"context"
	"errors"

	"svc.internal/pkg/node"
	billingledger "svc.internal/services/billing-ledger"
)

type program struct {
	node.Config `yaml:",inline"`
	Billing     billingledger.Config `yaml:"billing"`
}

func newProgram() *program {
	return &program{node.DefaultConfig(), billingledger.DefaultConfig()}
}

// Validate returns every fault.
func (p *program) Validate() error {
	var pepper error
	if p.Billing.Pepper.IsZero() {
		pepper = errors.New("billing.pepper (SVC_PEPPER) is missing")
	}
	return errors.Join(p.Check(p.Specs()...), pepper, p.Billing.Validate(),
		p.Billing.CheckListeners(p.GRPCAddr, p.GRPCAdvertise, p.AdminAddr))
}

// Specs are the services of the process.
func (p *program) Specs() []node.Spec { return []node.Spec{billingledger.Spec()} }

// Build adds the service to the process.
func (p *program) Build(ctx context.Context, n *node.Node) error {
	return billingledger.Build(ctx, p.Billing, n)
}
