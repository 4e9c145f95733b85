//go:build rehearsal

package worst

import (
	"bufio"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// lose ends NATS, the hub and whatever else is named, and removes what NATS and the hub have on
// their disks. Then all of them run again.
func lose(t *testing.T, f *fleet.Fleet, also ...string) {
	t.Helper()
	hub := f.Replicas(fleet.Hub)[0]
	names := append([]string{f.Replicas(fleet.NATS)[0], hub}, also...)
	for _, name := range names {
		if err := f.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WipeNATS(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(f.JournalDir(hub)); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := f.Start(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

func oneHub(c *fleet.Config) { c.Replicas[fleet.Hub], c.Replicas[fleet.Gateway] = 1, 1 }

// The gateway has reported the requests to the ledger, which settles them by its count.
func TestReportedRequestsAreSettledWithoutNATSAndJournal(t *testing.T) {
	m := trial.StartFleet(t, soon, oneHub)
	f := m.Fleet()
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	m.Join(t, "steady", engine.URL, model)
	account, key := m.Consumer(t, "10")
	call := func() string {
		t.Helper()
		status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
		if status != http.StatusOK {
			t.Fatalf("got %d, want 200 (body is %s)", status, body)
		}
		return header.Get(trial.RequestIDHeader)
	}
	want := m.Receipt(t, key, call())["cost_usd_str"]

	// Without NATS, usage stays in the hub's journal.
	if err := f.Kill(f.Replicas(fleet.NATS)[0]); err != nil {
		t.Fatal(err)
	}
	requests := []string{call(), call(), call()}
	lose(t, f)
	trial.UntilWithin(t, 2*trial.Patience, "nothing is held any more", func() bool {
		_, held := m.Balance(t, account)
		return held == "0.00"
	})
	for _, id := range requests {
		if got := m.Receipt(t, key, id)["cost_usd_str"]; got != want {
			t.Errorf("%s: the cost: got %v, want %v", id, got, want)
		}
	}
	m.Balanced(t)
}

// With the gateway, the last one who knew of a request under way is lost. Its hold ends, and the
// consumer pays at most for what the gateway had said of it.
func TestARequestThatNobodyKnowsOfCostsItsConsumerNothingMore(t *testing.T) {
	m := trial.StartFleet(t, soon, oneHub)
	f := m.Fleet()
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	m.Join(t, "steady", engine.URL, model)
	account, key := m.Consumer(t, "10")
	status, header, _ := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
	if status != http.StatusOK {
		t.Fatalf("got %d, want 200", status)
	}
	m.Receipt(t, key, header.Get(trial.RequestIDHeader))
	before, _ := m.Balance(t, account)

	engine.Script(model, fakeengine.Behaviour{End: fakeengine.EndHang, EndAfter: 1})
	resp := m.Open(t.Context(), t, key, trial.Chat(model, `,"stream":true`))
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"content":"`) {
			break
		}
	}
	lose(t, f, f.Replicas(fleet.Gateway)[0])
	trial.UntilWithin(t, 2*trial.Patience, "nothing is held any more", func() bool {
		_, held := m.Balance(t, account)
		return held == "0.00"
	})
	after, _ := m.Balance(t, account)
	t.Logf("the balance was %s before the request and is %s", before, after)
	// The answer before was whole; of this one the gateway has said a token at most.
	if paid := usd(t, before) - usd(t, after); paid < 0 || paid >= usd(t, "10")-usd(t, before) {
		t.Errorf("paid: got %v USD, want less than for a whole answer", paid)
	}
	verified(t, &disk{fleet: f}, fleet.Billing)
}

func usd(t *testing.T, text string) float64 {
	t.Helper()
	amount, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return amount
}
