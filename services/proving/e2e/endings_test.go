package e2e

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/endings"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// The prices and payouts of trial.PutModel's models, in nano-USD a token.
const (
	promptPrice, outputPrice   = 1000, 3000
	promptPayout, outputPayout = 900, 2700
)

// words is how many tokens engines answer with, and broken how many of them come before
// the answer breaks off.
const words, broken = 8, 3

// scene is the place of one line of the table: a model, a consumer, and one engine whose
// answers can be scripted.
type scene struct {
	*trial.Market
	line     endings.Line
	model    string
	account  string
	key      string
	engine   *fakeengine.Engine
	provider *trial.Provider
	database *pgxpool.Pool
	form     string
}

// outcome is what a client has seen, for the comparison with the ledger.
type outcome struct {
	status int
	text   string
	// provider is the provider that must be paid.
	provider string
	// claimed is the engine's own count of its output, and delivered the most of it that
	// came.
	claimed, delivered int64
}

// serve connects the scene's engine with that answer.
func (s *scene) serve(t *testing.T, b fakeengine.Behaviour) {
	t.Helper()
	if b.Tokens == nil {
		b.Tokens = fakeengine.Words(words)
	}
	s.engine.Script(s.model, b)
	s.provider = s.Join(t, s.line.Name, s.engine.URL, s.model)
}

// ask makes a streamed request and reads it to its end.
func (s *scene) ask(t *testing.T, headers ...string) outcome {
	t.Helper()
	status, _, body := s.Call(t, http.MethodPost, trial.ChatPath, s.key,
		trial.Chat(s.model, `,"stream":true,"max_tokens":64`), headers...)
	o := outcome{status: status, text: string(body), claimed: words, delivered: broken}
	if s.provider != nil {
		o.provider = s.provider.ID
	}
	return o
}

// dial connects an agent that the test itself plays.
func (s *scene) dial(t *testing.T, capacity int32) *fakeagent.Agent {
	t.Helper()
	s.provider = s.Provider(t, s.line.Name)
	agent, err := fakeagent.Dial(t.Context(), s.WSURL()+"/ws", fakeagent.Options{Key: s.provider.Key,
		Models: []string{s.model}, Capacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	s.WaitOffered(t, s.model, s.provider.ID)
	return agent
}

// open makes a streamed request and reads it until so many pieces of content have come.
func (s *scene) open(ctx context.Context, t *testing.T, pieces int) (*bufio.Scanner, io.Closer) {
	t.Helper()
	resp := s.Open(ctx, t, s.key, trial.Chat(s.model, `,"stream":true,"max_tokens":64`))
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	for pieces > 0 && lines.Scan() {
		if strings.Contains(lines.Text(), `"content":"`) && !strings.Contains(lines.Text(), `"content":""`) {
			pieces--
		}
	}
	if pieces > 0 {
		t.Fatalf("the stream ended: got %d, want 0", pieces)
	}
	return lines, resp.Body
}

// rest is the stream after that.
func rest(lines *bufio.Scanner) string {
	var text strings.Builder
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
	}
	return text.String()
}

// received takes the next request that reaches an agent.
func received(t *testing.T, agent *fakeagent.Agent) *fakeagent.Request {
	t.Helper()
	select {
	case r := <-agent.Requests():
		return r
	case <-time.After(trial.Patience):
		t.Fatal("no request has reached the agent")
		return nil
	}
}

// scripted is a line that needs only the engine's behaviour.
func scripted(b fakeengine.Behaviour) func(*testing.T, *scene) outcome {
	return func(t *testing.T, s *scene) outcome {
		s.serve(t, b)
		return s.ask(t)
	}
}

// acts bring about the lines of the table, by their names.
var acts = map[string]func(*testing.T, *scene) outcome{
	"normal":         scripted(fakeengine.Behaviour{}),
	"usage_missing":  scripted(fakeengine.Behaviour{Usage: []string{}}),
	"usage_absurd":   scripted(fakeengine.Behaviour{Usage: []string{fakeengine.UsageMillion}}),
	"usage_zero":     scripted(fakeengine.Behaviour{Usage: []string{fakeengine.UsageZero}}),
	"truncated":      scripted(fakeengine.Behaviour{End: fakeengine.EndSilent, EndAfter: broken}),
	"error_inside":   scripted(fakeengine.Behaviour{End: fakeengine.EndError, EndAfter: broken}),
	"engine_refuses": scripted(fakeengine.Behaviour{Status: http.StatusBadRequest}),
	"all_failed":     scripted(fakeengine.Behaviour{Status: http.StatusServiceUnavailable}),
	"cut":            scripted(fakeengine.Behaviour{Tokens: fakeengine.Words(3000), Usage: []string{}}),
	"stopped_at_once": func(t *testing.T, s *scene) outcome {
		s.serve(t, fakeengine.Behaviour{Tokens: []string{},
			Usage: []string{`{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}`}})
		status, _, body := s.Call(t, http.MethodPost, trial.ChatPath, s.key,
			trial.Chat(s.model, `,"stream":true,"max_tokens":64,"stop":["."]`))
		return outcome{status: status, text: string(body), provider: s.provider.ID}
	},
	"blamed_inside": func(t *testing.T, s *scene) outcome {
		agent := s.dial(t, 0)
		go func() {
			request := say(t, agent, 40)
			_ = request.Event(`{"error":{"message":"the content is not allowed","type":"invalid_request_error","code":"400"}}`)
			_ = request.End(http.StatusOK, true)
		}()
		o := s.ask(t)
		o.provider, o.delivered = s.provider.ID, 40
		return o
	},
	"empty": scripted(fakeengine.Behaviour{Tokens: []string{}, End: fakeengine.EndNoFinish}),

	"retried": func(t *testing.T, s *scene) outcome {
		failing := fakeengine.New(t)
		failing.Script(s.model, fakeengine.Behaviour{Status: http.StatusServiceUnavailable})
		first := s.Join(t, "failing", failing.URL, s.model)
		s.serve(t, fakeengine.Behaviour{})
		return s.ask(t, "X-Svc-Provider", first.ID)
	},
	"provider_lost_before_content": func(t *testing.T, s *scene) outcome {
		mortal := s.dial(t, 0)
		first := s.provider.ID
		s.serve(t, fakeengine.Behaviour{})
		go func() {
			if _, ok := <-mortal.Requests(); ok {
				mortal.Kill()
			}
		}()
		return s.ask(t, "X-Svc-Provider", first)
	},
	"provider_lost":               providerLost,
	"client_gone":                 clientGone,
	"cancel_ignored":              cancelIgnored,
	"client_gone_before_dispatch": clientGoneBeforeDispatch,
	"client_gone_at_once":         goneBeforeContent(`,"max_tokens":64`, 0),
	"client_gone_before_content":  goneBeforeContent(`,"max_tokens":64`, 2*time.Second),
	"client_gone_from_hung":       goneBeforeContent(`,"max_tokens":64,"stream":true`, 6*time.Second),
	"wall_limit":                  wallLimit,
	"platform_lost":               platformLost,
}

func providerLost(t *testing.T, s *scene) outcome {
	agent := s.dial(t, 0)
	go say(t, agent, broken)
	lines, _ := s.open(t.Context(), t, broken)
	agent.Kill()
	return outcome{status: http.StatusOK, text: rest(lines), provider: s.provider.ID, delivered: broken}
}

// say answers the next request with n words.
func say(t *testing.T, agent *fakeagent.Agent, n int) *fakeagent.Request {
	request := <-agent.Requests()
	for _, word := range fakeengine.Words(n) {
		if err := request.Text(word); err != nil {
			t.Error(err)
		}
	}
	return request
}

func clientGone(t *testing.T, s *scene) outcome {
	leave := make(chan struct{}, broken)
	for range broken {
		leave <- struct{}{}
	}
	s.serve(t, fakeengine.Behaviour{BeforeToken: leave})
	ctx, hangUp := context.WithCancel(t.Context())
	s.open(ctx, t, broken)
	hangUp()
	wait, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	if _, err := s.engine.WaitCancelled(wait); err != nil {
		t.Fatalf("the engine never heard of the hang-up: %v", err)
	}
	return outcome{provider: s.provider.ID, delivered: broken}
}

func cancelIgnored(t *testing.T, s *scene) outcome {
	agent := s.dial(t, 0)
	ctx, hangUp := context.WithCancel(t.Context())
	said := make(chan *fakeagent.Request, 1)
	go func() { said <- say(t, agent, broken) }()
	s.open(ctx, t, broken)
	request := <-said
	hangUp()
	select {
	case <-request.Cancelled():
	case <-time.After(trial.Patience):
		t.Fatal("the provider is not told to stop")
	}
	// What the engine still sends, and claims for it, is at its own expense.
	for _, word := range fakeengine.Words(40) {
		_ = request.Text(word)
	}
	_ = request.Usage(fakeengine.PromptTokens, broken+40)
	_ = request.Done()
	_ = request.End(http.StatusOK, true)
	return outcome{provider: s.provider.ID, delivered: broken}
}

// abandon asks until ctx ends, and returns the error of the client that left.
func (s *scene) abandon(ctx context.Context, more string) <-chan error {
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Base()+trial.ChatPath,
			strings.NewReader(trial.Chat(s.model, more)))
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+s.key)
			var resp *http.Response
			if resp, err = http.DefaultClient.Do(req); err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		gone <- err
	}()
	return gone
}

// goneBeforeContent leaves a provider that says nothing, some time after the request has
// reached it.
func goneBeforeContent(more string, after time.Duration) func(*testing.T, *scene) outcome {
	return func(t *testing.T, s *scene) outcome {
		agent := s.dial(t, 0)
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		gone := s.abandon(ctx, more)
		request := received(t, agent)
		<-time.After(after)
		hangUp()
		if err := <-gone; err == nil {
			t.Error("the client that left was answered")
		}
		select {
		case <-request.Cancelled():
		case <-time.After(trial.Patience):
			t.Error("the provider is not told to stop")
		}
		return outcome{provider: s.provider.ID}
	}
}

// clientGoneBeforeDispatch leaves a request that waits for the only slot, which two
// routers would each give away.
func clientGoneBeforeDispatch(t *testing.T, s *scene) outcome {
	if s.form == "fleet" {
		t.Skip("shown on one process")
	}
	agent := s.dial(t, 1)
	other, key := s.Consumer(t, "1")
	occupant := make(chan int, 1)
	go func() {
		status, _, _ := s.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(s.model, `,"max_tokens":64`))
		occupant <- status
	}()
	request := received(t, agent)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	gone := s.abandon(ctx, `,"max_tokens":64`)
	trial.Until(t, "the request waits with its hold", func() bool {
		_, held := s.Balance(t, s.account)
		return held != "0.00"
	})
	hangUp()
	if err := <-gone; err == nil {
		t.Error("the client that left was answered")
	}
	if err := request.Whole("done", fakeengine.PromptTokens, 1); err != nil {
		t.Error(err)
	}
	if status := <-occupant; status != http.StatusOK {
		t.Errorf("the request that held the slot: got %d, want 200", status)
	}
	s.NothingHeld(t, other)
	select {
	case <-agent.Requests():
		t.Error("the request was dispatched")
	default:
	}
	return outcome{}
}

// wallLimit needs a gateway with a short limit, so it has a marketplace of its
// own.
func wallLimit(t *testing.T, s *scene) outcome {
	if s.form != "standalone" {
		t.Skip("shown on one process")
	}
	s.move(t, trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_GATEWAY_TOTAL_TIMEOUT=8s", "SVC_GATEWAY_FIRST_CONTENT_TIMEOUT=8s",
		"SVC_GATEWAY_FIRST_CONTENT_TOTAL_TIMEOUT=8s"))
	s.serve(t, fakeengine.Behaviour{End: fakeengine.EndHang, EndAfter: broken})
	return s.ask(t)
}

// platformLost kills a hub, so it has a fleet of its own.
func platformLost(t *testing.T, s *scene) outcome {
	if s.form != "fleet" || testing.Short() {
		t.Skip("shown on a fleet")
	}
	// Whether the hub knew that the client got content is a race. If it knew, it bills
	// from its journal once it is back. If not, the review bills by the gateway's report,
	// and must not take its minutes here.
	s.move(t, trial.StartFleet(t, func(c *fleet.Config) {
		c.Settings = map[string]map[string]any{fleet.Billing: {"billing": map[string]any{
			"hold_lease": "3s", "orphan_after": "5s", "expire_interval": "250ms", "expire_grace": "1s",
		}}}
	}))
	leave := make(chan struct{}, broken)
	for range broken {
		leave <- struct{}{}
	}
	b := fakeengine.Behaviour{Tokens: fakeengine.Words(words), BeforeToken: leave}
	s.engine.Script(s.model, b)
	s.provider = s.JoinAt(t, s.WSURLs()[0], s.line.Name, s.engine.URL, s.model)
	lines, _ := s.open(t.Context(), t, broken)
	hub := s.Fleet().Replicas(fleet.Hub)[0]
	if err := s.Fleet().Kill(hub); err != nil {
		t.Fatal(err)
	}
	o := outcome{status: http.StatusOK, text: rest(lines), provider: s.provider.ID, delivered: broken}
	if err := s.Fleet().Launch(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	return o
}

// move brings the scene to another marketplace.
func (s *scene) move(t *testing.T, m *trial.Market) {
	t.Helper()
	s.Market, s.database = m, database(t, m)
	s.PutModel(t, s.model)
	s.account, s.key = s.Consumer(t, "1")
}

func database(t *testing.T, m *trial.Market) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), m.Env["SVC_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// booked is the ledger's record of a consumer's one request.
type booked struct {
	state, provider                      string
	settled                              bool
	prompt, output, recount              int64
	list, charged, payout, credit, lines int64
}

// books waits until nothing of the consumer is open.
func (s *scene) books(t *testing.T) (b booked) {
	t.Helper()
	trial.Until(t, "the request is settled or released", func() bool {
		row := s.database.QueryRow(t.Context(), `SELECT h.state, s.request_id IS NOT NULL, coalesce(s.provider_id::text, ''),
				coalesce(s.prompt_tokens, 0), coalesce(s.completion_tokens, 0), coalesce(s.recounted_completion, 0),
				coalesce(s.list_price, 0), coalesce(s.charged, 0), coalesce(s.payout, 0), w.posted,
				(SELECT count(*) FROM billing.usage_settlement o WHERE o.account_id = h.account_id)
			FROM billing.hold h JOIN billing.wallet w USING (account_id) LEFT JOIN billing.usage_settlement s USING (request_id)
			WHERE h.account_id = $1 AND h.state <> 'open'`, s.account)
		err := row.Scan(&b.state, &b.settled, &b.provider, &b.prompt, &b.output, &b.recount, &b.list, &b.charged, &b.payout,
			&b.credit, &b.lines)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		return err == nil
	})
	return b
}

func TestEndings(t *testing.T) {
	for _, line := range endings.Table() {
		if acts[line.Name] == nil {
			t.Errorf("nothing brings about %q", line.Name)
		}
	}
	trial.EachForm(t, func(t *testing.T) { playEndings(t, trial.Start(t, "SVC_DEMO_AGENT=off"), "standalone") },
		func(t *testing.T, m *trial.Market) { playEndings(t, m, "fleet") })
}

// playEndings brings about every line on a marketplace of a form, except for the lines
// that are shown on another form. Each has a model, a consumer and a provider, because
// lines wait more than they work.
func playEndings(t *testing.T, m *trial.Market, form string) {
	t.Helper()
	t.Run("endings", func(t *testing.T) {
		for _, line := range endings.Table() {
			t.Run(line.Name, func(t *testing.T) {
				t.Parallel()
				playEnding(t, m, line, form)
			})
		}
	})
}

func playEnding(t *testing.T, m *trial.Market, line endings.Line, form string) {
	t.Helper()
	s := &scene{line: line, model: "endings/" + strings.ReplaceAll(line.Name, "_", "-"), engine: fakeengine.New(t),
		form: form}
	s.move(t, m)
	o := acts[line.Name](t, s)
	sawEvent, sawDone := strings.Contains(o.text, `data: {"error":{`), strings.Contains(o.text, "[DONE]")
	switch line.Told {
	case endings.Whole:
		switch {
		case o.status != http.StatusOK:
			t.Errorf("the client: got %d, want 200, with %s", o.status, trial.Tail(o.text, 300))
		case sawEvent:
			t.Errorf("sawEvent: got true, want false, with %s", trial.Tail(o.text, 300))
		case !sawDone:
			t.Errorf("sawDone: got false, want true, with %s", trial.Tail(o.text, 300))
		}
	case endings.Broken:
		switch {
		case o.status != http.StatusOK:
			t.Errorf("the client: got %d, want 200, with %s", o.status, trial.Tail(o.text, 300))
		case !sawEvent:
			t.Errorf("sawEvent: got false, want true, with %s", trial.Tail(o.text, 300))
		case sawDone:
			t.Errorf("sawDone: got true, want false, with %s", trial.Tail(o.text, 300))
		}
	case endings.Refused:
		if o.status < http.StatusBadRequest {
			t.Errorf("the client: got %d, want at least 400, with %s", o.status, trial.Tail(o.text, 300))
		} else if !strings.HasPrefix(o.text, `{"error":{`) {
			t.Errorf("o.text: got %q, want the prefix %q, with %s", o.text, `{"error":{`, trial.Tail(o.text, 300))
		}
	case endings.Left:
	}
	b := s.books(t)
	if line.Free() {
		switch {
		case b.state != "released":
			t.Errorf(`a request that costs nothing: b.state: got %q, want "released"`, b.state)
		case b.settled:
			t.Error("a request that costs nothing: b.settled: got true, want false")
		case b.credit != 1_000_000_000:
			t.Errorf("a request that costs nothing: b.credit: got %d, want 1_000_000_000", b.credit)
		}
		return
	}
	checkTokens(t, line, o, b)
	list, payout := b.prompt*promptPrice+b.output*outputPrice, b.prompt*promptPayout+b.output*outputPayout
	switch {
	case b.state != "settled":
		t.Errorf(`b.state: got %q, want "settled"`, b.state)
	case b.lines != 1:
		t.Errorf("b.lines: got %d, want 1", b.lines)
	case b.provider != o.provider:
		t.Errorf("b.provider: got %q, want %q", b.provider, o.provider)
	case b.list != list:
		t.Errorf("wanted once a charge: b.list: got %d, want %d", b.list, list)
	case b.charged != list:
		t.Errorf("b.charged: got %d, want %d", b.charged, list)
	case b.payout != payout:
		t.Errorf("b.payout: got %d, want %d", b.payout, payout)
	case b.credit != 1_000_000_000-list:
		t.Errorf("b.credit: got %d, want %d", b.credit, 1_000_000_000-list)
	}
}

// checkTokens compares the charged tokens with the line.
func checkTokens(t *testing.T, line endings.Line, o outcome, b booked) {
	t.Helper()
	switch line.Prompt {
	case endings.Usage:
		if b.prompt != fakeengine.PromptTokens {
			t.Errorf("prompt tokens charged, as the engine reported: got %d, want %d", b.prompt, fakeengine.PromptTokens)
		}
	case endings.Count:
		if b.prompt < 1 || b.prompt > 60 {
			t.Errorf("prompt tokens charged for two words: got %d, want 1 to 60", b.prompt)
		}
	case endings.Nothing, endings.Delivered, endings.Bound, endings.One:
		if b.prompt != 0 {
			t.Errorf("prompt tokens charged, none may be: got %d, want 0", b.prompt)
		}
	}
	switch line.Output {
	case endings.Usage:
		if b.output != o.claimed {
			t.Errorf("tokens charged, as the engine reported: got %d, want %d", b.output, o.claimed)
		}
	case endings.Count:
		if b.output != b.recount {
			t.Errorf("%d tokens are charged for %d words, our count is %d: b.output: got %d, want %d", b.output, words,
				b.recount, b.output, b.recount)
		} else if b.output < 1 || b.output > 2*words {
			t.Errorf("%d tokens are charged for %d words, our count is %d: b.output: got %d, want 1 to %d", b.output, words,
				b.recount, b.output, 2*words)
		}
	case endings.Delivered:
		if b.output < 1 || b.output > o.delivered {
			t.Errorf("tokens charged, %d were delivered: got %d, want 1 to %d", o.delivered, b.output, o.delivered)
		}
	case endings.Bound:
		if b.output != 64 {
			t.Errorf("got %d tokens charged, want the bound of 64", b.output)
		}
	case endings.One:
		if b.output != 1 {
			t.Errorf("got %d tokens charged, want one", b.output)
		}
	case endings.Nothing:
		if b.output != 0 {
			t.Errorf("tokens charged, none may be: got %d, want 0", b.output)
		}
	}
}
