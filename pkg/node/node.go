// Package node is one process of the marketplace: it gives the services that
// the process runs what they stand on (peers, bus, database, listeners,
// telemetry), wherever that comes from, and runs and stops them in order. The
// services are the same whether they share a process or not: peers in it are
// called directly, all others over gRPC with mutual TLS.
//
// A process stops in these steps: it says that it is not ready, for DrainDelay;
// it takes no new public requests and lets those under way end; then its
// services stop, in the reverse of the order in which they were built, while
// peers can still call them; then gRPC; then telemetry's listener.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
)

// InProcess is the dispatch address of a process that no other calls.
const InProcess = "inprocess"

const (
	// maxHubs bounds how many hubs one process keeps connections to.
	maxHubs = 256
	// busDrain is how long the bus may take to send what is left.
	busDrain = 5 * time.Second
)

// Service is what all services have in common.
type Service interface {
	// Register adds its gRPC services.
	Register(r grpc.ServiceRegistrar)
	// Run works until ctx ends and returns once it has stopped.
	Run(ctx context.Context) error
	// Ready is nil when it can serve; its text says what is missing.
	Ready(ctx context.Context) error
}

// Spec is what a process must know of a service before it is built.
type Spec struct {
	// Name is what it is called, in certificates too.
	Name string
	// Peers are the services that it calls.
	Peers []string
	// HubID is the id of a hub, which its certificate names, too.
	HubID string
	// Database and Bus report whether the service takes its connections to
	// PostgreSQL and NATS from the configuration.
	Database, Bus bool
	// Tables are what it keeps in the database; nil when it keeps none.
	Tables Tables
	// Callers are the services that may call each of its gRPC services.
	Callers serve.Callers
}

// called reports whether services outside of specs call this one.
func (s Spec) called(specs []Spec) bool {
	for _, callers := range s.Callers {
		for _, name := range callers {
			if !runs(specs, name) {
				return true
			}
		}
	}
	return false
}

// Node is a process while it is put together and while it runs. Building it is
// for one goroutine; what it hands out is safe for concurrent use.
type Node struct {
	cfg   Config
	specs []Spec
	tel   *telemetry.Telemetry
	in    serve.Interceptors
	creds *serve.Credentials
	local *serve.InProcess

	bus       *bus.Conn
	databases map[string]Database
	peers     map[string]grpc.ClientConnInterface
	listeners map[string]net.Listener
	services  []built
	endpoints []Endpoint
	closers   []func() error
	// stopping is closed when the process is told to stop.
	stopping chan struct{}
	once     sync.Once

	mu   sync.Mutex
	hubs map[string]*grpc.ClientConn
	seen map[string]bool // peers that have been reached
}

type built struct {
	name string
	Service
}

// New prepares a process that runs the services in specs. Its listeners for
// gRPC and for operators are taken at once, so that an address in use is said
// before anything slow begins. Close gives everything back.
func New(cfg Config, tel *telemetry.Telemetry, specs ...Spec) (*Node, error) {
	in, err := serve.NewInterceptors(tel.Log, tel.Meters, tel.Traces)
	if err != nil {
		return nil, fmt.Errorf("set up interceptors: %w", err)
	}
	creds, err := serve.LoadCredentials(cfg.TLS, tel.Log)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, specs: specs, tel: tel, in: in, creds: creds, local: serve.NewInProcess(in),
		peers:     map[string]grpc.ClientConnInterface{},
		listeners: map[string]net.Listener{}, stopping: make(chan struct{}), hubs: map[string]*grpc.ClientConn{},
		seen: map[string]bool{},
	}
	if creds != nil {
		if err := creds.Covers(certifiedNames(specs)); err != nil {
			return nil, err
		}
	}
	if _, err := n.Listen("admin_addr", cfg.AdminAddr); err != nil {
		return nil, err
	}
	if cfg.GRPCAddr != "" {
		if _, err := n.Listen("grpc_addr", cfg.GRPCAddr); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// Names are the services of this process.
func (n *Node) Names() []string {
	names := make([]string, len(n.specs))
	for i, spec := range n.specs {
		names[i] = spec.Name
	}
	return names
}

// OnClose adds something that Close ends, before all that was added earlier.
func (n *Node) OnClose(f func() error) { n.closers = append(n.closers, f) }

// Close gives back what Run has not. Closing twice is harmless.
func (n *Node) Close() error {
	errs := n.closeHubs()
	for i := len(n.closers) - 1; i >= 0; i-- {
		errs = append(errs, n.closers[i]())
	}
	n.closers = nil
	for _, lis := range n.listeners {
		if err := lis.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close %s: %w", lis.Addr(), err))
		}
	}
	return errors.Join(errs...)
}

// closeHubs ends the connections that were made while the process ran.
func (n *Node) closeHubs() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for address, conn := range n.hubs {
		errs = append(errs, conn.Close())
		delete(n.hubs, address)
	}
	return errs
}

// Log is the log of a service.
func (n *Node) Log(service string) *slog.Logger { return n.tel.Log.With("service", service) }

// Meters makes instruments.
func (n *Node) Meters() metric.MeterProvider { return n.tel.Meters }

// Traces makes tracers.
func (n *Node) Traces() trace.TracerProvider { return n.tel.Traces }

// UseBus gives the services a bus instead of the one in the configuration,
// before the first of them is built. Its owner closes it.
func (n *Node) UseBus(conn *bus.Conn) { n.bus = conn }

// Bus is the connection to NATS, made at first use.
func (n *Node) Bus(ctx context.Context) (*bus.Conn, error) {
	if n.bus != nil {
		return n.bus, nil
	}
	n.tel.Log.InfoContext(ctx, "connecting to NATS")
	conn, err := bus.Connect(ctx, n.BusConfig())
	if err != nil {
		return nil, err
	}
	n.bus = conn
	n.OnClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), busDrain)
		defer cancel()
		return conn.Drain(ctx)
	})
	return conn, nil
}

// Peer is the way to a service: a direct call when it runs here, a connection
// to its replicas otherwise.
func (n *Node) Peer(service string) (grpc.ClientConnInterface, error) {
	if runs(n.specs, service) {
		return n.local.Client(), nil
	}
	if conn, ok := n.peers[service]; ok {
		return conn, nil
	}
	conn, err := serve.Dial(serve.Target{Service: service, Addresses: n.cfg.Peers[service]}, n.in, n.creds)
	if err != nil {
		return nil, err
	}
	n.OnClose(conn.Close)
	n.peers[service] = conn
	return conn, nil
}

// Reached is nil once every one of the services has been seen to serve, in this
// process or by a replica that is called; its text names those that have not.
// What has been reached once stays so: a process that cannot do without others
// begins when they are there, and tells callers of a later outage itself. It
// must not be asked of services that wait for one another.
func (n *Node) Reached(services ...string) error {
	var missing []error
	for _, service := range services {
		conn, ok := n.peers[service].(*grpc.ClientConn)
		if !ok || n.reached(service) {
			continue
		}
		state := conn.GetState()
		if state == connectivity.Ready {
			n.mu.Lock()
			n.seen[service] = true
			n.mu.Unlock()
			continue
		}
		conn.Connect()
		missing = append(missing, fmt.Errorf("%s has not been reached: the connection is %s", service,
			strings.ToLower(state.String())))
	}
	return errors.Join(missing...)
}

func (n *Node) reached(service string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[service]
}

// Hub is the way to the hub replica that answers at a dispatch address: a
// direct call for the one of this process, a connection that is kept for any
// other.
func (n *Node) Hub(service, address string) (grpc.ClientConnInterface, error) {
	if runs(n.specs, service) && address == n.DispatchAddress() {
		return n.local.Client(), nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if conn, ok := n.hubs[address]; ok {
		return conn, nil
	}
	if len(n.hubs) >= maxHubs {
		return nil, fmt.Errorf("more than %d hubs", maxHubs)
	}
	conn, err := serve.Dial(serve.Target{Service: service, Addresses: []string{address}, Exactly: true}, n.in, n.creds)
	if err != nil {
		return nil, err
	}
	n.hubs[address] = conn
	return conn, nil
}

// DispatchAddress is where others reach this very process.
func (n *Node) DispatchAddress() string {
	switch lis := n.listeners["grpc_addr"]; {
	case n.cfg.GRPCAdvertise != "":
		return n.cfg.GRPCAdvertise
	case lis != nil:
		return lis.Addr().String()
	default:
		return InProcess
	}
}

// AdminAddress is where metrics and health are answered.
func (n *Node) AdminAddress() string { return n.listeners["admin_addr"].Addr().String() }

// Listen takes an address; asking again for the same setting returns the same
// listener.
func (n *Node) Listen(setting, address string) (net.Listener, error) {
	if lis, ok := n.listeners[setting]; ok {
		return lis, nil
	}
	lis, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	n.listeners[setting] = lis
	return lis, nil
}

// Add puts a service into the process.
func (n *Node) Add(name string, service Service) {
	service.Register(n.local)
	n.services = append(n.services, built{name, service})
}

// Serve adds an HTTP endpoint.
func (n *Node) Serve(endpoint Endpoint) { n.endpoints = append(n.endpoints, endpoint) }

// Ready is nil once every service can serve, and until the process is told to
// stop.
func (n *Node) Ready(ctx context.Context) error {
	if n.isStopping() {
		return errors.New("the process is stopping")
	}
	var missing []error
	for _, s := range n.services {
		if err := s.Ready(ctx); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(missing...)
}

// isStopping reports whether the process has been told to stop.
func (n *Node) isStopping() bool {
	select {
	case <-n.stopping:
		return true
	default:
		return false
	}
}

// callers are those of all services here.
func (n *Node) callers() serve.Callers {
	all := serve.Callers{}
	for _, spec := range n.specs {
		for service, names := range spec.Callers {
			all[service] = slices.Clone(names)
		}
	}
	return all
}
