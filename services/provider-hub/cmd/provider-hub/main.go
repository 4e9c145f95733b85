// Command provider-hub runs a provider hub as a process of its own; see the
// service's README for its settings.
//
// "provider-hub peppers" lists the peppers of the database that DATABASE_URL names, each with how many
// hashes are left of it. With -give-up NUMBER these hashes count for nothing from then on.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
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
	if len(os.Args) >= 2 && os.Args[1] == "peppers" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := providerhub.Peppers.Tool(ctx, os.Args[2:], os.Stdout, os.Stderr, open)
		stop()
		os.Exit(code)
	}
	os.Exit(node.Main(node.ProviderHub, &program{node.DefaultConfig(), providerhub.DefaultConfig()}))
}

// open opens the database that DATABASE_URL names.
func open(ctx context.Context) (*pgxpool.Pool, error) {
	tables := providerhub.Tables()
	url, err := node.ToolDatabaseURL(tables, os.Environ())
	if err != nil {
		return nil, err
	}
	return pg.Open(ctx, pg.Config{URL: url, Schema: tables.Schema, Role: tables.Role, MaxConns: 1,
		ApplicationName: "provider-hub peppers"})
}
