package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/config"
	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// desk is a small service: it answers keys, and writes down when it stops.
type desk struct {
	billingv1.UnimplementedKeyServiceServer
	notReady atomic.Bool
	stopped  func()
}

func (d *desk) Register(r grpc.ServiceRegistrar) { billingv1.RegisterKeyServiceServer(r, d) }

func (d *desk) Run(ctx context.Context) error {
	<-ctx.Done()
	d.stopped()
	return nil
}

func (d *desk) Ready(context.Context) error {
	if d.notReady.Load() {
		return errors.New("not yet")
	}
	return nil
}

func (d *desk) AuthenticateKey(
	context.Context, *billingv1.AuthenticateKeyRequest,
) (*billingv1.AuthenticateKeyResponse, error) {
	return &billingv1.AuthenticateKeyResponse{}, nil
}

func deskSpec() Spec {
	return Spec{Name: BillingLedger, Callers: serve.Callers{
		billingv1.KeyService_ServiceDesc.ServiceName: {EdgeGateway},
	}}
}

func newNode(t *testing.T, cfg Config, specs ...Spec) *Node {
	t.Helper()
	tel, err := telemetry.Start(telemetry.Config{LogLevel: "error", LogFormat: "text"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(cfg, tel, specs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func loopback() Config {
	cfg := DefaultConfig()
	cfg.GRPCAddr = "127.0.0.1:0"
	return cfg
}

// journal is the order in which things happened.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func TestAProcessThatIsToldToStopSaysSoBeforeItStopsListening(t *testing.T) {
	var order journal
	cfg := loopback()
	cfg.DrainDelay = 5 * time.Second // in which a request must have come
	n := newNode(t, cfg, deskSpec())
	d := &desk{stopped: func() { order.note("service") }}
	n.Add(BillingLedger, d)
	public, err := n.Listen("public", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	release, entered := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-release
			order.note("request")
		}
	})
	n.Serve(Endpoint{Name: "public", Listener: public, Public: true, Handler: handler})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, Extra{}) }()

	watching, unwatch := context.WithCancel(t.Context())
	defer unwatch()
	health := watchHealth(watching, t, n.DispatchAddress())
	for got := <-health; got != grpc_health_v1.HealthCheckResponse_SERVING; got = <-health {
	}
	slow := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + public.Addr().String() + "/slow")
		if err == nil {
			err = resp.Body.Close()
		}
		slow <- err
	}()
	<-entered
	cancel()
	if got := <-health; got != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health: got %v, want %v", got, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
	unwatch() // gRPC waits for open calls
	if err := n.Ready(t.Context()); err == nil {
		t.Error("a process that stops says that it is ready")
	}
	resp, err := http.Get("http://" + public.Addr().String() + "/")
	if err != nil {
		t.Errorf("a request within the drain delay was refused: %v", err)
	} else {
		if !resp.Close {
			t.Error("the connection is kept for further requests")
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	close(release)
	if err := <-slow; err != nil {
		t.Errorf("the request under way ended with %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := strings.Join(order.lines, ","); got != "request,service" {
		t.Errorf(`order of the stop: got %q, want "request,service"`, got)
	}
}

// watchHealth tells of every change until the test ends.
func watchHealth(
	ctx context.Context, t *testing.T, address string,
) <-chan grpc_health_v1.HealthCheckResponse_ServingStatus {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	stream, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{},
		grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan grpc_health_v1.HealthCheckResponse_ServingStatus, 16)
	go func() {
		for {
			msg, err := stream.Recv()
			if err != nil {
				return
			}
			changes <- msg.GetStatus()
		}
	}()
	return changes
}

func TestAProcessThatFailsSaysThatItIsNotReadyWhileItStops(t *testing.T) {
	n := newNode(t, DefaultConfig(), deskSpec())
	n.Add(BillingLedger, &desk{stopped: func() {
		if n.Ready(context.Background()) == nil {
			t.Error("ready while it stops")
		}
	}})
	broken := errors.New("broken")
	err := n.Run(t.Context(),
		Extra{First: []serve.Part{{Name: "fragile", Run: func(context.Context) error { return broken }}}})
	if !errors.Is(err, broken) {
		t.Errorf("got the error %v, want %v", err, broken)
	}
}

func TestWhatCannotWorkIsFoundBeforeTheStart(t *testing.T) {
	dir := t.TempDir()
	if err := devcerts.Write(dir, devcerts.Leaf{File: "router", Services: []string{Router}}); err != nil {
		t.Fatal(err)
	}
	good := serve.TLSFiles{Cert: devcerts.CertFile(dir, "router"), Key: devcerts.KeyFile(dir, "router"),
		CA: filepath.Join(dir, devcerts.CAFile)}
	for want, change := range map[string]func(*Config){
		"no such file":     func(c *Config) { c.TLS = good; c.TLS.Key += "x" },
		"not billing-led":  func(c *Config) { c.TLS = good },
		"not between 0":    func(c *Config) { c.Traces.Ratio = math.NaN() },
		"no service":       func(c *Config) { c.Peers = Peers{"catalogg": {"127.0.0.1:1"}} },
		"must be the only": func(c *Config) { c.Peers = Peers{Catalog: {"dns:///a:1", "dns:///b:1"}} },
	} {
		cfg := loopback()
		change(&cfg)
		if err := cfg.Check(deskSpec()); err == nil {
			t.Errorf("naming %q: got no error, want one", want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("naming %q: got the error %q, want %q in it", want, err, want)
		}
	}
	hub := Spec{Name: ProviderHub, Replicas: true}
	cfg := DefaultConfig()
	cfg.GRPCAddr, cfg.TLS = "0.0.0.0:0", good
	if err := cfg.Check(hub); err == nil {
		t.Error("a hub that listens everywhere, without an address to dial: got no error, want one")
	} else if !strings.Contains(err.Error(), "grpc_advertise") {
		t.Errorf(`a hub that listens everywhere, without an address to dial: got the error %q, want "grpc_advertise" in `+
			`it`, err)
	}
}

func TestServicesOfOneProcessAreCalledWithoutASocket(t *testing.T) {
	n := newNode(t, DefaultConfig(), deskSpec())
	n.Add(BillingLedger, &desk{})
	peer, err := n.Peer(BillingLedger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := billingv1.NewKeyServiceClient(peer).AuthenticateKey(t.Context(),
		&billingv1.AuthenticateKeyRequest{}); err != nil {
		t.Error(err)
	}
	if got := n.DispatchAddress(); got != InProcess {
		t.Errorf("others would reach: got %q, want %q", got, InProcess)
	}
	if hub, err := newNode(t, DefaultConfig(), Spec{Name: ProviderHub}).Replica(ProviderHub, InProcess); err != nil {
		t.Errorf("its own hub: got the error %v, want none", err)
	} else if hub == nil {
		t.Error("its own hub: got nil, want a value")
	}
}

func TestAPeerThatIsNamedNowhereIsAFault(t *testing.T) {
	n := newNode(t, DefaultConfig(), deskSpec())
	if _, err := n.Peer(Router); err == nil {
		t.Error("got no error, want one")
	} else if !strings.Contains(err.Error(), Router) {
		t.Errorf("got the error %q, want %q in it", err, Router)
	}
	if _, err := n.Replica(ProviderHub, "10.1.2.3:1"); err == nil {
		t.Error("a hub off the machine is dialled in the clear")
	}
}

func TestAPeerIsKnownWhereItRunsOrHasAnAddress(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Peers = Peers{Router: {"127.0.0.1:1"}}
	n := newNode(t, cfg, deskSpec())
	for service, want := range map[string]bool{BillingLedger: true, Router: true, ChainSigner: false} {
		if got := n.Knows(service); got != want {
			t.Errorf("%s: got %t, want %t", service, got, want)
		}
	}
}

func TestConnectionsToReplicasAreBounded(t *testing.T) {
	n := newNode(t, DefaultConfig(), deskSpec())
	dial := func(i int) {
		t.Helper()
		if _, err := n.Replica(ProviderHub, "127.0.0.1:"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxReplicas {
		dial(1 + i)
	}
	dial(1)
	dial(60000) // in place of one that is not connected
	if got := len(n.replicas); got != maxReplicas {
		t.Errorf("connections: got %d, want %d", got, maxReplicas)
	}
}

func TestAnAddressThatPassesToAnotherServiceHasAConnectionOfItsOwn(t *testing.T) {
	n := newNode(t, DefaultConfig(), deskSpec())
	ledger, err := n.Replica(BillingLedger, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	hub, err := n.Replica(ProviderHub, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if hub == ledger {
		t.Error("a hub at the address of a ledger that has gone is called by the ledger's connection")
	}
}

func TestAnAddressInUseIsSaidAtOnceWithItsSetting(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lis.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg := loopback()
	cfg.GRPCAddr = lis.Addr().String()
	tel, err := telemetry.Start(telemetry.Config{LogLevel: "error", LogFormat: "text"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, tel, deskSpec()); err == nil {
		t.Error("got no error, want one")
	} else if !strings.Contains(err.Error(), "grpc_addr") {
		t.Errorf(`got the error %q, want "grpc_addr" in it`, err)
	}
}

type program struct {
	Config `yaml:",inline"`
	specs  []Spec
	build  func(context.Context, *Node) error
}

func (p *program) Validate() error { return p.Check(p.specs...) }

func (p *program) Specs() []Spec { return p.specs }

func (p *program) Build(ctx context.Context, n *Node) error { return p.build(ctx, n) }

func TestTheExitCodeTellsABadConfigurationFromAFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.yaml")
	if err := os.WriteFile(path, []byte("admin_addr: 127.0.0.1:0\nlog: {level: error}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the database is gone")
	keeper := []Spec{{Name: Catalog, Tables: pg.Tables{}}}
	for _, test := range []struct {
		name  string
		args  []string
		env   []string
		specs []Spec
		code  int
		says  string
		build error
	}{
		{name: "orderly", args: []string{"-config", path}, code: 0},
		{name: "check", args: []string{"-config", path, "-check"}, code: 0, build: broken},
		{name: "print", args: []string{"-config", path, "-print"}, env: []string{"DATABASE_URL=hunter2"},
			code: 0, build: broken},
		{name: "help", args: []string{"-help"}, code: 0, says: "-check"},
		{name: "unknown flag", args: []string{"-confg", path}, code: 2, says: "confg"},
		{name: "an argument", args: []string{"now"}, code: 2, says: "usage"},
		{name: "bad settings", env: []string{"SVC_METRICS_ADDR=x", "SVC_LOG_LEVEL=loud"}, code: 2, says: "loud"},
		{name: "migrate without the owner", args: []string{"migrate", "-config", path},
			env: []string{"DATABASE_URL=postgres://u@127.0.0.1/x"}, code: 1, says: "DATABASE_OWNER_URL"},
		{name: "migrate in the clear", args: []string{"migrate"},
			env:   []string{"DATABASE_OWNER_URL=postgres://u@db.example/x"},
			specs: keeper, code: 1, says: "verify-full"},
		{name: "migrate without tables", args: []string{"migrate"},
			env:   []string{"DATABASE_OWNER_URL=postgres://u@127.0.0.1/x"},
			specs: []Spec{{Name: Router}}, code: 1, says: "router keeps no tables"},
		{name: "migrate and an argument", args: []string{"migrate", "now"}, code: 2, says: "usage"},
		{name: "ready without a port", args: []string{"ready", "-config", path}, code: 1, says: "no port"},
		{name: "ready where nobody serves", args: []string{"ready"}, env: []string{"SVC_METRICS_ADDR=127.0.0.1:1"},
			code: 1, says: "127.0.0.1:1"},
		{name: "ready and bad settings", args: []string{"ready"}, env: []string{"SVC_DRAIN_DELAY=soon"}, code: 2,
			says: "soon"},
		{name: "ready and an argument", args: []string{"ready", "now"}, code: 2, says: "usage"},
		{name: "a database in the clear", env: []string{"DATABASE_URL=postgres://u@db.example/x?sslmode=require"},
			specs: keeper, code: 2, says: "verify-full"},
		{name: "no file", args: []string{"-config", path + "x"}, code: 2, says: "svc.yamlx"},
		{name: "failure", args: []string{"-config", path}, code: 1, says: "the database is gone", build: broken},
	} {
		var out, errs bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		p := &program{Config: DefaultConfig(), specs: test.specs, build: func(context.Context, *Node) error {
			if test.build == nil {
				cancel() // told to stop as soon as it runs
			}
			return test.build
		}}
		code := run(ctx, "svc", test.args, test.env, p, &out, &errs)
		cancel()
		if test.name == "print" && !strings.Contains(out.String(), "admin_addr: 127.0.0.1:0 # SVC_METRICS_ADDR") {
			t.Errorf(`printed: out: got %q, want "admin_addr: 127.0.0.1:0 # SVC_METRICS_ADDR" in it, where test.name == "print"`,
				out.String())
		} else if test.name == "print" && strings.Contains(out.String(), "hunter2") {
			t.Errorf(`printed: out: got %q, want it without "hunter2", where test.name == "print"`, out.String())
		}
		if code != test.code {
			t.Errorf("%s: exit: got %d, want %d", test.name, code, test.code)
		} else if !strings.Contains(errs.String(), test.says) {
			t.Errorf("%s: errs: got %q, want %q in it", test.name, errs.String(), test.says)
		}
	}
}

func TestPeersAreReadFromText(t *testing.T) {
	var p Peers
	switch err := p.UnmarshalText([]byte("router=127.0.0.1:1|127.0.0.1:2,catalog=dns:///catalog:9000")); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(p[Router]) != 2:
		t.Errorf("len(p[Router]): got %d, want 2, in %v", len(p[Router]), p)
	case p[Router][1] != "127.0.0.1:2":
		t.Errorf(`p[Router][1]: got %q, want "127.0.0.1:2"`, p[Router][1])
	case p[Catalog][0] != "dns:///catalog:9000":
		t.Errorf(`p[Catalog][0]: got %q, want "dns:///catalog:9000"`, p[Catalog][0])
	}
	for _, text := range []string{"", "router", "router=", "=127.0.0.1:1", "router=a,router=b"} {
		if err := new(Peers).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q passed as %v", text, p)
		}
	}
}

func TestEveryCallerOfThisProcessIsEnforced(t *testing.T) {
	n := newNode(t, loopback(), deskSpec(),
		Spec{Name: Router, Callers: serve.Callers{"svc.router.v1.RouterService": {Catalog}}})
	callers := n.callers()
	if len(callers) != 2 {
		t.Errorf("len(callers): got %d, want 2, in %v", len(callers), callers)
	} else if callers["svc.router.v1.RouterService"][0] != Catalog {
		t.Errorf("callers[…][0]: got %q, want %q", callers["svc.router.v1.RouterService"][0], Catalog)
	}
}

func TestAServiceIsCalledUnlessItsCallersShareItsProcess(t *testing.T) {
	verifier := Spec{Name: Verifier}
	hub := Spec{Name: ProviderHub, Callers: serve.Callers{"svc.hub.v1.ChallengeService": {Verifier}}}
	if hub.called([]Spec{hub, verifier}) {
		t.Error("its only caller in the same process: got true, want false")
	}
	if !hub.called([]Spec{hub}) {
		t.Error("its only caller in another process: got false, want true")
	}
}

func TestAPeerIsReachedOnceItServes(t *testing.T) {
	d := &desk{stopped: func() {}}
	d.notReady.Store(true)
	billing := newNode(t, loopback(), deskSpec())
	billing.Add(BillingLedger, d)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- billing.Run(ctx, Extra{}) }()

	cfg := DefaultConfig()
	cfg.Peers = map[string][]string{BillingLedger: {billing.DispatchAddress()}}
	caller := newNode(t, cfg, Spec{Name: EdgeGateway, Peers: []string{BillingLedger}})
	conn, err := caller.Peer(BillingLedger)
	if err != nil {
		t.Fatal(err)
	}
	peer := conn.(*grpc.ClientConn)
	// Asking makes the connection, which hears that the peer cannot serve yet.
	for state := peer.GetState(); state != connectivity.TransientFailure; state = peer.GetState() {
		if caller.Reached(BillingLedger) == nil {
			t.Fatal("a peer that is not ready counts as reached")
		}
		if !peer.WaitForStateChange(t.Context(), state) {
			t.Fatal("the peer has not said that it is not ready")
		}
	}
	d.notReady.Store(false)
	for state := peer.GetState(); state != connectivity.Ready; state = peer.GetState() {
		if !peer.WaitForStateChange(t.Context(), state) {
			t.Fatal("the peer is not reached")
		}
	}
	if err := caller.Reached(BillingLedger); err != nil {
		t.Errorf("a peer that serves: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := caller.Reached(BillingLedger); err != nil {
		t.Errorf("a peer that was reached: %v", err)
	}
}

func TestABusOffLoopbackNeedsTLSAndAnIdentity(t *testing.T) {
	for url, want := range map[string]string{
		"nats://127.0.0.1:4222": "", "nats://localhost:4222,nats://[::1]:4222": "", "nats://localhost": "",
		"nats://10.0.0.1:4222":                         "10.0.0.1:4222 is not on loopback",
		"nats://user:hunter2@nats.example":             "nats.example is not on loopback",
		"nats://127.0.0.1:4222,nats://nats-1.svc:4222": "nats-1.svc:4222 is not on loopback",
		"tls://127.0.0.1:4222":                         "asks for TLS",
		"nats":                                         "malformed",
		"nats://user:hunter2@[::1":                     "malformed",
	} {
		cfg := loopback()
		cfg.NATSURL = config.NewSecret(url)
		err := cfg.Check(deskSpec())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is in the error", url)
		}
	}
	cfg := loopback()
	cfg.NATSReplicas = 2
	if err := cfg.Check(deskSpec()); err == nil || !strings.Contains(err.Error(), "SVC_NATS_REPLICAS") {
		t.Errorf("two replicas of a stream: got %v, want a fault", err)
	}
}

func TestACertificateNamesWhichHubItIs(t *testing.T) {
	dir := t.TempDir()
	if err := devcerts.Write(dir, devcerts.Leaf{File: "hub", Services: []string{ProviderHub,
		bus.HubName("hub-1")}}); err != nil {
		t.Fatal(err)
	}
	cfg := loopback()
	cfg.TLS = serve.TLSFiles{Cert: devcerts.CertFile(dir, "hub"), Key: devcerts.KeyFile(dir, "hub"),
		CA: filepath.Join(dir, devcerts.CAFile)}
	if err := cfg.Check(Spec{Name: ProviderHub, HubID: "hub-1"}); err != nil {
		t.Errorf("its own certificate: got %v", err)
	}
	if err := cfg.Check(Spec{Name: ProviderHub, HubID: "hub-2"}); err == nil ||
		!strings.Contains(err.Error(), "hub-2.provider-hub") {
		t.Errorf("another hub's certificate: got %v, want a fault", err)
	}
}

func TestTheTableOfTheBusNamesServices(t *testing.T) {
	known := Names()
	for _, row := range bus.Table() {
		for _, service := range slices.Concat(row.Publish, row.Subscribe) {
			if !slices.Contains(known, service) {
				t.Errorf("%s: got %s, want the name of a service", row.Subject, service)
			}
		}
	}
}
