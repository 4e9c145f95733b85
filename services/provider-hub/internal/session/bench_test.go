package session

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

const benchChunk = `{"id":"c1","object":"chat.completion.chunk","created":1795231432,"model":"local-qwen","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`

// BenchmarkChunk is what one event of a stream costs until it is taken, in both
// dialects.
func BenchmarkChunk(b *testing.B) {
	take := func(b *testing.B, s *Session, st *Stream, msg []byte) {
		if why := s.wire.receive(msg); why != nil {
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
		sent(s)
		f := &agentv2.Frame{Stream: st.id, Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: []byte("data: " + benchChunk + "\n\n")}}}
		var msg []byte
		b.ReportAllocs()
		for b.Loop() {
			f.Seq++
			msg, _ = proto.MarshalOptions{}.MarshalAppend(msg[:0], f)
			take(b, s, st, msg)
			if f.Seq%1024 == 0 {
				sent(s)
			}
		}
	})
}

// BenchmarkLargestRequest is what the largest request costs to check, to put
// into its frame and to send.
func BenchmarkLargestRequest(b *testing.B) {
	s := liveOld(b, Config{})
	body := make([]byte, v1MaxFrame-v1Envelope)
	for i := range body {
		body[i] = 'x'
	}
	body[0], body[len(body)-1] = '"', '"'
	far := discardConn{}
	out := &batchConn{Conn: far}
	out.batch()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		st, err := s.Open(Request{RequestID: "r", Model: "m", Body: body})
		if err != nil {
			b.Fatal(err)
		}
		var o outbox
		s.next(&o)
		for _, f := range o.frames {
			head, body, tail, _ := f.parts(nil)
			if err := out.message(opText, head, body, tail, time.Minute); err != nil {
				b.Fatal(err)
			}
		}
		s.mu.Lock()
		s.forget(st)
		s.mu.Unlock()
	}
}

// discardConn takes all that is written.
type discardConn struct{ net.Conn }

func (discardConn) Write(p []byte) (int, error)      { return len(p), nil }
func (discardConn) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkIdleSession is the memory of a registered session that does nothing,
// with its sockets at both ends, goroutines and buffers.
func BenchmarkIdleSession(b *testing.B) {
	const n = 1000
	e := serveSessions(b, Config{HandshakeRate: 1e6, HandshakeBurst: 1e6})
	hub := httptest.NewServer(e.server)
	defer hub.Close()
	before := inUse()
	var conns []net.Conn
	for i := range n {
		conn, err := net.Dial("tcp", hub.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, conn)
		_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		r := bufio.NewReader(conn)
		if answer, err := http.ReadResponse(r, nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			b.Fatal(answer, err)
		}
		_, _ = conn.Write(masked(finBit|opText, []byte(registerText("good", fmt.Sprintf("node-%04d", i)))))
		if _, _, err := readServerFrame(r); err != nil {
			b.Fatal(err)
		}
	}
	each := float64(inUse()-before) / n
	for _, conn := range conns {
		_ = conn.Close()
	}
	for b.Loop() {
		runtime.Gosched()
	}
	b.ReportMetric(each, "bytes/session")
	b.ReportMetric(0, "ns/op")
}

// inUse is the memory of heap and stacks.
func inUse() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// BenchmarkBesideAStalledStream is how late chunks of 63 streams are, at the 99th
// percentile, while nobody takes those of the 64th, or somebody does.
func BenchmarkBesideAStalledStream(b *testing.B) {
	for name, stalled := range map[string]bool{"quiet": false, "stalled": true} {
		b.Run(name, func(b *testing.B) {
			models := []string{"m", "m1", "m2", "m3", "m4", "m5", "m6"}
			s := liveOld(b, Config{}, models...)
			s.terms.streams = 64
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
					if why := s.wire.receive([]byte(chunk(id, strconv.FormatInt(time.Now().UnixNano(), 10), false))); why != nil {
						b.Fatal(why)
					}
				}
			}
			for _, id := range ids {
				_ = s.wire.receive([]byte(streamEnd(id, "")))
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

// takeAll takes a stream to its end and says how late its chunks were, as far as
// there is room for that.
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
