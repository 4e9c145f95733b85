package attack

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fakeagent"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/proving/internal/trial"
)

// agents are the holes of the provider's socket.
func agents() []Case {
	return []Case{
		{Hole: "F12", Name: "claimed_window", Before: "a claim of 2,000,000,000 removes the model without a word",
			Run: claimedWindow},
		{Hole: "F12", Name: "absurd_capacity", Before: "cut to 1,024 without a word", Run: absurdCapacity},
		{Hole: "D1", Name: "old_streams_on_a_new_socket", Before: "closed with 1008 every two seconds", Run: oldStreams},
		{Hole: "F13", Name: "flood_of_window_0", Before: "without limit", Run: flood(func() *agentv2.Frame {
			return &agentv2.Frame{Body: &agentv2.Frame_Window{Window: &agentv2.Window{}}}
		})},
		{Hole: "F13", Name: "flood_of_drain", Before: "without limit", Run: flood(func() *agentv2.Frame {
			return &agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}}
		})},
		{Hole: "F13", Name: "flood_without_body", Before: "without limit",
			Run: flood(func() *agentv2.Frame { return &agentv2.Frame{} })},
		{Hole: "F20", Name: "flood_of_registrations", Before: "honest agents wait behind them", Alone: true,
			Run: floodOfRegistrations},
	}
}

// dial connects an agent that the attack plays.
func (s *stage) dial(t testing.TB, opts fakeagent.Options) (*fakeagent.Agent, *trial.Provider) {
	t.Helper()
	p := s.Provider(t, s.title())
	opts.Key = p.Key
	agent, err := fakeagent.Dial(t.Context(), s.WSURL()+"/ws", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	return agent, p
}

func claimedWindow(t testing.TB, s *stage) Outcome {
	const catalog = 8192
	got := ""
	for _, claim := range []int64{1_000_000, 2_000_000_000, 1 << 40} {
		id := s.put(t, model{window: catalog})
		agent, p := s.dial(t,
			fakeagent.Options{Offers: []*agentv2.ModelOffer{{ModelId: id, ContextLength: claim, Healthy: true}}})
		offered, window := false, 0.0
		deadline := time.Now().Add(trial.Patience)
		for !offered && time.Now().Before(deadline) {
			_, _, body := s.Call(t, "GET", "/api/v1/models/"+id+"/providers", "", "")
			list, _ := trial.At(trial.Decode(t, body), "data", "list").([]any)
			for _, o := range list {
				if trial.At(o, "provider_id") == p.ID {
					offered = true
					window, _ = trial.At(o, "context_length").(float64)
				}
			}
			pass(t, 50*time.Millisecond)
		}
		got += fmt.Sprintf("%.0f ", window)
		if !offered || window > catalog {
			t.Errorf("a claim of %d: got offered=%v with %.0f, want at most the catalog's %d", claim, offered, window, catalog)
		}
		if claim > 1<<30 && agent.Ack().GetWarning() == "" && len(agent.Ack().GetRefusedModels()) == 0 {
			t.Errorf("a claim of %d: the agent is told nothing", claim)
		}
	}
	return Outcome{Got: "windows of " + got, Paid: "nothing", Harm: "none"}
}

func absurdCapacity(t testing.TB, s *stage) Outcome {
	id := s.put(t, model{})
	agent, p := s.dial(t, fakeagent.Options{Models: []string{id}, Capacity: 1_000_000})
	s.WaitOffered(t, id, p.ID)
	told := agent.Ack().GetWarning() + fmt.Sprint(agent.Ack().GetRefusedModels())
	if agent.Ack().GetWarning() == "" && len(agent.Ack().GetRefusedModels()) == 0 {
		t.Errorf("a capacity of 1,000,000: the agent is told nothing")
	}
	return Outcome{Got: trial.Tail(told, 60), Paid: "nothing", Harm: "none"}
}

// oldStreams is an agent of dialect v1 that keeps sending the streams of a dead hub: ten
// of them, twenty chunks a second.
func oldStreams(t testing.TB, s *stage) Outcome {
	const streams, chunks = 10, 60
	id := s.put(t, model{})
	p := s.Provider(t, s.title())
	agent := fakeagent.StartV1(fakeagent.V1Options{URL: s.WSURL(), ServiceURL: s.Base(), Key: p.Key, NodeName: s.title(),
		Models: []string{id}, Handler: fakeagent.V1Answer("served")})
	t.Cleanup(agent.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	if err := agent.AwaitRegistered(ctx); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range chunks {
		for n := range streams {
			request := fmt.Sprintf("00000000-0000-7000-8000-0000000000%02d", n)
			_ = agent.Send("stream_chunk", request, map[string]any{"request_id": request, "done": false, "chunk": map[string]any{
				"id": "c", "object": "chat.completion.chunk",
				"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": "old"}}}}})
			if i == chunks-1 {
				_ = agent.Send("stream_end", request, map[string]any{"request_id": request, "latency_ms": 1, "tokens_input": 1,
					"tokens_output": chunks})
			}
		}
		<-tick.C
	}
	// A heartbeat behind them all is answered once they have been read.
	acks := agent.State().Acks
	if err := agent.Heartbeat(); err == nil {
		limit, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_ = agent.Await(limit, func(v fakeagent.V1State) bool { return v.Acks > acks })
		cancel()
	}
	closes := len(agent.State().Lives)
	if closes > 0 {
		t.Errorf("got %d closes (%+v) for %d chunks of streams that an earlier hub had, want none", closes,
			agent.State().Lives[0], streams*chunks)
	}
	s.WaitOffered(t, id, p.ID)
	_, key := s.caller(t)
	if r := s.chat(t, key, trial.Chat(id, "")); r.status != 200 {
		t.Errorf("behind it: got %d %s, want the answer", r.status, r.body)
	}
	return Outcome{Got: fmt.Sprintf("%d chunks sent", streams*chunks), Paid: "nothing",
		Harm: fmt.Sprintf("%d closes", closes)}
}

// flood sends frames without end, as fast as the socket takes them.
func flood(frame func() *agentv2.Frame) func(t testing.TB, s *stage) Outcome {
	return func(t testing.TB, s *stage) Outcome {
		const maxFrames = 60_000
		id := s.put(t, model{})
		agent, _ := s.dial(t, fakeagent.Options{Models: []string{id}})
		sent := 0
		for sent < maxFrames && agent.Send(frame()) == nil {
			sent++
		}
		closed := true
		if sent == maxFrames {
			select {
			case <-agent.Closed():
			case <-time.After(20 * time.Second): // an agent that is silent is closed after 30 s
				closed = false
			}
		}
		if !closed {
			t.Errorf("got %d frames in and the connection kept, want it closed", sent)
		}
		return Outcome{Got: fmt.Sprintf("%d frames written, closed=%v", sent, closed), Paid: "nothing",
			Harm: "the hub's time"}
	}
}

// floodOfRegistrations comes from one network; an honest agent from another. The hub
// takes handshakes a second, so that those of the flood that wait at a time, half of
// it at least, would keep an agent behind them waiting for ten seconds, which is
// longer than patience.
func floodOfRegistrations(t testing.TB, s *stage) Outcome {
	const attackers, patience = 20 * handshakes, 9 * time.Second
	id := s.put(t, model{})
	at := s.WSURLs()[0] + "/ws"
	dial := func(address string) func(context.Context, string, string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		return d.DialContext
	}
	ctx, stop := context.WithCancel(t.Context())
	var tries atomic.Int64
	var wg sync.WaitGroup
	for i := range attackers {
		wg.Go(func() {
			for ctx.Err() == nil {
				// Keys of the right form that belong to nobody.
				key, err := apikey.Generate(apikey.Provider, rand.Reader)
				if err != nil {
					return
				}
				agent, err := fakeagent.Connect(ctx, at, fakeagent.Options{
					Key: key, NodeID: fmt.Sprintf("flood-%d", i), Models: []string{id}, NetDial: dial("127.9.9.9")})
				if err != nil {
					continue
				}
				if agent.Register() == nil {
					tries.Add(1)
					_ = agent.AwaitAck(ctx)
				}
				agent.Close()
			}
		})
	}
	defer wg.Wait()
	defer stop()
	// By then the hub has taken all that it takes at once, and most of the flood waits.
	trial.Until(t, "the flood is under way", func() bool { return tries.Load() >= 2*attackers })
	slowest := time.Duration(0)
	for range 5 {
		p := s.Provider(t, s.title())
		began := time.Now()
		limit, cancel := context.WithTimeout(t.Context(), patience)
		agent, err := fakeagent.Dial(limit, at, fakeagent.Options{Key: p.Key, Models: []string{id},
			NetDial: dial("127.8.8.8")})
		cancel()
		slowest = max(slowest, time.Since(began))
		if err != nil {
			t.Errorf("an honest agent beside %d that flood: got %v, want it registered", attackers, err)
			continue
		}
		agent.Close()
	}
	return Outcome{Got: fmt.Sprintf("%d registrations tried", tries.Load()), Paid: "nothing",
		Harm: fmt.Sprintf("an honest one takes %v at most", slowest.Round(time.Millisecond))}
}
