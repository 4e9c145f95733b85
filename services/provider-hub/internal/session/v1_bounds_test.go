package session

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
)

func TestEveryRequestThatIsTakenFitsIntoOneMebibyte(t *testing.T) {
	longest := strings.Repeat("m", maxModelID)
	s := liveOld(t, Config{}, longest)
	v, _ := s.View()
	if v.MaxRequestBytes != 1<<20-1<<10 {
		t.Errorf("routers are told of %d bytes", v.MaxRequestBytes)
	}
	body := append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), int(v.MaxRequestBytes)-8)...), `"}`...)
	s.mu.Lock()
	s.last = 1<<32 - 2 // the longest number there is
	s.mu.Unlock()
	id := ids.RequestID{0xff}.String()
	if _, err := s.Open(Request{RequestID: id, Model: longest, Stream: false, Body: body}); err != nil {
		t.Fatal(err)
	}
	var o outbox
	s.next(&o)
	if len(o.frames) != 1 {
		t.Fatalf("%d frames", len(o.frames))
	}
	frame := encoded(t, o.frames[0])
	if len(frame) > 1<<20 || !bytes.Contains(frame, body) || !json.Valid(frame) {
		t.Errorf("a frame of %d bytes", len(frame))
	}
	if _, err := s.Open(Request{RequestID: id, Model: longest, Body: append(body, ' ')}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestBodiesThatWouldBreakTheirFrameAreNotSent(t *testing.T) {
	s := liveOld(t, Config{})
	for _, body := range []string{
		`{},"stream":false},"type":"ack"`, `{"a":"` + "\xff" + `"}`, `{`, ``, `{} {}`, "{\"a\":\"\n\"}",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	} {
		if _, err := s.Open(Request{RequestID: "r", Model: "m", Body: []byte(body)}); !errors.Is(err, ErrNotSendable) {
			t.Errorf("%.40q: %v", body, err)
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
			t.Errorf("an eleventh of %s: %v", m, err)
		}
	}
	if err := open("m5"); !errors.Is(err, ErrBusy) || s.Streams() != 50 {
		t.Errorf("a fifty-first: %v", err)
	}
	if _, err := s.Open(Request{Model: "m5", Kind: meter.Embeddings, Body: []byte("{}")}); !errors.Is(err, ErrNotOffered) {
		t.Errorf("embeddings: %v", err)
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
	if got, _, err := a.Take(); !errors.Is(err, ErrBehind) || len(got) > 0 {
		t.Errorf("the one that holds most: %d bytes, %v", len(got), err)
	}
	got, _, err := b.Take()
	if err != nil || len(got) < 3<<17 {
		t.Errorf("the other: %d bytes, %v", len(got), err)
	}
	b.Release(len(got), got)
	// What an answer holds that has ended is in the way of others as well.
	for range 5 {
		tell(t, s, chunk(bID, piece, false))
	}
	tell(t, s, streamEnd(bID, ""))
	c, cID := ask(t, s, true)
	tell(t, s, chunk(cID, piece, false))
	tell(t, s, chunk(cID, piece, false))
	if _, end, err := b.Take(); !errors.Is(err, ErrBehind) || end != nil {
		t.Errorf("one that has ended: %+v, %v", end, err)
	}
	if got, _, err := c.Take(); err != nil || len(got) < 2<<17 {
		t.Errorf("the one beside it: %d bytes, %v", len(got), err)
	}
	a.Close(true)
	if s.held != 0 || len(s.holders) != 0 {
		t.Errorf("%d bytes count as held, by %d streams", s.held, len(s.holders))
	}
}

func left(b *budget) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}

// large is a whole answer of n bytes.
func large(id string, n int) string {
	return answer(id, `,"response":{"x":"`+strings.Repeat("y", n)+`"},"latency_ms":1`)
}

func TestLargeMessagesShareABudgetAndOnlyTheirRequestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{LargeBudget: 16 << 20}) // 2 MiB for each provider
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		s := e.desk.session(t)
		request := func(stream bool) (*Stream, string) {
			st, err := s.Open(Request{RequestID: "r", Model: "m", Stream: stream, Body: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
			return st, a.hears().RequestID
		}
		fits, fitsID := request(false)
		a.send(large(fitsID, 1<<20))
		<-fits.Ready()
		if got, end, err := fits.Take(); len(got) < 1<<20 || end == nil || !end.Complete || err != nil {
			t.Errorf("one that fits: %d bytes, %+v, %v", len(got), end, err)
		}
		much, muchID := request(false)
		beside, besideID := request(true)
		a.send(large(muchID, 3<<20))
		a.send(chunk(besideID, "{}", true))
		a.send(streamEnd(besideID, ""))
		<-much.Ready()
		if _, _, err := much.Take(); !errors.Is(err, ErrNoRoom) {
			t.Errorf("one that does not: %v", err)
		}
		<-beside.Ready()
		synctest.Wait()
		if _, end, err := beside.Take(); end == nil || err != nil {
			t.Errorf("the one beside it: %+v, %v", end, err)
		}
		again, againID := request(false)
		a.send(large(againID, 1<<20))
		<-again.Ready()
		if _, end, err := again.Take(); end == nil || err != nil {
			t.Errorf("one after it: %+v, %v", end, err)
		}
		synctest.Wait()
		if left := left(e.server.budget); left != 16<<20 || e.counts.Discarded.Load() != 1 {
			t.Errorf("%d bytes of the budget are left, %d messages were thrown away", left, e.counts.Discarded.Load())
		}
	})
}

func TestLargeMessagesThatStallAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{LargeTimeout: 20 * time.Second})
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		if _, err := e.desk.session(t).Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		id := a.hears().RequestID
		began := time.Now()
		text := masked(finBit|opText, []byte(large(id, 8<<20)))
		if _, err := a.ws.NetConn().Write(text[:1<<20]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if held := e.server.cfg.LargeBudget - left(e.server.budget); held < 1<<20 || held > 3<<20 {
			t.Errorf("%d bytes are held for 1 MiB of 8", held)
		}
		a.ends()
		synctest.Wait()
		if age := time.Since(began); age < 20*time.Second || age > 22*time.Second || left(e.server.budget) != e.server.cfg.LargeBudget {
			t.Errorf("closed after %v, %d bytes are left", age, left(e.server.budget))
		}
	})
}

func TestMessagesOfAnOldSessionAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"an answer of 16 MiB and a bit":  {large("x", 16<<20), 1009},
		"a message without an end":       {`{"type":"ack"`, 1008},
		"a list":                         {`[]`, 1008},
		"a heartbeat that is no object":  {`{"type":"heartbeat","payload":[]}`, 1008},
		"a thousand models":              {registerText("good", "node-0001", strings.Split(strings.Repeat("m ", 999)+"m", " ")...), 1008},
		"a heartbeat of many more":       {`{"type":"heartbeat","payload":{"models":["` + strings.Repeat(`m","`, 300) + `m"]}}`, 1008},
		"an answer nested without bound": {answer("x", `,"response":`+strings.Repeat("[", 300)+strings.Repeat("]", 300)), 1008},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := serveSessions(t, Config{})
			a := e.oldAgent(t)
			a.register("good", "node-0001")
			go func() { _, _ = a.ws.NetConn().Write(masked(finBit|opText, []byte(c.text))) }()
			if got := a.ends(); got != c.want {
				t.Errorf("%s: closed with %d, want %d", name, got, c.want)
			}
		})
	}
}

func TestHostile43_FloodsOfRegistrationsAndHeartbeatsEndAnOldConnection(t *testing.T) {
	for name, text := range map[string]func(n int) string{
		"registrations": func(n int) string { return registerText("good", "node-0001", fmt.Sprintf("m%d", n)) },
		"heartbeats":    func(n int) string { return fmt.Sprintf(`{"type":"heartbeat","payload":{"models":["m%d"]}}`, n) },
		"health":        func(int) string { return `{"type":"model_health_update","payload":{"model_health":{"m":"unhealthy"}}}` },
		"verify":        func(int) string { return `{"type":"verify","payload":{}}` },
		"words":         func(n int) string { return fmt.Sprintf(`{"type":"w%d"}`, n) },
		"chunks":        func(n int) string { return chunk(fmt.Sprintf("r-%d", n), "{}", false) },
		"ends":          func(n int) string { return streamEnd(fmt.Sprintf("r-%d", n), "") },
		"answers":       func(n int) string { return answer(fmt.Sprintf("r-%d", n), `,"response":{}`) },
		"errors":        func(int) string { return `{"type":"error","request_id":"x","payload":{}}` },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := longLive(t)
			n := 1
			for ; n <= 200; n++ {
				if why := s.wire.receive([]byte(text(n))); why != nil {
					break
				}
			}
			if n < chatterBurst || n > chatterBurst+1 {
				t.Errorf("%s: ended at number %d", name, n)
			}
			if waiting := len(sentOld(t, s)); waiting > chatterBurst+1 {
				t.Errorf("%s: %d answers", name, waiting)
			}
		})
	}
}

func TestEmptyChunksAreCounted(t *testing.T) {
	s := liveOld(t, Config{})
	_, id := ask(t, s, true)
	for n := range 200 {
		if why := s.wire.receive([]byte(chunk(id, "null", false))); why != nil {
			if n < chatterBurst-1 {
				t.Errorf("ended at number %d", n)
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
		t.Fatalf("the other session has %q", otherID)
	}
	whole, wholeID := ask(t, s, false)
	for _, text := range []string{
		chunk("r-99", "{}", false), streamEnd("r-99", ""), answer("r-99", `,"response":{}`), answer("", ""),
		chunk(wholeID, "{}", true), `{"type":"stream_end"}`, `{"type":"stream_chunk","request_id":7,"payload":{"chunk":{}}}`,
		`{"type":"ack","request_id":null,"payload":null}`, `{"request_id":"` + id + `"}`, `{"type":"stream_chunk","request_id":"` + id + `"}`,
	} {
		tell(t, s, text)
	}
	for _, st := range []*Stream{st, whole} {
		if piece, end, err := st.Take(); len(piece) > 0 || end != nil || err != nil {
			t.Errorf("%q, %+v, %v", piece, end, err)
		}
	}
	tell(t, s, chunk(id, "{}", true))
	tell(t, s, chunk(id, `{"behind":"the end"}`, false))
	tell(t, s, streamEnd(id, ""))
	tell(t, s, streamEnd(id, `,"error":"x"`))
	piece, end, _ := st.Take()
	if string(piece) != "data: {}\n\n"+doneEvent || !end.Complete {
		t.Errorf("%q, %+v", piece, end)
	}
	// Nobody answers for a request that was not sent yet.
	early, err := s.Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	tell(t, s, answer("r-3", `,"response":{}`))
	if _, end, _ := early.Take(); end != nil {
		t.Errorf("ended before it was sent: %+v", end)
	}
}

func TestWarmUpsGoToAgentsThatTakeThemOnceInFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older := liveOld(t, Config{})
		newer := live(t, Config{}, "m")
		sent(newer)
		if err := newer.WarmUp("m"); !errors.Is(err, ErrNotOffered) {
			t.Errorf("an agent that does not take them: %v", err)
		}
		newer.mu.Lock()
		newer.caps = append(newer.caps, capWarmup)
		newer.mu.Unlock()
		for name, c := range map[string]struct {
			s      *Session
			asked  func() bool
			answer func()
		}{
			"v1": {older, func() bool {
				out := sentOld(t, older)
				return len(out) == 1 && out[0].Type == "warmup" && out[0].RequestID == "warmup-1" && out[0].Payload["model_id"] == "m"
			}, func() {
				tell(t, older, answer("warmup-1", `,"model_id":"m","success":false,"load_time_ms":1500,"error":"no\nroom"`))
				tell(t, older, answer("warmup-1", `,"success":true`))
			}},
			"v2": {newer, func() bool {
				out := sent(newer)
				return len(out) == 1 && out[0].GetWarmup().GetModelId() == "m"
			}, func() {
				r := &agentv2.WarmupResult{ModelId: "m", LoadTimeMs: 1500, Error: "no\nroom"}
				if why := newer.wire.receive(encode(t, &agentv2.Frame{Seq: 2, Body: &agentv2.Frame_WarmupResult{WarmupResult: r}})); why != nil {
					t.Error(why)
				}
			}},
		} {
			if err := c.s.WarmUp("m"); err != nil || !c.asked() {
				t.Errorf("%s: not asked, %v", name, err)
			}
			c.answer()
			want := Warmed{Model: "m", LoadTime: 1500 * time.Millisecond, Error: "noroom"}
			if got := c.s.house.registrar.(*desk).warmed; len(got) != 1 || got[0] != want {
				t.Errorf("%s: told %+v", name, got)
			}
			if err := c.s.WarmUp("m"); !errors.Is(err, ErrBusy) {
				t.Errorf("%s: again at once: %v", name, err)
			}
			if err := c.s.WarmUp("other"); !errors.Is(err, ErrNotOffered) {
				t.Errorf("%s: another model: %v", name, err)
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
			t.Errorf("while it drains: %v", err)
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
		{`{"type":"model_health_update","payload":{"model_health":{"b":"unhealthy","a":"degraded","c":"unhealthy"}}}`, "a:true::0 b:false::0"},
		{`{"type":"heartbeat","payload":{"models":null}}`, "a:true::0 b:false::0"},
		{`{"type":"heartbeat","payload":{}}`, "a:true::0 b:false::0"},
		{`{"type":"heartbeat","payload":{"models":["b","c"],"model_hashes":[{"model_id":"c","format":"gguf","quantization":"q4_k_m","context_length":32768}]}}`, "b:false::0 c:true:q4_k_m:32768"},
		{`{"type":"heartbeat","payload":{"models":["c","b"],"model_health":{"b":"healthy"}}}`, "c:true:q4_k_m:32768 b:true::0"},
		{`{"type":"heartbeat","payload":{"model_hashes":[{"model_id":"c","format":"fp16","quantization":"none","context_length":1e30}]}}`, "c:true:fp16:16777216 b:true::0"},
		{`{"type":"heartbeat","payload":{"models":[]}}`, ""},
		{`{"type":"register","request_id":"x","payload":{"models":["d","d","bad id",""]}}`, "d:true::0"},
		{`{"type":"register","request_id":"x","payload":{"models":null}}`, ""},
	} {
		tell(t, s, c.text)
		if got := offers(); got != c.want {
			t.Errorf("behind %s: %q, want %q", c.text, got, c.want)
		}
		for _, m := range sentOld(t, s) {
			if m.Type != "ack" || m.Payload["success"] != true {
				t.Errorf("answered with %v", m)
			}
		}
	}
}

func TestOldAgentThatIsNotRegisteredHearsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		e.desk.wait = make(chan struct{})
		a := e.oldAgent(t)
		a.send(`{"type":"heartbeat","request_id":"early","payload":{}}`)
		a.send(`{"type":"model_health_update","payload":{"model_health":{"m":"unhealthy"}}}`)
		a.send(registerText("good", "node-0001"))
		a.send(`{"type":"heartbeat","request_id":"early","payload":{}}`)
		a.send(strings.ReplaceAll(registerText("good", "node-0001", "other"), "r-1", "r-2"))
		if !a.silent(3 * time.Second) {
			t.Fatal("the hub says something before the key is looked up")
		}
		close(e.desk.wait)
		if m := a.hears(); m.RequestID != "r-2" || m.Payload["success"] != true {
			t.Errorf("heard %v", m)
		}
		if !a.silent(3 * time.Second) {
			t.Error("the hub says it twice")
		}
		if v, _ := e.desk.session(t).View(); len(v.Offers) != 1 || v.Offers[0].Model != "other" {
			t.Errorf("offers %+v", v.Offers)
		}
	})
}

func TestOldAgentMayBeSilentForNinetyFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		time.Sleep(90 * time.Second) //nolint:forbidigo // of a synctest bubble
		a.send(`{"type":"heartbeat","request_id":"h","payload":{}}`)
		a.hears()
		began := time.Now()
		if m := a.hears(); m.Type != "error" || time.Since(began) != 95*time.Second {
			t.Errorf("%v after %v", m, time.Since(began))
		}
		a.ends()
	})
}

func TestWarningsAndWalletsOfOldAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		e.desk.warning = "this connection took the place of another"
		a := e.oldAgent(t)
		a.send(`{"type":"register","request_id":"w","payload":{"node_id":"node-0001","owner_addr":"0xabc","signature":"0x0102ff","auth_nonce":"n-1","models":[],"hardware":{"gpu_model":"A\u001b[31m","vram_gb":"many","gpu_count":-3,"compute_capability":"8.9\n\n10.0"}}}`)
		if m := a.hears(); !strings.Contains(fmt.Sprint(m.Payload["message"]), e.desk.warning) {
			t.Errorf("heard %v", m)
		}
		shown := e.desk.shown[0]
		if shown.Owner != "0xabc" || !bytes.Equal(shown.Signature, []byte{1, 2, 255}) || shown.Nonce != "n-1" || shown.Key != "" {
			t.Errorf("showed %+v", shown)
		}
		v, _ := e.desk.session(t).View()
		if h := v.Hardware; h == nil || h.Model != "A[31m" || h.VRAMGB != 0 || h.Count != 0 || h.ComputeCapability != "8.9\n10.0" {
			t.Errorf("hardware %+v", v.Hardware)
		}
	})
}
