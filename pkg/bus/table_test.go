package bus_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/devcerts"
)

// ours looks like a subject of this package, or the beginning or end of one.
var ours = regexp.MustCompile(`^[a-z]+(\.[a-z]+)*\.v[0-9]+(\.|$)`)

func TestEverySubjectHasARowInTheTable(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range bus.Table() {
		rows[row.Subject] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "table.go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !ours.MatchString(text) {
				return true
			}
			found++
			// A prefix is that of a hub's or a provider's own subject, and so are wildcards.
			text = strings.TrimRight(text, ">*")
			known := rows[text]
			if strings.HasSuffix(text, ".") {
				known = rows[text+bus.HubPart] || rows[text+bus.ProviderPart]
			}
			if !known {
				t.Errorf("%s: got subject %s without a row in Table, want who publishes and who subscribes", file, text)
			}
			return true
		})
	}
	if found < len(rows) {
		t.Errorf("got %d subjects in the source, want at least the %d of the table: the search is broken", found, len(rows))
	}
}

// everybody are the identities of a fleet with two hubs.
func everybody() []bus.Identity {
	return []bus.Identity{
		{Services: []string{"billing-ledger"}}, {Services: []string{"settlement"}}, {Services: []string{"router"}},
		{Services: []string{"edge-gateway"}}, {Services: []string{"verifier"}},
		{Services: []string{"provider-hub"}, HubID: "hub-1"}, {Services: []string{"provider-hub"}, HubID: "hub-2"},
	}
}

// aServer is a server that knows identities, and a way to it as each of them.
type aServer struct {
	url  string
	dial func(t *testing.T, id bus.Identity) *nats.Conn
	conn func(t *testing.T, id bus.Identity) *bus.Conn
}

// servers are the two kinds: nats-server with the configuration that we write
// for it, and the one inside a process.
func servers(t *testing.T) map[string]aServer {
	return map[string]aServer{"nats-server with certificates": certified(t), "inside with passwords": embedded(t)}
}

func certified(t *testing.T) aServer {
	t.Helper()
	dir := t.TempDir()
	leaves := []devcerts.Leaf{{File: "nats", Services: []string{bus.ServerName}}}
	for _, id := range everybody() {
		leaves = append(leaves, devcerts.Leaf{File: id.Name(), Services: []string{id.Services[0], id.Name()}})
	}
	if err := devcerts.Write(dir, leaves...); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "nats.conf")
	text := fmt.Appendf(bus.Authorization(everybody()...), `
listen: "127.0.0.1:-1"
jetstream { store_dir: %q }
tls { cert_file: %q, key_file: %q, ca_file: %q, verify_and_map: true }
`, t.TempDir(), devcerts.CertFile(dir, "nats"), devcerts.KeyFile(dir, "nats"), filepath.Join(dir, devcerts.CAFile))
	if err := os.WriteFile(conf, text, 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs, options.NoLog = true, true
	ns, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	proof := func(t *testing.T, id bus.Identity) *tls.Config {
		pair, err := tls.LoadX509KeyPair(devcerts.CertFile(dir, id.Name()), devcerts.KeyFile(dir, id.Name()))
		if err != nil {
			t.Fatal(err)
		}
		cfg := trusting(t, dir)
		cfg.Certificates = []tls.Certificate{pair}
		return cfg
	}
	return aServer{
		url: ns.ClientURL(),
		dial: func(t *testing.T, id bus.Identity) *nats.Conn {
			return dial(t, ns.ClientURL(), nats.Secure(proof(t, id)))
		},
		conn: func(t *testing.T, id bus.Identity) *bus.Conn {
			return join(t, bus.Config{URL: ns.ClientURL(), TLS: proof(t, id), Identity: &id})
		},
	}
}

func trusting(t *testing.T, dir string) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(dir, devcerts.CAFile))
	if err != nil {
		t.Fatalf("read the CA: got the error %v, want none", err)
	}
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("read the CA: roots.AppendCertsFromPEM(ca): got false, want true")
	}
	return &tls.Config{RootCAs: roots, ServerName: bus.ServerName, MinVersion: tls.VersionTLS13}
}

const testSecret = "0123456789abcdef"

func embedded(t *testing.T) aServer {
	t.Helper()
	s, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Secret: testSecret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return aServer{
		url: s.URL(),
		dial: func(t *testing.T, id bus.Identity) *nats.Conn {
			return dial(t, s.URL(), nats.UserInfo(id.Name(), bus.Password(testSecret, id.Name())))
		},
		conn: func(t *testing.T, id bus.Identity) *bus.Conn {
			return join(t, bus.Config{URL: s.URL(), Secret: testSecret, Identity: &id})
		},
	}
}

func dial(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(options, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func join(t *testing.T, cfg bus.Config) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAClientWithoutAnIdentityIsRefused(t *testing.T) {
	for name, s := range servers(t) {
		for kind, options := range map[string][]nats.Option{
			"anonymous":      nil,
			"wrong password": {nats.UserInfo("billing-ledger", bus.Password("another secret", "billing-ledger"))},
			"empty password": {nats.UserInfo("billing-ledger", "")},
			"the process":    {nats.UserInfo("inside", "")},
		} {
			if nc, err := nats.Connect(s.url,
				append(options, nats.Secure(&tls.Config{InsecureSkipVerify: true}))...); err == nil {
				nc.Close()
				t.Errorf("%s: got a connection for %s over TLS, want it refused", name, kind)
			}
			if nc, err := nats.Connect(s.url, options...); err == nil {
				nc.Close()
				t.Errorf("%s: got a connection for %s, want it refused", name, kind)
			}
		}
	}
}

// What a refusal is of, as the server says it.
const (
	publication  = "Publish to "
	subscription = "Subscription to "
)

// refused reports whether the server refused the last thing that nc has sent.
func refused(t *testing.T, nc *nats.Conn, kind, subject string) bool {
	t.Helper()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	// The server's refusal comes before its answer to the flush.
	err := nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()),
		strings.ToLower(kind+strconv.Quote(subject)))
}

// TestAnIdentityReachesItsOwnSubjectsOnly asks the server for every subject of
// the table, of either hub, as every identity.
func TestAnIdentityReachesItsOwnSubjectsOnly(t *testing.T) {
	for name, s := range servers(t) {
		for _, id := range everybody() {
			nc, service := s.dial(t, id), id.Services[0]
			for _, row := range bus.Table() {
				for _, hub := range []string{"hub-1", "hub-2"} {
					subject := strings.NewReplacer(bus.HubPart, hub, bus.ProviderPart, "p-1").Replace(row.Subject)
					foreign := service == "provider-hub" && strings.Contains(row.Subject, bus.HubPart) && hub != id.HubID
					may := slices.Contains(row.Publish, service) && !foreign
					if err := nc.Publish(subject, []byte("forged")); err != nil {
						t.Fatal(err)
					}
					if got := refused(t, nc, publication, subject); got == may {
						t.Errorf("%s: %s publishes on %s: got refused %v, want %v", name, id.Name(), subject, got, !may)
					}
					hears := (row.Stream == "" || row.Live) && slices.Contains(row.Subscribe, service) && (!foreign || row.AnyHub)
					sub, err := nc.SubscribeSync(subject)
					if err != nil {
						t.Fatal(err)
					}
					if got := refused(t, nc, subscription, subject); got == hears {
						t.Errorf("%s: %s subscribes to %s: got refused %v, want %v", name, id.Name(), subject, got, !hears)
					}
					_ = sub.Unsubscribe() // a refused subscription is gone already
				}
			}
		}
	}
}

func TestNobodySteersAStreamOrListensToOthersAnswers(t *testing.T) {
	for name, s := range servers(t) {
		for _, id := range everybody() {
			nc := s.dial(t, id)
			subjects := []string{
				"$JS.API.STREAM.DELETE.USAGE", "$JS.API.STREAM.PURGE.USAGE", "$JS.API.STREAM.MSG.DELETE.USAGE",
				"$JS.API.STREAM.CREATE.OTHER", "$JS.API.CONSUMER.CREATE.USAGE.spy", "$JS.API.CONSUMER.DURABLE.CREATE.USAGE.spy",
				"$JS.API.STREAM.SNAPSHOT.USAGE", "$JS.API.STREAM.LIST", "$SYS.REQ.SERVER.PING", "anything.else",
				"$JS.API.STREAM.DELETE.TRUST", "$JS.API.STREAM.PURGE.TRUST",
			}
			if id.Name() != "verifier" {
				subjects = append(subjects, "$JS.API.STREAM.UPDATE.TRUST", "trust.v1.p-1",
					"$JS.API.CONSUMER.MSG.NEXT.USAGE.verifier", "$JS.ACK.USAGE.verifier.1.1.1.1.0")
			}
			if id.Name() != "billing-ledger" {
				subjects = append(subjects, "$JS.API.STREAM.UPDATE.USAGE", "$JS.API.CONSUMER.MSG.NEXT.USAGE.billing",
					"$JS.ACK.USAGE.billing.1.1.1.1.0", "$JS.API.CONSUMER.DELETE.USAGE.billing",
					"$JS.API.CONSUMER.CREATE.RECEIPTS.billing")
			}
			if id.Name() != "settlement" {
				subjects = append(subjects, "$JS.API.CONSUMER.MSG.NEXT.USAGE.settlement", "$JS.ACK.USAGE.settlement.1.1.1.1.0",
					"$JS.API.CONSUMER.DELETE.USAGE.settlement")
			}
			if id.Name() != "router" {
				subjects = append(subjects, "$JS.API.CONSUMER.CREATE.TRUST.spy", "$JS.API.CONSUMER.MSG.NEXT.TRUST.reader",
					"$JS.API.CONSUMER.DELETE.TRUST.reader")
			}
			if id.Name() != "router" && id.Name() != "verifier" {
				subjects = append(subjects, "$JS.API.STREAM.CREATE.TRUST")
			}
			for _, subject := range subjects {
				if err := nc.Publish(subject, []byte("{}")); err != nil {
					t.Fatal(err)
				}
				if !refused(t, nc, publication, subject) {
					t.Errorf("%s: got %s published by %s, want it refused", name, subject, id.Name())
				}
			}
			for _, subject := range []string{">", "*.>", "usage.v1.>", "_INBOX.>", "_INBOX_billing-ledger.>",
				"_INBOX_provider-hub_hub-2.>", "$JS.>"} {
				if strings.Contains(subject, id.Services[0]) && (id.HubID == "" || strings.Contains(subject, id.HubID)) {
					continue
				}
				if _, err := nc.SubscribeSync(subject); err != nil {
					t.Fatal(err)
				}
				if !refused(t, nc, subscription, subject) {
					t.Errorf("%s: got %s heard by %s, want it refused", name, subject, id.Name())
				}
			}
		}
	}
}

// TestAnIdentityCanDoItsWork publishes usage as a hub and consumes it as all
// consumers, with what the table allows and nothing more.
func TestAnIdentityCanDoItsWork(t *testing.T) {
	for name, s := range servers(t) {
		hub := s.conn(t, bus.Identity{Services: []string{"provider-hub"}, HubID: "hub-1"})
		if err := hub.EnsureStream(t.Context(), bus.UsageStream); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := hub.PublishStream(t.Context(), bus.SubjectUsage("hub-1"), "one", []byte("usage"), nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		future, err := hub.PublishStreamAsync(t.Context(), bus.SubjectUsage("hub-1"), "two", []byte("usage"), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := future.Wait(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for service, durable := range map[string]string{"billing-ledger": bus.DurableBilling,
			"settlement": bus.DurableSettlement, "verifier": bus.DurableVerifier} {
			consumer := s.conn(t, bus.Identity{Services: []string{service}})
			ctx, cancel := context.WithCancel(t.Context())
			seen := 0
			err := consumer.Consume(ctx, bus.ConsumerConfig{Stream: bus.UsageStream, Durable: durable},
				func(_ context.Context, msgs []bus.Msg) error {
					if seen += len(msgs); seen >= 2 {
						cancel()
					}
					return nil
				})
			cancel()
			if err != nil || seen != 2 {
				t.Errorf("%s: %s: got %d messages, %v, want 2", name, service, seen, err)
			}
			if _, err := consumer.Waiting(t.Context(), bus.UsageStream.Name, durable); err != nil {
				t.Errorf("%s: %s: %v", name, service, err)
			}
		}
	}
}

func TestAStreamIsChangedByItsOwnerOnly(t *testing.T) {
	for name, s := range servers(t) {
		hub, ledger := bus.Identity{Services: []string{"provider-hub"}, HubID: "hub-1"},
			bus.Identity{Services: []string{"billing-ledger"}}
		if err := s.conn(t, ledger).EnsureStream(t.Context(), bus.UsageStream); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		smaller := bus.UsageStream
		smaller.MaxBytes = 1 << 20
		if err := s.conn(t, hub).EnsureStream(t.Context(), smaller); err != nil {
			t.Errorf("%s: a hub of another release: got %v, want the stream used as it is", name, err)
		}
		owner := s.conn(t, ledger)
		if err := owner.EnsureStream(t.Context(), bus.UsageStream); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := owner.EnsureStream(t.Context(), smaller); err != nil {
			t.Errorf("%s: got %v, want the owner to change its stream", name, err)
		}
	}
}

func TestNamesOfIdentitiesAreReadBack(t *testing.T) {
	for _, id := range append(everybody(), bus.Identity{Services: []string{"router", "provider-hub", "edge-gateway"},
		HubID: "hub-1"}) {
		got, ok := bus.ParseIdentity(id.Name())
		switch {
		case !ok:
			t.Errorf("%s: ok of bus.ParseIdentity(id.Name()): got false, want true", id.Name())
		case got.HubID != id.HubID:
			t.Errorf("%s: HubID: got %q, want %q", id.Name(), got.HubID, id.HubID)
		case !slices.Equal(got.Services, id.Services):
			t.Errorf("%s: Services: got %q, want %q", id.Name(), got.Services, id.Services)
		}
	}
	for _, name := range []string{"", "+", "nobody", "provider-hub", ".provider-hub", "*.provider-hub", ">.provider-hub",
		"a.b.provider-hub",
		"router+router", "hub-1.provider-hub+hub-2.provider-hub", "Hub.provider-hub", strings.Repeat("a", 33) +
			".provider-hub", "router+"} {
		if got, ok := bus.ParseIdentity(name); ok {
			t.Errorf("%q: got %v, want it refused", name, got)
		}
	}
}

func TestAPrivateServerHasNoSocket(t *testing.T) {
	s, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Private: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if s.Listens() {
		t.Error("got a listener, want none")
	}
	c := join(t, bus.Config{InProcess: s})
	if err := c.Publish(t.Context(), bus.SubjectWarmUp, nil, nil); err != nil {
		t.Error(err)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheProcessOfAGuardedServerMayDoEverything(t *testing.T) {
	s, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Secret: testSecret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := join(t, bus.Config{InProcess: s})
	if err := c.EnsureStream(t.Context(), bus.UsageStream); err != nil {
		t.Error(err)
	}
	if _, err := c.PublishStream(t.Context(), bus.SubjectUsage("any"), "x", nil, nil); err != nil {
		t.Error(err)
	}
}
