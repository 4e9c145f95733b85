package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/ids"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/meter"
	. "svc.internal/services/provider-hub/internal/session"
)

func TestEveryRequestThatIsTakenFitsIntoOneMebibyte(t *testing.T) {
	longest := strings.Repeat("m", MaxModelID)
	s := liveOld(t, Config{}, longest)
	v, _ := s.View()
	if v.MaxRequestBytes != 1<<20-1<<10 {
		t.Errorf("routers are told: got %d, want 1<<20-1<<10", v.MaxRequestBytes)
	}
	body := append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), int(v.MaxRequestBytes)-8)...), `"}`...)
	s.SetLast(1<<32 - 2) // the longest number there is
	id := ids.RequestID{0xff}.String()
	if _, err := s.Open(Request{RequestID: id, Model: longest, Stream: false, Body: body}); err != nil {
		t.Fatal(err)
	}
	out := s.out(t)
	if len(out) != 1 {
		t.Fatalf("frames: got %d, want 1", len(out))
	}
	frame := out[0]
	switch {
	case len(frame) > 1<<20:
		t.Errorf("a frame: got %d, want at most 1<<20", len(frame))
	case !bytes.Contains(frame, body):
		t.Errorf("frame: got %q, want %q in it", frame, body)
	case !json.Valid(frame):
		t.Error("json.Valid(frame): got false, want true")
	}
	if _, err := s.Open(Request{RequestID: id, Model: longest, Body: append(body, ' ')}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte more: got the error %v, want %v", err, ErrTooLarge)
	}
}

func TestBodiesThatWouldBreakTheirFrameAreNotSent(t *testing.T) {
	s := liveOld(t, Config{})
	for _, body := range []string{
		`{},"stream":false},"type":"ack"`, `{"a":"` + "\xff" + `"}`, `{`, ``, `{} {}`, "{\"a\":\"\n\"}",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	} {
		if _, err := s.Open(Request{RequestID: "r", Model: "m", Body: []byte(body)}); !errors.Is(err, ErrNotSendable) {
			t.Errorf("%.40q: got the error %v, want %v", body, err, ErrNotSendable)
		}
	}
	if s.Streams() != 0 {
		t.Error("a slot is taken")
	}
}

func TestOldSlotsAreTenAModelAndFiftyASession(t *testing.T) {
	var models []string
	for i := range 6 {
		models = append(models, fmt.Sprintf("m%d", i))
	}
	s := liveOld(t, Config{}, models...)
	open := func(model string) error {
		_, err := s.Open(Request{RequestID: "r", Model: model, Body: []byte("{}")})
		return err
	}
	for _, m := range models[:5] {
		for range 10 {
			if err := open(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := open(m); !errors.Is(err, ErrBusy) {
			t.Errorf("an eleventh of %s: got the error %v, want %v", m, err, ErrBusy)
		}
	}
	if err := open("m5"); !errors.Is(err, ErrBusy) {
		t.Errorf("a fifty-first: got the error %v, want %v", err, ErrBusy)
	} else if got := s.Streams(); got != 50 {
		t.Errorf("a fifty-first: s.Streams(): got %d, want 50", got)
	}
	if _, err := s.Open(Request{Model: "m5", Kind: meter.Embeddings, Body: []byte("{}")}); !errors.Is(err, ErrNotOffered) {
		t.Errorf("embeddings: got the error %v, want %v", err, ErrNotOffered)
	}
}

func TestStreamsOfAnOldSessionShareWhatItMayHold(t *testing.T) {
	s := liveOld(t, Config{ConnWindow: 3 << 18})
	a, aID := ask(t, s, true)
	b, bID := ask(t, s, true)
	piece := `"` + strings.Repeat("x", 1<<17) + `"`
	for range 3 {
		tell(t, s, chunk(aID, piece, false))
	}
	for range 3 {
		tell(t, s, chunk(bID, piece, false))
	}
	if got, _, err := a.Take(); !errors.Is(err, ErrBehind) {
		t.Errorf("the one that holds most: got the error %v, want %v", err, ErrBehind)
	} else if len(got) > 0 {
		t.Errorf("the one that holds most: len(got): got %d, want 0", len(got))
	}
	got, _, err := b.Take()
	if err != nil {
		t.Errorf("the other: got the error %v, want none", err)
	} else if len(got) < 3<<17 {
		t.Errorf("the other: len(got): got %d, want at least 3<<17", len(got))
	}
	b.Release(len(got), got)
	// The bytes of an answer that has ended leave less room for other answers too.
	for range 5 {
		tell(t, s, chunk(bID, piece, false))
	}
	tell(t, s, streamEnd(bID, ""))
	c, cID := ask(t, s, true)
	tell(t, s, chunk(cID, piece, false))
	tell(t, s, chunk(cID, piece, false))
	if _, end, err := b.Take(); !errors.Is(err, ErrBehind) {
		t.Errorf("one that has ended: got the error %v, want %v", err, ErrBehind)
	} else if end != nil {
		t.Errorf("one that has ended: end: got %+v, want nil", end)
	}
	if got, _, err := c.Take(); err != nil {
		t.Errorf("the one beside: got the error %v, want none", err)
	} else if len(got) < 2<<17 {
		t.Errorf("the one beside: len(got): got %d, want at least 2<<17", len(got))
	}
	a.Close(true)
	if held, holders := s.Held(); held != 0 {
		t.Errorf("%d bytes count as held, by %d streams: held: got %d, want 0", held, holders, held)
	} else if holders != 0 {
		t.Errorf("%d bytes count as held, by %d streams: holders: got %d, want 0", held, holders, holders)
	}
}

func TestHostile43_FloodsOfRegistrationsAndHeartbeatsEndAnOldConnection(t *testing.T) {
	for name, text := range map[string]func(n int) string{
		"registrations": func(n int) string { return registerText("good", "node-0001", fmt.Sprintf("m%d", n)) },
		"heartbeats":    func(n int) string { return fmt.Sprintf(`{"type":"heartbeat","payload":{"models":["m%d"]}}`, n) },
		"health": func(int) string {
			return `{"type":"model_health_update","payload":{"model_health":{"m":"unhealthy"}}}`
		},
		"verify":  func(int) string { return `{"type":"verify","payload":{}}` },
		"words":   func(n int) string { return fmt.Sprintf(`{"type":"w%d"}`, n) },
		"chunks":  func(n int) string { return chunk(fmt.Sprintf("r-%d", n), "{}", false) },
		"ends":    func(n int) string { return streamEnd(fmt.Sprintf("r-%d", n), "") },
		"answers": func(n int) string { return answer(fmt.Sprintf("r-%d", n), `,"response":{}`) },
		"errors":  func(int) string { return `{"type":"error","request_id":"x","payload":{}}` },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := longLive(t)
			n := 1
			for ; n <= 200; n++ {
				if why := s.receive([]byte(text(n))); why != nil {
					break
				}
			}
			if n < ChatterBurst || n > ChatterBurst+1 {
				t.Errorf("%s: ended at number: got %d, want %d to %d", name, n, ChatterBurst, ChatterBurst+1)
			}
			if waiting := len(sentOld(t, s)); waiting > ChatterBurst+1 {
				t.Errorf("%s: answers: got %d, want at most %d", name, waiting, ChatterBurst+1)
			}
		})
	}
}

func TestEmptyChunksAreCounted(t *testing.T) {
	s := liveOld(t, Config{})
	_, id := ask(t, s, true)
	for n := range 200 {
		if why := s.receive([]byte(chunk(id, "null", false))); why != nil {
			if n < ChatterBurst-1 {
				t.Errorf("ended at number: got %d, want at least %d", n, ChatterBurst-1)
			}
			return
		}
	}
	t.Error("they go on for ever")
}

func TestHostile36_OldFramesThatDoNotBelongHaveNoEffect(t *testing.T) {
	s, other := liveOld(t, Config{}), liveOld(t, Config{})
	st, id := ask(t, s, true)
	if _, otherID := ask(t, other, true); otherID != id {
		t.Fatalf("the other session: got %q, want %q", otherID, id)
	}
	whole, wholeID := ask(t, s, false)
	for _, text := range []string{
		chunk("r-99", "{}", false), streamEnd("r-99", ""), answer("r-99", `,"response":{}`), answer("", ""),
		chunk(wholeID, "{}", true), `{"type":"stream_end"}`, `{"type":"stream_chunk","request_id":7,"payload":{"chunk":{}}}`,
		`{"type":"ack","request_id":null,"payload":null}`, `{"request_id":"` + id + `"}`,
		`{"type":"stream_chunk","request_id":"` + id + `"}`,
	} {
		tell(t, s, text)
	}
	for _, st := range []*Stream{st, whole} {
		switch piece, end, err := st.Take(); {
		case len(piece) > 0:
			t.Errorf("len(piece): got %d, want 0, in %q", len(piece), piece)
		case end != nil:
			t.Errorf("end: got %+v, want nil, with %q", end, piece)
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		}
	}
	tell(t, s, chunk(id, "{}", true))
	tell(t, s, chunk(id, `{"behind":"the end"}`, false))
	tell(t, s, streamEnd(id, ""))
	tell(t, s, streamEnd(id, `,"error":"x"`))
	piece, end, _ := st.Take()
	if string(piece) != "data: {}\n\n"+DoneEvent {
		t.Errorf("piece: got %q, want %q", string(piece), "data: {}\n\n"+DoneEvent)
	} else if !end.Complete {
		t.Error("end.Complete: got false, want true")
	}
	// No message answers a request that was not sent yet.
	early, err := s.Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	tell(t, s, answer("r-3", `,"response":{}`))
	if _, end, _ := early.Take(); end != nil {
		t.Errorf("ended before: got %+v, want nil", end)
	}
}

func TestWarmUpsGoToAgentsThatTakeThemOnceInFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older := liveOld(t, Config{})
		newer := live(t, Config{}, "m")
		sent(t, newer)
		if err := newer.WarmUp("m"); !errors.Is(err, ErrNotOffered) {
			t.Errorf("an agent that does not take them: got the error %v, want %v", err, ErrNotOffered)
		}
		newer.Declare(CapWarmup)
		for name, c := range map[string]struct {
			s      *wire
			asked  func() bool
			answer func()
		}{
			"v1": {older, func() bool {
				out := sentOld(t, older)
				return len(out) == 1 && out[0].Type == "warmup" && out[0].RequestID == "warmup-1" &&
					out[0].Payload["model_id"] == "m"
			}, func() {
				tell(t, older, answer("warmup-1", `,"model_id":"m","success":false,"load_time_ms":1500,"error":"no\nroom"`))
				tell(t, older, answer("warmup-1", `,"success":true`))
			}},
			"v2": {newer, func() bool {
				out := sent(t, newer)
				return len(out) == 1 && out[0].GetWarmup().GetModelId() == "m"
			}, func() {
				r := &agentv2.WarmupResult{ModelId: "m", LoadTimeMs: 1500, Error: "no\nroom"}
				body := &agentv2.Frame_WarmupResult{WarmupResult: r}
				if why := newer.receive(encode(t, &agentv2.Frame{Seq: 2, Body: body})); why != nil {
					t.Error(why)
				}
			}},
		} {
			if err := c.s.WarmUp("m"); err != nil {
				t.Errorf("%s: not asked: got the error %v, want none", name, err)
			} else if !c.asked() {
				t.Errorf("%s: c.asked(): got false, want true", name)
			}
			c.answer()
			want := Warmed{Model: "m", LoadTime: 1500 * time.Millisecond, Error: "noroom"}
			if got := c.s.desk.Heard().Warmed; len(got) != 1 {
				t.Errorf("%s: told: len(got): got %d, want 1, in %+v", name, len(got), got)
			} else if got[0] != want {
				t.Errorf("%s: told: got[0]: got %+v, want %+v", name, got[0], want)
			}
			if err := c.s.WarmUp("m"); !errors.Is(err, ErrBusy) {
				t.Errorf("%s: again at once: got the error %v, want %v", name, err, ErrBusy)
			}
			if err := c.s.WarmUp("other"); !errors.Is(err, ErrNotOffered) {
				t.Errorf("%s: another model: got the error %v, want %v", name, err, ErrNotOffered)
			}
			if v, _ := c.s.View(); !v.TakesWarmups {
				t.Errorf("%s: routers do not know", name)
			}
		}
		time.Sleep(5 * time.Minute) //nolint:forbidigo // of a synctest bubble
		fresh := liveOld(t, Config{})
		if err := fresh.WarmUp("m"); err != nil {
			t.Error(err)
		}
		fresh.Drain(0)
		if err := fresh.WarmUp("m"); !errors.Is(err, ErrGone) {
			t.Errorf("while it drains: got the error %v, want %v", err, ErrGone)
		}
	})
}

func TestModelsOfAnOldSessionFollowItsMessages(t *testing.T) {
	s := liveOld(t, Config{}, "a", "b")
	offers := func() string {
		v, _ := s.View()
		text := ""
		for _, o := range v.Offers {
			text += fmt.Sprintf("%s:%v:%s:%d ", o.Model, o.Healthy, o.Quantization, o.ContextLength)
		}
		return strings.TrimSpace(text)
	}
	for _, c := range []struct{ text, want string }{
		{`{"type":"model_health_update","payload":{"model_health":{"b":"unhealthy","a":"degraded","c":"unhealthy"}}}`,
			"a:true::0 b:false::0"},
		{`{"type":"heartbeat","payload":{"models":null}}`, "a:true::0 b:false::0"},
		{`{"type":"heartbeat","payload":{}}`, "a:true::0 b:false::0"},
		{`{"type":"heartbeat","payload":{"models":["b","c"],"model_hashes":[` +
			`{"model_id":"c","format":"gguf","quantization":"q4_k_m","context_length":32768}]}}`,
			"b:false::0 c:true:q4_k_m:32768"},
		{`{"type":"heartbeat","payload":{"models":["c","b"],"model_health":{"b":"healthy"}}}`,
			"c:true:q4_k_m:32768 b:true::0"},
		{`{"type":"heartbeat","payload":{"model_hashes":[` +
			`{"model_id":"c","format":"fp16","quantization":"none","context_length":1e30}]}}`, "c:true:fp16:16777216 b:true::0"},
		{`{"type":"heartbeat","payload":{"models":[]}}`, ""},
		{`{"type":"register","request_id":"x","payload":{"models":["d","d","bad id",""]}}`, "d:true::0"},
		{`{"type":"register","request_id":"x","payload":{"models":null}}`, ""},
	} {
		tell(t, s, c.text)
		if got := offers(); got != c.want {
			t.Errorf("behind %s: got %q, want %q", c.text, got, c.want)
		}
		for _, m := range sentOld(t, s) {
			if m.Type != "ack" {
				t.Errorf(`m.Type: got %q, want "ack"`, m.Type)
			} else if m.Payload["success"] != true {
				t.Errorf(`m.Payload["success"]: got %v, want true`, m.Payload["success"])
			}
		}
	}
}
