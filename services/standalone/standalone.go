// Package standalone runs the marketplace in one process, for a laptop, a demo or a small
// deployment: the services as they are, connected by direct calls through their usual
// interceptors, on a PostgreSQL that is found or started and a NATS server inside. Any
// subset of the services can run in one process and dial the rest.
//
// A start on an empty directory makes everything; the next start finds it. When the
// context ends, requests under way finish and their usage is settled as far as possible.
// Usage that is not settled then stays in the hub's journal for the next start.
package standalone

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
	billingledger "svc.internal/services/billing-ledger"
	edgegateway "svc.internal/services/edge-gateway"
	providerhub "svc.internal/services/provider-hub"
	"svc.internal/services/standalone/console"
	"svc.internal/services/standalone/localdata"
)

// Streams are the outputs of the process: Out for a person, Log for its log.
type Streams struct {
	Out io.Writer
	Log io.Writer
}

// Run starts what cfg names and blocks until ctx ends and everything has stopped.
func Run(ctx context.Context, cfg Config, streams Streams) (err error) {
	if !cfg.all() && cfg.Log.Format == "json" {
		// Programs read the log of one process of several, so the process writes nothing else.
		streams.Out = io.Discard
	}
	con := console.New(streams.Out, clock.System.Now)
	tel, err := node.Observe(cfg.Telemetry("standalone"), streams.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopTelemetry(ctx, tel)) }()
	dir, err := localdata.Open(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if cfg, err = withData(cfg, dir); err != nil {
		return err
	}
	n, err := node.New(cfg.Config, tel, cfg.Specs()...)
	if err != nil {
		return err
	}
	p := &process{dir: dir, node: n, con: con, tel: tel}
	if p.cfg, p.bootstrap, err = withOperator(cfg, dir); err != nil {
		return errors.Join(err, n.Close())
	}
	infra, err := p.prepare(ctx)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	defer func() { err = errors.Join(err, infra.Close()) }()
	// The services' connections end before the servers that they lead to.
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := p.chooseDemo(ctx); err != nil {
		return err
	}
	p.built = con.Step("Services")
	if err := build(ctx, p.cfg, n); err != nil {
		return err
	}
	tel.Log.InfoContext(ctx, "starting", "services", n.Names(), "grpc", n.DispatchAddress(), "admin", n.AdminAddress())
	err = n.Run(ctx, node.Extra{
		First: append(infra.parts(), p.chains.parts()...), Last: []serve.Part{{Name: "demo", Run: p.runDemo}},
	})
	con.Say("Stopped.")
	return err
}

// telemetryStop bounds the time in which telemetry sends its rest.
const telemetryStop = 5 * time.Second

func stopTelemetry(ctx context.Context, tel *telemetry.Telemetry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryStop)
	defer cancel()
	return tel.Stop(ctx)
}

// prepare takes the addresses before anything slow begins, so that an address in use is
// reported at once. Then it finds or starts PostgreSQL and NATS.
func (p *process) prepare(ctx context.Context) (*infra, error) {
	for _, want := range []struct {
		to                        *string
		service, setting, address string
	}{
		{&p.httpAddr, node.EdgeGateway, edgegateway.ListenSetting, p.cfg.Gateway.HTTPAddr},
		{&p.wsAddr, node.ProviderHub, providerhub.ListenSetting, p.cfg.Hub.WSAddr},
	} {
		if !p.cfg.runs(want.service) {
			continue
		}
		lis, err := p.node.Listen(want.setting, want.address)
		if err != nil {
			return nil, err
		}
		*want.to = lis.Addr().String()
	}
	if p.cfg.Verifier.EdgeURL == "" && p.httpAddr != "" {
		p.cfg.Verifier.EdgeURL = "http://" + reachable(p.httpAddr)
	}
	// Pages of this machine's address are the site's only where the site is this machine.
	if p.cfg.Gateway.Origins == "" && p.cfg.all() {
		p.cfg.Gateway.Origins = "http://" + reachable(p.httpAddr)
	}
	if p.cfg.Billing.Card.SandboxURL == "" {
		p.cfg.Billing.Card.SandboxURL = billingledger.DefaultConfig().Card.SandboxURL
		if p.httpAddr != "" {
			p.cfg.Billing.Card.SandboxURL = "http://" + reachable(p.httpAddr)
		}
	}
	if err := p.listenForOperators(); err != nil {
		return nil, err
	}
	// The file of an earlier start would name a model that nobody serves yet.
	if err := p.dir.Remove(demoEnv); err != nil {
		return nil, err
	}
	infra, err := startInfra(ctx, p.cfg, p.dir, p.node, p.tel, p.con)
	if err != nil {
		return nil, err
	}
	p.infra = infra
	if err := p.startChains(ctx); err != nil {
		return nil, errors.Join(err, infra.Close())
	}
	p.node.UseDatabases(infra.databases)
	p.node.UseBus(infra.bus)
	return infra, nil
}

// listenForOperators takes the operators' address. Where none is set, it is the gateway's
// own default or, beside another instance with that address, a free port.
func (p *process) listenForOperators() error {
	if !p.cfg.runs(node.EdgeGateway) {
		return nil
	}
	address := p.cfg.Gateway.OperatorAddr
	chosen := address == ""
	if chosen {
		address = edgegateway.DefaultConfig().OperatorAddr
	}
	lis, err := p.node.Listen(edgegateway.OperatorSetting, address)
	if chosen && errors.Is(err, syscall.EADDRINUSE) {
		lis, err = p.node.Listen(edgegateway.OperatorSetting, "127.0.0.1:0")
	}
	if err != nil {
		return err
	}
	p.operatorAddr = lis.Addr().String()
	p.cfg.Gateway.OperatorAddr = p.operatorAddr
	return nil
}
