package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// patience bounds every call that must end.
const patience = 90 * time.Second

// keyServer is a replica of billing-ledger, as far as these tests need one.
type keyServer struct {
	billingv1.UnimplementedKeyServiceServer
	calls  atomic.Int64
	answer func() error
	health *health.Server
	log    lockedText
	addr   string
	stop   func()
}

// AuthenticateKey counts the call.
func (k *keyServer) AuthenticateKey(
	context.Context, *billingv1.AuthenticateKeyRequest,
) (*billingv1.AuthenticateKeyResponse, error) {
	k.calls.Add(1)
	if k.answer != nil {
		if err := k.answer(); err != nil {
			return nil, err
		}
	}
	return &billingv1.AuthenticateKeyResponse{KeyId: k.addr}, nil
}

// lockedText is a log to read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends.
func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all that was written.
func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func quiet(t *testing.T) Interceptors {
	t.Helper()
	in, err := NewInterceptors(slog.New(slog.DiscardHandler), metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// replica serves until the test ends or stop is called.
func replica(t *testing.T, answer func() error, creds *Credentials, callers Callers) *keyServer {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return replicaOn(t, lis, answer, creds, callers)
}

func replicaOn(t *testing.T, lis net.Listener, answer func() error, creds *Credentials, callers Callers) *keyServer {
	t.Helper()
	k := &keyServer{answer: answer, health: health.NewServer(), addr: lis.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		in, err := NewInterceptors(slog.New(slog.NewTextHandler(&k.log, nil)), metricnoop.NewMeterProvider(),
			tracenoop.NewTracerProvider())
		if err != nil {
			done <- err
			return
		}
		cfg := GRPCConfig{Interceptors: in, Credentials: creds, Callers: callers}
		done <- GRPC(ctx, lis, cfg, func(r grpc.ServiceRegistrar) {
			billingv1.RegisterKeyServiceServer(r, k)
			grpc_health_v1.RegisterHealthServer(r, k.health)
		})
	}()
	k.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil
	}
	t.Cleanup(k.stop)
	return k
}

func dialKeys(t *testing.T, creds *Credentials, replicas ...*keyServer) billingv1.KeyServiceClient {
	t.Helper()
	target := Target{Service: "billing-ledger"}
	for _, k := range replicas {
		target.Addresses = append(target.Addresses, k.addr)
	}
	conn, err := Dial(target, quiet(t), creds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return billingv1.NewKeyServiceClient(conn)
}

func ask(t *testing.T, client billingv1.KeyServiceClient) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := client.AuthenticateKey(ctx, &billingv1.AuthenticateKeyRequest{}, grpc.WaitForReady(true))
	return err
}

func TestCallsGoRoundTheReplicas(t *testing.T) {
	a, b := replica(t, nil, nil, nil), replica(t, nil, nil, nil)
	client := dialKeys(t, nil, a, b)
	for a.calls.Load() == 0 || b.calls.Load() == 0 { // until both are connected
		if err := ask(t, client); err != nil {
			t.Fatal(err)
		}
	}
	a.calls.Store(0)
	b.calls.Store(0)
	for range 20 {
		if err := ask(t, client); err != nil {
			t.Fatal(err)
		}
	}
	if a.calls.Load() != 10 {
		t.Errorf("a.calls.Load(): got %d, want 10", a.calls.Load())
	} else if b.calls.Load() != 10 {
		t.Errorf("b.calls.Load(): got %d, want 10", b.calls.Load())
	}
}

func TestNoCallFailsWhileOneReplicaStopsAndTheOtherServes(t *testing.T) {
	a, b := replica(t, nil, nil, nil), replica(t, nil, nil, nil)
	client := dialKeys(t, nil, a, b)
	for a.calls.Load() == 0 || b.calls.Load() == 0 {
		if err := ask(t, client); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan struct{})
	go func() {
		a.stop()
		close(stopped)
	}()
	for after := 0; after < 50; {
		if err := ask(t, client); err != nil {
			t.Fatalf("a call failed: %v", err)
		}
		select {
		case <-stopped:
			after++
		default:
		}
	}
}

func TestAReplicaThatSaysItIsNotHealthyIsPassedOver(t *testing.T) {
	a, b := replica(t, nil, nil, nil), replica(t, nil, nil, nil)
	a.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	client := dialKeys(t, nil, a, b)
	for range 20 {
		if err := ask(t, client); err != nil {
			t.Fatal(err)
		}
	}
	if a.calls.Load() != 0 {
		t.Errorf("%d calls to the one that is not healthy, %d to the other: a.calls.Load(): got %d, want 0", a.calls.Load(),
			b.calls.Load(), a.calls.Load())
	} else if b.calls.Load() != 20 {
		t.Errorf("%d calls to the one that is not healthy, %d to the other: b.calls.Load(): got %d, want 20", a.calls.Load(),
			b.calls.Load(), b.calls.Load())
	}
}

// TestOnlyAnIdempotentCallToAReplicaThatCannotServeIsRepeated also finds a
// contract that lost its idempotency level.
func TestOnlyAnIdempotentCallToAReplicaThatCannotServeIsRepeated(t *testing.T) {
	for _, test := range []struct {
		reason fault.Reason
		calls  int64
	}{
		{fault.ServiceUnavailable, 4}, // the service is not up yet: four attempts
		{fault.NoProviderOnline, 1},   // true of every replica
	} {
		k := replica(t, func() error { return fault.New(fault.Unavailable, test.reason, "no") }, nil, nil)
		if err := ask(t, dialKeys(t, nil, k)); !fault.Is(err, test.reason) {
			t.Errorf("got the error %v, want the reason %v", err, test.reason)
		}
		if k.calls.Load() != test.calls {
			t.Errorf("%s: asked: got %d, want %d", test.reason, k.calls.Load(), test.calls)
		}
	}
	config := serviceConfig(Target{})
	if !strings.Contains(config, `"AuthenticateKey"`) {
		t.Errorf("repeatable methods: config: got %q, want %q in it", config, `"AuthenticateKey"`)
	} else if strings.Contains(config, `"CreateAccount"`) {
		t.Errorf("repeatable methods: config: got %q, want it without %q", config, `"CreateAccount"`)
	}
}

// credsOf makes credentials of a service under the CA of dir.
func credsOf(t *testing.T, dir, service string) *Credentials {
	t.Helper()
	if err := devcerts.Write(dir, devcerts.Leaf{File: service, Services: []string{service}}); err != nil {
		t.Fatal(err)
	}
	creds, err := LoadCredentials(filesOf(dir, service), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

func filesOf(dir, service string) TLSFiles {
	return TLSFiles{Cert: devcerts.CertFile(dir, service), Key: devcerts.KeyFile(dir, service),
		CA: filepath.Join(dir, devcerts.CAFile)}
}

var keyCallers = Callers{billingv1.KeyService_ServiceDesc.ServiceName: {"edge-gateway"}}

// Hostile test 8.
func TestOnlyAnIdentityThatIsNamedMayCall(t *testing.T) {
	dir, foreign := t.TempDir(), t.TempDir()
	server := replica(t, nil, credsOf(t, dir, "billing-ledger"), keyCallers)
	if err := ask(t, dialKeys(t, credsOf(t, dir, "edge-gateway"), server)); err != nil {
		t.Errorf("the gateway was refused: %v", err)
	}
	err := ask(t, dialKeys(t, credsOf(t, dir, "router"), server))
	if text := server.log.String(); !strings.Contains(text, "caller refused") {
		t.Errorf(`the log of a refusal: text: got %q, want "caller refused" in it`, text)
	} else if !strings.Contains(text, "[router]") {
		t.Errorf(`the log of a refusal: text: got %q, want "[router]" in it`, text)
	}
	switch f, ok := fault.As(err); {
	case !ok:
		t.Errorf("a router may call: got the error %v, want a fault", err)
	case f.Kind != fault.Denied:
		t.Errorf("a router may call: f.Kind: got %d, want %d", f.Kind, fault.Denied)
	case f.Reason != fault.CallerNotAllowed:
		t.Errorf("a router may call: f.Reason: got %q, want %q", f.Reason, fault.CallerNotAllowed)
	}
	// The one whose name is right and whose CA is not, and the one without.
	stranger := credsOf(t, foreign, "edge-gateway")
	stranger.roots = credsOf(t, dir, "edge-gateway").roots // it believes the server
	for name, transport := range map[string]credentials.TransportCredentials{
		"a certificate of another CA": stranger.client("billing-ledger"),
		"no certificate": credentials.NewTLS(&tls.Config{RootCAs: stranger.roots, ServerName: "billing-ledger",
			MinVersion: tls.VersionTLS13}),
		"no encryption": insecure.NewCredentials(),
	} {
		conn, err := grpc.NewClient(server.addr, grpc.WithTransportCredentials(transport))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := billingv1.NewKeyServiceClient(conn).AuthenticateKey(ctx,
			&billingv1.AuthenticateKeyRequest{}); err == nil {
			t.Errorf("%s was let in", name)
		} else if ctx.Err() != nil {
			t.Errorf("%s was kept waiting", name)
		}
		cancel()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if server.calls.Load() != 1 {
		t.Errorf("calls arrived: got %d, want 1", server.calls.Load())
	}
}

func TestAServiceThatNobodyIsNamedForCanBeCalledByNobody(t *testing.T) {
	dir := t.TempDir()
	server := replica(t, nil, credsOf(t, dir, "billing-ledger"), Callers{})
	if err := ask(t, dialKeys(t, credsOf(t, dir, "edge-gateway"), server)); !fault.Is(err, fault.CallerNotAllowed) {
		t.Errorf("got the error %v, want the reason %v", err, fault.CallerNotAllowed)
	}
}

func TestAServerMustProveThatItIsTheServiceThatWasCalled(t *testing.T) {
	dir := t.TempDir()
	impostor := replica(t, nil, credsOf(t, dir, "router"), keyCallers)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := dialKeys(t, credsOf(t, dir, "edge-gateway"), impostor).AuthenticateKey(ctx,
		&billingv1.AuthenticateKeyRequest{})
	if err == nil {
		t.Error("a router in the place of billing-ledger: got no error, want one")
	} else if got := ctx.Err(); got != nil {
		t.Errorf("a router in the place of billing-ledger: ctx.Err(): got the error %v, want none", got)
	}
}

func TestANewCertificateIsUsedWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	creds := credsOf(t, dir, "billing-ledger")
	first := creds.certificate().Leaf.SerialNumber
	credsOf(t, dir, "billing-ledger") // replaces the files
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(devcerts.CertFile(dir, "billing-ledger"), later, later); err != nil {
		t.Fatal(err)
	}
	creds.looked = time.Time{}
	second := creds.certificate().Leaf.SerialNumber
	if second.Cmp(first) == 0 {
		t.Error("the old certificate is still in use")
	}
	// A broken one leaves the last good one in use.
	if err := os.WriteFile(devcerts.CertFile(dir, "billing-ledger"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	creds.looked = time.Time{}
	if creds.certificate().Leaf.SerialNumber.Cmp(second) != 0 {
		t.Error("a broken file replaced a certificate")
	}
}

func TestCredentialsThatCannotWorkAreRefusedAtStart(t *testing.T) {
	dir := t.TempDir()
	good := credsOf(t, dir, "router")
	if err := good.Covers([]string{"router", "catalog"}); err == nil {
		t.Error("a certificate for what it does not name: got no error, want one")
	} else if !strings.Contains(err.Error(), "catalog") {
		t.Errorf(`a certificate for what it does not name: got the error %q, want "catalog" in it`, err)
	}
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	files := filesOf(dir, "router")
	for name, broken := range map[string]TLSFiles{
		"half of them":   {Cert: files.Cert},
		"a missing key":  {Cert: files.Cert, Key: files.Key + "x", CA: files.CA},
		"an empty CA":    {Cert: files.Cert, Key: files.Key, CA: empty},
		"an empty cert":  {Cert: empty, Key: files.Key, CA: files.CA},
		"another's key":  {Cert: files.Cert, Key: filepath.Join(dir, "ca-key.pem"), CA: files.CA},
		"a missing cert": {Cert: files.Cert + "x", Key: files.Key, CA: files.CA},
	} {
		if _, err := LoadCredentials(broken, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if none, err := LoadCredentials(TLSFiles{}, nil); none != nil {
		t.Errorf("no files: none: got %+v, want nil", none)
	} else if err != nil {
		t.Errorf("no files: got the error %v, want none", err)
	}
	if _, err := Dial(Target{Service: "router"}, quiet(t), good); !errors.Is(err, errNoAddress) {
		t.Errorf("no address: got the error %v, want %v", err, errNoAddress)
	}
	if _, err := Dial(Target{Service: "router", Addresses: []string{"10.0.0.1:1"}}, quiet(t), nil); err == nil {
		t.Error("an address off the machine is dialled in the clear")
	}
}
