package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// claims hold with every SDK. They are tested in this order.
var claims = []struct {
	name string
	// call is the call that the SDK must have beside chat and stream.
	call string
	show func(t *testing.T, th *theatre)
}{
	{"a whole answer", "", wholeAnswer},
	{"a stream without usage", "", func(t *testing.T, th *theatre) { streamed(t, th, false) }},
	{"a stream with usage", "", func(t *testing.T, th *theatre) { streamed(t, th, true) }},
	{"a tool is called and answered", "", func(t *testing.T, th *theatre) { tool(t, th, "chat") }},
	{"a tool is called in a stream", "", func(t *testing.T, th *theatre) { tool(t, th, "stream") }},
	{"JSON mode reaches the engine as sent", "",
		func(t *testing.T, th *theatre) { format(t, th, `{"type":"json_object"}`) }},
	{"a JSON schema reaches the engine as sent", "", func(t *testing.T, th *theatre) { format(t, th, mood) }},
	{"models with slashes are listed and found", "models", models},
	{"refusals are typed and tried once", "", refusals},
	{"a failure that is final is tried once", "", finalFailure},
	{"a failure of the provider is retried", "", retriedFailure},
	{"a full key is told so and retried", "", fullKey},
	{"busy providers are waited for", "", busyProviders},
	{"an engine's death in a stream is raised", "", func(t *testing.T, th *theatre) {
		brokenStream(t, th, fakeengine.Behaviour{End: fakeengine.EndReset, EndAfter: broken})
	}},
	{"a stream that just ends is raised", "", func(t *testing.T, th *theatre) {
		brokenStream(t, th, fakeengine.Behaviour{End: fakeengine.EndSilent, EndAfter: broken})
	}},
	{"an agent's death in a stream is raised", "", deadAgent},
	{"a hang-up reaches the engine", "", hangUp},
	{"no connection is left open", "", noLeak},
	{"legacy completions", "complete", func(t *testing.T, th *theatre) { legacy(t, th, "complete") }},
	{"legacy completions streamed", "complete_stream",
		func(t *testing.T, th *theatre) { legacy(t, th, "complete_stream") }},
	{"embeddings are the engine's, to the bit", "embed", embeddings},
	{"images by URL", "image_url", func(t *testing.T, th *theatre) { images(t, th, "url") }},
	{"images as base64", "image", func(t *testing.T, th *theatre) { images(t, th, "b64_json") }},
	{"images as they get ready", "image_stream", imageStream},
	{"a transcription", "transcribe", func(t *testing.T, th *theatre) { transcription(t, th, "json") }},
	{"a transcription as text", "transcribe", func(t *testing.T, th *theatre) { transcription(t, th, "text") }},
	{"a verbose transcription", "transcribe", func(t *testing.T, th *theatre) { transcription(t, th, "verbose_json") }},
	{"a transcription as it is heard", "transcribe_stream", transcriptionStream},
}

func TestEverySDKKeepsItsClaims(t *testing.T) {
	trial.OneFormWhenShort(t, func(t *testing.T, m *trial.Market) {
		for _, s := range sdks() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				th := newTheatre(t, m, s)
				for _, c := range claims {
					if c.call != "" && !slices.Contains(s.calls, c.call) {
						continue
					}
					t.Run(c.name, func(t *testing.T) { c.show(t, th) })
				}
			})
		}
	}, "SVC_DEMO_AGENT=off")
}

func wholeAnswer(t *testing.T, th *theatre) {
	th.script(fakeengine.Behaviour{Tokens: fakeengine.Words(words)})
	got, sent := th.carryOut(t, th.order("chat"))
	want := tokens{fakeengine.PromptTokens, words, fakeengine.PromptTokens + words}
	switch {
	case got.Text != text(words):
		t.Errorf("Text: got %q, want %q", got.Text, text(words))
	case got.Finish != "stop":
		t.Errorf(`Finish: got %q, want "stop"`, got.Finish)
	case got.Usage != want:
		t.Errorf("Usage: got %+v, want %+v", got.Usage, want)
	case len(sent) != 1:
		t.Errorf("len(sent): got %d, want 1", len(sent))
	}
	th.hasID(t, got.ID, sent)
	receipt := th.Receipt(t, th.key, sent[0].id)
	if receipt["status"] != "settled" {
		t.Errorf(`receipt["status"]: got %v, want "settled"`, receipt["status"])
	} else if receipt["completion_tokens"] != float64(words) {
		t.Errorf(`receipt["completion_tokens"]: got %v, want %v`, receipt["completion_tokens"], float64(words))
	}
}

// hasID fails the test if the SDK shows request ids, and its id differs from the header
// of the last answer.
func (th *theatre) hasID(t *testing.T, id string, sent []attempt) {
	t.Helper()
	if th.sdk.ids && id == "" {
		t.Error(`the SDK tells request id: got "", want some text, where th.sdk.ids`)
	} else if th.sdk.ids && id != sent[len(sent)-1].id {
		t.Errorf("the SDK tells request id: got %q, want %q, where th.sdk.ids", id, sent[len(sent)-1].id)
	}
}

func streamed(t *testing.T, th *theatre, usage bool) {
	th.script(fakeengine.Behaviour{Tokens: fakeengine.Words(words)})
	o := th.order("stream")
	o.Usage = usage
	got, sent := th.carryOut(t, o)
	switch {
	case got.Text != text(words):
		t.Errorf("Text: got %q, want %q", got.Text, text(words))
	case got.Finish != "stop":
		t.Errorf(`Finish: got %q, want "stop"`, got.Finish)
	case got.Chunks < words:
		t.Errorf("Chunks: got %d, want at least %d", got.Chunks, words)
	case len(sent) != 1:
		t.Errorf("len(sent): got %d, want 1", len(sent))
	}
	want := tokens{}
	if usage {
		want = tokens{fakeengine.PromptTokens, words, fakeengine.PromptTokens + words}
	}
	if got.Usage != want {
		t.Errorf("usage: got %+v, want %+v", got.Usage, want)
	} else if (got.Usages > 0) != usage {
		t.Errorf("Usages > 0: got %t, want %t", got.Usages > 0, usage)
	}
	th.hasID(t, got.ID, sent)
}

func tool(t *testing.T, th *theatre, op string) {
	th.script(calling(th.model, op == "stream"), fakeengine.Behaviour{})
	o := th.order(op)
	o.Tool, o.Reply = json.RawMessage(weather), "sunny"
	before := len(th.engine.Requests())
	got, sent := th.carryOut(t, o)
	if got.Call.Name != "get_weather" {
		t.Errorf(`Call.Name: got %q, want "get_weather"`, got.Call.Name)
	} else if found := sorted(t, got.Call.Arguments); found != weatherArguments {
		t.Errorf("sorted(t, got.Call.Arguments): got %q, want %q", found, weatherArguments)
	}
	if got.Text != text(5) {
		t.Errorf("after the call: Text: got %q, want %q", got.Text, text(5))
	} else if got.Finish != "stop" {
		t.Errorf(`after the call: Finish: got %q, want "stop"`, got.Finish)
	}
	reached := th.asked(before)
	if len(sent) != 2 {
		t.Fatalf("%d requests sent, %d reached the engine: len(sent): got %d, want 2", len(sent), len(reached), len(sent))
	}
	if len(reached) != 2 {
		t.Fatalf("%d requests sent, %d reached the engine: len(reached): got %d, want 2", len(sent), len(reached),
			len(reached))
	}
	for i := range sent {
		sameMembers(t, sent[i].body, reached[i])
	}
	second := trial.Decode(t, reached[1])
	if got := trial.At(second, "tools", 0, "function", "name"); got != "get_weather" {
		t.Errorf(`trial.At(…): got %v, want "get_weather", with %s`, got, reached[1])
	} else if got := trial.At(second, "messages", 2, "role"); got != "tool" {
		t.Errorf(`trial.At(…): got %v, want "tool", with %s`, got, reached[1])
	} else if got := trial.At(second, "messages", 1, "tool_calls", 0, "id"); got != "call_1" {
		t.Errorf(`the id of the call: trial.At(…): got %v, want "call_1", with %s`, got, reached[1])
	} else if got := trial.At(second, "messages", 2, "tool_call_id"); got != "call_1" {
		t.Errorf(`the id in the answer: trial.At(…): got %v, want "call_1", with %s`, got, reached[1])
	}
}

// mood is a response_format.
const mood = `{"type":"json_schema","json_schema":{"name":"mood","strict":true,"schema":{"type":"object",` +
	`"properties":{"mood":{"type":"string","enum":["good","bad"]}},"required":["mood"],"additionalProperties":false}}}`

func format(t *testing.T, th *theatre, format string) {
	th.script(fakeengine.Behaviour{Tokens: []string{`{"mood":`, `"good"}`}})
	o := th.order("chat")
	o.Format = json.RawMessage(format)
	before := len(th.engine.Requests())
	got, sent := th.carryOut(t, o)
	if got.Text != `{"mood":"good"}` {
		t.Errorf("Text: got %q, want %q", got.Text, `{"mood":"good"}`)
	}
	reached := th.asked(before)
	if len(reached) != 1 {
		t.Fatalf("requests reached the engine: got %d, want 1", len(reached))
	}
	sameMembers(t, sent[0].body, reached[0])
	told := trial.Decode(t, reached[0])
	want := trial.Decode(t, []byte(format))
	for _, path := range [][]any{{"type"}, {"json_schema", "name"}, {"json_schema", "schema", "properties", "mood", "enum",
		1}} {
		if got := trial.At(told, append([]any{"response_format"}, path...)...); got != trial.At(want, path...) {
			t.Errorf("response_format: %v is %v", path, got)
		}
	}
}

func models(t *testing.T, th *theatre) {
	got, _ := th.carryOut(t, th.order("models"))
	if got.Text != th.model {
		t.Errorf("found: got %q, want %q", got.Text, th.model)
	}
}

func refusals(t *testing.T, th *theatre) {
	th.script(fakeengine.Behaviour{})
	for _, c := range []struct {
		code, param, key, model, prompt, pin string
		status, maxTokens                    int
	}{
		{code: "invalid_api_key", status: http.StatusUnauthorized, key: "sk-svc-nonsense"},
		{code: "wrong_key_type", status: http.StatusUnauthorized, key: th.wrongKindOfKey},
		{code: "model_not_found", param: "model", status: http.StatusNotFound, model: "no/such-model"},
		{code: "invalid_value", param: "max_tokens", status: http.StatusBadRequest, maxTokens: 1_000_000},
		{code: "context_length_exceeded", param: "messages", status: http.StatusBadRequest,
			prompt: strings.Repeat("many words ", 20_000)},
		{code: "invalid_provider", param: "X-Svc-Provider", status: http.StatusBadRequest, pin: "nobody"},
		{code: "insufficient_credits", status: http.StatusPaymentRequired, key: th.poor},
		{code: "model_not_allowed", param: "model", status: http.StatusForbidden, key: th.bound},
	} {
		for _, op := range []string{"chat", "stream"} {
			t.Run(c.code+" "+op, func(t *testing.T) {
				o := th.order(op)
				o.Retries = -1
				if c.key != "" {
					o.Key = c.key
				}
				if c.model != "" {
					o.Model = c.model
				}
				if c.prompt != "" {
					o.Prompt = c.prompt
				}
				if c.maxTokens != 0 {
					o.MaxTokens = c.maxTokens
				}
				if c.pin != "" {
					o.Headers = map[string]string{"X-Svc-Provider": c.pin}
				}
				got, sent := th.fail(t, o)
				e := got.Error
				if want := th.sdk.class(c.status); e.Class != want {
					t.Errorf("e.Class: got %q, want %q", e.Class, want)
				} else if e.Status != c.status {
					t.Errorf("e.Status: got %d, want %d", e.Status, c.status)
				} else if e.Code != c.code {
					t.Errorf("e.Code: got %q, want %q", e.Code, c.code)
				} else if e.Param != c.param {
					t.Errorf("e.Param: got %q, want %q", e.Param, c.param)
				} else if e.Message == "" {
					t.Error(`e.Message: got "", want some text`)
				}
				if len(sent) != 1 {
					t.Errorf("attempts at something that a retry cannot mend: got %d, want 1", len(sent))
				}
				th.hasID(t, e.ID, sent)
			})
		}
	}
}

// finalFailure: the wanted provider is away, and nobody else may serve. Its status alone
// would make SDKs try again.
func finalFailure(t *testing.T, th *theatre) {
	o := th.order("chat")
	o.Headers = map[string]string{"X-Svc-Provider": th.Provider(t, th.sdk.name+"-away").ID,
		"X-Svc-Allow-Fallbacks": "false"}
	if th.sdk.hints {
		o.Retries = -1
	}
	got, sent := th.fail(t, o)
	if e := got.Error; e.Class != th.sdk.class(http.StatusServiceUnavailable) ||
		e.Status != http.StatusServiceUnavailable {
		t.Errorf("raised %+v", *e)
	}
	if s := answers(sent); s != "requested_provider_unavailable" {
		t.Errorf(`attempts: got %q, want "requested_provider_unavailable"`, s)
	}
}

// retriedFailure: the only provider fails once. The marketplace has nobody else to ask,
// so the SDK asks again.
func retriedFailure(t *testing.T, th *theatre) {
	if !th.sdk.retries {
		t.Skip("it retries nothing")
	}
	th.script(fakeengine.Behaviour{Status: http.StatusServiceUnavailable}, fakeengine.Behaviour{})
	o := th.order("chat")
	o.Retries = -1
	got, sent := th.carryOut(t, o)
	if got.Text != text(5) {
		t.Errorf("Text: got %q, want %q", got.Text, text(5))
	} else if answers(sent) != "upstream_error 200" {
		t.Errorf(`answers(sent): got %q, want "upstream_error 200"`, answers(sent))
	}
}

// fullKey: the key's only place is taken until the SDK was asked to wait.
func fullKey(t *testing.T, th *theatre) {
	th.script(fakeengine.Behaviour{End: fakeengine.EndHang, EndAfter: 1})
	leave := th.occupant(t, th.limited, th.model)
	th.script(fakeengine.Behaviour{})
	o := th.order("chat")
	o.Key = th.limited
	got, sent := th.fail(t, o)
	if e := got.Error; e.Class != th.sdk.class(http.StatusTooManyRequests) || e.Status != http.StatusTooManyRequests ||
		e.Code != "concurrency_limit_exceeded" {
		t.Errorf("raised %+v", *e)
	}
	th.hasID(t, got.Error.ID, sent)
	if !th.sdk.retries {
		leave()
		th.NothingHeld(t, th.limitedAccount)
		return
	}
	o.Retries = -1
	before := th.front.seen()
	told := th.front.holdBack(http.StatusTooManyRequests)
	done := th.meanwhile(t, o)
	await(t, "the SDK is told to wait", told.arrived)
	leave()
	th.NothingHeld(t, th.limitedAccount)
	close(told.release)
	retried := await(t, "the SDK's answer", done)
	switch s := answers(th.front.since(before)); {
	case retried.Error != nil:
		t.Errorf("retried.Error: got %+v, want nil", retried.Error)
	case retried.Text != text(5):
		t.Errorf("retried.Text: got %q, want %q", retried.Text, text(5))
	case s != "concurrency_limit_exceeded 200":
		t.Errorf(`answers(th.front.since(before)): got %q, want "concurrency_limit_exceeded 200"`, s)
	}
}

// busyProviders: the only slot is taken until the SDK was asked to wait.
func busyProviders(t *testing.T, th *theatre) {
	if !th.sdk.retries {
		t.Skip("it retries nothing")
	}
	agent, model := th.agent(t, "narrow")
	_, key := th.Consumer(t, "1")
	occupied := make(chan int, 1)
	go func() {
		status, _, _ := th.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, `,"max_tokens":8`))
		occupied <- status
	}()
	occupant := received(t, agent)
	o := th.order("chat")
	o.Model, o.Retries = model, -1
	before := th.front.seen()
	told := th.front.holdBack(http.StatusServiceUnavailable)
	done := th.meanwhile(t, o)
	await(t, "the SDK is told to wait", told.arrived)
	if err := occupant.Whole("done", fakeengine.PromptTokens, 1); err != nil {
		t.Error(err)
	}
	if status := await(t, "the occupant's answer", occupied); status != http.StatusOK {
		t.Errorf("the occupant: got %d, want 200", status)
	}
	close(told.release)
	if err := received(t, agent).Whole("at last", fakeengine.PromptTokens, 2); err != nil {
		t.Error(err)
	}
	got := await(t, "the SDK's answer", done)
	switch s := answers(th.front.since(before)); {
	case got.Error != nil:
		t.Errorf("Error: got %+v, want nil", got.Error)
	case got.Text != "at last":
		t.Errorf(`Text: got %q, want "at last"`, got.Text)
	case s != "providers_busy 200":
		t.Errorf(`answers(th.front.since(before)): got %q, want "providers_busy 200"`, s)
	}
}

// brokenStream: the content that came stays, an error is raised, and nothing is retried.
func brokenStream(t *testing.T, th *theatre, b fakeengine.Behaviour) {
	b.Tokens = fakeengine.Words(words)
	th.script(b)
	o := th.order("stream")
	o.Retries = -1
	got, sent := th.fail(t, o)
	switch {
	case got.Text != text(broken):
		t.Errorf("Text: got %q, want %q", got.Text, text(broken))
	case len(sent) != 1:
		t.Errorf("len(sent): got %d, want 1, with %q", len(sent), got.Text)
	case got.Error.Message == "":
		t.Error(`Error.Message: got "", want some text`)
	}
	if receipt := th.Receipt(t, th.key, sent[0].id); receipt["status"] != "settled" {
		t.Errorf(`receipt: got %v, want "settled"`, receipt["status"])
	}
}

func deadAgent(t *testing.T, th *theatre) {
	agent, model := th.agent(t, "mortal")
	o := th.order("stream")
	o.Model, o.Retries = model, -1
	begun := make(chan struct{})
	o.content = func() { close(begun) }
	before := th.front.seen()
	done := th.meanwhile(t, o)
	if err := received(t, agent).Text("last words"); err != nil {
		t.Fatal(err)
	}
	await(t, "the SDK gets content", begun)
	agent.Kill()
	got := await(t, "the SDK's outcome", done)
	switch n := len(th.front.since(before)); {
	case got.Error == nil:
		t.Error("Error: got nil, want a value")
	case got.Text != "last words":
		t.Errorf(`Text: got %q, want "last words"`, got.Text)
	case n != 1:
		t.Errorf("len(th.front.since(before)): got %d, want 1", n)
	}
}

// hangUp: the SDK leaves in the middle of a stream.
func hangUp(t *testing.T, th *theatre) {
	th.script(fakeengine.Behaviour{Tokens: fakeengine.Words(words), End: fakeengine.EndHang, EndAfter: broken})
	o := th.order("stream")
	o.HangUp = true
	left := make(chan time.Time, 1)
	o.left = func() { left <- time.Now() }
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	heard := make(chan time.Time, 1)
	go func() {
		if _, err := th.engine.WaitCancelled(ctx); err == nil {
			heard <- time.Now()
		}
	}()
	before := th.front.seen()
	if got := th.run(t, o); got.Error != nil {
		t.Errorf("the hang-up itself raised: got %+v, want nil", got.Error)
	}
	took := await(t, "the engine hears of the hang-up", heard).Sub(await(t, "the SDK hangs up", left))
	if took > hangUpBound {
		t.Errorf("the engine heard of the hang-up after: got %v, want at most %v", took, hangUpBound)
	}
	sent := th.front.since(before)
	if receipt := th.Receipt(t, th.key, sent[0].id); receipt["status"] != "settled" {
		t.Errorf(`receipt["status"]: got %v, want "settled"`, receipt["status"])
	} else if len(sent) != 1 {
		t.Errorf("len(sent): got %d, want 1", len(sent))
	}
	th.NothingHeld(t, th.account)
}

// maxKept is how many idle connections an SDK that calls one after the other
// may keep.
const maxKept = 4

// noLeak: after a dozen answers, whole, streamed and left, no connection is in use and
// few are kept.
func noLeak(t *testing.T, th *theatre) {
	for i := range 12 {
		o := th.order([]string{"chat", "stream", "stream"}[i%3])
		o.HangUp = i%3 == 2
		if o.HangUp {
			th.script(fakeengine.Behaviour{End: fakeengine.EndHang, EndAfter: 1})
		} else {
			th.script(fakeengine.Behaviour{})
		}
		th.carryOut(t, o)
	}
	trial.Until(t, "the SDK uses no connection any more", func() bool {
		_, used := th.front.connections()
		return used == 0
	})
	if kept, _ := th.front.connections(); kept > maxKept {
		t.Errorf("connections kept: got %d, want at most %d", kept, maxKept)
	}
	th.NothingHeld(t, th.account)
}
