package session_test

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	agentv2 "svc.internal/proto/svc/agent/v2"
	. "svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

const benchChunk = `{"id":"c1","object":"chat.completion.chunk","created":1795231432,"model":"local-qwen",` +
	`"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`

// BenchmarkChunk is the cost of one event of a stream until the event is taken, in both
// dialects.
func BenchmarkChunk(b *testing.B) {
	take := func(b *testing.B, s *wire, st *Stream, msg []byte) {
		if why := s.receive(msg); why != nil {
			b.Fatal(why)
		}
		piece, _, err := st.Take()
		if err != nil {
			b.Fatal(err)
		}
		st.Release(len(piece), piece)
	}
	b.Run("v1", func(b *testing.B) {
		s := liveOld(b, Config{})
		st, id := ask(b, s, true)
		msg := []byte(chunk(id, benchChunk, false))
		b.ReportAllocs()
		for b.Loop() {
			take(b, s, st, msg)
		}
	})
	b.Run("v2", func(b *testing.B) {
		s := live(b, Config{}, "m")
		st := openStream(b, s, 1)
		sent(b, s)
		event := &agentv2.Data{Data: []byte("data: " + benchChunk + "\n\n")}
		f := &agentv2.Frame{Stream: st.ID(), Body: &agentv2.Frame_Data{Data: event}}
		var msg []byte
		b.ReportAllocs()
		for b.Loop() {
			f.Seq++
			msg, _ = proto.MarshalOptions{}.MarshalAppend(msg[:0], f)
			take(b, s, st, msg)
			if f.Seq%1024 == 0 {
				sent(b, s)
			}
		}
	})
}

// BenchmarkLargestRequest is the cost to check the largest request, to put it into its
// frame and to send it.
func BenchmarkLargestRequest(b *testing.B) {
	s := liveOld(b, Config{})
	body := make([]byte, 1<<20-1<<10)
	for i := range body {
		body[i] = 'x'
	}
	body[0], body[len(body)-1] = '"', '"'
	room := make([]byte, 64<<10)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		st, err := s.Open(Request{RequestID: "r", Model: "m", Body: body})
		if err != nil {
			b.Fatal(err)
		}
		var o Outbox
		s.Next(&o)
		for i := range o.Messages {
			head, written, tail, err := s.speak.Append(room[:0], &o.Messages[i])
			if err != nil {
				b.Fatalf("got the error %v, want none", err)
			}
			if len(head)+len(written)+len(tail) < len(body) {
				b.Fatalf("a message: got %d, want at least %d", len(head)+len(written)+len(tail), len(body))
			}
		}
		s.Forget(st)
	}
}

// BenchmarkBesideAStalledStream is how late the chunks of 63 streams are, at the 99th
// percentile, with nobody who takes the chunks of the 64th stream, and with somebody.
func BenchmarkBesideAStalledStream(b *testing.B) {
	for name, stalled := range map[string]bool{"quiet": false, "stalled": true} {
		b.Run(name, func(b *testing.B) {
			models := []string{"m", "m1", "m2", "m3", "m4", "m5", "m6"}
			s := manyOld(b, models...)
			var ids []string
			late := make(chan time.Duration, 1<<16)
			var takers sync.WaitGroup
			for i := range 64 {
				st, err := s.Open(Request{RequestID: "r", Model: models[i/10], Stream: true, Body: []byte("{}")})
				if err != nil {
					b.Fatal(err)
				}
				ids = append(ids, sentOld(b, s)[0].RequestID)
				if i == 0 && stalled {
					continue
				}
				takers.Go(func() { takeAll(st, i > 0, late) })
			}
			pace := time.NewTicker(5 * time.Millisecond) // 200 tokens a second
			defer pace.Stop()
			for b.Loop() {
				<-pace.C
				for _, id := range ids {
					if why := s.receive([]byte(chunk(id, strconv.FormatInt(time.Now().UnixNano(), 10), false))); why != nil {
						b.Fatal(why)
					}
				}
			}
			for _, id := range ids {
				_ = s.receive([]byte(streamEnd(id, "")))
			}
			takers.Wait()
			close(late)
			var all []time.Duration
			for d := range late {
				all = append(all, d)
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
		})
	}
}

// manyOld is a registered v1 session that takes 64 requests at once.
func manyOld(b *testing.B, models ...string) *wire {
	b.Helper()
	speak := speakV1()
	speak.Limits.Streams = 64
	s := freshIn(environment(Config{}, &sessiontest.Registrar{}), speak)
	tell(b, s, registerText("good", "node-0001", models...))
	s.admission.Wait()
	b.Cleanup(s.end)
	sentOld(b, s)
	return s
}

// takeAll takes a stream to its end. With tells, it sends how late each chunk was, as far
// as late has room.
func takeAll(st *Stream, tells bool, late chan<- time.Duration) {
	for {
		<-st.Ready()
		piece, end, err := st.Take()
		now := time.Now().UnixNano()
		for line := range bytes.SplitSeq(piece, []byte("\n\n")) {
			if said, ok := bytes.CutPrefix(line, []byte("data: ")); ok && tells {
				at, _ := strconv.ParseInt(string(said), 10, 64)
				select {
				case late <- time.Duration(now - at):
				default:
				}
			}
		}
		st.Release(len(piece), piece)
		if end != nil || err != nil {
			return
		}
	}
}
