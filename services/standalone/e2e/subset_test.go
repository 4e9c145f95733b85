package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/standalone"
)

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lis.Close(); err != nil {
			t.Error(err)
		}
	}()
	return lis.Addr().String()
}

// part runs a subset of the services until the test ends.
func part(t *testing.T, services string, environ ...string) *watched {
	t.Helper()
	cfg, err := config.Load[standalone.Config](append(environ, "SVC_DATA_DIR="+filepath.Join(t.TempDir(), "data")))
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Select(services); err != nil {
		t.Fatal(err)
	}
	out := &watched{ready: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- standalone.Run(ctx, cfg, standalone.Streams{Out: out, Log: &locked{w: &strings.Builder{}}})
	}()
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s ended with %v", services, err)
		}
	}))
	return out
}

func TestServicesRunInTwoProcessesAsInOne(t *testing.T) {
	database, pepper := pgtest.URL(t), strings.Repeat("5a", 32)
	back, front, nats, public, sockets := freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)
	shared := []string{"DATABASE_URL=" + database, "SVC_PEPPER=" + pepper, "SVC_ADMIN_TOKEN=operator"}
	backOut := part(t, "catalog,billing-ledger,settlement", append(shared, "SVC_NATS_ADDR="+nats, "SVC_GRPC_ADDR="+back,
		fmt.Sprintf("SVC_PEERS=router=%s,provider-hub=%s,edge-gateway=%s", front, front, front))...)
	frontOut := part(t, "router,provider-hub,edge-gateway", append(shared, "SVC_NATS_URL=nats://"+nats, "SVC_GRPC_ADDR="+front,
		"SVC_HTTP_ADDR="+public, "SVC_WS_ADDR="+sockets,
		fmt.Sprintf("SVC_PEERS=catalog=%s,billing-ledger=%s,settlement=%s", back, back, back))...)
	for _, out := range []*watched{backOut, frontOut} {
		select {
		case <-out.ready:
		case <-time.After(patience):
			t.Fatalf("not ready:\n%s", out.text())
		}
	}
	m := &market{env: map[string]string{"SVC_BASE_URL": "http://" + public, "SVC_WS_URL": "ws://" + sockets, "SVC_ADMIN_TOKEN": "operator"}}
	m.putModel(t, "test/apart")
	engine := fakeengine.New(t)
	engine.Script("test/apart", fakeengine.Behaviour{Tokens: fakeengine.Words(5)})
	m.join(t, "far", engine, "test/apart")
	account, key := m.consumer(t, "1")
	for _, extra := range []string{"", `,"stream":true`} {
		status, header, body := m.call(t, http.MethodPost, "/v1/chat/completions", key, chat("test/apart", extra))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		if receipt := m.receipt(t, key, header.Get("X-Svc-Request-ID")); receipt["cost_usd_str"] != "0.000022" {
			t.Errorf("receipt %v", receipt)
		}
	}
	if balance, held := m.balance(t, account); balance != "0.999956" || held != "0.00" {
		t.Errorf("balance %s, held %s", balance, held)
	}
}
