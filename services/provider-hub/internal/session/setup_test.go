package session_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/clock"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/dialect"
	v1 "svc.internal/services/provider-hub/internal/dialect/v1"
	v2 "svc.internal/services/provider-hub/internal/dialect/v2"
	"svc.internal/services/provider-hub/internal/quota"
	. "svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

// Messages of agents.
var (
	encode       = sessiontest.Encode
	data         = sessiontest.Data
	end          = sessiontest.End
	registerText = sessiontest.RegisterText
	chunk        = sessiontest.Chunk
	streamEnd    = sessiontest.StreamEnd
	answer       = sessiontest.Answer
)

const (
	// heldBudget is how many bytes all sessions of a hub may hold.
	heldBudget = 1 << 30
	// oldStreams bounds the requests of a v1 session.
	oldStreams = 50
)

// withDefaults fills in the fields that are zero, as the gate does.
func withDefaults(c Config) Config {
	fill(&c.RegisterTimeout, 10*time.Second)
	fill(&c.RefuseHold, 2*time.Second)
	fill(&c.HeartbeatInterval, 10*time.Second)
	fill(&c.CancelGrace, 10*time.Second)
	fill(&c.StreamWindow, 256<<10)
	fill(&c.ConnWindow, 8<<20)
	return c
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// environment is the environment that the sessions of one hub share.
func environment(c Config, desk *sessiontest.Registrar) *Env {
	return &Env{
		Config: withDefaults(c), Registrar: desk, Clock: clock.System, Counts: &Counts{}, Held: quota.NewBudget(heldBudget),
	}
}

// tight is an environment whose sessions may hold so many bytes together.
func tight(held int64) *Env {
	env := environment(Config{}, &sessiontest.Registrar{})
	env.Held = quota.NewBudget(held)
	return env
}

func speakV1() *dialect.Dialect {
	return v1.New(v1.Config{
		SessionTimeout: 95 * time.Second, RefuseHold: 30 * time.Second, MinAge: 2100 * time.Millisecond,
		Patience: 5 * time.Minute, MaxTotal: 300 * time.Second,
	})
}

func speakV2() *dialect.Dialect { return v2.New(30 * time.Second) }

// wire is a session with its dialect and without a socket. It handles a message as the
// gate does.
type wire struct {
	*Session
	speak     *dialect.Dialect
	env       *Env
	desk      *sessiontest.Registrar
	admission sync.WaitGroup
	in        Inbound
}

// fresh is a session that is not registered.
func fresh(c Config, speak *dialect.Dialect) *wire {
	return freshIn(environment(c, &sessiontest.Registrar{}), speak)
}

// freshIn is one of several sessions of a hub.
func freshIn(env *Env, speak *dialect.Dialect) *wire {
	w := &wire{speak: speak, env: env, desk: env.Registrar.(*sessiontest.Registrar)}
	w.Session = New(env, speak.Limits, func() {}, func() {})
	w.Begin()
	return w
}

// receive gives the session a message. A returned reason ends the connection.
func (w *wire) receive(msg []byte) *CloseReason {
	if err := w.speak.Decode(msg, &w.in); err != nil {
		return w.Unreadable(err)
	}
	why := w.Receive(&w.in)
	if c, ok := w.Enrolment(); ok {
		w.admission.Go(func() { w.lookUp(c) })
	}
	return why
}

// lookUp has a credential looked up.
func (w *wire) lookUp(c Credential) {
	grant, err := w.desk.Admit(context.Background(), c)
	why := Refused(w.env.Config, agentwire.CodeInvalidKey, "x")
	if err == nil {
		why = w.Admit(grant)
	}
	if why != nil {
		w.Shut(why)
	}
}

// discarded gives the session the beginning of a message that there is no room for.
func (w *wire) discarded(head []byte, size int64) *CloseReason {
	return w.Discarded(w.speak.Name(head), size)
}

// end closes the socket.
func (w *wire) end() {
	w.SocketClosed()
	w.End()
	w.admission.Wait()
}

// out returns all messages that the session has for its agent, as they are on the wire.
func (w *wire) out(t testing.TB) [][]byte {
	t.Helper()
	var all [][]byte
	var o Outbox
	for {
		w.Next(&o)
		if o.Closing != nil && w.speak.Ending(o.Closing).Silent {
			return all
		}
		for i := range o.Messages {
			all = append(all, w.encoded(t, &o.Messages[i]))
		}
		if len(o.Messages) == 0 || o.Closing != nil {
			return all
		}
	}
}

// encoded is a message as the message is on the wire.
func (w *wire) encoded(t testing.TB, m *Outbound) []byte {
	t.Helper()
	head, body, tail, err := w.speak.Append(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(head, body, []byte(tail))
}

// live is a registered v2 session.
func live(t testing.TB, c Config, models ...string) *wire {
	t.Helper()
	return registered(t, fresh(c, speakV2()), "good", models...)
}

// liveIn is one of several registered v2 sessions of a hub, of the provider of a key.
func liveIn(t testing.TB, env *Env, key string, models ...string) *wire {
	t.Helper()
	return registered(t, freshIn(env, speakV2()), key, models...)
}

func registered(t testing.TB, s *wire, key string, models ...string) *wire {
	t.Helper()
	register := &agentv2.Register{Token: key, NodeId: "node-0001"}
	for _, m := range models {
		register.Models = append(register.Models, &agentv2.ModelOffer{ModelId: m, Healthy: true})
	}
	why := s.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: register}}))
	if why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	t.Cleanup(s.end)
	return s
}

// sent returns all frames that a v2 session has for its agent.
func sent(t testing.TB, s *wire) []*agentv2.Frame {
	t.Helper()
	var all []*agentv2.Frame
	for _, msg := range s.out(t) {
		f := &agentv2.Frame{}
		if err := proto.Unmarshal(msg, f); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// openStream opens a request.
func openStream(t testing.TB, s *wire, body int) *Stream {
	t.Helper()
	st, err := s.Open(Request{RequestID: "r", Model: "m", Stream: true, Body: make([]byte, body)})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// said is a message of the hub in v1.
type said struct {
	Type      string         `json:"type"`
	RequestID string         `json:"request_id"`
	Payload   map[string]any `json:"payload"`
}

// liveOld is a registered v1 session.
func liveOld(t testing.TB, c Config, models ...string) *wire {
	t.Helper()
	return liveOldIn(t, environment(c, &sessiontest.Registrar{}), models...)
}

// liveOldIn is one of several registered v1 sessions of a hub.
func liveOldIn(t testing.TB, env *Env, models ...string) *wire {
	t.Helper()
	s := freshIn(env, speakV1())
	tell(t, s, registerText("good", "node-0001", models...))
	s.admission.Wait()
	t.Cleanup(s.end)
	if got := sentOld(t, s); len(got) != 1 {
		t.Fatalf("registered: len(got): got %d, want 1, in %v", len(got), got)
	} else if got[0].Payload["success"] != true {
		t.Fatalf(`registered: got[0].Payload["success"]: got %v, want true`, got[0].Payload["success"])
	}
	return s
}

// sentOld returns all messages that a v1 session has for its agent.
func sentOld(t testing.TB, s *wire) []said {
	t.Helper()
	var all []said
	for _, msg := range s.out(t) {
		var m said
		if err := json.Unmarshal(msg, &m); err != nil {
			t.Fatalf("%s: %v", msg, err)
		}
		all = append(all, m)
	}
	return all
}

// tell gives the session a message, which the session takes.
func tell(t testing.TB, s *wire, text string) {
	t.Helper()
	if why := s.receive([]byte(text)); why != nil {
		t.Fatalf("%.200s: %v", text, why)
	}
}

// ask opens a request of v1 and sends it. id is the request's name.
func ask(t testing.TB, s *wire, stream bool) (st *Stream, id string) {
	t.Helper()
	st, err := s.Open(Request{RequestID: "r", Model: "m", Stream: stream, Body: []byte(`{"model":"m"}`)})
	if err != nil {
		t.Fatal(err)
	}
	out := sentOld(t, s)
	if len(out) == 0 {
		t.Fatalf("len(out): got 0, want at least 1, in %v", out)
	}
	if out[len(out)-1].Type != "inference" {
		t.Fatalf(`out[len(out)-1].Type: got %q, want "inference"`, out[len(out)-1].Type)
	}
	return st, out[len(out)-1].RequestID
}
