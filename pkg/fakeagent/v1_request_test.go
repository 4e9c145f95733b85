package fakeagent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// ask sends a request for the agent's model.
func ask(p *v1Peer, id string, stream bool) {
	p.send("inference", id, map[string]any{
		"endpoint_id": "ep", "model_id": "Qwen/Qwen3-8B", "stream": stream,
		"request": json.RawMessage(
			`{"messages":[{"role":"user","content":"hi"}],"model":"Qwen/Qwen3-8B","seed":9007199254740993}`),
	})
}

// exchange has a hub ask an agent and lists what comes until the end.
func exchange(t *testing.T, opts V1Options, asks func(*v1Peer), ends ...string) []V1Frame {
	t.Helper()
	answers := make(chan []V1Frame, 1)
	p := v1Hub(t, func(p *v1Peer) {
		p.welcome()
		asks(p)
		var all []V1Frame
		for {
			f, ok := p.next()
			if !ok {
				return
			}
			if f.Type == "heartbeat" {
				p.ack(f)
				continue
			}
			if all = append(all, f); slices.Contains(ends, f.Type) {
				answers <- all
				p.obey()
				return
			}
		}
	})
	startV1(t, p, opts)
	return <-answers
}

func TestV1AnswersEndAsThoseOfThePublicAgent(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(*V1Request)
		want    []string // parts of the frames, in order
	}{
		"good": {V1Answer("Hel", "lo"), []string{
			`"role":"assistant"`, `"content":"Hel"`, `"content":"lo"`, `"finish_reason":"stop"`, `"cached_tokens":0`,
			`"chunk":null,"done":true`, `"tokens_input":10,"tokens_output":2`,
		}},
		"cut short": {V1CutShort("par"), []string{`"role"`, `"content":"par"`, `{"request_id":"r","latency_ms":0}`}},
		"unfinished": {V1Unfinished("par"), []string{`"role"`, `"content":"par"`, `"done":true`,
			`{"request_id":"r","latency_ms":0}`}},
		"broken off": {V1Broken("par"), []string{`"role"`, `"content":"par"`,
			`"status_code":502,"error":"failed to read stream: unexpected EOF"`}},
		"an error inside": {V1ErrorInside(`{"error":{"message":"m"}}`, "par"), []string{
			`"role"`, `"content":"par"`, `"chunk":{"error":{"message":"m"}},"done":false`, `"done":true`,
			`{"request_id":"r","latency_ms":0}`}},
		"lines without a space": {V1Silent(), []string{`{"request_id":"r","latency_ms":0}`}},
		"refused": {V1Fails(400, "context too long"),
			[]string{`"status_code":400,"error":"model server returned HTTP 400: context too long"`}},
		"nothing to say in a chunk": {func(r *V1Request) {
			_ = r.Chunk(`{"choices":[]}`)
			_ = r.End()
			if r.End() == nil {
				t.Error("a request ended twice: r.End(): got no error, want one")
			} else if r.Done() == nil {
				t.Error("a request ended twice: r.Done(): got no error, want one")
			}
		}, []string{`{"request_id":"r","latency_ms":0}`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				frames := exchange(t, V1Options{Handler: c.handler}, func(p *v1Peer) { ask(p, "r", true) }, "stream_end")
				if len(frames) != len(c.want) {
					t.Fatalf("len(frames): got %d, want %d", len(frames), len(c.want))
				}
				for i, f := range frames {
					if f.RequestID != "r" {
						t.Errorf(`%d: f.RequestID: got %q, want "r"`, i, f.RequestID)
					} else if !strings.Contains(string(f.Payload), c.want[i]) {
						t.Errorf("%d: f.Payload: got %q, want %q in it", i, string(f.Payload), c.want[i])
					}
				}
			})
		})
	}
}

func TestV1WholeAnswersAndTheirErrors(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(*V1Request)
		want    string
	}{
		"good": {V1Answer("Hel", "lo"), `"content":"Hello"`},
		"an error": {func(r *V1Request) { _ = r.Whole(`{"error":{"message":"m","code":507}}`) },
			`"response":null,"error":"model server returned HTTP 507: m","status_code":507`},
		"not found": {func(r *V1Request) { _ = r.Whole(`{"error":{"message":"m","code":"model_not_found"}}`) },
			`"status_code":404`},
		"other": {func(r *V1Request) { _ = r.Whole(`{"error":{"message":"m"}}`) }, `"status_code":500`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				frames := exchange(t, V1Options{Handler: c.handler}, func(p *v1Peer) { ask(p, "r", false) }, "ack")
				if got := string(frames[0].Payload); !strings.Contains(got, c.want) {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestV1ChangesTheBodyOnItsWayToTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := make(chan string, 1)
		exchange(t, V1Options{Handler: func(r *V1Request) { bodies <- string(r.Body); _ = r.End() }},
			func(p *v1Peer) { ask(p, "r", true) }, "stream_end")
		want := `{"messages":[{"content":"hi","role":"user"}],"model":"local-model","seed":9007199254740992,"stream":true,` +
			`"stream_options":{"include_usage":true}}`
		if got := <-bodies; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

func TestV1IgnoresACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		frames := exchange(t, V1Options{Handler: func(r *V1Request) { <-goOn; V1Answer("Hel", "lo")(r) }}, func(p *v1Peer) {
			ask(p, "r", true)
			p.send("cancel", "r", map[string]any{"request_id": "r"})
			close(goOn)
		}, "stream_end")
		if len(frames) != 7 {
			t.Errorf("len(frames): got %d, want 7", len(frames))
		}
	})
}

func TestV1LimitsOfItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		opts V1Options
		asks int
		want string
	}{
		"no such model": {V1Options{Models: []string{"other"}}, 1,
			"model server returned HTTP 404: model Qwen/Qwen3-8B not deployed on this provider"},
		"of the model": {V1Options{MaxPerModel: 1}, 2, "provider concurrency limit"},
		"of all":       {V1Options{MaxInFlight: 1}, 2, "provider concurrency limit"},
		"of a second":  {V1Options{Rate: 2}, 2, "provider rate limit exceeded"},
		"of a stream":  {V1Options{}, 1, "failed to read stream: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				frames := exchange(t, c.opts, func(p *v1Peer) {
					for i := range c.asks {
						ask(p, fmt.Sprint(i), true)
					}
				}, "stream_end")
				if got := string(frames[len(frames)-1].Payload); !strings.Contains(got, c.want) {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestV1StreamsOfALostConnectionGoOnOnTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lives := make(chan *v1Peer, 2)
		goOn := make(chan struct{})
		p := v1Hub(t, func(p *v1Peer) {
			p.welcome()
			lives <- p
			<-goOn
			p.obey()
		})
		a := startV1(t, p, V1Options{})
		first := <-lives
		ask(first, "r", true)
		r := <-a.Requests()
		a.Cut()
		<-r.Gone()
		second := <-lives
		if err := r.Text("x"); err != nil {
			t.Errorf("a chunk on the next connection: %v", err)
		}
		if f, _ := second.next(); f.Type != "stream_chunk" {
			t.Errorf(`the next connection: f.Type: got %q, want "stream_chunk"`, f.Type)
		} else if f.RequestID != "r" {
			t.Errorf(`the next connection: f.RequestID: got %q, want "r"`, f.RequestID)
		}
		second.send("cancel", "", nil)
		await(t, a, func(s V1State) bool { return s.Unknown == 1 })
		close(goOn)
	})
}

// keys are the names in an object. The names in the objects of hardware, model_hashes and
// results follow, behind the name of that member.
func keys(t *testing.T, payload json.RawMessage) string {
	t.Helper()
	var p map[string]json.RawMessage
	if err := json.Unmarshal(payload, &p); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, value := range p {
		names = append(names, name)
		if name == "hardware" {
			names = append(names, "hardware:"+keys(t, value))
		}
		var list []json.RawMessage
		if (name == "model_hashes" || name == "results") && json.Unmarshal(value, &list) == nil {
			for _, entry := range list {
				names = append(names, name+":"+keys(t, entry))
			}
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// TestV1FramesHaveTheFormOfThoseCaptured replays the captured messages of a
// hub to agents with the options of the captured ones: each captured message of
// the agent has its like among what they say.
func TestV1FramesHaveTheFormOfThoseCaptured(t *testing.T) {
	captures, err := V1Captures()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(captures) != 58 {
		t.Fatalf("len(captures): got %d, want 58", len(captures))
	}
	answers := map[string]func(*V1Request){
		"req-1": V1Answer("Hello"), "req-2": V1Answer("Hel", "lo"), "req-4": V1Fails(400, "context too long"),
		"req-5": V1Fails(503, "overloaded"), "req-6": V1Answer("Hello"), "req-7": V1Answer("Hel", "lo", "x"),
		"EARLY": V1CutShort("par"), "NOSPACE": V1Silent(), "ABORT": V1Broken("par"),
	}
	said := map[string]bool{}
	for run, opts := range map[string]V1Options{
		"a": {}, "b": {ContextLength: 32768, Hardware: V1TwoRTX4090()}, "early-close": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			opts.Key = "sk-prov-test"
			opts.Handler = func(r *V1Request) { answers[r.ID](r) }
			frames := make(chan V1Frame, 256)
			p := v1Hub(t, func(p *v1Peer) {
				f := p.await("register")
				frames <- f
				p.ack(f)
				for _, c := range captures {
					if c.Run == run && c.Direction == "hub->agent" && c.Frame.Type != "ack" {
						p.send(c.Frame.Type, c.Frame.RequestID, c.Frame.Payload)
					}
				}
				for {
					f, ok := p.next()
					if !ok {
						return
					}
					frames <- f
					if f.Type == "heartbeat" {
						p.ack(f)
					}
				}
			})
			startV1(t, p, opts)
			for beats := 0; beats < 2; {
				f := <-frames
				said[f.Type+" "+keys(t, f.Payload)] = true
				if f.Type == "heartbeat" {
					beats++
				}
			}
		})
	}
	captured := map[string]bool{}
	for _, c := range captures {
		if form := c.Frame.Type + " " + keys(t, c.Frame.Payload); c.Direction == "agent->hub" && !said[form] {
			t.Errorf("nobody said %s", form)
		}
		captured[c.Frame.Type+" "+keys(t, c.Frame.Payload)] = true
	}
	for form := range said {
		if captured[form] {
			continue
		}
		t.Errorf("nobody was captured saying %s", form)
	}
}

func TestV1TasksAreRepliedToByTheTestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := make(chan V1Frame, 2)
		got := exchange(t, V1Options{Tasks: func(f V1Frame) { taken <- f }}, func(p *v1Peer) {
			p.send("verify", "v", map[string]any{"challenge_id": "c", "challenge_type": "fingerprint"})
			p.send("benchmark", "b", map[string]any{"benchmark_id": "c"})
			synctest.Wait()
			p.send("warmup", "w", map[string]any{"model_id": "Qwen/Qwen3-8B"})
		}, "ack")
		if len(got) != 1 {
			t.Errorf("frames: got %v, want the answer to the warm-up alone", got)
		}
		ids := []string{(<-taken).RequestID, (<-taken).RequestID}
		slices.Sort(ids)
		if !slices.Equal(ids, []string{"b", "v"}) {
			t.Errorf("taken: got %v, want both tasks", ids)
		}
	})
}
