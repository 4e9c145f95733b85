package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/telemetry"
	"svc.internal/pkg/telemetry/otlptest"
	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/proving/internal/trial"
)

// Hostile test 58: a consumer's words, an engine's answers and everybody's credentials
// are in none of the places where a marketplace writes, whether the requests succeed or
// not. The places are those of canaries.search.
func TestWhatIsSaidAndWhatOpensDoorsIsWrittenNowhere(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	dir, collector := t.TempDir(), otlptest.Start(t)
	m := trial.StartIn(t, dir, "DATABASE_URL="+pgtest.URL(t), "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=debug",
		"SVC_LOG_FORMAT=json", "SVC_OTLP_ENDPOINT="+collector.Endpoint)
	c := newCanaries(t, m, collector)
	c.secretsIn(dir)
	c.live()
	c.search(map[string]func() string{"the log": m.Log, "the console": m.Output}, dir)
}

// canaries are words that a search finds, given to a marketplace wherever it takes any.
type canaries struct {
	t         *testing.T
	m         *trial.Market
	collector *otlptest.Collector
	// said are the words of prompts and answers, and other texts of clients and engines.
	// opening are credentials. Both are by what they are.
	said, opening map[string]string
	engine        *fakeengine.Engine
	// agents is the log of agents, and stateDir their folder.
	agents   *trial.Output
	stateDir string
	// answers are all answers, without the answers that issue a secret.
	answers strings.Builder
	// account and key are the consumer's.
	account, key string
	provider     *trial.Provider
}

func newCanaries(t *testing.T, m *trial.Market, collector *otlptest.Collector) *canaries {
	t.Helper()
	c := &canaries{t: t, m: m, collector: collector, said: map[string]string{}, opening: map[string]string{},
		engine: fakeengine.New(t), agents: trial.NewOutput(), stateDir: t.TempDir()}
	c.secret("the operator's token", m.Env["SVC_ADMIN_TOKEN"])
	c.account, c.key = m.Consumer(t, "5")
	m.Unlimit(t, c.account)
	c.secret("a consumer's key", c.key)
	return c
}

// text is a new word for a text.
func (c *canaries) text(what string) string {
	if c.said[what] == "" {
		c.said[what] = "canary-" + strings.ReplaceAll(what, " ", "-") + "-" + strings.ToLower(rand.Text())
	}
	return c.said[what]
}

// door is a new word that is a credential, or looks like one.
func (c *canaries) door(what, prefix string) string {
	if c.opening[what] == "" {
		c.secret(what, prefix+"canary-"+strings.ReplaceAll(what, " ", "-")+"-"+strings.ToLower(rand.Text()))
	}
	return c.opening[what]
}

func (c *canaries) secret(what, value string) {
	c.t.Helper()
	if len(value) < 12 {
		c.t.Fatalf("bytes of %s, which are not found by accident: got %d, want at least 12", what, len(value))
	}
	c.opening[what] = value
}

// secretsIn reads the secrets that a marketplace has made for itself.
func (c *canaries) secretsIn(dir string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "secrets", "*"))
	if err != nil {
		c.t.Fatalf("the secrets of %s: got the error %v, want none", dir, err)
	}
	if len(files) < 3 {
		c.t.Fatalf("the secrets of %s: len(files): got %d, want at least 3, in %v", dir, len(files), files)
	}
	for _, file := range files {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(name, "database-url-"), name == "database-suffix", name == "machine-tokens",
			name == "bootstrap-tokens":
			// Addresses, names and digests may be shown; their passwords and tokens are in
			// files of their own.
		default:
			c.secret("the file secrets/"+name, strings.TrimSpace(string(text)))
		}
	}
}

// call makes a call and keeps its answer.
func (c *canaries) call(method, path, key, body string, headers ...string) (status int, answer string) {
	c.t.Helper()
	status, header, raw := c.m.Call(c.t, method, path, key, body, headers...)
	c.answered(path, status, header, raw)
	return status, string(raw)
}

// answered keeps an answer, and the path without the values of its query.
func (c *canaries) answered(path string, status int, header http.Header, body []byte) {
	route, _, _ := strings.Cut(path, "?")
	fmt.Fprintf(&c.answers, "%s: %d %v %s\n", route, status, header, body)
}

// issue makes a call whose answer may have a secret.
func (c *canaries) issue(what, method, path, key, body string, member ...any) string {
	c.t.Helper()
	status, _, raw := c.m.Call(c.t, method, path, key, body)
	if status >= http.StatusBadRequest {
		c.t.Fatalf("%s %s: got %d, want less than 400, with %s", method, path, status, raw)
	}
	issued := trial.Text(c.t, trial.Decode(c.t, raw), member...)
	c.secret(what, issued)
	return issued
}

// live makes all calls to a marketplace, with canaries in them.
func (c *canaries) live() {
	models := c.join()
	c.refusedAgent()
	session := c.users()
	c.consumers(models)
	c.wrongDoors(session)
	c.operators()
	c.m.NothingHeld(c.t, c.account)
	c.provider.Leave()
}

// join connects an agent whose engine needs a key, and returns the words of an engine.
func (c *canaries) join() (models []string) {
	said, refusal := c.text("answer"), c.text("refusal")
	key := c.door("an engine's key", "")
	marked := http.Header{"X-Engine": {c.text("engine's header")}, "Set-Cookie": {"e=" + c.text("engine's cookie")}}
	words := func(b fakeengine.Behaviour) fakeengine.Behaviour {
		b.Model = c.text("engine's name of a model")
		b.Tokens, b.Header, b.Extra = []string{"a ", said, " b"}, marked, fmt.Sprintf(`"system_fingerprint":%q,"x_engine":%q`,
			c.text("fingerprint"), c.text("engine's member"))
		return b
	}
	behaviours := map[string]fakeengine.Behaviour{
		"canary/text": words(fakeengine.Behaviour{}),
		"canary/refused": {Status: http.StatusBadRequest, Header: marked,
			Body: fmt.Sprintf(`{"error":{"message":%q,"type":%q,"code":%q,"param":%q}}`, "cannot take "+c.text("prompt"),
				refusal, refusal, refusal)},
		"canary/locked": {Status: http.StatusUnauthorized, Header: marked, Body: `{"error":{"message":"the key ` +
			key + ` is wrong"}}`},
		"canary/plain":   {Status: http.StatusInternalServerError, Header: marked, Body: said + " " + key},
		"canary/error":   words(fakeengine.Behaviour{End: fakeengine.EndError, EndAfter: 2}),
		"canary/garbage": words(fakeengine.Behaviour{End: fakeengine.EndGarbage, EndAfter: 2}),
		"canary/reset":   words(fakeengine.Behaviour{End: fakeengine.EndReset, EndAfter: 2}),
		"canary/silent":  words(fakeengine.Behaviour{End: fakeengine.EndSilent, EndAfter: 2}),
		"canary/usage": words(fakeengine.Behaviour{Usage: []string{`{"prompt_tokens":"` + said +
			`","completion_tokens":1}`}}),
	}
	kinds := map[string]string{"canary/embed": "embedding", "canary/paint": "image", "canary/listen": "audio"}
	chats, others := slices.Sorted(maps.Keys(behaviours)), slices.Sorted(maps.Keys(kinds))
	for _, id := range chats {
		c.m.PutModel(c.t, id)
		c.engine.Script(id, behaviours[id])
	}
	for _, id := range others {
		c.m.PutModelOf(c.t, kinds[id], id)
		c.engine.Script(id, words(fakeengine.Behaviour{Image: []byte(c.text("drawing")), Base64: true}))
	}
	c.provider = c.connect("", key, slices.Concat(chats, others))
	return chats
}

// connect runs an agent that logs everything and sends its spans too. Without a
// provider's key it makes a provider.
func (c *canaries) connect(key, engineKey string, models []string) *trial.Provider {
	c.t.Helper()
	p := &trial.Provider{Key: key}
	if key == "" {
		p = c.m.Provider(c.t, "canary")
		c.secret("a provider's key", p.Key)
	}
	keyFile := filepath.Join(c.t.TempDir(), "engine-key")
	if err := os.WriteFile(keyFile, []byte(engineKey+"\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	log := slog.New(slog.NewJSONHandler(c.agents, &slog.HandlerOptions{Level: slog.LevelDebug}))
	traces, stopTraces, err := telemetry.NewTraces(telemetry.Config{Service: "provider-agent",
		OTLPEndpoint: c.collector.Endpoint, TraceRatio: 1}, log)
	if err != nil {
		c.t.Fatal(err)
	}
	cfg := provideragent.DefaultConfig()
	cfg.Capabilities = []string{"chat", "stream", "cancel", "embeddings", "images", "transcriptions"}
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.NodeName = c.m.WSURL(), config.NewSecret(p.Key),
		filepath.Join(c.stateDir, fmt.Sprint(len(key))), "canary"
	for _, id := range models {
		cfg.Models = append(cfg.Models, provideragent.Model{ModelID: id, EngineURL: c.engine.URL + "/v1", ContextLength: 8192,
			Capacity: 64, APIKeyFile: keyFile})
	}
	agent, err := provideragent.New(cfg, provideragent.Deps{Log: log, Traces: traces})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	p.Leave = sync.OnceFunc(func() {
		cancel()
		err := <-ended
		if stopped := stopTraces(context.WithoutCancel(ctx)); key == "" && err != nil {
			c.t.Errorf(`the agent ended: got the error %v, want none, where key == ""`, err)
		} else if key == "" && stopped != nil {
			c.t.Errorf(`stopped: got the error %v, want none, where key == ""`, stopped)
		}
	})
	c.t.Cleanup(p.Leave)
	if key == "" {
		// All are offered at once, so a replica that knows the last knows the others.
		c.m.WaitOffered(c.t, models[len(models)-1], p.ID)
	}
	return p
}

// refusedAgent is an agent with a wrong key.
func (c *canaries) refusedAgent() {
	key, err := apikey.Generate(apikey.Provider, rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	c.secret("a provider's key that nobody issued", key)
	p := c.connect(key, "x", []string{"canary/text"})
	trial.Until(c.t, "the agent with a wrong key is refused", func() bool {
		return strings.Contains(c.agents.Text(), "invalid_api_key") || strings.Contains(c.agents.Text(), "not valid")
	})
	p.Leave()
}

// users sign up, sign in and fail to, and make and revoke keys.
func (c *canaries) users() (session string) {
	email, password := c.text("email")+"@example.org", c.door("a password", "")
	signUp := fmt.Sprintf(`{"email":%q,"password":%q,"display_name":"Ann"}`, email, password)
	session = c.issue("a session", http.MethodPost, "/api/v1/user/signup", "", signUp, "token")
	c.call(http.MethodPost, "/api/v1/user/signup", "", signUp) // taken
	c.issue("another session", http.MethodPost, "/api/v1/user/login", "", fmt.Sprintf(`{"email":%q,"password":%q}`,
		email, password), "token")
	wrong := c.door("a wrong password", "")
	c.call(http.MethodPost, "/api/v1/user/login", "", fmt.Sprintf(`{"email":%q,"password":%q}`, email, wrong))
	c.call(http.MethodPost, "/api/v1/user/login", "", fmt.Sprintf(`{"email":%q,"password":%q`, "other-"+email, wrong))
	c.call(http.MethodPost, "/api/v1/user/login", "", fmt.Sprintf(`{"email":%q,"password":%q,%q:1,%q:2}`, email, wrong,
		wrong, wrong))
	c.call(http.MethodPost, "/api/v1/user/signup", "", fmt.Sprintf(`{"email":"not an address %s","password":%q}`, email,
		wrong))
	c.call(http.MethodPost, "/api/v1/user/signup", "", fmt.Sprintf(`{"email":"new-%s","password":%q,"display_name":%q}`,
		email, wrong, strings.Repeat("x", 65)))
	c.issue("a provider's first key", http.MethodPost, "/api/v1/consumer/upgrade-to-provider", session,
		`{"name":"GPUs","wallet_address":""}`, "provider_api_key")
	first := c.opening["a provider's first key"]
	c.issue("a provider's second key", http.MethodPost, "/api/v1/user/me/provider-keys", session, `{"name":"second"}`,
		"api_key")
	c.call(http.MethodGet, "/api/v1/user/me/provider-keys", session, "")
	c.call(http.MethodPut, "/api/v1/provider/me", first, fmt.Sprintf(`{"beneficiary_address":%q}`,
		c.text("address that is none")))
	c.call(http.MethodPut, "/api/v1/provider/me", first, fmt.Sprintf(`{%q:%q,`, c.text("member"),
		c.text("address that is none")))
	c.call(http.MethodGet, "/api/v1/provider/status?key="+c.text("query"), first, "")
	c.issue("a rotated key", http.MethodPost, "/api/v1/provider/keys", first, `{"name":"rotated"}`, "api_key")
	return session
}

// consumers ask for everything that is paid for, of good and bad engines.
func (c *canaries) consumers(chats []string) {
	prompt := c.text("prompt")
	client := []string{"User-Agent", c.text("user agent"), "Referer", "https://example.org/" + c.text("referer"), "Cookie",
		"session=" + c.door("a cookie", ""),
		"X-Forwarded-For", c.text("forwarded"), "Tracestate", "a=" + c.text("tracestate"), "Baggage",
		"b=" + c.text("baggage"),
		"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "X-Request-Id", c.text("request id"),
		"Openai-Organization", c.text("organization")}
	keyed := func(what string) []string { return append(slices.Clone(client), idempotencyKey, c.door(what, "")) }
	served := 0
	for _, model := range chats {
		for i, extra := range []string{"", `,"stream":true`} {
			body := fmt.Sprintf(
				`{"model":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}],"user":%q,`+
					`"metadata":{"k":%q},"stop":[%q],
				"tools":[{"type":"function","function":{"name":"f","description":%q,"parameters":{"type":"object"}}}]%s}`,
				model, prompt, prompt, c.text("end user"), c.text("metadata"), c.text("stop"), c.text("tool"), extra)
			status, _ := c.call(http.MethodPost, trial.ChatPath+"?q="+c.text("query"), c.key, body,
				keyed(fmt.Sprintf("an Idempotency-Key of %s %d", model, i))...)
			if status == http.StatusOK {
				served++
			}
		}
	}
	c.call(http.MethodPost, "/v1/completions", c.key, fmt.Sprintf(`{"model":"canary/text","prompt":%q,"suffix":%q}`,
		prompt, c.text("suffix")), client...)
	c.call(http.MethodPost, "/v1/embeddings", c.key, fmt.Sprintf(`{"model":"canary/embed","input":[%q]}`, prompt),
		keyed("an Idempotency-Key of a vector")...)
	c.call(http.MethodPost, "/v1/images/generations", c.key,
		fmt.Sprintf(`{"model":"canary/paint","prompt":%q,"response_format":"b64_json"}`, prompt), client...)
	for _, file := range [][]byte{speech(), []byte(c.text("file"))} {
		spoken, kind := form(file, "model", "canary/listen", "prompt", prompt, "language", "en")
		spoken = strings.Replace(spoken, "speech.wav", c.text("file name")+".wav", 1)
		c.call(http.MethodPost, "/v1/audio/transcriptions", c.key, spoken,
			append([]string{"Content-Type", kind}, client...)...)
	}
	// A stored answer is given again to the holder of the keys, and another request is
	// refused.
	kept, token := fmt.Sprintf(`{"model":"canary/text","messages":[{"role":"user","content":%q}]}`, prompt),
		c.door("a repeated Idempotency-Key", "")
	for _, body := range []string{kept, kept, strings.Replace(kept, prompt, prompt+"!", 1)} {
		c.call(http.MethodPost, trial.ChatPath, c.key, body, idempotencyKey, token)
	}
	if !strings.Contains(c.answers.String(), "Idempotency-Replayed:[true]") || served < 4 {
		c.t.Errorf("%d chats were answered, and the answers are\n%s", served, trial.Tail(c.answers.String(), 4000))
	}
	// Requests that come to nothing.
	long := strings.Repeat("k", 300)
	for _, r := range [][2]string{
		{trial.ChatPath, `{"model":"` + prompt + `","messages":`}, {trial.ChatPath, trial.Chat(prompt, "")},
		{trial.ChatPath, `{"model":"canary/text","messages":[{"role":"` + prompt + `","content":"x"}]}`},
		{trial.ChatPath, trial.Chat("canary/text", `,"max_tokens":"`+prompt+`"`)},
		{trial.ChatPath, trial.Chat("canary/text", `,"`+prompt+`":1,"`+prompt+`":2`)},
		{trial.ChatPath, trial.Chat("canary/text", `,"tool_choice":{"`+prompt+`":1}`)},
		{"/v1/embeddings", `{"model":"canary/embed","input":{"` + prompt + `":1}}`},
		{"/v1/images/generations", `{"model":"canary/paint","prompt":["` + prompt + `"]}`},
		{"/v1/embeddings", trial.Chat("canary/text", "")}, {"/v1/messages", prompt},
	} {
		c.call(http.MethodPost, r[0], c.key, r[1], client...)
	}
	c.call(http.MethodPost, trial.ChatPath, c.key, kept, idempotencyKey, c.door("an Idempotency-Key that is too long", "")+
		long)
	c.call(http.MethodPost, trial.ChatPath, c.key, kept, "X-Svc-Provider", c.text("provider that is none"))
	c.call(http.MethodPost, trial.ChatPath, c.key, kept, "Content-Encoding", c.text("encoding"))
	c.call(http.MethodGet, "/v1/models/"+c.text("path"), c.key, "")
	c.call(http.MethodGet, "/api/v1/requests/"+c.text("path"), c.key, "")
	c.call(http.MethodGet, "/"+c.text("path")+"?"+c.text("query"), c.key, "")
	c.said["method"] = "CANARY-" + rand.Text()
	c.call(c.said["method"], trial.ChatPath, c.key, kept)
}

// wrongDoors shows every credential where it is not accepted.
func (c *canaries) wrongDoors(session string) {
	wrong := c.door("a consumer's wrong key", "sk-svc-")
	for _, key := range []string{c.key, c.provider.Key, session, c.m.Env["SVC_ADMIN_TOKEN"], wrong} {
		for _, path := range []string{trial.ChatPath, "/api/v1/provider/status", "/api/v1/user/me/provider-keys",
			"/api/v1/requests/x", "/api/v1/admin/accounts/x"} {
			method, body := http.MethodGet, ""
			if path == trial.ChatPath {
				method, body = http.MethodPost, trial.Chat(c.text("prompt"), "")
			}
			if key == c.key && path == trial.ChatPath {
				continue // opens it
			}
			c.call(method, path, key, body)
		}
	}
	for _, key := range []string{wrong, c.key[:len(c.key)-1] + "_", session + "x"} {
		c.call(http.MethodGet, "/v1/models?api_key="+key, key, "", "X-Api-Key", key)
		status, header, body := trial.CallAt(c.t, strings.Replace(c.m.WSURL(), "ws", "http", 1), http.MethodGet,
			"/ws?api_key="+key, key, "",
			"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Version", "13", "Sec-Websocket-Key", "x",
			"Sec-Websocket-Protocol", key)
		c.answered("/ws", status, header, body)
	}
}

// operators call, rightly and wrongly.
func (c *canaries) operators() {
	wrong := c.door("an operator's wrong token", "")
	for _, r := range []struct{ method, path, key, body string }{
		{http.MethodGet, "/api/v1/admin/providers", wrong + strings.Repeat("x", 32), ""},
		{http.MethodPost, "/api/v1/admin/accounts", "", `{"name":"` + c.text("operator's member") + `\u0000","` +
			c.text("operator's member") + `":1}`},
		{http.MethodPost, "/api/v1/admin/accounts/" + c.account + "/credit", "", `{"amount_usd":"` + c.text("amount") +
			`","idempotency_key":"k"}`},
		{http.MethodGet, "/api/v1/admin/held-earnings?cursor=" + c.text("cursor") + "&page_size=" + c.text("cursor"), "", ""},
		{http.MethodGet, "/api/v1/admin/reconciliation?first_day=" + c.text("cursor"), "", ""},
	} {
		if r.key == "" {
			r.key = c.m.Env["SVC_ADMIN_TOKEN"]
		}
		status, header, body := trial.CallAt(c.t, c.m.AdminURL(), r.method, r.path, r.key, r.body)
		c.answered(r.path, status, header, body)
	}
}
