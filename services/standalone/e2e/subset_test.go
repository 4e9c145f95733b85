package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/standalone/internal/trial"
)

func TestServicesRunInTwoProcessesAsInOne(t *testing.T) {
	database, pepper := pgtest.URL(t), strings.Repeat("5a", 32)
	back, front, nats, public, sockets := trial.FreeAddress(t), trial.FreeAddress(t), trial.FreeAddress(t), trial.FreeAddress(t), trial.FreeAddress(t)
	shared := []string{"DATABASE_URL=" + database, "SVC_PEPPER=" + pepper, "SVC_ADMIN_TOKEN=operator"}
	backOut := trial.StartPart(t, "catalog,billing-ledger,settlement", append(shared, "SVC_NATS_ADDR="+nats, "SVC_GRPC_ADDR="+back,
		fmt.Sprintf("SVC_PEERS=router=%s,provider-hub=%s,edge-gateway=%s", front, front, front))...)
	frontOut := trial.StartPart(t, "router,provider-hub,edge-gateway", append(shared, "SVC_NATS_URL=nats://"+nats, "SVC_GRPC_ADDR="+front,
		"SVC_HTTP_ADDR="+public, "SVC_WS_ADDR="+sockets,
		fmt.Sprintf("SVC_PEERS=catalog=%s,billing-ledger=%s,settlement=%s", back, back, back))...)
	for _, out := range []*trial.Output{backOut, frontOut} {
		select {
		case <-out.Ready():
		case <-time.After(trial.Patience):
			t.Fatalf("not ready:\n%s", out.Text())
		}
	}
	m := trial.Attach(map[string]string{"SVC_BASE_URL": "http://" + public, "SVC_WS_URL": "ws://" + sockets, "SVC_ADMIN_TOKEN": "operator"})
	m.PutModel(t, "test/apart")
	engine := fakeengine.New(t)
	engine.Script("test/apart", fakeengine.Behaviour{Tokens: fakeengine.Words(5)})
	m.Join(t, "far", engine.URL, "test/apart")
	account, key := m.Consumer(t, "1")
	for _, extra := range []string{"", `,"stream":true`} {
		status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat("test/apart", extra))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		if receipt := m.Receipt(t, key, header.Get(trial.RequestIDHeader)); receipt["cost_usd_str"] != "0.000022" {
			t.Errorf("receipt %v", receipt)
		}
	}
	if balance, held := m.Balance(t, account); balance != "0.999956" || held != "0.00" {
		t.Errorf("balance %s, held %s", balance, held)
	}
}
