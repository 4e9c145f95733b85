// Package node is one process of the marketplace. It gives the process's services what
// they need (peers, bus, database, listeners, telemetry), wherever that comes from, and
// runs and stops them in order. A service is the same whether or not it shares a process:
// it calls peers in the same process directly, and all others over gRPC with mutual TLS.
//
// A process stops in these steps. It says that it is not ready, for DrainDelay. It
// accepts no new public requests and lets running ones end. Then its services stop in the
// reverse order of their building, while peers can still call them; then gRPC; then the
// listener of telemetry.
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

// InProcess is the dispatch address of a process that no other process calls.
const InProcess = "inprocess"

const (
	// maxReplicas bounds the single replicas to which one process keeps connections.
	maxReplicas = 256
	// busDrain is how long the bus may take to send its remaining messages.
	busDrain = 5 * time.Second
)

// Service is the part that all services have in common.
type Service interface {
	// Register adds its gRPC services.
	Register(r grpc.ServiceRegistrar)
	// Run works until ctx ends and returns once it has stopped.
	Run(ctx context.Context) error
	// Ready returns nil when the service can serve; otherwise the error says what is
	// missing.
	Ready(ctx context.Context) error
}

// Spec is what a process must know of a service before it is built.
type Spec struct {
	// Name is its name, in certificates too.
	Name string
	// Peers are the services that it calls, and Optional further ones that it calls where
	// the process knows them: see Node.Knows.
	Peers, Optional []string
	// HubID is the id of a hub, which its certificate names too.
	HubID string
	// Database and Bus report whether the service takes its connections to PostgreSQL and
	// NATS from the configuration.
	Database, Bus bool
	// Tables are its tables in the database; nil for none.
	Tables Tables
	// Callers are the services that may call each of its gRPC services.
	Callers serve.Callers
	// Replicas reports whether others call a certain replica of it, by the address that the replica
	// gave.
	Replicas bool
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

// Node is a process while it is built and while it runs. One goroutine builds it. What it
// returns is safe for concurrent use.
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
	// stopping is closed when the process begins to stop.
	stopping chan struct{}
	once     sync.Once

	mu       sync.Mutex
	replicas map[replica]*grpc.ClientConn
	seen     map[string]bool // peers that have been reached
}

type built struct {
	name string
	Service
}

// New prepares a process that runs the services in specs. It opens the listeners for gRPC
// and for operators at once, so that an address in use is reported before anything slow
// begins. Close releases everything.
func New(cfg Config, tel *telemetry.Telemetry, specs ...Spec) (*Node, error) {
	in, err := serve.NewInterceptors(tel.Log, tel.Meters, tel.Traces, classifiers(specs)...)
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
		listeners: map[string]net.Listener{}, stopping: make(chan struct{}), replicas: map[replica]*grpc.ClientConn{},
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

// Names returns the services of this process.
func (n *Node) Names() []string {
	names := make([]string, len(n.specs))
	for i, spec := range n.specs {
		names[i] = spec.Name
	}
	return names
}

// OnClose adds a function that Close calls before all that were added earlier.
func (n *Node) OnClose(f func() error) { n.closers = append(n.closers, f) }

// Close releases what Run has not. Closing twice is harmless.
func (n *Node) Close() error {
	errs := n.closeReplicas()
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

// closeReplicas closes the connections to replicas that were made while the process ran.
func (n *Node) closeReplicas() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for of, conn := range n.replicas {
		errs = append(errs, conn.Close())
		delete(n.replicas, of)
	}
	return errs
}

// Log returns the log of a service.
func (n *Node) Log(service string) *slog.Logger { return n.tel.Log.With("service", service) }

// Meters makes instruments.
func (n *Node) Meters() metric.MeterProvider { return n.tel.Meters }

// Traces makes tracers.
func (n *Node) Traces() trace.TracerProvider { return n.tel.Traces }

// UseBus gives the services a bus in place of the configured one, before the first of
// them is built. The caller closes it.
func (n *Node) UseBus(conn *bus.Conn) { n.bus = conn }

// Bus returns the connection to NATS, which is made at first use.
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

// Peer returns the connection to a service: direct calls when it runs here, and otherwise
// a connection to its replicas.
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

// Knows reports whether Peer finds a service: because it runs here, or because the
// configuration has its addresses. It is for peers that a service can do without.
func (n *Node) Knows(service string) bool {
	return runs(n.specs, service) || len(n.cfg.Peers[service]) > 0
}

// Reached returns nil once each of the services has been seen to serve, in this process
// or by a replica that is called; otherwise the error names the others. A service that
// was reached once stays so: a process that needs others begins when they are there, and
// reports a later outage to its callers itself. Do not use it for services that wait for
// one another.
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

// replica names a replica of a service. A cluster may give the address of a replica that has gone to one of another
// service, whose certificate a connection to the first would refuse.
type replica struct{ service, address string }

// Replica returns the connection to the replica of a service at the address that it gave
// (DispatchAddress): direct calls for this process, and a kept connection for any other. Where
// maxReplicas connections are kept, one that is not in use makes room, because clusters give
// each pod another address.
func (n *Node) Replica(service, address string) (grpc.ClientConnInterface, error) {
	if runs(n.specs, service) && address == n.DispatchAddress() {
		return n.local.Client(), nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	of := replica{service, address}
	if conn, ok := n.replicas[of]; ok {
		return conn, nil
	}
	if len(n.replicas) >= maxReplicas && !n.dropReplicaLocked() {
		return nil, fmt.Errorf("more than %d replicas", maxReplicas)
	}
	conn, err := serve.Dial(serve.Target{Service: service, Addresses: []string{address}, Exactly: true}, n.in, n.creds)
	if err != nil {
		return nil, err
	}
	n.replicas[of] = conn
	return conn, nil
}

// ConnectedReplica returns what Replica returns, if the replica can be called without waiting for a connection.
// Otherwise it returns false, and begins a connection where Replica gives one. ConnectedReplica is for callers
// that have another way meanwhile.
func (n *Node) ConnectedReplica(service, address string) (grpc.ClientConnInterface, bool) {
	replica, err := n.Replica(service, address)
	if err != nil {
		return nil, false
	}
	conn, remote := replica.(*grpc.ClientConn)
	if !remote || conn.GetState() == connectivity.Ready {
		return replica, true
	}
	conn.Connect()
	return nil, false
}

// dropReplicaLocked closes a connection to a replica that is not connected. It returns false where there is
// none.
func (n *Node) dropReplicaLocked() bool {
	for of, conn := range n.replicas {
		if state := conn.GetState(); state != connectivity.Ready && state != connectivity.Connecting {
			_ = conn.Close() // it fails only for a closed connection
			delete(n.replicas, of)
			return true
		}
	}
	return false
}

// DispatchAddress returns where others reach this very process.
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

// AdminAddress returns where metrics and health are served.
func (n *Node) AdminAddress() string { return n.listeners["admin_addr"].Addr().String() }

// Listen opens an address. A second call for the same setting returns the same listener.
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

// Ready returns nil once every service can serve, and until the process begins to stop.
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

// isStopping reports whether the process has begun to stop.
func (n *Node) isStopping() bool {
	select {
	case <-n.stopping:
		return true
	default:
		return false
	}
}

// callers returns the Callers of all services of the process.
func (n *Node) callers() serve.Callers {
	all := serve.Callers{}
	for _, spec := range n.specs {
		for service, names := range spec.Callers {
			all[service] = slices.Clone(names)
		}
	}
	return all
}
