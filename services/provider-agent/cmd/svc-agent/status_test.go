package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/services/provider-agent/internal/service"
)

const answer = `{"provider_id":"0190","name":"Rig","status":"active","can_connect":true,"api_key_valid":true,` +
	`"message":"You serve.",
"warning":"two machines have one node id","next_steps":["keep it running"],"step":5,"total_steps":5,` +
	`"step_label":"Active","earnings_enabled":true,
"label":"Active (Probation)","online":true,"uptime_24h":0.995,"uptime_30d":1,` +
	`"probation_ends_at":"2026-11-22T20:00:00Z","benchmark_expires_at":null,
"nodes":[{"node_id":"node-one","node_name":"rig","agent_version":"1.2","online":true,` +
	`"last_seen_at":"2026-11-21T20:00:00Z","gpu_model":"NVIDIA GeForce RTX 4090","gpu_count":2,"vram_gb":23,` +
	`"compute_capability":"8.9","engine":"vllm","gpu_eligible":true},
{"node_id":"node-two","node_name":"","online":false,"last_seen_at":null}],
"traffic":{"since":"2026-11-21T19:00:00Z","rejects":[{"reason":"full","count":12,"meaning":"The machine was busy."}],
"models":[{"model_id":"llama-3.3-70b","nodes":1,"available_nodes":1,"in_flight":3,"capacity":32,"breaker":"closed",` +
	`"chosen":71},
{"model_id":"q","nodes":1,"available_nodes":0,"in_flight":0,"capacity":4,"breaker":"open","chosen":0},
{"model_id":"vicuna","breaker":"closed","lane":"probe","verification":"It gets few requests.\u001b"}]}}`

// serving is a service that answers every status call alike.
func serving(t *testing.T, status int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/provider/me", "/api/v1/provider/statements", "/api/v1/provider/challenges":
			w.WriteHeader(http.StatusNotFound) // an older marketplace
			return
		}
		if r.URL.Path != "/api/v1/provider/status" {
			t.Errorf(`asked: r.URL.Path: got %q, want "/api/v1/provider/status"`, r.URL.Path)
		} else if r.Header.Get("Authorization") != "Bearer sk-prov-x" {
			t.Errorf(`r.Header.Get("Authorization"): got %q, want "Bearer sk-prov-x"`, r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the command may have left
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestStatusIsPrintedInColumns(t *testing.T) {
	var out, diagnostics bytes.Buffer
	hub := strings.Replace(serving(t, 200, answer), "http", "ws", 1) + "/ws"
	err := command(t.Context(), []string{"status"}, []string{"SVC_WS_URL=" + hub, "SVC_PROVIDER_KEY=sk-prov-x"}, &out,
		&diagnostics)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if diagnostics.Len() > 0 {
		t.Fatalf("diagnostics.Len(): got %d, want 0", diagnostics.Len())
	}
	text := out.String()
	for _, want := range []string{
		"status      Active (Probation)\n", "step        5 of 5  Active\n",
		"uptime      99.5 % of 24 h, 100.0 % of 30 days\n",
		"probation   until 2026-11-22 20:00 UTC\n", "next        keep it running\n",
		"warning     two machines have one node id\n",
		"2 x NVIDIA GeForce RTX 4090  23 GB", "offline\n", "Requests since 2026-11-21 19:00 UTC\n",
		"12     full    The machine was busy.\n", "0       probe  closed\n",
		"What verification found\nvicuna  It gets few requests.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("colours and the key in it: text: got %q, want it without %q", text, "\x1b")
	} else if strings.Contains(text, "sk-prov") {
		t.Errorf(`colours and the key in it: text: got %q, want it without "sk-prov"`, text)
	}
	columns := func(head, row, under string) {
		t.Helper()
		var at int
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, head) {
				at = strings.Index(line, under)
			}
			switch {
			case strings.HasPrefix(line, row) && at == 0:
				t.Errorf("the column of %s: at: got 0, want any but 0, where strings.HasPrefix(line, row), with %s", under, text)
			case strings.HasPrefix(line, row) && line[at-1] != ' ':
				t.Errorf("the column of %s: line[at-1]: got %d, want ' ', where strings.HasPrefix(line, row), with %s", under,
					line[at-1], text)
			case strings.HasPrefix(line, row) && line[at] == ' ':
				t.Errorf("the column of %s: line[at]: got ' ', want any but ' ', where strings.HasPrefix(line, row), with %s",
					under, text)
			}
		}
	}
	columns("MODEL", "llama-3.3-70b", "BREAKER")
	columns("MODEL", "q ", "CHOSEN")
	columns("MODEL", "q ", "LANE")
	columns("NODE", "node-two", "STATE")
}

func TestStatusIsPrintedAsItIs(t *testing.T) {
	var out bytes.Buffer
	key := write(t, "key", "sk-prov-x\n")
	if err := command(t.Context(), []string{"status", "-json", "-key-file", key, "-service", serving(t, 200, answer)}, nil,
		&out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var told struct {
		Agent      *struct{}       `json:"agent"`
		AgentFault string          `json:"agent_fault"`
		Account    json.RawMessage `json:"account"`
	}
	if err := json.Unmarshal(out.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	var want, got bytes.Buffer
	if err := json.Compact(&want, []byte(answer)); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&got, told.Account); err != nil {
		t.Fatal(err)
	}
	if want.String() != got.String() {
		t.Errorf("got %q, want %q", got.String(), want.String())
	}
	if told.Agent != nil {
		t.Error("an agent is told, and none runs")
	}
	if !strings.Contains(told.AgentFault, "no agent runs") {
		t.Errorf("the agent: got %q, want that no agent runs", told.AgentFault)
	}
}

func TestStatusThatCannotBeToldIsAFault(t *testing.T) {
	for want, args := range map[string][]string{
		"refuses the provider key: wrong": {"status", "-service",
			serving(t, 401, `{"api_key_valid":false,"error":{"message":"wrong"}}`)},
		"answers 503: try later": {"status", "-service", serving(t, 503, "try later\n")},
		"is no status":           {"status", "-service", serving(t, 200, "<html>")},
		"no status":              {"status", "-json", "-service", serving(t, 200, "<html>")},
		"travels in the clear":   {"status", "-service", "http://192.0.2.1"},
		"SVC_SERVICE_URL":        {"status"},
		"not a flag":             {"status", "stray"},
		"read secret":            {"status", "-key-file", "/nowhere"},
	} {
		var out bytes.Buffer
		err := command(t.Context(), args, []string{"SVC_PROVIDER_KEY=sk-prov-x"}, &out, io.Discard)
		switch {
		case err == nil:
			t.Errorf("%v: got no error, want one", args)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%v: got the error %q, want %q in it", args, err, want)
		case out.Len() > 0:
			t.Errorf("%v: out.Len(): got %d, want 0", args, out.Len())
		}
	}
	if err := command(t.Context(), []string{"status"}, nil, io.Discard, io.Discard); err == nil {
		t.Error("without a key: got no error, want one")
	} else if !strings.Contains(err.Error(), "SVC_PROVIDER_KEY") {
		t.Errorf(`without a key: got the error %q, want "SVC_PROVIDER_KEY" in it`, err)
	}
}

func TestEveryStandingIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		told service.Status
		want []string
	}{
		"suspended": {service.Status{Status: "suspended"}, []string{"suspended", "connection  refused"}},
		"no router": {service.Status{Status: "active"}, []string{"no router could be asked"}},
		"no model": {service.Status{Status: "offline", CanConnect: true, Traffic: &service.Traffic{}},
			[]string{"no machine is connected", "no model is offered", "never passed over"}},
		"a tiny GPU": {service.Status{Status: "pending", CanConnect: true, Nodes: []service.Node{{Online: true}}},
			[]string{"GPU not eligible"}},
		"hostile texts": {service.Status{Status: "x\x1b[31m\n", Label: "a\tb\nc", Name: strings.Repeat("n", 5000)},
			[]string{"abc"}},
	} {
		var out bytes.Buffer
		if err := writeStatus(&out, c.told, func(text string, _ colour) string { return text }); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, &out)
			}
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: out: got %q, want it without %q", name, out.String(), "\x1b")
		} else if out.Len() > 4000 {
			t.Errorf("%s: it holds: got %d, want at most 4000", name, out.Len())
		}
	}
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as terminals are
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for name, c := range map[string]struct {
		out     io.Writer
		environ []string
		want    bool
	}{
		"a buffer":      {out: &bytes.Buffer{}},
		"a file":        {out: file},
		"a device":      {out: device, want: true},
		"no colour":     {out: device, environ: []string{"NO_COLOR=1"}},
		"an empty wish": {out: device, environ: []string{"NO_COLOR="}, want: true},
		"a dumb one":    {out: device, environ: []string{"TERM=dumb"}},
	} {
		if got := paintFor(c.out, c.environ)("x", red) != "x"; got != c.want {
			t.Errorf("%s: coloured: got %t, want %t", name, got, c.want)
		}
	}
}

// hubOnly is a hub at a port of its own, where no API is.
func hubOnly(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is nothing here; the provider connection is at /ws", http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http") + "/ws"
}

// The API's address is derived from the hub's only by convention. Setup writes both addresses, so that
// status finds an API at another port. Without setup, the error names the setting.
func TestStatusFindsAnAPIAtAnotherPortThanTheHub(t *testing.T) {
	hub, home := hubOnly(t), t.TempDir()
	environ := []string{"SVC_STATE_DIR=" + home, "SVC_PROVIDER_KEY=sk-prov-x"}
	err := command(t.Context(), []string{"status", "-ws", hub}, environ, io.Discard, io.Discard)
	if err == nil {
		t.Fatal("without the API's address: got no error, want one")
	}
	for _, want := range []string{"service_url in " + filepath.Join(home, "config.yaml"), "SVC_SERVICE_URL",
		"answers 404"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("without the API's address: got the error %v, want %q in it", err, want)
		}
	}
	market := httptest.NewServer(marketplace{status: 200, body: answer})
	t.Cleanup(market.Close)
	key := write(t, "key", providerKeyText(t))
	if err := os.WriteFile(filepath.Join(home, "models.json"), []byte(`{"known":{"endpoint":"http://127.0.0.1:1"}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := command(t.Context(), []string{"setup", "-yes", "-service", market.URL, "-ws", hub, "-account", "key",
		"-key-file", key, "-ports", "1"}, environ[:1], &said, io.Discard); err != nil {
		t.Fatalf("setup: %v, after\n%s", err, &said)
	}
	if want := "setup -ws names it"; !strings.Contains(said.String(), want) {
		t.Errorf("setup with a hub that does not answer: got %q, want %q in it", &said, want)
	}
	var out bytes.Buffer
	if err := command(t.Context(), []string{"status", "-once"}, environ[:1], &out, io.Discard); err != nil {
		t.Fatalf("with the settings of setup: got the error %v, want none", err)
	}
	if want := "Active (Probation)"; !strings.Contains(out.String(), want) {
		t.Errorf("with the settings of setup: got %q, want %q in it", &out, want)
	}
}

// told200 is a service that answers each path with a text of its own.
func told200(t *testing.T, answers map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := answers[r.URL.Path]
		if flow := r.URL.Query().Get("flow"); flow != "" {
			text, known = answers[r.URL.Path+" "+flow]
		}
		if !known {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, text) // the command may have left
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestStatusSplitsEarningsByDaysAndShowsTheLastVerifications(t *testing.T) {
	const period = `{"since":"2026-11-29","earned_usd_str":"1.25","unbatched_usd_str":"0.25","settled_usd_str":"0.7",` +
		`"held_usd_str":"0.1","settlement_pending_usd_str":"0.2"}`
	answers := map[string]string{
		"/api/v1/provider/status": answer,
		"/api/v1/provider/me": `{"earnings":{"settled_usd_str":"9","batched_through":"2026-11-28","today":` + period +
			`,"last_7_days":` + strings.Replace(period, "1.25", "-7.25", 1) + `}}`,
		"/api/v1/provider/statements": `{"list":[{"day":"2026-11-28","amount_usd_str":"3"}]}`,
		"/api/v1/provider/challenges visible": `{"list":[{"model_id":"acme/m","flow":"visible","kind":"fingerprint",` +
			`"at":"2026-11-28T10:00:00Z","result":"differs"},{"model_id":"acme/m","flow":"visible","kind":"greedy",` +
			`"at":"2026-11-27T10:00:00Z","result":"counted\u001b[31m"}]}`,
		"/api/v1/provider/challenges hidden": `{"list":[{"model_id":"acme/m","flow":"hidden","kind":"recall",` +
			`"at":"2026-11-28T00:00:00Z","result":"void"}]}`,
	}
	status := func() string {
		t.Helper()
		var out bytes.Buffer
		if err := command(t.Context(), []string{"status", "-service", told200(t, answers)},
			[]string{"SVC_PROVIDER_KEY=sk-prov-x"}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const row = "  2026-11-29  1.25    0.25             0.7      0.1   0.2\n"
	text := status()
	for _, want := range []string{"today" + row[:2], row, "-7.25", "Last verifications\n",
		"visible fingerprint  acme/m  2026-11-28 10:00 UTC  differs\n" +
			"hidden recall        acme/m  2026-11-28            void\n" +
			"visible greedy       acme/m  2026-11-27 10:00 UTC  counted[31m\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "Earned by statements") {
		t.Errorf("what the statements say is printed beside what the service says:\n%s", text)
	}
	// An older service tells neither.
	answers["/api/v1/provider/me"] = `{"earnings":{"settled_usd_str":"9","batched_through":"2026-11-28"}}`
	delete(answers, "/api/v1/provider/challenges visible")
	delete(answers, "/api/v1/provider/challenges hidden")
	text = status()
	for _, want := range []string{"Earned by statements, through 2026-11-28\n", "3         3       3\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("an older service: %q is missing in\n%s", want, text)
		}
	}
	for _, never := range []string{"Last verifications", "PERIOD"} {
		if strings.Contains(text, never) {
			t.Errorf("an older service: %q is in\n%s", never, text)
		}
	}
}
