package edgegateway

import (
	"io"
	"strings"
	"testing"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// drain empties what the peers collect, which a benchmark does not look at.
func (f *fleet) drain(stop <-chan struct{}) {
	for {
		select {
		case <-f.billing.reports:
		case <-f.billing.admits:
		case <-f.router.selects:
		case <-f.hub.opens:
		case <-stop:
			return
		}
	}
}

func startBench(b *testing.B) *fleet {
	f := start(b)
	stop := make(chan struct{})
	go f.drain(stop)
	b.Cleanup(func() { close(stop) })
	return f
}

// BenchmarkRelayPerEvent is one event from the hub's Send to the client's
// socket, in one process, the client's reading included; alone, or one of eight
// that come together.
func BenchmarkRelayPerEvent(b *testing.B) {
	for name, together := range map[string]int{"alone": 1, "together": 8} {
		b.Run(name, func(b *testing.B) {
			f := startBench(b)
			f.hub.set(func(p *played) error {
				if err := p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed); err != nil {
					return err
				}
				e := &hubv1.DispatchEvent{Json: []byte(moreChunk), CompletionTokens: 2}
				for i := range b.N {
					e.More = (i+1)%together != 0 && i+1 < b.N
					if err := p.send(e); err != nil {
						return err
					}
				}
				return p.finish(1, 1)
			})
			b.ReportAllocs()
			b.ResetTimer()
			resp := f.post(helloStream)
			n, err := io.Copy(io.Discard, resp.Body)
			if err != nil {
				b.Fatalf("got the error %v, want none", err)
			}
			if n < int64(b.N*len(moreChunk)) {
				b.Fatalf("io.Copy(io.Discard, resp.Body): got %d, want at least %d", n, int64(b.N*len(moreChunk)))
			}
		})
	}
}

// BenchmarkRequest is one whole answer on a connection kept alive, admission,
// selection and dispatch by peers in one process, the client included.
func BenchmarkRequest(b *testing.B) {
	for name, body := range map[string]string{
		"small": hello,
		"32KB":  strings.Replace(hello, "Say", strings.Repeat("The quick brown fox jumps over the lazy dog. ", 728), 1),
	} {
		b.Run(name, func(b *testing.B) {
			f := startBench(b)
			f.hub.set(wholeAnswer)
			b.ReportAllocs()
			for b.Loop() {
				resp := f.post(body)
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
