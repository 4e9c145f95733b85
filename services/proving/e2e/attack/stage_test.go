package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// stage is the place of one attack: a marketplace that all attacks share, in which an
// attack has models, accounts and providers of its own.
type stage struct {
	*trial.Market
	form string
	// name is the attack's, for names of its own.
	name string
	made int
}

// title is a name that no other attack has, and no other call of title.
func (s *stage) title() string {
	s.made++
	return fmt.Sprintf("%s-%d", s.name, s.made)
}

// model describes a model of the catalog; zero values are the usual ones.
type model struct {
	window, maxOutput int
	category          string
	free              bool
}

// put makes a model of trial.PutModel's prices and returns its id.
func (s *stage) put(t testing.TB, m model) string {
	t.Helper()
	if m.window == 0 {
		m.window = 8192
	}
	if m.maxOutput == 0 {
		m.maxOutput = 1024
	}
	if m.category == "" {
		m.category = "llm"
	}
	price := `"input_price":"1","output_price":"3","payout_input_price":"0.9","payout_output_price":"2.7"`
	if m.free {
		price = `"tier":"free","input_price":"0","output_price":"0","payout_input_price":"0","payout_output_price":"0"`
	}
	id := "attack/" + s.title()
	s.Admin(t, http.MethodPut, "/api/v1/admin/models/"+id, fmt.Sprintf(
		`{"name":"Attacked","category":%q,%s,"context_length":%d,"max_output_tokens":%d,"capabilities":["chat"]}`, m.category,
		price, m.window, m.maxOutput))
	return id
}

// served makes a model and serves it from an engine of the attack's own with that answer.
func (s *stage) served(
	t testing.TB, m model, behaviours ...fakeengine.Behaviour,
) (id string, engine *fakeengine.Engine, p *trial.Provider) {
	t.Helper()
	m.window = max(m.window, 8192)
	id = s.put(t, m)
	engine = fakeengine.New(t)
	engine.Script(id, behaviours...)
	return id, engine, s.JoinWithWindow(t, s.title(), engine.URL, m.window, id)
}

// caller makes an account with ample credit, without limits on its rate.
func (s *stage) caller(t testing.TB) (account, key string) {
	t.Helper()
	account, key = s.Consumer(t, "50")
	s.Unlimit(t, account)
	return account, key
}

// reply is what a client got of a chat.
type reply struct {
	status             int
	header             http.Header
	body, text, finish string
	events             int
	failed             bool
	prompt, completion int
}

func (r reply) id() string { return r.header.Get(trial.RequestIDHeader) }

// chat makes a request and reads its answer, streamed or whole.
func (s *stage) chat(t testing.TB, key, body string, headers ...string) reply {
	t.Helper()
	status, header, answer := s.Call(t, http.MethodPost, trial.ChatPath, key, body, headers...)
	return read(status, header, answer)
}

func read(status int, header http.Header, answer []byte) reply {
	r := reply{status: status, header: header, body: string(answer)}
	r.failed = status != http.StatusOK || strings.Contains(r.body, `data: {"error":{`)
	if !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		r.take(answer)
		return r
	}
	for _, line := range strings.Split(r.body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
			r.events++
			r.take([]byte(data))
		}
	}
	return r
}

// take adds an event of a stream, or a whole answer.
func (r *reply) take(data []byte) {
	type said struct {
		Content string `json:"content"`
	}
	var v struct {
		Choices []struct {
			Message, Delta said
			FinishReason   string `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(data, &v) != nil {
		return
	}
	for _, c := range v.Choices {
		r.text += c.Message.Content + c.Delta.Content
		if c.FinishReason != "" {
			r.finish = c.FinishReason
		}
	}
	if v.Usage.Prompt+v.Usage.Completion > 0 {
		r.prompt, r.completion = v.Usage.Prompt, v.Usage.Completion
	}
}

// words is how many tokens of fakeengine.Words the text has.
func (r reply) words() int { return len(strings.Fields(r.text)) }

// bill is the cost of a request.
type bill struct {
	status, cost       string
	prompt, completion int
	provider           string
}

func (b bill) String() string {
	if b.status == "released" {
		return "nothing"
	}
	return fmt.Sprintf("%d+%d tokens, $%s", b.prompt, b.completion, b.cost)
}

// bill waits until a request is settled or released.
func (s *stage) bill(t testing.TB, key, requestID string) bill {
	t.Helper()
	r := s.Receipt(t, key, requestID)
	number := func(name string) int {
		n, _ := r[name].(float64)
		return int(n)
	}
	text := func(name string) string {
		v, _ := r[name].(string)
		return v
	}
	return bill{status: text("status"), cost: text("cost_usd_str"), prompt: number("prompt_tokens"),
		completion: number("completion_tokens"),
		provider:   text("provider_id")}
}

// begin opens a request that the attack reads or leaves itself. It returns once
// the request is on its way; leave hangs up and waits for the end of it.
func (s *stage) begin(t testing.TB, key, body string) (leave func()) {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan struct{})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Base()+trial.ChatPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	leave = func() {
		hangUp()
		<-done
	}
	t.Cleanup(leave)
	return leave
}

// spent waits until nothing of an account is held, and returns what was spent of its 50
// dollars, in nano-USD.
func (s *stage) spent(t testing.TB, account string) int64 {
	t.Helper()
	s.NothingHeld(t, account)
	balance, _ := s.Balance(t, account)
	return 50_000_000_000 - nano(balance)
}

// nano reads an exact amount of US dollars.
func nano(usd string) int64 {
	whole, part, _ := strings.Cut(usd, ".")
	var n int64
	for _, digit := range whole + (part + "000000000")[:9] {
		n = n*10 + int64(digit-'0')
	}
	return n
}

// pass waits for d. It returns early with the test.
func pass(t testing.TB, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// arrived waits until an engine has seen so many requests.
func arrived(t testing.TB, engine *fakeengine.Engine, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	if err := engine.WaitRequests(ctx, n); err != nil {
		t.Fatalf("the engine has not seen %d requests: %v", n, err)
	}
}

// host is the host and port of the public API, of the first gateway.
func (s *stage) host() string { return strings.TrimPrefix(s.Bases()[0], "http://") }

// from is a client whose requests come from an address of the loopback network.
func from(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		Timeout: time.Minute}
}

// post makes a request and reports whether it was answered with 200.
func post(client *http.Client, url, key, body string) bool {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body)) //nolint:noctx // the client has a timeout
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}
