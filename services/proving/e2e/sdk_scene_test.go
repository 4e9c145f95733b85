package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// theatre is where one SDK is tested: models, keys and a scripted engine of its own,
// behind a front that counts.
type theatre struct {
	*trial.Market
	sdk    sdk
	front  *front
	run    func(t *testing.T, o order) result
	engine *fakeengine.Engine
	// model is served by the engine, and other too.
	model, other string
	// account has credit and the key. limited has credit, and one place for a request
	// under way. poor has no credit. bound may use only other.
	account, key                string
	limitedAccount, limited     string
	poor, bound, wrongKindOfKey string
}

func newTheatre(t *testing.T, m *trial.Market, s sdk) *theatre {
	t.Helper()
	th := &theatre{
		Market: m, sdk: s, front: newFront(t, m), engine: fakeengine.New(t),
		model: "sdk/" + s.name, other: "sdk/" + s.name + "-other",
	}
	models := []string{th.model, th.other, th.of("embedding"), th.of("image"), th.of("audio")}
	for i, model := range models {
		if i < 2 {
			th.PutModel(t, model)
		} else {
			th.PutModelOf(t, strings.TrimPrefix(model, th.model+"-"), model)
		}
		th.engine.Script(model, fakeengine.Behaviour{})
	}
	provider := th.Join(t, s.name, th.engine.URL, models...)
	th.wrongKindOfKey = provider.Key
	th.account, th.key = m.Consumer(t, "5")
	_, th.poor = m.Consumer(t, "")
	th.limitedAccount, th.limited = m.Consumer(t, "5")
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+th.limitedAccount+"/limits", `{"concurrent_requests":1}`)
	th.bound = trial.Text(t, m.Admin(t, http.MethodPost, "/api/v1/admin/accounts/"+th.account+"/keys",
		`{"name":"bound","allowed_model_ids":["`+th.other+`"]}`), "api_key")
	th.run = s.start(t)
	return th
}

// of is the theatre's model of another category.
func (th *theatre) of(category string) string { return th.model + "-" + category }

// order is a plain order for the theatre's model, without retries.
func (th *theatre) order(op string) order {
	return order{Op: op, Base: th.front.url, Key: th.key, Model: th.model, Prompt: "Say something.", MaxTokens: 64}
}

// script sets how the engine answers the theatre's model from now on.
func (th *theatre) script(behaviours ...fakeengine.Behaviour) {
	th.engine.Script(th.model, behaviours...)
}

// carryOut carries out an order whose outcome is no error, and returns what the SDK sent
// for it.
func (th *theatre) carryOut(t *testing.T, o order) (result, []attempt) {
	t.Helper()
	before := th.front.seen()
	got := th.run(t, o)
	if got.Error != nil {
		t.Fatalf("raised: got %+v, want nil", got.Error)
	}
	return got, th.front.since(before)
}

// fail carries out an order whose outcome is an error.
func (th *theatre) fail(t *testing.T, o order) (result, []attempt) {
	t.Helper()
	before := th.front.seen()
	got := th.run(t, o)
	if got.Error == nil {
		t.Fatalf("nothing is raised: %+v", got)
	}
	return got, th.front.since(before)
}

// meanwhile carries out an order beside the test.
func (th *theatre) meanwhile(t *testing.T, o order) <-chan result {
	done := make(chan result, 1)
	go func() { done <- th.run(t, o) }()
	return done
}

// occupant opens a stream with a key. The stream stays open until the client leaves it.
func (th *theatre) occupant(t *testing.T, key, model string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	resp := th.Open(ctx, t, key, trial.Chat(model, `,"stream":true,"max_tokens":8`))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the occupant: got %d, want 200", resp.StatusCode)
	}
	return func() {
		cancel()
		resp.Body.Close()
	}
}

// agent connects a provider with one slot, which the test plays, for a model
// of its own.
func (th *theatre) agent(t *testing.T, name string) (*fakeagent.Agent, string) {
	t.Helper()
	model := th.model + "-" + name
	th.PutModel(t, model)
	provider := th.Provider(t, th.sdk.name+"-"+name)
	agent, err := fakeagent.Dial(t.Context(), th.WSURL()+"/ws", fakeagent.Options{Key: provider.Key,
		Models: []string{model}, Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	th.WaitOffered(t, model, provider.ID)
	return agent, model
}

// await waits for a signal.
func await[T any](t *testing.T, what string, signal <-chan T) T {
	t.Helper()
	select {
	case v := <-signal:
		return v
	case <-time.After(trial.Patience):
		t.Fatalf("still not: %s", what)
		panic("unreachable")
	}
}

// text is the engine's answer with n tokens.
func text(n int) string { return strings.Join(fakeengine.Words(n), "") }

// asked are the bodies that the engine got after the first n.
func (th *theatre) asked(n int) [][]byte {
	var bodies [][]byte
	for _, r := range th.engine.Requests()[n:] {
		bodies = append(bodies, r.Body)
	}
	return bodies
}

// sameMembers fails the test unless the body that reached the engine has the members that
// the SDK sent, byte by byte, and no others. It does not compare model and
// stream_options, because these two members are ours.
func sameMembers(t *testing.T, sent, reached []byte) {
	t.Helper()
	var a, b map[string]json.RawMessage
	if err := json.Unmarshal(sent, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(reached, &b); err != nil {
		t.Fatal(err)
	}
	for _, ours := range []string{"model", "stream_options"} {
		delete(a, ours)
		delete(b, ours)
	}
	for name, value := range a {
		if !bytes.Equal(value, b[name]) {
			t.Errorf("%s: got %q, want %q", name, value, b[name])
		}
		delete(b, name)
	}
	for name := range b {
		t.Errorf("nobody sent %s", name)
	}
}

// answers are the results of attempts: a status, or the code of a refusal.
func answers(attempts []attempt) string {
	var all []string
	for _, a := range attempts {
		all = append(all, cmp.Or(a.code, strconv.Itoa(a.status)))
	}
	return strings.Join(all, " ")
}

// weather is the function that orders offer, and its calling by an engine.
const (
	weather = `{"name":"get_weather","description":"Tells the weather","parameters":{"type":"object",` +
		`"properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}`
	weatherArguments = `{"city":"Oslo"}`
)

// calling is an engine's call of the function: whole, or streamed in fragments.
func calling(model string, stream bool) fakeengine.Behaviour {
	const usage = `"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}`
	head := `{"id":"chatcmpl-call","created":1700000000,"model":"` + model + `",`
	if !stream {
		return fakeengine.Behaviour{ContentType: "application/json",
			Raw: head + `"object":"chat.completion","choices":[{"index":0,` +
				`"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":` +
				`{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]},"finish_reason":"tool_calls"}],` + usage + `}`}
	}
	head += `"object":"chat.completion.chunk","choices":[`
	events := []string{
		`{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function",` +
			`"function":{"name":"get_weather","arguments":""}}]},"finish_reason":null}]}`,
		`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"ci"}}]},"finish_reason":null}]}`,
		`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"ty\":\"Os"}}]},"finish_reason":null}]}`,
		`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"lo\"}"}}]},"finish_reason":null}]}`,
		`{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		`],` + usage + `}`,
	}
	var raw strings.Builder
	for _, e := range events {
		raw.WriteString("data: " + head + e + "\n\n")
	}
	return fakeengine.Behaviour{ContentType: "text/event-stream", Raw: raw.String() + "data: [DONE]\n\n"}
}

// sorted is a JSON object's text with its members in order, to compare by.
func sorted(t *testing.T, object string) string {
	t.Helper()
	text, err := json.Marshal(trial.Decode(t, []byte(object)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
