package signer

import (
	"context"

	"svc.internal/pkg/node"
	"svc.internal/pkg/node/database"
	"svc.internal/pkg/serve"
	signerv1 "svc.internal/proto/svc/signer/v1"
)

// maxConns bounds the connections to the database.
const maxConns = 4

// Spec is what a process must know of the chain-signer. It calls nobody.
func Spec() node.Spec {
	return node.Spec{
		Name: node.ChainSigner, Database: true, Tables: Tables(),
		Callers: serve.Callers{signerv1.SignerService_ServiceDesc.ServiceName: {node.Settlement}},
	}
}

// Build adds the chain-signer to a process.
func Build(ctx context.Context, cfg Config, n *node.Node) error {
	if err := cfg.CheckListeners(listeners(n)...); err != nil {
		return err
	}
	pool, err := database.Pool(ctx, n, node.ChainSigner, Tables(), maxConns)
	if err != nil {
		return err
	}
	service, err := New(ctx, cfg, Deps{Log: n.Log(node.ChainSigner), Meters: n.Meters(), DB: pool})
	if err != nil {
		return err
	}
	n.Add(node.ChainSigner, service)
	return nil
}

// listeners are the addresses that every process has, as far as it listens there.
func listeners(n *node.Node) []string {
	if own := n.DispatchAddress(); own != node.InProcess {
		return []string{n.AdminAddress(), own}
	}
	return []string{n.AdminAddress()}
}
