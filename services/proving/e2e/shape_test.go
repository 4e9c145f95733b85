package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// shapes judges JSON by testdata/shapes.json, which has the keys that OpenAI's
// published description requires of each answer, which of them may be null, and
// its enumerations and formats. Keys beyond those are allowed.
type shapes struct{ compiler *jsonschema.Compiler }

func newShapes(t *testing.T) *shapes {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.AssertContent()
	if _, err := c.Compile("testdata/shapes.json"); err != nil {
		t.Fatal(err)
	}
	return &shapes{c}
}

// judge says why the text is not JSON of that shape; empty when it is.
func (s *shapes) judge(shape string, text []byte) error {
	schema, err := s.compiler.Compile("testdata/shapes.json#/$defs/" + shape)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// check fails the test unless the text is JSON of that shape.
func (s *shapes) check(t *testing.T, shape string, text []byte) {
	t.Helper()
	if err := s.judge(shape, text); err != nil {
		t.Errorf("%.600s\nis no %s: %v", text, shape, err)
	}
}

func TestAShapeRefusesWhatClientsBreakOn(t *testing.T) {
	s := newShapes(t)
	const good = `{"id":"c","object":"chat.completion","created":1,"model":"m","x":1,"choices":[{"index":0,` +
		`"logprobs":null,` +
		`"finish_reason":"stop","message":{"role":"assistant","content":"hi","refusal":null}}]}`
	s.check(t, "chat.completion", []byte(good))
	for _, change := range [][2]string{
		{`,"refusal":null`, ``}, {`"logprobs":null,`, ``}, {`"stop"`, `"error"`}, {`"created":1`, `"created":1.5`},
		{`"index":0`, `"index":"0"`},
		{`"content":"hi"`, `"content":7`}, {`"chat.completion"`, `"chat"`}, {`"id":"c"`, `"id":null`},
	} {
		if bad := strings.Replace(good, change[0], change[1], 1); s.judge("chat.completion", []byte(bad)) == nil {
			t.Errorf("%s is taken for a chat completion", bad)
		}
	}
	for shape, bad := range map[string]string{
		"error": `{"error":{"message":"m","type":"t","code":null}}`,
		"embeddings": `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":"***"}],` +
			`"usage":{"prompt_tokens":1,"total_tokens":1}}`,
		"images": `{"created":1,"data":[{}]}`,
		"models": `{"object":"list","data":[{"id":"m","object":"model","owned_by":"x"}]}`,
	} {
		if s.judge(shape, []byte(bad)) == nil {
			t.Errorf("%s is taken for %s", bad, shape)
		}
	}
}

// stage is the place of requests of a shape.
type stage struct {
	*trial.Market
	*shapes
	engine    *fakeengine.Engine
	key, poor string
	// model is a model for chat; models of other categories come from of.
	model string
}

// of is the stage's model of another category.
func (s *stage) of(category string) string { return s.model + "-" + category }

// shaped is one request with the shape that its answer must have.
type shaped struct {
	name   string
	engine fakeengine.Behaviour
	// category is the category of the model whose engine is scripted; chat when empty.
	category string
	method   string // POST when empty
	path     string
	key      string
	body     string
	kind     string // of the body, JSON when empty
	status   int    // 200 when zero
	// shape is the shape of the answer, or of each event of a stream. shapes are those of
	// events that name their own type. Text has neither.
	shape  string
	shapes []string
	// stream is how a stream's last event begins; empty where the answer is no stream.
	stream string
	// has are texts that the answer contains as they are.
	has []string
}

func TestEveryAnswerHasThePublishedShape(t *testing.T) {
	trial.Each(t, everyAnswerHasThePublishedShape, "SVC_DEMO_AGENT=off")
}

func everyAnswerHasThePublishedShape(t *testing.T, m *trial.Market) {
	s := &stage{Market: m, shapes: newShapes(t), engine: fakeengine.New(t), model: "shape/chat"}
	m.PutModel(t, s.model)
	models := []string{s.model}
	for _, category := range []string{"embedding", "image", "audio"} {
		models = append(models, s.of(category))
		m.PutModelOf(t, category, s.of(category))
	}
	for _, model := range models {
		s.engine.Script(model, fakeengine.Behaviour{})
	}
	m.Join(t, "shapes", s.engine.URL, models...)
	_, s.key = m.Consumer(t, "5")
	_, s.poor = m.Consumer(t, "")
	for _, c := range slices.Concat(s.chats(), s.completions(), s.vectors(), s.images(), s.transcriptions(), s.others(),
		s.elsewhere()) {
		t.Run(c.name, func(t *testing.T) { s.perform(t, c) })
	}
}

// vendor are members that only some engines have, and that no JSON library may change.
const vendor = `"provider":"fake","reasoning_details":[{"x":1e400,"y":0.10}]`

// bare and bareStream are engines that send no more than what is asked for, and nothing
// about themselves.
var (
	bare = fakeengine.Behaviour{ContentType: "application/json",
		Raw: `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`}

	bareStream = fakeengine.Behaviour{ContentType: "text/event-stream",
		Raw: `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` +
			"\n\n" + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"}
)

func (s *stage) chats() []shaped {
	sloppy := fakeengine.Behaviour{ContentType: "application/json",
		Raw: `{"id":"x","object":"chat.completion","created":1,"model":"` + s.model +
			`",` + vendor +
			`,"choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning_content":"hm"},` +
			`"finish_reason":"stop"}]}`}
	return []shaped{
		{name: "chat", shape: "chat.completion", body: trial.Chat(s.model, `,"max_tokens":8`)},
		{name: "chat of a sloppy engine", engine: sloppy, shape: "chat.completion",
			body: trial.Chat(s.model, `,"max_tokens":8`),
			has:  []string{vendor, `"reasoning_content":"hm"`, `"usage":`}},
		{name: "chat of an engine that says the least", engine: bare, shape: "chat.completion",
			body: trial.Chat(s.model, `,"max_tokens":8`),
			has:  []string{`"id":"chatcmpl-`, `"model":"` + s.model + `"`, `"role":"assistant"`}},
		{name: "stream of an engine that says the least", engine: bareStream, shape: "chat.completion.chunk", stream: done,
			has: []string{`"id":"chatcmpl-`}, body: trial.Chat(s.model, `,"max_tokens":8,"stream":true`)},
		{name: "stream with usage of an engine that says the least", engine: bareStream, shape: "chat.completion.chunk",
			stream: done,
			has:    []string{`"choices":[]`},
			body:   trial.Chat(s.model, `,"max_tokens":8,"stream":true,"stream_options":{"include_usage":true}`)},
		{name: "chat with a call", engine: calling(s.model, false), shape: "chat.completion",
			body: trial.Chat(s.model, `,"max_tokens":8`)},
		{name: "stream", shape: "chat.completion.chunk", stream: done,
			body: trial.Chat(s.model, `,"max_tokens":8,"stream":true`)},
		{name: "stream with usage", shape: "chat.completion.chunk", stream: done, has: []string{`"choices":[]`},
			body: trial.Chat(s.model, `,"max_tokens":8,"stream":true,"stream_options":{"include_usage":true}`)},
		{name: "stream with vendor fields", engine: fakeengine.Behaviour{Extra: vendor}, shape: "chat.completion.chunk",
			stream: done,
			has:    []string{vendor}, body: trial.Chat(s.model, `,"max_tokens":8,"stream":true`)},
		{name: "stream with a call", engine: calling(s.model, true), shape: "chat.completion.chunk", stream: done,
			body: trial.Chat(s.model, `,"max_tokens":8,"stream":true`)},
		{name: "broken stream", engine: fakeengine.Behaviour{End: fakeengine.EndReset, EndAfter: broken},
			shape:  "chat.completion.chunk",
			stream: `data: {"error":{`, body: trial.Chat(s.model, `,"max_tokens":8,"stream":true`)},
	}
}

func (s *stage) others() []shaped {
	body := trial.Chat(s.model, "")
	return []shaped{
		{name: "models", method: http.MethodGet, path: "/v1/models", shape: "models"},
		{name: "model", method: http.MethodGet, path: "/v1/models/" + s.model, shape: "model"},
		{name: "model with an escaped slash", method: http.MethodGet, path: "/v1/models/" + strings.ReplaceAll(s.model, "/",
			"%2F"), shape: "model"},

		{name: "no JSON", body: "{", status: http.StatusBadRequest, shape: "error"},
		{name: "missing parameter", body: `{"model":"` + s.model + `"}`, status: http.StatusBadRequest, shape: "error",
			has: []string{`"param":"messages"`}},
		{name: "bad key", key: "sk-svc-nonsense", body: body, status: http.StatusUnauthorized, shape: "error"},
		{name: "no credit", key: s.poor, body: body, status: http.StatusPaymentRequired, shape: "error"},
		{name: "unknown model", body: trial.Chat("no/such", ""), status: http.StatusNotFound, shape: "error",
			has: []string{`"param":"model"`}},
		{name: "unknown route", path: "/v1/nonsense", status: http.StatusNotFound, shape: "error"},
		{name: "wrong method", method: http.MethodGet, path: trial.ChatPath, status: http.StatusMethodNotAllowed,
			shape: "error"},
		{name: "engine refuses", engine: fakeengine.Behaviour{Status: http.StatusBadRequest}, body: body,
			status: http.StatusBadRequest, shape: "error"},
		{name: "engine fails", engine: fakeengine.Behaviour{Status: http.StatusInternalServerError}, body: body,
			status: http.StatusBadGateway, shape: "error"},
	}
}

func (s *stage) perform(t *testing.T, c shaped) {
	model := s.model
	if c.category != "" {
		model = s.of(c.category)
	}
	s.engine.Script(model, c.engine)
	if c.kind == "" {
		c.kind = "application/json"
	}
	if c.method == "" {
		c.method = http.MethodPost
	}
	if c.path == "" {
		c.path = trial.ChatPath
	}
	if c.key == "" {
		c.key = s.key
	}
	if c.status == 0 {
		c.status = http.StatusOK
	}
	status, header, answer := s.Call(t, c.method, c.path, c.key, c.body, "Content-Type", c.kind)
	if status != c.status {
		t.Fatalf("status: got %d, want %d, with %s", status, c.status, answer)
	}
	if id := header.Get("X-Request-ID"); id == "" {
		t.Error(`request id: got "", want some text`)
	} else if id != header.Get(trial.RequestIDHeader) {
		t.Errorf("request id: got %q, want %q", id, header.Get(trial.RequestIDHeader))
	}
	for _, text := range c.has {
		if !bytes.Contains(answer, []byte(text)) {
			t.Errorf("%s\nhas no %s", answer, text)
		}
	}
	for _, name := range []string{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests",
		"X-Ratelimit-Reset-Requests"} {
		if told := header.Get(name) != ""; told != (status != http.StatusUnauthorized) {
			t.Errorf("%s is %q: told: got %t, want %t", name, header.Get(name), told, status != http.StatusUnauthorized)
		}
	}
	if c.stream != "" {
		s.checkStream(t, c, header, answer)
		return
	}
	kind := header.Get("Content-Type")
	if c.shape == "" {
		if kind != "text/plain; charset=utf-8" && kind != "text/plain" {
			t.Errorf("content type %q", kind)
		}
		return
	}
	if kind != "application/json" && kind != "application/json; charset=utf-8" {
		t.Errorf("content type %q", kind)
	}
	s.check(t, c.shape, answer)
}

// checkStream checks each event of a stream, and what all of them have in common.
func (s *stage) checkStream(t *testing.T, c shaped, header http.Header, answer []byte) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		"Content-Encoding": "",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if bytes.Contains(answer, []byte("\r")) {
		t.Errorf("the ends of lines: answer: got %q, want it without %q", answer, []byte("\r"))
	} else if !bytes.HasSuffix(answer, []byte("\n\n")) {
		t.Errorf("the ends of lines: answer: got %q, want the suffix %q", answer, []byte("\n\n"))
	}
	events := strings.Split(strings.TrimSuffix(string(answer), "\n\n"), "\n\n")
	if last := events[len(events)-1]; !strings.HasPrefix(last, c.stream) {
		t.Errorf("the last event: got %q, want the prefix %q", last, c.stream)
	}
	shared := map[string]bool{}
	seen := map[string]bool{}
	for _, event := range events {
		name, rest, named := strings.Cut(strings.TrimPrefix(event, "event: "), "\n")
		if named {
			event = rest
		}
		data, ok := strings.CutPrefix(event, "data: ")
		switch {
		case strings.HasPrefix(event, ":") || data == "[DONE]":
			continue
		case !ok:
			t.Errorf("event %q", event)
			continue
		case strings.HasPrefix(data, `{"error":`):
			s.check(t, "error", []byte(data))
			continue
		}
		var head struct {
			ID      string `json:"id"`
			Created int64  `json:"created"`
			Model   string `json:"model"`
			Type    string `json:"type"`
		}
		if err := json.Unmarshal([]byte(data), &head); err != nil {
			t.Error(err)
		}
		if named && name != head.Type {
			t.Errorf("event %q is of type %q", name, head.Type)
		}
		s.check(t, cmp.Or(c.shape, head.Type), []byte(data))
		seen[head.Type], head.Type = true, ""
		shared[fmt.Sprint(head)] = true
	}
	if len(shared) != 1 {
		t.Errorf("events have ids, times and models: got %d, want 1, in %v", len(shared), shared)
	}
	for _, shape := range c.shapes {
		if !seen[shape] {
			t.Errorf("no event of type %s in %q", shape, answer)
		}
	}
}
