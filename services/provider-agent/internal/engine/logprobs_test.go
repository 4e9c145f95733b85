package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// chats is an engine whose answers to chats the test gives: with and without log
// probabilities.
type chats struct {
	mu          sync.Mutex
	with, plain reply
	list        int    // status of the model list
	embeds      string // a model that takes no chats
	asked       []string
}

type reply struct {
	status int
	body   string
	hangs  bool
}

const (
	withLogprobs   = `{"choices":[{"logprobs":{"content":[{"token":"a","logprob":-0.5,"top_logprobs":[{}]}]}}]}`
	noAlternatives = `{"choices":[{"logprobs":{"content":[{"token":"a","logprob":-0.5,"top_logprobs":[]}]}}]}`
	emptyList      = `{"choices":[{"logprobs":{"content":[]}}]}`
	without        = `{"choices":[{"message":{"content":"a"},"logprobs":null}]}`
	refused        = `{"error":{"message":"no"}}`
)

func (c *chats) set(change func(*chats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *chats) questions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.asked...)
}

func (c *chats) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if r.Body != nil { // there is no server between
		body, _ = io.ReadAll(r.Body)
	}
	c.mu.Lock()
	if r.URL.Path != "/v1/chat/completions" {
		status := c.list
		c.mu.Unlock()
		if r.URL.Path != "/v1/models" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"object":"list","data":[{"id":"local"},{"id":"other"}]}`)
		return
	}
	c.asked = append(c.asked, string(body))
	answer := c.plain
	if strings.Contains(string(body), `"logprobs":true`) {
		answer = c.with
	}
	if c.embeds != "" && strings.Contains(string(body), `"model":"`+c.embeds+`"`) {
		answer = reply{status: http.StatusNotFound}
	}
	c.mu.Unlock()
	if answer.hangs {
		<-r.Context().Done()
		return
	}
	w.WriteHeader(answer.status)
	fmt.Fprint(w, answer.body)
}

func asked(engines ...http.Handler) *Pool {
	var targets []Target
	for i := range engines {
		targets = append(targets, Target{ModelID: fmt.Sprintf("m%d", i), URL: fmt.Sprintf("http://e%d/v1", i),
			LocalModel: "local", Capacity: 4})
	}
	return New(Config{AskLogprobs: true, Client: &http.Client{Transport: hosts(engines)}}, targets,
		slog.New(slog.DiscardHandler))
}

// hosts are engines without a network: e0, e1 and so on.
type hosts []http.Handler

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	var i int
	if _, err := fmt.Sscanf(r.URL.Host, "e%d", &i); err != nil {
		return nil, err
	}
	resp, err := inMemory{h[i]}.RoundTrip(r)
	if gone := r.Context().Err(); gone != nil {
		return nil, gone
	}
	return resp, err
}

func fine(with reply) *chats {
	return &chats{list: http.StatusOK, with: with, plain: reply{status: http.StatusOK, body: without}}
}

func TestLogprobsAreDeclaredOnlyWhenTheEngineReturnsThem(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		with, plain reply
		found       finding
		questions   int
	}{
		"returned":                {reply{status: 200, body: withLogprobs}, reply{}, shown, 1},
		"left out":                {reply{status: 200, body: without}, reply{}, lacking, 1},
		"without alternatives":    {reply{status: 200, body: noAlternatives}, reply{}, lacking, 1},
		"an empty list":           {reply{status: 200, body: emptyList}, reply{}, lacking, 1},
		"no choices":              {reply{status: 200, body: `{"choices":[]}`}, reply{}, lacking, 1},
		"no JSON":                 {reply{status: 200, body: `<html>`}, reply{}, lacking, 1},
		"of another form":         {reply{status: 200, body: `{"choices":[{"logprobs":[1]}]}`}, reply{}, lacking, 1},
		"refused":                 {reply{status: 400, body: refused}, reply{status: 200, body: without}, lacking, 2},
		"refused like every chat": {reply{status: 400, body: refused}, reply{status: 400, body: refused}, chatless, 2},
		"refused, then overload":  {reply{status: 400, body: refused}, reply{status: 503}, unknown, 2},
		"no chats":                {reply{status: 404}, reply{}, chatless, 1},
		"a failure":               {reply{status: 500}, reply{}, unknown, 1},
		"too many requests":       {reply{status: 429}, reply{}, unknown, 1},
		"a wrong key":             {reply{status: 401}, reply{}, unknown, 1},
		"a redirect":              {reply{status: 307}, reply{}, unknown, 1},
	} {
		engine := &chats{list: http.StatusOK, with: c.with, plain: c.plain}
		p := asked(engine)
		if p.Logprobs() {
			t.Errorf("%s: before it was asked: got true, want false", what)
		}
		p.Probe(t.Context())
		p.AskLogprobs(t.Context())
		if got, want := p.Logprobs(), c.found == shown; got != want {
			t.Errorf("%s: p.Logprobs(): got %t, want %t", what, got, want)
		}
		if got := p.servers[0].logprobs; got != c.found {
			t.Errorf("%s: found: got %d, want %d", what, got, c.found)
		}
		if n := len(engine.questions()); n != c.questions {
			t.Errorf("%s: questions: got %d, want %d", what, n, c.questions)
		}
		if got, want := p.servers[0].answered, c.found != unknown; got != want {
			t.Errorf("%s: answered: got %t, want %t", what, got, want)
		}
		p.AskLogprobs(t.Context())
		if n := len(engine.questions()); c.found != unknown && n != c.questions {
			t.Errorf("%s: questions after the answer: got %d, want %d", what, n, c.questions)
		}
	}
}

func TestQuestionIsTiny(t *testing.T) {
	t.Parallel()
	engine := fine(reply{status: 200, body: withLogprobs})
	p := asked(engine)
	p.Probe(t.Context())
	p.AskLogprobs(t.Context())
	const want = `{"logprobs":true,"max_tokens":4,"messages":[{"content":"Hi","role":"user"}],"model":"local",` +
		`"stream":false,"temperature":0,"top_logprobs":5}`
	if got := strings.Join(engine.questions(), "\n"); got != want {
		t.Errorf("the question: got %s, want %s", got, want)
	}
}

func TestOneEngineWithoutLogprobsDecides(t *testing.T) {
	t.Parallel()
	good, bad := reply{status: 200, body: withLogprobs}, reply{status: 200, body: without}
	for what, c := range map[string]struct {
		engines []http.Handler
		want    bool
	}{
		"both have them":         {[]http.Handler{fine(good), fine(good)}, true},
		"one lacks them":         {[]http.Handler{fine(good), fine(bad)}, false},
		"one takes no chats":     {[]http.Handler{fine(good), fine(reply{status: 404})}, true},
		"one is not known yet":   {[]http.Handler{fine(good), fine(reply{status: 500})}, true},
		"neither is known":       {[]http.Handler{fine(reply{status: 500}), fine(reply{status: 500})}, false},
		"one is down":            {[]http.Handler{fine(good), &chats{list: 500}}, true},
		"there are no chats":     {[]http.Handler{fine(reply{status: 404})}, false},
		"the only one is not up": {[]http.Handler{&chats{list: 500, with: good}}, false},
	} {
		p := asked(c.engines...)
		p.Probe(t.Context())
		p.AskLogprobs(t.Context())
		if got := p.Logprobs(); got != c.want {
			t.Errorf("%s: p.Logprobs(): got %t, want %t", what, got, c.want)
		}
	}
}

func TestAModelOfEmbeddingsSaysNothingOfTheChatsBesideIt(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]finding{withLogprobs: shown, without: lacking} {
		engine := fine(reply{status: 200, body: body})
		engine.embeds = "other"
		p := New(Config{AskLogprobs: true, Client: &http.Client{Transport: hosts{engine}}}, []Target{
			{ModelID: "m0", URL: "http://e0/v1", LocalModel: "other", Capacity: 4},
			{ModelID: "m1", URL: "http://e0/v1", LocalModel: "local", Capacity: 4},
		}, slog.New(slog.DiscardHandler))
		p.Probe(t.Context())
		p.AskLogprobs(t.Context())
		if got := p.servers[0].logprobs; got != want {
			t.Errorf("%s: found: got %d, want %d", body, got, want)
		}
	}
}

func TestAnEngineOfManyModelsIsAskedAboutFew(t *testing.T) {
	t.Parallel()
	engine := fine(reply{status: 404})
	targets := make([]Target, 3*logprobsModels)
	for i := range targets {
		targets[i] = Target{ModelID: fmt.Sprint("m", i), URL: "http://e0/v1", LocalModel: "local", Capacity: 4}
	}
	p := New(Config{AskLogprobs: true, Client: &http.Client{Transport: hosts{engine}}}, targets,
		slog.New(slog.DiscardHandler))
	p.Probe(t.Context())
	p.AskLogprobs(t.Context())
	if n := len(engine.questions()); n != logprobsModels {
		t.Errorf("questions: got %d, want %d", n, logprobsModels)
	}
}

// watch runs the probes of a pool until the test ends.
func watch(t *testing.T, p *Pool) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Watch(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

func TestEngineThatStartsLaterIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fine(reply{status: 200, body: withLogprobs})
		engine.list = http.StatusServiceUnavailable
		p := asked(engine)
		p.Probe(t.Context())
		p.AskLogprobs(t.Context())
		watch(t, p)
		<-time.After(time.Minute)
		if n := len(engine.questions()); n != 0 {
			t.Errorf("questions to an engine that is down: got %d, want none", n)
		}
		engine.set(func(c *chats) { c.list = http.StatusOK })
		<-time.After(time.Minute)
		if !p.Logprobs() {
			t.Error("p.Logprobs(): got false, want true")
		}
		<-time.After(time.Hour)
		if n := len(engine.questions()); n != 1 {
			t.Errorf("questions within an hour: got %d, want 1", n)
		}
	})
}

func TestEngineWithoutAnAnswerIsAskedOnceAMinute(t *testing.T) {
	for what, first := range map[string]reply{"it hangs": {hangs: true}, "it fails": {status: 500}} {
		synctest.Test(t, func(t *testing.T) {
			engine := fine(first)
			p := asked(engine)
			p.Probe(t.Context())
			watch(t, p)
			<-time.After(time.Hour)
			if n := len(engine.questions()); n < 25 || n > 62 {
				t.Errorf("%s: questions within an hour: got %d, want about 30 to 60", what, n)
			}
			if !p.States()[0].Healthy {
				t.Errorf("%s: the model meanwhile: got unhealthy, want healthy", what)
			}
			engine.set(func(c *chats) { c.with = reply{status: 200, body: withLogprobs} })
			<-time.After(3 * time.Minute)
			if !p.Logprobs() {
				t.Errorf("%s: p.Logprobs() after an answer: got false, want true", what)
			}
		})
	}
}

func TestEngineThatCameBackIsAskedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fine(reply{status: 200, body: withLogprobs})
		p := asked(engine)
		p.Probe(t.Context())
		p.AskLogprobs(t.Context())
		watch(t, p)
		engine.set(func(c *chats) { c.list = http.StatusServiceUnavailable })
		<-time.After(5 * time.Minute)
		if !p.Logprobs() {
			t.Error("while it is away: p.Logprobs(): got false, want what it has shown")
		}
		engine.set(func(c *chats) { c.list, c.with = http.StatusOK, reply{status: 200, body: without} })
		<-time.After(3 * time.Minute)
		if p.Logprobs() {
			t.Error("once another engine is there: p.Logprobs(): got true, want false")
		}
		if n := len(engine.questions()); n != 2 {
			t.Errorf("questions: got %d, want 2", n)
		}
	})
}

func TestEnginesAreNotAskedWhereTheOwnerDeclares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fine(reply{status: 200, body: withLogprobs})
		p := New(Config{Client: &http.Client{Transport: hosts{engine}}},
			[]Target{{ModelID: "m", URL: "http://e0/v1", LocalModel: "local"}}, slog.New(slog.DiscardHandler))
		p.Probe(t.Context())
		watch(t, p)
		<-time.After(10 * time.Minute)
		if n := len(engine.questions()); n != 0 {
			t.Errorf("questions: got %d, want none", n)
		}
	})
}
