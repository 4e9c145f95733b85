package fakeagent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// hub is the other end, driven by hand.
type hub struct {
	t   *testing.T
	url string
	ws  chan *websocket.Conn
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{t: t, ws: make(chan *websocket.Conn, 1)}
	up := websocket.Upgrader{Subprotocols: []string{agentwire.Subprotocol}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		h.ws <- ws
	}))
	t.Cleanup(server.Close)
	h.url = "ws" + strings.TrimPrefix(server.URL, "http")
	return h
}

func send(t *testing.T, ws *websocket.Conn, f *agentv2.Frame) {
	t.Helper()
	b, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.WriteMessage(websocket.BinaryMessage, b); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, ws *websocket.Conn) *agentv2.Frame {
	t.Helper()
	if err := ws.SetReadDeadline(time.Now().Add(90 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, b, err := ws.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	f := &agentv2.Frame{}
	if err := proto.Unmarshal(b, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// registered is an agent with its socket's other end.
func registered(t *testing.T, opts Options) (*Agent, *websocket.Conn) {
	t.Helper()
	h := newHub(t)
	dialled := make(chan *Agent, 1)
	go func() {
		a, err := Dial(t.Context(), h.url, opts)
		if err != nil {
			t.Error(err)
		}
		dialled <- a
	}()
	ws := <-h.ws
	switch f := receive(t, ws); {
	case f.GetSeq() != 1:
		t.Errorf("register: f.GetSeq(): got %d, want 1", f.GetSeq())
	case f.GetRegister().GetNodeId() != "fake-node-1":
		t.Errorf(`f.GetRegister().GetNodeId(): got %q, want "fake-node-1"`, f.GetRegister().GetNodeId())
	case f.GetRegister().GetToken() != opts.Key:
		t.Errorf("f.GetRegister().GetToken(): got %q, want %q", f.GetRegister().GetToken(), opts.Key)
	}
	send(t, ws, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{Epoch: 7}}})
	a := <-dialled
	if a == nil {
		t.FailNow()
	}
	t.Cleanup(func() { a.Close(); ws.NetConn().Close() })
	return a, ws
}

func open(t *testing.T, ws *websocket.Conn, stream uint32, body string) {
	t.Helper()
	send(t, ws, &agentv2.Frame{Stream: stream, Seq: 1, Body: &agentv2.Frame_Open{Open: &agentv2.Open{Stream: true}}})
	send(t, ws, &agentv2.Frame{Stream: stream, Seq: 2,
		Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: []byte(body), Fin: true}}})
}

func TestAnswerIsNumberedAndEnds(t *testing.T) {
	a, ws := registered(t, Options{Key: "k", Handler: Answer("a", "b")})
	if a.Epoch() != 7 {
		t.Errorf("epoch: got %d, want 7", a.Epoch())
	}
	open(t, ws, 1, "body")
	var text strings.Builder
	for seq := uint32(0); ; {
		f := receive(t, ws)
		if f.GetStream() == 0 {
			continue // credit for the body
		}
		if seq++; f.GetSeq() != seq {
			t.Fatalf("frame: got %d, want %d", f.GetSeq(), seq)
		}
		text.Write(f.GetData().GetData())
		if end := f.GetEnd(); end != nil {
			if end.GetEngineStatus() != 200 {
				t.Errorf("end.GetEngineStatus(): got %d, want 200", end.GetEngineStatus())
			} else if !end.GetComplete() {
				t.Errorf("end.GetComplete(): got false, want true, with %v", end)
			}
			break
		}
	}
	if s := text.String(); !strings.Contains(s, `"content":"a"`) {
		t.Errorf("answer: got %q, want %q in it", s, `"content":"a"`)
	} else if !strings.HasSuffix(s, "data: [DONE]\n\n") {
		t.Errorf("answer: got %q, want the suffix %q", s, "data: [DONE]\n\n")
	}
	if err := a.Fault(); err != nil {
		t.Error(err)
	}
}

func TestDataWaitsForCreditAndEndsWithACancel(t *testing.T) {
	a, ws := registered(t, Options{})
	open(t, ws, 1, "body")
	r := <-a.Requests()
	if string(r.Body) != "body" {
		t.Errorf(`r.Body: got %q, want "body"`, string(r.Body))
	} else if r.Stream() != 1 {
		t.Errorf("request: got %d, want 1", r.Stream())
	}
	failed := make(chan error, 1)
	go func() { failed <- r.Data(make([]byte, agentwire.StreamWindow+1)) }()
	got := 0
	for got < agentwire.StreamWindow {
		got += len(receive(t, ws).GetData().GetData())
	}
	send(t, ws, &agentv2.Frame{Stream: 1, Seq: 3, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 1}}})
	if err := <-failed; err != nil {
		t.Errorf("with one byte of credit: %v", err)
	}
	go func() { failed <- r.Data([]byte("x")) }()
	send(t, ws, &agentv2.Frame{Stream: 1, Seq: 4, Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}})
	if err := <-failed; err == nil {
		t.Error("data went out without credit")
	}
}

func TestAChallengeIsRepliedToAsTheTestSays(t *testing.T) {
	challenge := func(seq uint32) *agentv2.Frame {
		return &agentv2.Frame{Seq: seq, Body: &agentv2.Frame_Challenge{Challenge: &agentv2.Challenge{ChallengeId: "c"}}}
	}
	_, ws := registered(t, Options{Fingerprint: func(c *agentv2.Challenge) *agentv2.ChallengeResult {
		return &agentv2.ChallengeResult{ChallengeId: c.GetChallengeId(), Error: "none"}
	}})
	send(t, ws, challenge(2))
	if r := receive(t, ws).GetChallengeResult(); r.GetChallengeId() != "c" {
		t.Errorf(`result: got the id %q, want "c"`, r.GetChallengeId())
	}
	a, ws := registered(t, Options{})
	send(t, ws, challenge(2))
	if c := <-a.Challenges(); c.GetChallengeId() != "c" {
		t.Errorf(`challenge: got the id %q, want "c"`, c.GetChallengeId())
	}
	if err := a.SendResult(&agentv2.ChallengeResult{ChallengeId: "another"}); err != nil {
		t.Fatal(err)
	}
	f := receive(t, ws)
	if f.GetSeq() != 2 {
		t.Errorf("number: got %d, want 2", f.GetSeq())
	}
	if got := f.GetChallengeResult().GetChallengeId(); got != "another" {
		t.Errorf(`result: got the id %q, want "another"`, got)
	}
}

func TestHubThatMiscountsIsBlamed(t *testing.T) {
	a, ws := registered(t, Options{})
	send(t, ws, &agentv2.Frame{Seq: 9, Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}})
	<-a.Drained()
	if a.Fault() == nil {
		t.Error("a gap went unnoticed")
	}
}

func TestRefusalIsToldFromALostConnection(t *testing.T) {
	h := newHub(t)
	failed := make(chan error, 1)
	dial := func() {
		_, err := Dial(t.Context(), h.url, Options{})
		failed <- err
	}
	go dial()
	ws := <-h.ws
	send(t, ws, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Error{Error: &agentv2.Error{Code: "suspended"}}})
	ws.NetConn().Close()
	var refused *Refused
	if err := <-failed; !errors.As(err, &refused) {
		t.Errorf("refused: got the error %v, want a %T", err, refused)
	} else if refused.Frame.GetCode() != "suspended" {
		t.Errorf(`refused.Frame.GetCode(): got %q, want "suspended"`, refused.Frame.GetCode())
	}
	go dial()
	(<-h.ws).NetConn().Close()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("lost: got the error %v, want %v", err, ErrClosed)
	}
}
