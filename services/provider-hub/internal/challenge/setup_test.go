package challenge_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/challenge"
	"svc.internal/services/provider-hub/internal/dialect"
	v1 "svc.internal/services/provider-hub/internal/dialect/v1"
	v2 "svc.internal/services/provider-hub/internal/dialect/v2"
	"svc.internal/services/provider-hub/internal/quota"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

const (
	model = "m"
	node  = "node-0001"
	// budget is how many bytes all streams may hold.
	budget = 1 << 30
)

// agent is a session with its dialect and without a socket.
type agent struct {
	*session.Session
	t     *testing.T
	speak *dialect.Dialect
	in    session.Inbound
	seq   uint32 // of stream 0
}

// world is a runner with the sessions of one node each.
type world struct {
	*challenge.Runner
	t      *testing.T
	env    *session.Env
	agents map[int64]*agent // by epoch
	ended  []challenge.End
	mu     sync.Mutex
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, agents: map[int64]*agent{}}
	w.env = &session.Env{
		Config: session.Config{
			RegisterTimeout: 10 * time.Second, RefuseHold: 2 * time.Second, HeartbeatInterval: time.Hour,
			CancelGrace: 10 * time.Second, StreamWindow: 256 << 10, ConnWindow: 8 << 20,
		},
		Registrar: &sessiontest.Registrar{}, Clock: clock.System, Counts: &session.Counts{}, Held: quota.NewBudget(budget),
	}
	w.Runner = challenge.New(w, func(_ *challenge.Order, f *challenge.Finish) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = append(w.ended, f.End)
	}, clock.System, rand.Reader)
	w.Open()
	return w
}

// Find implements challenge.Sessions.
func (w *world) Find(_ ids.ProviderID, _ string, epoch int64) (*session.Session, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.agents[epoch]
	if a == nil {
		return nil, false
	}
	return a.Session, true
}

// join registers an agent of a dialect and returns its epoch.
func (w *world) join(name string, capacity int32) (*agent, int64) {
	w.t.Helper()
	a := &agent{t: w.t, speak: v2.New(24 * time.Hour)}
	if name == "v1" {
		a.speak = v1.New(v1.Config{SessionTimeout: 24 * time.Hour, MaxTotal: 300 * time.Second})
	}
	a.Session = session.New(w.env, a.speak.Limits, func() {}, func() {})
	a.Begin()
	if name == "v1" {
		a.says([]byte(sessiontest.RegisterText("good", node, model)))
	} else {
		a.frame(&agentv2.Frame{Body: &agentv2.Frame_Register{Register: &agentv2.Register{
			Token: "good", NodeId: node, Capabilities: []string{"chat", "fingerprint"},
			Models: []*agentv2.ModelOffer{{ModelId: model, Healthy: true, Capacity: capacity}},
		}}})
	}
	shown, _ := a.Enrolment()
	grant, err := w.env.Registrar.(*sessiontest.Registrar).Admit(context.Background(), shown)
	if err != nil {
		w.t.Fatal(err)
	}
	if why := a.Admit(grant); why != nil {
		w.t.Fatal(why)
	}
	a.heard()
	w.mu.Lock()
	w.agents[grant.Epoch] = a
	w.mu.Unlock()
	w.t.Cleanup(func() {
		a.SocketClosed()
		a.End()
	})
	return a, grant.Epoch
}

// says gives the session a message, as the gate does.
func (a *agent) says(msg []byte) {
	a.t.Helper()
	if err := a.speak.Decode(msg, &a.in); err != nil {
		a.t.Fatal(err)
	}
	if why := a.Receive(&a.in); why != nil {
		a.Shut(why)
	}
}

// frame gives the session a frame; on stream 0 it gets the next number.
func (a *agent) frame(f *agentv2.Frame) {
	a.t.Helper()
	if f.GetStream() == 0 {
		a.seq++
		f.Seq = a.seq
	}
	a.says(sessiontest.Encode(a.t, f))
}

// heard is what the agent was sent.
func (a *agent) heard() (all [][]byte) {
	a.t.Helper()
	var o session.Outbox
	for {
		a.Next(&o)
		for i := range o.Messages {
			head, body, tail, err := a.speak.Append(nil, &o.Messages[i])
			if err != nil {
				a.t.Fatal(err)
			}
			all = append(all, slices.Concat(head, body, []byte(tail)))
		}
		if len(o.Messages) == 0 || o.Closing != nil {
			return all
		}
	}
}

// frames is what an agent of v2 was sent.
func (a *agent) frames() (all []*agentv2.Frame) {
	a.t.Helper()
	for _, msg := range a.heard() {
		all = append(all, frameOf(a.t, msg))
	}
	return all
}

func frameOf(t *testing.T, msg []byte) *agentv2.Frame {
	t.Helper()
	f := &agentv2.Frame{}
	if err := proto.Unmarshal(msg, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// asked is the name of the last request that an agent of v1 was sent, with its message.
func (a *agent) asked() (id string, msg []byte) {
	a.t.Helper()
	all := a.heard()
	if len(all) == 0 {
		a.t.Fatal("the agent was sent nothing")
	}
	var m struct {
		RequestID string `json:"request_id"`
	}
	if err := json.Unmarshal(all[len(all)-1], &m); err != nil {
		a.t.Fatal(err)
	}
	return m.RequestID, all[len(all)-1]
}

// chunk is what a caller was given.
type chunk struct {
	data  string
	after time.Duration
}

// trial is a challenge under way.
type trial struct {
	stop   context.CancelFunc
	done   chan struct{}
	finish *challenge.Finish
	err    error

	mu     sync.Mutex
	chunks []chunk
	// block, when set, is what each chunk waits for.
	block chan struct{}
	// pause is how long each chunk takes.
	pause time.Duration
}

// Chunk implements challenge.Caller.
func (c *trial) Chunk(data []byte, after time.Duration) error {
	if c.block != nil {
		<-c.block
	}
	time.Sleep(c.pause) //nolint:forbidigo // of a synctest bubble
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chunks = append(c.chunks, chunk{string(data), after})
	return nil
}

func (c *trial) bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, p := range c.chunks {
		n += len(p.data)
	}
	return n
}

// run begins a challenge, in a bubble, and returns when it waits.
func (w *world) run(o *challenge.Order) *trial {
	w.t.Helper()
	return w.runInto(o, &trial{})
}

func (w *world) runInto(o *challenge.Order, c *trial) *trial {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.done = stop, make(chan struct{})
	go func() {
		defer close(c.done)
		c.finish, c.err = w.Run(ctx, o, c)
	}()
	synctest.Wait()
	w.t.Cleanup(func() { stop(); <-c.done })
	return c
}

// end waits for the end of a challenge that must have one.
func (c *trial) end(t *testing.T) *challenge.Finish {
	t.Helper()
	<-c.done
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c.finish
}

// inference is a challenge that any agent takes.
func inference(epoch int64) *challenge.Order {
	return &challenge.Order{
		ID: "c-1", Provider: ids.ProviderID{1}, Node: node, Epoch: epoch, Model: model, Timeout: time.Minute,
		Stream: true, Body: fmt.Appendf(nil, `{"stream":true,"model":%q,"messages":[]}`, model),
	}
}

// fingerprint is a task that both dialects have.
func fingerprint(epoch int64) *challenge.Order {
	o := inference(epoch)
	o.Stream, o.Body = false, nil
	o.Task = &session.Fingerprint{Nonce: make([]byte, 32), Ranges: []session.FileRange{{File: "a", Length: 1}}}
	return o
}
