package e2e

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/money"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

const idempotencyKey = "Idempotency-Key"

// keyed is the answer to one request with an Idempotency-Key.
type keyed struct {
	status int
	header http.Header
	body   string
}

// askKeyed makes a request with an Idempotency-Key, at the next gateway.
func askKeyed(t *testing.T, m *trial.Market, key, token, body string) keyed {
	t.Helper()
	status, header, answer := m.Call(t, http.MethodPost, trial.ChatPath, key, body, idempotencyKey, token)
	return keyed{status, header, string(answer)}
}

// wantFinal checks that a response is a refusal that no client sends again.
func (k keyed) wantFinal(t *testing.T, code string) {
	t.Helper()
	if k.status != http.StatusUnprocessableEntity {
		t.Errorf("k.status: got %d, want 422", k.status)
	} else if found := trial.ErrorCode([]byte(k.body)); found != code {
		t.Errorf("trial.ErrorCode([]byte(k.body)): got %q, want %q, with %s", found, code, k.body)
	} else if k.header.Get("X-Should-Retry") != "false" {
		t.Errorf(`k.header.Get("X-Should-Retry"): got %q, want "false"`, k.header.Get("X-Should-Retry"))
	}
}

func TestARequestWithAnIdempotencyKeyIsServedAndBilledOnce(t *testing.T) {
	trial.Each(t, servedAndBilledOnce, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
}

func servedAndBilledOnce(t *testing.T, m *trial.Market) {
	const model = "test/idempotent"
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	gate := make(chan struct{})
	engine.Script(model, fakeengine.Behaviour{BeforeFirstByte: gate})
	m.Join(t, "once", engine.URL, model)
	account, key := m.Consumer(t, "1")
	m.Unlimit(t, account)

	// Racing: all get the same answer, and one of them has run.
	const racers = 8
	body := trial.Chat(model, "")
	answers := make(chan keyed, racers)
	for range racers {
		go func() { answers <- askKeyed(t, m, key, "race", body) }()
	}
	trial.Until(t, "one of them runs", func() bool { return len(engine.Requests()) > 0 })
	close(gate)
	first := <-answers
	replayed := 0
	for i := range racers {
		answer := first
		if i > 0 {
			answer = <-answers
		}
		switch {
		case answer.status != http.StatusOK:
			t.Errorf("answer.status: got %d, want 200", answer.status)
		case answer.body != first.body:
			t.Errorf("answer.body: got %q, want %q", answer.body, first.body)
		case answer.header.Get(trial.RequestIDHeader) != first.header.Get(trial.RequestIDHeader):
			t.Errorf("answer.header.Get(…): got %q, want %q", answer.header.Get(trial.RequestIDHeader),
				first.header.Get(trial.RequestIDHeader))
		}
		if answer.header.Get("Idempotency-Replayed") == "true" {
			replayed++
		}
	}
	if replayed != racers-1 {
		t.Errorf("of %d are repeats: got %d, want %d", racers, replayed, racers-1)
	}

	// One after the other, through any gateway.
	engine.Script(model, fakeengine.Behaviour{})
	second := askKeyed(t, m, key, "again", body)
	for range len(m.Bases()) {
		if again := askKeyed(t, m, key, "again", body); again.status != http.StatusOK {
			t.Errorf("the repeat: got %d, want 200", again.status)
		} else if again.body != second.body {
			t.Errorf("again.body: got %q, want %q", again.body, second.body)
		}
	}
	askKeyed(t, m, key, "again", trial.Chat(model, `,"max_tokens":5`)).wantFinal(t, "idempotency_key_reused")

	// A stream is not stored.
	streamed := trial.Chat(model, `,"stream":true`)
	third := askKeyed(t, m, key, "stream", streamed)
	if third.status != http.StatusOK {
		t.Errorf("the stream: got %d, want 200", third.status)
	} else if !strings.Contains(third.body, "[DONE]") {
		t.Errorf(`third.body: got %q, want "[DONE]" in it`, third.body)
	}
	gone := askKeyed(t, m, key, "stream", streamed)
	gone.wantFinal(t, "idempotency_answer_gone")
	if !strings.Contains(gone.body, "/api/v1/requests/"+third.header.Get(trial.RequestIDHeader)) {
		t.Errorf("naming the receipt: got %q, want %q in it", gone.body,
			"/api/v1/requests/"+third.header.Get(trial.RequestIDHeader))
	}

	// A request that cost nothing runs again.
	engine.Script(model, fakeengine.Behaviour{Status: http.StatusBadRequest})
	if refused := askKeyed(t, m, key, "refused", body); refused.status != http.StatusBadRequest {
		t.Errorf("the refusal: got %d, want 400", refused.status)
	}
	engine.Script(model, fakeengine.Behaviour{})
	if mended := askKeyed(t, m, key, "refused", body); mended.status != http.StatusOK {
		t.Errorf("after the refusal: mended.status: got %d, want 200", mended.status)
	} else if mended.header.Get("Idempotency-Replayed") != "" {
		t.Errorf(`after the refusal: mended.header.Get(…): got %q, want ""`, mended.header.Get("Idempotency-Replayed"))
	}

	if n := len(engine.Requests()); n != 5 {
		t.Errorf("got %d requests reached the engine, want 5: the race, the repeated one, the stream, the refused one twice",
			n)
	}
	m.NothingHeld(t, account)
	const each = fakeengine.PromptTokens*promptPrice + 5*outputPrice
	if balance, _ := m.Balance(t, account); balance != (money.USD - 4*each).String() {
		t.Errorf("got %s left, want %s: four requests are billed", balance, money.USD-4*each)
	}
	m.Balanced(t)
}

func TestARequestWithAnIdempotencyKeyOutlivesItsGateway(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.StartFleet(t, func(c *fleet.Config) {
		c.Replicas = map[string]int{fleet.Gateway: 2, fleet.Billing: 2, fleet.Hub: 1, fleet.Router: 1, fleet.Catalog: 1,
			fleet.Signer: 1, fleet.Settlement: 1, fleet.Verifier: 1, fleet.Agent: 0, fleet.Engine: 0}
		c.Settings = map[string]map[string]any{fleet.Billing: {"billing": map[string]any{
			"hold_lease": "3s", "orphan_after": "5s", "expire_interval": "250ms", "expire_grace": "1s",
		}}}
	})
	f := m.Fleet()
	victim := f.Replicas(fleet.Gateway)[0]
	dying, living := m.Through(m.Bases()[0]), m.Through(m.Bases()[1])
	const silent, talking = "test/dies-silent", "test/dies-talking"
	engine := fakeengine.New(t)
	gate := make(chan struct{})
	engine.Script(silent, fakeengine.Behaviour{BeforeFirstByte: gate})
	engine.Script(talking, fakeengine.Behaviour{Tokens: fakeengine.Words(20), BeforeToken: three(t)})
	for _, model := range []string{silent, talking} {
		m.PutModel(t, model)
	}
	m.Join(t, "steady", engine.URL, silent, talking)
	account, key := m.Consumer(t, "1")

	// One request has been answered in part when the gateway dies, one not at all.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	streamed, whole := trial.Chat(talking, `,"stream":true`), trial.Chat(silent, "")
	begun := make(chan struct{})
	go readKeyed(ctx, dying.Base(), key, "talking", streamed, func(line string) {
		if strings.Contains(line, fakeengine.Words(20)[1]) {
			close(begun)
		}
	})
	await(t, "the first words of the answer", begun)
	go readKeyed(ctx, dying.Base(), key, "silent", whole, func(string) {})
	trial.Until(t, "both run", func() bool { return len(engine.Requests()) == 2 })
	if err := f.Kill(victim); err != nil {
		t.Fatal(err)
	}
	engine.Script(silent, fakeengine.Behaviour{})
	close(gate)
	m = living
	m.NothingHeld(t, account)
	// As if a minute had passed.
	if _, err := database(t, m).Exec(t.Context(),
		`UPDATE billing.idempotency_claim SET leased_until = now() WHERE state = 'running'`); err != nil {
		t.Fatal(err)
	}
	askKeyed(t, m, key, "talking", streamed).wantFinal(t, "idempotency_answer_gone")
	if again := askKeyed(t, m, key, "silent", whole); again.status != http.StatusOK {
		t.Errorf("what cost nothing: got %d, want 200", again.status)
	}
	if err := f.Start(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	m.NothingHeld(t, account)
	m.Balanced(t)
}

// three releases three tokens and no more.
func three(t *testing.T) <-chan struct{} {
	t.Helper()
	leave := make(chan struct{}, 3)
	for range 3 {
		leave <- struct{}{}
	}
	return leave
}

// readKeyed reads an answer line by line, for as long as it comes.
func readKeyed(ctx context.Context, base, key, token, body string, line func(string)) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+trial.ChatPath, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set(idempotencyKey, token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line(lines.Text())
	}
}
