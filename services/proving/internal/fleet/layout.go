package fleet

import (
	"net"
	"strconv"
	"strings"
)

// Where processes listen when ports are fixed.
const (
	fixedPublic   = 8080
	fixedInternal = 9400
)

// layout gives every process its ports. Public ports alternate between gateways and hubs,
// and each process has ten internal ones.
type layout struct{ public, internal int }

// blockPorts is how many ports a layout spans when it is one block.
const blockPorts = 10 + 120 + 10

func blockLayout(first int) layout { return layout{public: first, internal: first + 10} }

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// number is the 1 of catalog-1.
func number(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return 0
	}
	return n
}

// Program is the program of a process: the catalog of catalog-1.
func Program(name string) string { return name[:strings.LastIndexByte(name, '-')] }

// HubID is the id of the hub that runs as the named process, unless hubs are counted from 0.
func HubID(name string) string { return "hub-" + strconv.Itoa(number(name)) }

func (f *Fleet) hubID(name string) string {
	if f.cfg.HubsFromZero {
		return "hub-" + strconv.Itoa(number(name)-1)
	}
	return HubID(name)
}

// slot is where the internal ports of a program begin.
func slot(program string) int {
	for i, p := range startOrder {
		if p == program {
			return i * 10
		}
	}
	return len(startOrder) * 10
}

// grpc is the address at which a service answers others, or at which the database, NATS
// or the engine listens.
func (l layout) grpc(name string) string { return address(l.port(name)) }

// admin is the address of a service's metrics and health.
func (l layout) admin(name string) string { return address(l.port(name) + 1) }

// route is the address at which a NATS server listens for the other servers of its cluster.
func (l layout) route(name string) string {
	return address(l.internal + slot(NATS) + 2*natsCluster + number(name) - 1)
}

func (l layout) port(name string) int { return l.internal + slot(Program(name)) + 2*(number(name)-1) }

// face is the address at which the gateway or the hub of a process listens for the world.
func (l layout) face(service, name string) string {
	port := l.public + 2*(number(name)-1)
	if service == Hub {
		port++
	}
	return address(port)
}

// operators is the address at which a gateway listens for operators.
func (l layout) operators(name string) string {
	return address(l.internal + len(startOrder)*10 + number(name) - 1)
}

// AdminURL is the root of a service's /metrics, /healthz, /readyz and /debug/pprof.
func (f *Fleet) AdminURL(name string) string { return "http://" + f.layout.admin(name) }

// Gateways are the roots of the public API, without /v1, one for each gateway.
func (f *Fleet) Gateways() []string {
	var urls []string
	for _, name := range f.Replicas(Gateway) {
		urls = append(urls, "http://"+f.layout.face(Gateway, name))
	}
	return urls
}

// Operators are the roots of the operators' API, one for each gateway.
func (f *Fleet) Operators() []string {
	var urls []string
	for _, name := range f.Replicas(Gateway) {
		urls = append(urls, "http://"+f.layout.operators(name))
	}
	return urls
}

// Hubs are the addresses for provider agents, without /ws, one for each hub.
func (f *Fleet) Hubs() []string {
	var urls []string
	for _, name := range f.Replicas(Hub) {
		urls = append(urls, "ws://"+f.layout.face(Hub, name))
	}
	return urls
}

// EngineURL is the engine of the agents, ending in /v1.
func (f *Fleet) EngineURL() string {
	if f.cfg.EngineURL != "" {
		return f.cfg.EngineURL
	}
	return "http://" + f.layout.grpc(instance(Engine, 1)) + "/v1"
}

// DatabaseURL is the superuser's URL of the database. It may hold a password.
func (f *Fleet) DatabaseURL() string { return f.databaseURL }

// NATSURL is the address of the first nats-server for clients.
func (f *Fleet) NATSURL() string { return "tls://" + f.layout.grpc(instance(NATS, 1)) }

// AdminToken is the token for admin calls.
func (f *Fleet) AdminToken() (string, error) { return f.dir.AdminToken() }

// BootstrapToken is the token that makes the first operator.
func (f *Fleet) BootstrapToken() (string, error) { return f.dir.BootstrapToken() }

// Path joins elements to the fleet's folder.
func (f *Fleet) Path(elements ...string) string { return f.dir.Path(elements...) }

// GRPCAddr is the address at which a service answers the others, with mutual TLS.
func (f *Fleet) GRPCAddr(name string) string { return f.layout.grpc(name) }

// CertDir has ca.pem and, for each service and for NATS, <service>.pem and
// <service>-key.pem. Each hub has its own, under the name of its process.
func (f *Fleet) CertDir() string { return f.dir.Path("certs") }
