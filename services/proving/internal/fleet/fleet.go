// Package fleet runs the marketplace on one machine as it runs on many: each service in
// processes of its own with mutual TLS between them, two of each, beside PostgreSQL and
// nats-server, with provider agents and an engine. make up starts it, the end-to-end
// tests kill parts of it, and the benchmarks measure it.
//
// A Fleet is a supervisor. It writes certificates, secrets and configuration files into
// its folder, starts the processes in the order of their needs, keeps the end of their
// logs, and ends them in the opposite order. A process that ends by itself is reported,
// and started again with growing pauses if the configuration says so. If the supervisor
// itself is killed, a guard ends the processes that it has left behind.
//
// Processes are named after their service with a number: catalog-1, billing-ledger-2,
// provider-hub-1, edge-gateway-2, svc-agent-1, tinylm-1, postgres-1, nats-1. The hub of
// provider-hub-2 is hub-2.
//
// Limits: everything listens on loopback. A service has at most MaxReplicas. The last 8
// to 16 MiB of each log are kept.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/node"
	"svc.internal/services/standalone/localdata"
)

// Names of the programs. A process's name is one of these and a number.
const (
	Postgres   = "postgres"
	NATS       = "nats"
	Catalog    = "catalog"
	Billing    = "billing-ledger"
	Signer     = "chain-signer"
	Settlement = "settlement"
	Router     = "router"
	Hub        = "provider-hub"
	Verifier   = "verifier"
	Gateway    = "edge-gateway"
	Engine     = "tinylm"
	Agent      = "svc-agent"
)

// startOrder is the order of the needs. All processes of one program start and stop
// together.
var startOrder = []string{Postgres, NATS, Catalog, Billing, Signer, Settlement, Router, Hub, Verifier, Gateway,
	Engine, Agent}

// Services are the marketplace's own services, in the order in which they
// start.
func Services() []string {
	return []string{Catalog, Billing, Signer, Settlement, Router, Hub, Verifier, Gateway}
}

// group are the services that are one process where Config.Grouped is set: all that a request
// passes on its way to a provider but the ledger. Their process is named after the hub, because
// a hub is told apart from the others.
var group = []string{Router, Hub, Gateway}

// groupProgram is the program of that process.
const groupProgram = "standalone"

// MaxReplicas bounds the processes of one service.
const MaxReplicas = 4

// natsCluster is how many NATS servers a cluster has.
const natsCluster = 3

// Exit is the end of a process that ended by itself.
type Exit struct {
	Name   string
	Pid    int
	Reason string
	// Log is the end of its log.
	Log string
}

// Fleet is a running fleet. Its methods may be called by several goroutines at once,
// except that only one at a time may start or end the same process.
type Fleet struct {
	cfg    Config
	dir    *localdata.Dir
	layout layout
	lease  *portLease // nil for fixed ports
	guard  *guard

	// databaseURL is the administrator's, and databases are those of the services.
	databaseURL string
	databases   map[string]node.Database

	mu      sync.Mutex
	members map[string]*member
	exits   []Exit
	// stopping ends all attempts to start a process again.
	stopping bool
	// started is set once everything has been ready. A process that ends before that is
	// not started again.
	started bool
	stop    context.CancelFunc
	life    context.Context
	wg      sync.WaitGroup
}

// Start makes a fleet and returns when all its processes are ready, except for the
// agents, which need a seed (see Seed). On an error it ends everything again. ctx bounds
// the start alone.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	f, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if err := f.startAll(ctx); err != nil {
		return nil, errors.Join(err, f.Stop(context.WithoutCancel(ctx)))
	}
	f.mu.Lock()
	f.started = true
	f.mu.Unlock()
	return f, nil
}

func (f *Fleet) startAll(ctx context.Context) error {
	if err := f.startDatabase(ctx); err != nil {
		return err
	}
	natsUp, servicesUp := f.cfg.step("NATS"), func(string) {}
	var services []string
	for _, program := range startOrder {
		names := f.named(program)
		if program == Postgres || program == Agent || len(names) == 0 {
			continue
		}
		for _, name := range names {
			if err := f.Launch(ctx, name); err != nil {
				return err
			}
		}
		if program == NATS {
			if err := f.WaitReady(ctx, names...); err != nil {
				return err
			}
			natsUp(f.NATSURL())
			servicesUp = f.cfg.step("Services")
			continue
		}
		services = append(services, names...)
	}
	if err := f.WaitReady(ctx, services...); err != nil {
		return err
	}
	servicesUp(fmt.Sprintf("%d processes", len(services)))
	return nil
}

// Names are all processes, in the order in which they start.
func (f *Fleet) Names() []string {
	var names []string
	for _, program := range startOrder {
		names = append(names, f.named(program)...)
	}
	return names
}

// Replicas are the processes that run a program, such as Hub, in their order.
func (f *Fleet) Replicas(program string) []string {
	if f.cfg.Grouped && slices.Contains(group, program) {
		return f.named(Hub)
	}
	return f.named(program)
}

// hosted are the services that run in a process of a service.
func (f *Fleet) hosted(service string) []string {
	if f.grouped(service) {
		return group
	}
	return []string{service}
}

// grouped reports whether the processes of a service run the whole group.
func (f *Fleet) grouped(service string) bool { return f.cfg.Grouped && service == Hub }

func (f *Fleet) named(program string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for i := 1; i <= MaxReplicas; i++ {
		if name := instance(program, i); f.members[name] != nil {
			names = append(names, name)
		}
	}
	return names
}

func instance(program string, number int) string { return fmt.Sprintf("%s-%d", program, number) }

// Exits are the first hundred processes that ended by themselves.
func (f *Fleet) Exits() []Exit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.exits)
}

const (
	maxExits = 100
	// stopTimeout is how long a process may take to end. A hub lets streams end for two
	// minutes.
	stopTimeout = 150 * time.Second
)

// Stop ends all processes in the reverse order of their start, each as an operator would.
// It kills a process that has not ended within stopTimeout or by the end of ctx. Further
// calls do nothing.
func (f *Fleet) Stop(ctx context.Context) error {
	f.mu.Lock()
	already := f.stopping
	f.stopping = true
	f.mu.Unlock()
	if already {
		return nil
	}
	f.stop()
	var errs []error
	for _, program := range slices.Backward(startOrder) {
		errs = append(errs, f.stopAll(ctx, f.named(program)))
	}
	f.wg.Wait()
	return errors.Join(append(errs, f.discard())...)
}

// stopAll ends the processes of one program at the same time.
func (f *Fleet) stopAll(ctx context.Context, names []string) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		if f.Pid(name) == 0 {
			continue
		}
		wg.Go(func() {
			done := f.cfg.step("Stopping " + name)
			ctx, cancel := context.WithTimeout(ctx, stopTimeout)
			defer cancel()
			if err := f.Terminate(ctx, name); err != nil {
				errs[i] = errors.Join(err, f.Kill(name))
				done("killed")
				return
			}
			done("")
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
