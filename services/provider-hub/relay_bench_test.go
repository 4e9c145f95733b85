package providerhub_test

import (
	"testing"

	"svc.internal/pkg/fakeagent"
)

// BenchmarkRelay is one event of one stream, from the agent's socket to the
// gateway's end of the in-process channel.
func BenchmarkRelay(b *testing.B) {
	w := setup(b)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	open := order(m, a, true)
	open.MaxOutputTokens, open.TotalTimeoutMs = 1<<40, 3_000_000
	call := w.call(open)
	r := received(b, a)
	must(b, r.Text("first"))
	call.content()
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			if r.Text(" word") != nil {
				return
			}
		}
	}()
	for range b.N {
		if _, err := call.stream.Recv(); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	call.cancel()
}
