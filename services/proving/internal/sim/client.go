package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	routerv1 "svc.internal/proto/svc/router/v1"
)

// client is one HTTP call of a consumer, and its outcome for the consumer.
type client struct {
	net     *network
	account *account
	gateway *gateway
	stream  bool
	limit   int // tokens
	patient time.Duration

	// What the client itself knows.
	id       string
	status   int
	words    map[byte]int // by the letter of who served
	complete bool
	failed   bool // an error event within the stream
	left     bool
	broken   bool // the connection broke

	// The gateway's end.
	header    http.Header
	cancel    context.CancelFunc
	task      *task
	hungUp    bool // the gateway knows that it left
	over      bool
	began     time.Duration
	overAt    time.Duration
	written   int // words that the gateway wrote
	wroteBody int
}

// begin sends the request.
func (c *client) begin() {
	w := c.net.world
	c.began = w.now
	if !c.gateway.up || c.gateway.frozen > w.now {
		c.broken = true
		return
	}
	c.gateway.clients = append(c.gateway.clients, c)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), candidatesKey{}, c.net.candidates()))
	c.cancel = cancel
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"say some words"}],"max_tokens":%d,"stream":%v`,
		c.limit, c.stream)
	if c.stream && w.chance(500) {
		body += `,"stream_options":{"include_usage":true}`
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/chat/completions",
		strings.NewReader(body+"}"))
	if err != nil {
		c.net.fail("make a request: %v", err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+c.account.secret)
	r.Header.Set("Content-Type", "application/json")
	if c.patient > 0 {
		w.after(c.patient, c.leave)
	}
	c.gateway.run(func(t *task) {
		c.task = t
		c.serve(r)
		c.over, c.overAt = true, w.now
		cancel()
		if t.dead || c.left || c.broken {
			return
		}
		c.gateway.logf("answered %s: %d, %v, complete %v, failed %v", c.id, c.status, c.count(), c.complete, c.failed)
	})
}

// serve makes the gateway answer, as net/http does. A handler that aborts ends the
// connection, which a client that has left does not see.
func (c *client) serve(r *http.Request) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // a panic is compared as net/http does
			panic(p)
		}
	}()
	c.gateway.gateway.ServeHTTP(c, r)
}

// leave hangs up. The gateway notices a little later.
func (c *client) leave() {
	if c.over || c.broken {
		return
	}
	c.left = true
	c.net.world.logf("client", "leaves %s with %v", c.id, c.count())
	life := c.gateway.life
	c.net.world.after(c.net.world.travel(), func() { c.gateway.do(life, c.hangUp) })
}

// hangUp does what net/http does when a client has left.
func (c *client) hangUp() {
	if c.over {
		return
	}
	c.hungUp = true
	call := c.task.call
	told := call != nil && call.waits()
	c.cancel()
	if !told {
		return
	}
	// The relay notices on a goroutine of its own, and passes it to the stream.
	select {
	case <-call.hung:
	case <-call.ctx.Done():
	}
	call.observe()
	if call.ctx.Err() != nil {
		call.rouse()
	}
}

// cut is the end of the connection with its gateway.
func (c *client) cut() {
	if !c.over {
		c.broken = true
	}
}

func (c *client) count() (n int) {
	for _, words := range c.words {
		n += words
	}
	return n
}

// Header implements http.ResponseWriter.
func (c *client) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter.
func (c *client) WriteHeader(status int) {
	c.id = c.header.Get("X-Svc-Request-Id")
	if c.status == 0 && !c.left && !c.broken {
		c.status = status
	}
}

var errLeft = errors.New("the client has left")

// Write implements http.ResponseWriter.
func (c *client) Write(p []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if c.hungUp || c.broken {
		return 0, errLeft
	}
	c.wroteBody += len(p)
	for rest := p; ; {
		at := bytes.Index(rest, []byte("words"))
		if at < 1 {
			break
		}
		c.written++
		if !c.left {
			c.words[rest[at-1]]++
		}
		rest = rest[at+len("words"):]
	}
	if !c.left && c.status == http.StatusOK {
		if c.stream {
			c.complete = c.complete || bytes.Contains(p, []byte("data: [DONE]"))
			c.failed = c.failed || bytes.Contains(p, []byte(`data: {"error"`))
		} else {
			c.complete = fmt.Sprint(c.wroteBody) == c.header.Get("Content-Length")
		}
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (c *client) Flush() {}

// candidates are the sessions that routers know of, in any order.
func (n *network) candidates() []*routerv1.Candidate {
	var all []*routerv1.Candidate
	for _, a := range n.agents {
		if s := a.session; s != nil && s.open {
			all = append(all, &routerv1.Candidate{
				ProviderId: a.provider.String(), ProviderName: a.name, NodeId: a.name, Epoch: s.epoch,
				HubId: s.hub.name, DispatchAddress: s.hub.name,
			})
		}
	}
	n.world.dice.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	return all
}
