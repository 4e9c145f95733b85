package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/fakeagent"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// v1Young is the age from which on the close of a socket does not harm an agent of
// dialect v1. That is a second; it is less than the hub's two by the time that the agent
// learns of its upgrade later than the hub.
const v1Young = 1300 * time.Millisecond

// joinV1 makes a provider and runs an agent of dialect v1, as it is, at a hub. The agent
// asks the public API for its status, and gives up where a public one would.
func joinV1(
	t *testing.T, m *trial.Market, hub, name string, opts fakeagent.V1Options,
) (*trial.Provider, *fakeagent.V1) {
	t.Helper()
	p := m.Provider(t, name)
	opts.URL, opts.ServiceURL, opts.Key, opts.NodeName = hub, m.Base(), p.Key, name
	a := fakeagent.StartV1(opts)
	t.Cleanup(a.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	if err := a.AwaitRegistered(ctx); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p, a
}

func TestAgentsOfDialectV1ServeThePublicAPI(t *testing.T) {
	trial.Each(t, func(t *testing.T, m *trial.Market) {
		const model = "v1/served"
		m.PutModel(t, model)
		account, key := m.Consumer(t, "1")
		var next atomic.Pointer[func(*fakeagent.V1Request)]
		script := func(h func(*fakeagent.V1Request)) { next.Store(&h) }
		script(fakeagent.V1Answer("Hello", " wide", " world"))
		p, a := joinV1(t, m, m.WSURL(), "old-agent", fakeagent.V1Options{
			Models: []string{model}, Hardware: fakeagent.V1TwoRTX4090(), ContextLength: 8192,
			Handler: func(r *fakeagent.V1Request) { (*next.Load())(r) },
		})
		m.WaitOffered(t, model, p.ID)

		status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
		answer := trial.Decode(t, body)
		if status != http.StatusOK || header.Get("X-Svc-Provider-Id") != p.ID || answer["model"] != model ||
			trial.At(answer, "choices", 0, "message", "content") != "Hello wide world" ||
			trial.At(answer, "usage", "completion_tokens") != 3.0 {
			t.Errorf("whole: %d %s", status, body)
		}
		for extra, usage := range map[string]bool{`,"stream":true`: false,
			`,"stream":true,"stream_options":{"include_usage":true}`: true} {
			status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, extra))
			checkV1Stream(t, model, status, string(body), usage)
		}

		script(fakeagent.V1Fails(http.StatusBadRequest, "context too long"))
		if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model,
			`,"stream":true`)); status != http.StatusBadRequest {
			t.Errorf("an engine's refusal: status: got %d, want 400", status)
		} else if !strings.Contains(string(body), "context too long") {
			t.Errorf(`an engine's refusal: body: got %q, want "context too long" in it`, string(body))
		}
		script(fakeagent.V1CutShort("Hel"))
		switch status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, `,"stream":true`)); {
		case status != http.StatusOK:
			t.Errorf("an answer cut short: status: got %d, want 200", status)
		case !strings.Contains(string(body), `data: {"error":{`):
			t.Errorf("an answer cut short: body: got %q, want %q in it", string(body), `data: {"error":{`)
		case strings.Contains(string(body), "[DONE]"):
			t.Errorf(`an answer cut short: body: got %q, want it without "[DONE]"`, string(body))
		}
		script(fakeagent.V1Answer("still there"))
		padded := strings.Replace(trial.Chat(model, ""), "{", "{"+strings.Repeat(" ", 1_200_000), 1)
		if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, key,
			padded); status != http.StatusRequestEntityTooLarge {
			t.Errorf("a body that no provider takes: got %d, want 413 (body is %s)", status, trial.Tail(string(body), 300))
		}
		if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, key,
			trial.Chat(model, "")); status != http.StatusOK {
			t.Errorf("behind: got %d, want 200 (body is %s)", status, body)
		}
		switch s := a.State(); {
		case len(s.Lives) > 0:
			t.Errorf("the agent has been through: len(s.Lives): got %d, want 0, in %+v", len(s.Lives), s)
		case s.Dead != nil:
			t.Errorf("the agent has been through: s.Dead: got the error %v, want none", s.Dead)
		case s.Stalls+s.Unknown > 0:
			t.Errorf("the agent has been through: s.Stalls+s.Unknown: got %d, want 0", s.Stalls+s.Unknown)
		}
		m.NothingHeld(t, account)
		checkV1Refusals(t, m, model)
	})
}

// checkV1Refusals has agents ask for their status before they dial. Agents that may not
// connect never dial, and a provider that earns nothing yet may.
func checkV1Refusals(t *testing.T, m *trial.Market, model string) {
	t.Helper()
	suspended, pending := m.Provider(t, "suspended"), m.Provider(t, "pending")
	m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+suspended.ID+"/status",
		`{"status":"PROVIDER_STATUS_SUSPENDED"}`)
	for name, c := range map[string]struct {
		key  string
		dead error
	}{
		"a key that nobody has": {"sk-prov-nobody", fakeagent.ErrV1Refused},
		"a suspended provider":  {suspended.Key, fakeagent.ErrV1Refused},
		"a pending provider":    {pending.Key, nil},
	} {
		a := fakeagent.StartV1(fakeagent.V1Options{URL: m.WSURL(), ServiceURL: m.Base(), Key: c.key, Models: []string{model}})
		ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
		err := a.AwaitRegistered(ctx)
		cancel()
		if s := a.State(); !errors.Is(err, c.dead) {
			t.Errorf("%s: got the error %v, want %v", name, err, c.dead)
		} else if c.dead != nil && s.Upgrades > 0 {
			t.Errorf("%s: s.Upgrades: got %d, want 0", name, s.Upgrades)
		}
		a.Stop()
	}
}

func checkV1Stream(t *testing.T, model string, status int, body string, usage bool) {
	t.Helper()
	text, saw := "", false
	for line := range strings.SplitSeq(body, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk map[string]any
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if chunk["model"] != model {
			t.Errorf("a chunk of %v: %s: got %v, want %v", chunk["model"], data, chunk["model"], model)
		}
		saw = saw || chunk["usage"] != nil
		if s, ok := trial.At(chunk, "choices", 0, "delta", "content").(string); ok {
			text += s
		}
	}
	switch {
	case status != http.StatusOK:
		t.Errorf("streamed: status: got %d, want 200, with %s", status, trial.Tail(body, 300))
	case text != "Hello wide world":
		t.Errorf(`streamed: text: got %q, want "Hello wide world", with %s`, text, trial.Tail(body, 300))
	case saw != usage:
		t.Errorf("streamed: saw: got %t, want %t, with %s", saw, usage, trial.Tail(body, 300))
	case !strings.HasSuffix(body, "data: [DONE]\n\n"):
		t.Errorf("streamed: body: got %q, want the suffix %q, with %s", body, "data: [DONE]\n\n", trial.Tail(body, 300))
	}
}

// An outage is a fleet with agents of dialect v1 at its first hub, and streams through
// them.
type outage struct {
	*trial.Market
	model, account, key string
	hub                 string
	agents              []*fakeagent.V1
	providers           []*trial.Provider
	leave               atomic.Pointer[chan struct{}] // closed to let streams end
	stubborn            atomic.Bool                   // every second stream never ends
	asked               atomic.Int64
	began               chan struct{}
	streams             sync.WaitGroup
	whole, broken       atomic.Int64
}

const (
	v1Agents  = 24
	v1Streams = 200
)

func TestAgentsOfDialectV1OutliveTheirHub(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute long")
	}
	t.Parallel() // it has a marketplace of its own
	m := trial.StartFleet(t, func(c *fleet.Config) {
		c.Settings = map[string]map[string]any{
			fleet.Hub: {"hub": map[string]any{"drain_timeout": "8s"}},
			fleet.Billing: {"billing": map[string]any{
				"hold_lease": "10s", "orphan_after": "15s", "expire_interval": "250ms", "expire_grace": "1s",
			}},
		}
	})
	o := &outage{Market: m, model: "v1/outage", hub: m.Fleet().Replicas(fleet.Hub)[0],
		began: make(chan struct{}, v1Streams)}
	m.PutModel(t, o.model)
	o.account, o.key = m.Consumer(t, "100")
	m.Unlimit(t, o.account)
	timing := fakeagent.V1Observed()
	timing.Backoff = timing.Faster(4).Backoff
	for i := range v1Agents {
		p, a := joinV1(t, m, m.WSURLs()[0], fmt.Sprintf("old-%d", i), fakeagent.V1Options{Models: []string{o.model},
			Timing: timing, Handler: o.answer})
		o.agents, o.providers = append(o.agents, a), append(o.providers, p)
	}
	for _, p := range o.providers {
		m.WaitOffered(t, o.model, p.ID)
	}

	// A restart: streams that can end within the drain do, and the rest is cut off.
	o.stubborn.Store(true)
	leave := o.flood(t)
	restarted := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	go func() { restarted <- m.Fleet().Restart(ctx, o.hub) }()
	close(leave)
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	o.streams.Wait()
	t.Logf("restart: %d streams whole, %d broken", o.whole.Load(), o.broken.Load())
	if o.whole.Load() != v1Streams/2 {
		t.Errorf("of %d streams: o.whole.Load(): got %d, want %d", v1Streams, o.whole.Load(), v1Streams/2)
	} else if o.broken.Load() != v1Streams/2 {
		t.Errorf("of %d streams: o.broken.Load(): got %d, want %d", v1Streams, o.broken.Load(), v1Streams/2)
	}
	o.back(t, 2)

	// kill -9: all streams break, nothing else does.
	o.whole.Store(0)
	o.broken.Store(0)
	leave = o.flood(t)
	if err := m.Fleet().Kill(o.hub); err != nil {
		t.Fatal(err)
	}
	if err := m.Fleet().Launch(t.Context(), o.hub); err != nil {
		t.Fatal(err)
	}
	close(leave)
	o.streams.Wait()
	t.Logf("kill: %d streams whole, %d broken", o.whole.Load(), o.broken.Load())
	if o.whole.Load() != 0 {
		t.Errorf("of %d streams %d ended well and %d broke: o.whole.Load(): got %d, want 0", v1Streams, o.whole.Load(),
			o.broken.Load(), o.whole.Load())
	} else if o.broken.Load() != v1Streams {
		t.Errorf("of %d streams %d ended well and %d broke: o.broken.Load(): got %d, want %d", v1Streams, o.whole.Load(),
			o.broken.Load(), o.broken.Load(), v1Streams)
	}
	o.back(t, 3)
	m.NothingHeld(t, o.account)
	o.settledOnce(t)
	m.Balanced(t)
	for _, p := range o.providers {
		detail := m.Admin(t, http.MethodGet, "/api/v1/admin/providers/"+p.ID, "")
		for _, window := range []string{"uptime_24h", "uptime_30d"} {
			if up, ok := trial.At(detail, "provider", window).(float64); !ok {
				t.Errorf("the platform's outages cost %s: %s: ok: got false, want true", p.ID, window)
			} else if up < 0.999 {
				t.Errorf("the platform's outages cost %s: %s: up: got %v, want at least 0.999", p.ID, window, up)
			}
		}
	}
}

// answer sends a word of a stream and then waits for leave to end it, which may never
// come.
func (o *outage) answer(r *fakeagent.V1Request) {
	if !r.Stream {
		fakeagent.V1Answer("back")(r)
		return
	}
	leave := *o.leave.Load()
	if o.asked.Add(1)%2 == 0 && o.stubborn.Load() {
		leave = nil
	}
	if r.Role() != nil || r.Text("word") != nil {
		return
	}
	select {
	case <-leave:
	case <-r.Gone():
		return
	}
	fakeagent.V1Answer(" done")(r)
}

// flood opens the streams and returns once all have begun.
func (o *outage) flood(t *testing.T) (leave chan struct{}) {
	t.Helper()
	leave = make(chan struct{})
	o.leave.Store(&leave)
	for range v1Streams {
		o.streams.Go(func() { o.stream(t) })
	}
	deadline := time.NewTimer(trial.Patience)
	defer deadline.Stop()
	for n := range v1Streams {
		select {
		case <-o.began:
		case <-deadline.C:
			close(leave)
			t.Fatalf("%d of %d streams began", n, v1Streams)
		}
	}
	return leave
}

// open begins a stream. Each router counts the requests of the other a moment later, so a few of many at once are
// told that all providers are busy. They try again, as SDKs do.
func (o *outage) open(t *testing.T) *http.Response {
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	for {
		resp := o.Open(context.WithoutCancel(t.Context()), t, o.key, trial.Chat(o.model, `,"stream":true,"max_tokens":64`))
		if resp.StatusCode != http.StatusServiceUnavailable || ctx.Err() != nil {
			return resp
		}
		_ = resp.Body.Close() // nothing of it is wanted
	}
}

// stream reads one stream to whatever end it has.
func (o *outage) stream(t *testing.T) {
	resp := o.open(t)
	defer resp.Body.Close()
	lines, first := bufio.NewScanner(resp.Body), true
	var last string
	for lines.Scan() {
		if line := lines.Text(); line != "" {
			last = line
		}
		if first && strings.Contains(last, `"word"`) {
			first = false
			o.began <- struct{}{}
		}
	}
	if first {
		rest, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		t.Errorf("a stream did not begin: %s %s %s", resp.Status, last, rest)
	}
	if last == "data: [DONE]" {
		o.whole.Add(1)
		return
	}
	o.broken.Add(1)
}

// back waits until every agent has come back by itself, was closed in no way that harms
// it, and serves.
func (o *outage) back(t *testing.T, registrations int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	for i, a := range o.agents {
		err := a.Await(ctx, func(s fakeagent.V1State) bool {
			return s.Dead != nil || s.Registered && s.Registrations >= registrations
		})
		s := a.State()
		switch {
		case err != nil:
			t.Fatalf("agent %d has been through: got the error %v, want none", i, err)
		case s.Dead != nil:
			t.Fatalf("agent %d has been through: s.Dead: got the error %v, want none", i, s.Dead)
		case s.Registrations != registrations:
			t.Fatalf("agent %d has been through: s.Registrations: got %d, want %d", i, s.Registrations, registrations)
		}
		for _, life := range s.Lives {
			if cut := life.Code == 0 || life.Code == 1006; !cut && life.Code != 1012 {
				t.Errorf("agent %d was closed: life.Code: got %d, want 1012, where !cut", i, life.Code)
			} else if !cut && life.Age() < v1Young {
				t.Errorf("agent %d was closed: life.Age(): got %v, want at least %v, where !cut", i, life.Age(), v1Young)
			}
		}
	}
	o.WaitOffered(t, o.model, o.providers[0].ID)
	for range v1Agents {
		if status, _, body := o.Call(t, http.MethodPost, trial.ChatPath, o.key,
			trial.Chat(o.model, "")); status != http.StatusOK {
			t.Errorf("after the outage: got %d, want 200 (body is %s)", status, body)
		}
	}
}

// settledOnce compares what is billed with what was asked: each request has one hold and
// at most one settled line.
func (o *outage) settledOnce(t *testing.T) {
	t.Helper()
	var holds, open, settlements, twice int
	err := database(t, o.Market).QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE state = 'open'),
			(SELECT count(*) FROM billing.usage_settlement WHERE account_id = $1),
			(SELECT count(*) FROM (SELECT request_id FROM billing.usage_settlement WHERE account_id = $1
				GROUP BY request_id HAVING count(*) > 1) d)
		FROM billing.hold WHERE account_id = $1`, o.account).Scan(&holds, &open, &settlements, &twice)
	if err != nil {
		t.Fatal(err)
	}
	want := 2*v1Streams + 2*v1Agents
	switch {
	case holds != want:
		t.Errorf("%d holds of %d requests, %d of them open; %d settlements, %d of them twice: holds: got %d, want %d", holds,
			want, open, settlements, twice, holds, want)
	case open != 0:
		t.Errorf("%d holds of %d requests, %d of them open; %d settlements, %d of them twice: open: got %d, want 0", holds,
			want, open, settlements, twice, open)
	case twice != 0:
		t.Errorf("%d holds of %d requests, %d of them open; %d settlements, %d of them twice: twice: got %d, want 0", holds,
			want, open, settlements, twice, twice)
	case settlements > holds || settlements < 2*v1Agents+v1Streams/2:
		t.Errorf("%d holds of %d requests, %d of them open; %d settlements, %d of them twice: settlements: got %d, want at "+
			"most %d and at least %d", holds, want, open, settlements, twice, settlements, holds, 2*v1Agents+v1Streams/2)
	}
}
