package e2e

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/proving/internal/trial"
)

// certified are the settings with which a group of services proves its identity.
func certified(certs, file string) []string {
	return []string{
		"SVC_TLS_CERT=" + devcerts.CertFile(certs, file), "SVC_TLS_KEY=" + devcerts.KeyFile(certs, file),
		"SVC_TLS_CA=" + certs + "/" + devcerts.CAFile,
	}
}

// groups runs the services in two groups that call each other, with mutual TLS
// or in the clear.
func groups(t *testing.T, encrypted bool) *trial.Market {
	t.Helper()
	backs, fronts := []string{"catalog", "billing-ledger", "chain-signer", "settlement"},
		[]string{"router", "provider-hub", "verifier", "edge-gateway"}
	back, front, nats, public, sockets := trial.FreeAddress(t), trial.FreeAddress(t), trial.FreeAddress(t),
		trial.FreeAddress(t), trial.FreeAddress(t)
	operators, token := trial.FreeAddress(t), strings.Repeat("operator", 4)
	database := pgtest.URL(t)
	shared := []string{"DATABASE_URL=" + database, "SVC_PEPPER=" + strings.Repeat("5a", 32),
		fmt.Sprintf("SVC_MACHINE_TOKENS=tester:admin:%x", sha256.Sum256([]byte(token)))}
	ofBack := []string{"SVC_NATS_ADDR=" + nats, "SVC_GRPC_ADDR=" + back,
		fmt.Sprintf("SVC_PEERS=router=%s,provider-hub=%s,verifier=%s,edge-gateway=%s", front, front, front, front)}
	ofFront := []string{"SVC_NATS_URL=nats://" + nats, "SVC_GRPC_ADDR=" + front, "SVC_HTTP_ADDR=" + public,
		"SVC_OPERATOR_ADDR=" + operators, "SVC_WS_ADDR=" + sockets,
		"SVC_VERIFIER_DEVELOPMENT=true", "SVC_VERIFIER_PROBES=false", "SVC_VERIFIER_BENCHMARKS_WAIVED=true",
		fmt.Sprintf("SVC_PEERS=catalog=%s,billing-ledger=%s,settlement=%s", back, back, back)}
	if encrypted {
		certs := t.TempDir()
		if err := devcerts.Write(certs, devcerts.Leaf{File: "back", Services: append(backs, bus.ServerName)},
			devcerts.Leaf{File: "front", Services: append(fronts, bus.HubName("hub-1"))}); err != nil {
			t.Fatal(err)
		}
		ofBack, ofFront = append(ofBack, certified(certs, "back")...), append(ofFront, certified(certs, "front")...)
	}
	outs := []*trial.Output{
		trial.StartPart(t, strings.Join(backs, ","), slices.Concat(shared, ofBack)...),
		trial.StartPart(t, strings.Join(fronts, ","), slices.Concat(shared, ofFront)...),
	}
	for _, out := range outs {
		select {
		case <-out.Ready():
		case <-time.After(trial.Patience):
			t.Fatalf("not ready:\n%s", out.Text())
		}
	}
	return trial.Attach(map[string]string{
		"SVC_BASE_URL": "http://" + public, "SVC_WS_URL": "ws://" + sockets, "SVC_ADMIN_URL": "http://" + operators,
		"SVC_ADMIN_TOKEN": token, "SVC_DATABASE_URL": database,
	})
}

func TestGroupsOfServicesBehaveAsOneProcess(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	for name, encrypted := range map[string]bool{"mutual TLS": true, "in the clear": false} {
		t.Run(name, func(t *testing.T) {
			if !encrypted && testing.Short() {
				t.Skip("shown with TLS")
			}
			t.Parallel()
			m := groups(t, encrypted)
			anAnswerIsChargedByTheEnginesUsageToTheNanoDollar(t, m)
			aDeadProviderIsReplacedBeforeTheFirstContent(t, m)
			playEndings(t, m, "groups")
			m.Balanced(t)
		})
	}
}
