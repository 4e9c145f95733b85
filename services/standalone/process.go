package standalone

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/standalone/console"
	"svc.internal/services/standalone/demo"
	"svc.internal/services/standalone/localdata"
)

// process is everything that runs.
type process struct {
	cfg   Config
	dir   *localdata.Dir
	node  *node.Node
	infra *infra
	// chains are empty without anvil.
	chains developmentChains
	// engine and catalog are what a demo serves.
	engine  demo.Engine
	catalog demo.Catalog
	con     *console.Console
	tel     *telemetry.Telemetry
	built   func(string)
	// httpAddr, operatorAddr and wsAddr are the addresses of the listeners; empty when
	// gateway or hub run elsewhere.
	httpAddr, operatorAddr, wsAddr string
	// bootstrap is the token by which the demo makes the first operator; empty where others do.
	bootstrap string
}

// waitReady returns when every service is ready. After a minute it fails with what is
// missing.
func (p *process) waitReady(ctx context.Context) error {
	return poll(ctx, time.Minute, p.node.Ready)
}

// poll calls check until it succeeds, ctx ends, or the time is up.
func poll(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// developmentChains are the chains that this process runs.
type developmentChains []*devchain.Chain

// urls are the chains' addresses as the demo's environment has them.
func (c developmentChains) urls() string {
	list := make([]string, len(c))
	for i, chain := range c {
		list[i] = fmt.Sprintf("%d=%s", chain.ID(), chain.URL)
	}
	return strings.Join(list, ",")
}

// String says where the chains are.
func (c developmentChains) String() string {
	if len(c) == 0 {
		return "none, so no payouts: install npm, and start again"
	}
	return strings.ReplaceAll(c.urls(), ",", " ")
}

// parts are the parts that must not end before the services.
func (c developmentChains) parts() []serve.Part {
	parts := make([]serve.Part, len(c))
	for i, chain := range c {
		parts[i] = serve.Part{Name: fmt.Sprintf("chain %d", chain.ID()), Run: func(ctx context.Context) error {
			select {
			case <-chain.Ended():
				return errors.New("anvil ended by itself")
			case <-ctx.Done():
				return nil
			}
		}}
	}
	return parts
}
