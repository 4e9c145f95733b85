package main

import (
	"context"
	"encoding/binary"
	"io"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// The split form: edge and hub in two processes, joined by gRPC with frames as
// raw bytes.

type raw struct{}

func (raw) Marshal(v any) ([]byte, error)   { return *(v.(*[]byte)), nil }
func (raw) Unmarshal(b []byte, v any) error { *(v.(*[]byte)) = append([]byte(nil), b...); return nil }
func (raw) Name() string                    { return "raw" }

func dialG(addr string) *grpc.ClientConn {
	c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func overGRPC() dispatcher {
	hubC, sideC := dialG(*hubAt), dialG(*sideAt)
	desc := &grpc.StreamDesc{ServerStreams: true}
	var lines []*line
	var n atomic.Uint64
	for i := 0; i < *mux; i++ {
		st, err := dialG(*hubAt).NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
			"/floor.Hub/Line")
		if err != nil {
			log.Fatal(err)
		}
		l := &line{st: st, q: make(chan []byte, 4096), m: map[uint64]*call{}}
		go l.write()
		go l.read()
		lines = append(lines, l)
	}
	return func(ctx context.Context, body []byte, on func(byte, []byte) error) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for i := 0; i < *unary; i++ {
			in, out := make([]byte, 96), []byte(nil)
			if err := sideC.Invoke(ctx, "/floor.Side/Ask", &in, &out); err != nil {
				return err
			}
		}
		if len(lines) > 0 {
			return lines[n.Add(1)%uint64(len(lines))].call(ctx, body, on)
		}
		st, err := hubC.NewStream(ctx, desc, "/floor.Hub/Dispatch")
		if err != nil {
			return err
		}
		if err := st.SendMsg(&body); err != nil {
			return err
		}
		st.CloseSend()
		for {
			var m []byte
			if err := st.RecvMsg(&m); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := on(m[0], m[1:]); err != nil {
				return err
			}
		}
	}
}

func serveGRPC(h *hub) {
	s := grpc.NewServer(grpc.ForceServerCodec(raw{}))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "floor.Side", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Ask",
		Handler: func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in []byte
			if err := dec(&in); err != nil {
				return nil, err
			}
			return &in, nil
		}}}}, nil)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "floor.Hub", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Line", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, st grpc.ServerStream) error { return serveLine(h, st) },
	}, {
		StreamName: "Dispatch", ServerStreams: true,
		Handler: func(_ any, st grpc.ServerStream) error {
			var body []byte
			if err := st.RecvMsg(&body); err != nil {
				return err
			}
			return h.dispatch(st.Context(), body, func(kind byte, p []byte) error {
				m := make([]byte, 1+len(p))
				m[0] = kind
				copy(m[1:], p)
				return st.SendMsg(&m)
			})
		}}}}, nil)
	ln, err := net.Listen("tcp", *gAddr)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(s.Serve(ln))
}

// ---- many requests on one long-lived stream; frames that wait together share a message ----

type msgStream interface {
	SendMsg(any) error
	RecvMsg(any) error
}

// sized puts the length of a frame in front of it.
func sized(f []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(f)), uint32(len(f))), f...)
}

func pump(st msgStream, q chan []byte, done <-chan struct{}) error {
	for {
		select {
		case f := <-q:
			m := sized(f)
			if *hold > 0 {
				time.Sleep(*hold)
			}
			for more := true; more && len(m) < 32<<10; {
				select {
				case f = <-q:
					m = binary.BigEndian.AppendUint32(m, uint32(len(f)))
					m = append(m, f...)
				default:
					more = false
				}
			}
			if err := st.SendMsg(&m); err != nil {
				return err
			}
		case <-done:
			return nil
		}
	}
}

func eachFrame(m []byte, do func(f []byte)) {
	for len(m) >= 4 {
		n := int(binary.BigEndian.Uint32(m))
		if n < 9 || len(m) < 4+n {
			return
		}
		do(m[4 : 4+n])
		m = m[4+n:]
	}
}

type line struct {
	st   msgStream
	q    chan []byte
	mu   sync.Mutex
	m    map[uint64]*call
	next uint64
}

func (l *line) write() { log.Print(pump(l.st, l.q, nil)) }

func (l *line) read() {
	for {
		var m []byte
		if err := l.st.RecvMsg(&m); err != nil {
			log.Fatal(err)
		}
		eachFrame(m, func(f []byte) {
			l.mu.Lock()
			c := l.m[binary.BigEndian.Uint64(f[1:])]
			l.mu.Unlock()
			if c != nil {
				select {
				case c.in <- f:
				case <-c.gone:
				}
			}
		})
	}
}

func (l *line) call(ctx context.Context, body []byte, on func(byte, []byte) error) error {
	c := &call{in: make(chan []byte, 256), gone: make(chan struct{})}
	l.mu.Lock()
	l.next++
	id := l.next
	l.m[id] = c
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.m, id)
		l.mu.Unlock()
		close(c.gone)
	}()
	l.q <- frame(kReq, id, body)
	for {
		select {
		case f := <-c.in:
			if f[0] == kEnd {
				return nil
			}
			if err := on(f[0], f[9:]); err != nil {
				l.q <- frame(kCancel, id, nil)
				return err
			}
		case <-ctx.Done():
			l.q <- frame(kCancel, id, nil)
			return ctx.Err()
		}
	}
}

func serveLine(h *hub, st grpc.ServerStream) error {
	q := make(chan []byte, 4096)
	done := st.Context().Done()
	go pump(st, q, done)
	put := func(f []byte) error {
		select {
		case q <- f:
			return nil
		case <-done:
			return context.Canceled
		}
	}
	var mu sync.Mutex
	stop := map[uint64]context.CancelFunc{}
	for {
		var m []byte
		if err := st.RecvMsg(&m); err != nil {
			return err
		}
		eachFrame(m, func(f []byte) {
			id := binary.BigEndian.Uint64(f[1:])
			mu.Lock()
			defer mu.Unlock()
			if f[0] == kCancel {
				if c := stop[id]; c != nil {
					c()
				}
				return
			}
			ctx, cancel := context.WithCancel(st.Context())
			stop[id] = cancel
			go func() {
				h.dispatch(ctx, f[9:], func(kind byte, p []byte) error { return put(frame(kind, id, p)) })
				put(frame(kEnd, id, nil))
				mu.Lock()
				delete(stop, id)
				mu.Unlock()
				cancel()
			}()
		})
	}
}

// ---- agent ----
