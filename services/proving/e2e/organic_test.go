package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"testing"

	"svc.internal/pkg/fakeengine"
)

// organicModel is the model that recorded requests ask for.
const organicModel = "org/model-8b"

// TestTheSDKsWriteTheRequestsOfConsumers writes the requests that the SDKs make of orders,
// as they reach an engine, and fails where one is not made. ORGANIC_ORDERS names the file of
// orders, one JSON object a line, and ORGANIC_REQUESTS the file to write (make organic).
func TestTheSDKsWriteTheRequestsOfConsumers(t *testing.T) {
	from, to := os.Getenv("ORGANIC_ORDERS"), os.Getenv("ORGANIC_REQUESTS")
	if from == "" || to == "" {
		t.Skip("ORGANIC_ORDERS and ORGANIC_REQUESTS name no files")
	}
	orders, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer orders.Close()
	requests, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	r := recorder{runs: map[string]func(*testing.T, order) result{}}
	lines := bufio.NewScanner(orders)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := json.NewEncoder(requests).Encode(r.record(t, lines.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmp.Or(lines.Err(), requests.Close()); err != nil {
		t.Fatal(err)
	}
}

// recorder carries out orders at an engine, and at another one before the first is full.
type recorder struct {
	engine *fakeengine.Engine
	runs   map[string]func(*testing.T, order) result
}

// recorded is a request as it reached the engine.
type recorded struct {
	SDK    string `json:"sdk"`
	Body   []byte `json:"body"`
	HungUp bool   `json:"hung_up"`
}

// record carries out one order. Hand is the body of an order without an SDK.
func (r *recorder) record(t *testing.T, line []byte) recorded {
	t.Helper()
	var o struct {
		SDK  string `json:"sdk"`
		Hand []byte `json:"hand"`
		order
	}
	if err := json.Unmarshal(line, &o); err != nil {
		t.Fatal(err)
	}
	if r.engine == nil || len(r.engine.Requests()) >= fakeengine.MaxRecorded/2 {
		r.engine = fakeengine.New(t)
		r.engine.Script(organicModel, fakeengine.Behaviour{})
	}
	o.Base, o.Key, o.Model = r.engine.URL, "sk-svc-none", organicModel
	hungUp := o.HangUp
	o.HangUp = false // the body is sent before
	before := len(r.engine.Requests())
	if o.Hand != nil {
		r.post(t, o.Hand)
	} else if got := r.run(t, o.SDK)(t, o.order); got.Error != nil {
		t.Fatalf("%s raised: got %+v, want nil", o.SDK, got.Error)
	}
	reached := r.engine.Requests()[before:]
	if len(reached) != 1 {
		t.Fatalf("requests of one order: got %d, want 1", len(reached))
	}
	return recorded{SDK: o.SDK, Body: reached[0].Body, HungUp: hungUp}
}

func (r *recorder) run(t *testing.T, name string) func(*testing.T, order) result {
	t.Helper()
	if r.runs[name] == nil {
		for _, s := range sdks() {
			if s.name == name {
				r.runs[name] = s.start(t)
			}
		}
	}
	if r.runs[name] == nil {
		t.Fatalf("no SDK is called %q", name)
	}
	return r.runs[name]
}

func (r *recorder) post(t *testing.T, body []byte) {
	t.Helper()
	resp, err := http.Post(r.engine.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a request by hand: got %d, want 200", resp.StatusCode)
	}
}
