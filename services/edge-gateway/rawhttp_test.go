package edgegateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/serve"
)

// patienceRaw bounds one connection: the gateway has all bytes and their end.
const patienceRaw = 30 * time.Second

// maxRaw bounds what is sent on one connection, in bytes.
const maxRaw = 8 << 10

// wire is the public listener with the settings of its server, and notes what
// reaches the gateway's handler on each connection.
type wire struct {
	addr string
	mu   sync.Mutex
	seen map[string][]strictRequest
}

func newWire(t testing.TB) *wire {
	t.Helper()
	f := newFleet(t)
	// Clients of one address are many here, and none has a key.
	f.cfg.WrongKeys = 1_000_000_000
	w := &wire{seen: map[string][]strictRequest{}}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = lis.Addr().String()
	public := f.svc.Handler()
	noted := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.seen[r.RemoteAddr] = append(w.seen[r.RemoteAddr], strictRequest{r.Method, r.RequestURI})
		w.mu.Unlock()
		public.ServeHTTP(rw, r)
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve.HTTP(ctx, lis, noted, serve.HTTPConfig{Log: slog.New(slog.DiscardHandler)}) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return w
}

// send sends bytes on a connection of their own, and their end, and returns the
// requests that the gateway saw on it.
func (w *wire) send(t testing.TB, raw []byte) []strictRequest {
	t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patienceRaw)); err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// The gateway may close before it has read all.
		_, _ = conn.Write(raw)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	if _, err := io.Copy(io.Discard, conn); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection, %v after the end of all: got the error %v, want any but %v, with %q", patienceRaw,
				err, os.ErrDeadlineExceeded, raw)
		}
	}
	<-sent
	w.mu.Lock()
	defer w.mu.Unlock()
	from := conn.LocalAddr().String()
	list := w.seen[from]
	delete(w.seen, from)
	return list
}

// agree fails unless the gateway sees no more requests than the strict parser, and
// the same in the same places. A request whose head the strict parser refuses may
// be answered, as the last of its connection.
func (w *wire) agree(t testing.TB, raw []byte) {
	t.Helper()
	want, faulty := strictRequests(raw)
	// net/http answers this by itself.
	want = slices.DeleteFunc(want, func(r strictRequest) bool { return r == strictRequest{http.MethodOptions, "*"} })
	got := w.send(t, raw)
	most := len(want)
	if faulty {
		most++
	}
	if len(got) > most {
		t.Errorf("got the requests %q, want at most %d, which begin %q, of %q", got, most, want, raw)
	}
	if n := min(len(got), len(want)); !slices.Equal(got[:n], want[:n]) {
		t.Errorf("got the requests %q, want %q, of %q", got, want, raw)
	}
}

// hidden is a request that stands where a front and the gateway may differ.
const hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"

// rawPost is a POST with more headers and a body.
func rawPost(head, body string) string {
	return "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + head + "\r\n" + body
}

// rawSeeds are the forms in which requests have been smuggled.
func rawSeeds() []string {
	plain := []string{
		"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
		rawPost("Content-Length: 4\r\n", "body"+hidden),
		rawPost("Transfer-Encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n"+hidden),
	}
	return slices.Concat(plain, rawFramings, rawLengths, rawLines, rawChunks, rawTargets, rawEnds)
}

// rawFramings are seeds with two framings.
var rawFramings = []string{
	rawPost("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"+hidden),
	rawPost("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "21\r\n"+hidden+"\r\n0\r\n\r\n"),
	rawPost("Content-Length: 4\r\nTransfer-Encoding: identity\r\n", "body"+hidden),
	rawPost("Content-Length: 4\r\nTransfer-Encoding : chunked\r\n", "0\r\n\r\n"+hidden),
	rawPost("Content-Length: 4\r\nTransfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n"+hidden),
	rawPost("Content-Length: 4\r\nTransfer-Encoding: xchunked\r\n", "0\r\n\r\n"+hidden),
	rawPost("Content-Length: 4\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: CHUNKED\r\n", "0\r\n\r\n"+hidden),
}

// rawLengths are seeds with two lengths and odd lengths.
var rawLengths = []string{
	rawPost("Content-Length: 4\r\nContent-Length: 4\r\n", "body"+hidden),
	rawPost("Content-Length: 0\r\nContent-Length: 33\r\n", hidden),
	rawPost("Content-Length: 4, 4\r\n", "body"+hidden), rawPost("Content-Length: 0, 33\r\n", hidden),
	rawPost("Content-Length: +4\r\n", "body"+hidden),
	rawPost("Content-Length: 0x4\r\n", "body"+hidden), rawPost("Content-Length: -1\r\n", hidden),
	rawPost("Content-Length:\r\n", hidden), rawPost("Content-Length: 04\r\n", "body"+hidden),
	rawPost("Content-Length: 18446744073709551616\r\n", hidden), rawPost("Content-Length: 4 4\r\n", "body"+hidden),
	rawPost("Content_Length: 34\r\n", hidden),
	"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 33\r\n\r\n" + hidden,
}

// rawLines are seeds whose lines end or begin in odd ways.
var rawLines = []string{
	"GET /healthz HTTP/1.1\nHost: x\n\n" + hidden, "GET /healthz HTTP/1.1\rHost: x\r\r" + hidden,
	rawPost("X: a\rContent-Length: 33\r\n", hidden),
	rawPost("X: a\nContent-Length: 33\r\n", hidden), rawPost("X: a\x00b\r\n", hidden), rawPost("X: a\r\n\tb\r\n", hidden),
	rawPost(" X: a\r\n", hidden), rawPost("X : a\r\n", hidden),
	rawPost(": a\r\n", hidden), rawPost("X\r\n", hidden), rawPost("Content-Length: 3\r\n 4\r\n", hidden),
	"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
	"POST / HTTP/1.1\r\nHost: x\r\n\r\n\r\n\r\n" + hidden,
}

// rawChunks are seeds with odd chunks.
var rawChunks = []string{
	rawPost("Transfer-Encoding: chunked\r\n", "4;ext=\"\r\n\"\r\nbody\r\n0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "4;a=b\r\nbody\r\n0;c\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "4\nbody\n0\n\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "4;\nx\r\nbody\r\n0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "0x4\r\nbody\r\n0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "4\r\nbodyXX0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "-1\r\nb\r\n0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\nb\r\n0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "10000000000000004\r\nbody\r\n0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "00000004 \r\nbody\r\n00\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\nTrailer: X\r\n", "0\r\nX: a\r\nContent-Length: 33\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "0\r\nX : a\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "\r\n0\r\n\r\n"+hidden),
	rawPost("Transfer-Encoding: chunked\r\n", "0\r\n"+hidden),
}

// rawTargets are seeds with odd targets and versions.
var rawTargets = []string{
	"GET http://x/healthz HTTP/1.1\r\nHost: y\r\n\r\n" + hidden, "CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
	"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
	"GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + hidden, "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
	"GET /healthz HTTP/1.1 \r\nHost: x\r\n\r\n" + hidden,
	"GET /healthz\r\n\r\n" + hidden, "GET /healthz HTTP/0.9\r\n\r\n" + hidden,
	"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n" + hidden, "GET /healthz HTTP/1.9\r\nHost: x\r\n\r\n" + hidden,
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, "GET /healthz http/1.1\r\nHost: x\r\n\r\n" + hidden,
	"G@T / HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
	"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + hidden, "GET /healthz HTTP/1.1\r\n\r\n" + hidden,
}

// rawEnds are seeds with HTTP/1.0 and the end of a connection.
var rawEnds = []string{
	"GET /healthz HTTP/1.0\r\n\r\n" + hidden, "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + hidden,
	"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden,
	"POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
		hidden,
	"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + hidden,
	"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: x, CLOSE\r\n\r\n" + hidden,
	"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n" +
		"\r\n" + hidden,
	rawPost("Expect: 100-continue\r\nContent-Length: 33\r\n", hidden),
	rawPost("Expect: x\r\nContent-Length: 4\r\n", "body"+hidden),
}

// pieces are what a mutation puts into a request.
var pieces = []string{
	"\r\n", "\n", "\r", " ", "\t", ":", ",", ";", "0", "4", "\x00", "\x0b", "\xff", "_", "+", "-", "\r\n ", "\r\n\r\n",
	"0\r\n\r\n", hidden,
	"Content-Length: 0\r\n", "Content-Length: 4\r\n", "Content-Length: 33\r\n", "Transfer-Encoding: chunked\r\n",
	"Transfer-Encoding: identity\r\n",
	"Connection: close\r\n", "Connection: keep-alive\r\n", "Transfer-Encoding", "Content-Length", "chunked", "HTTP/1.0",
	"HTTP/1.1", "Host: y\r\n", "21\r\n" + hidden + "\r\n",
	"Expect: 100-continue\r\n", "Upgrade: h2c\r\n", "GET ", "POST ", " HTTP/1.1\r\n",
}

// mutated changes a request in a few places.
func mutated(r *rand.Rand, raw []byte) []byte {
	raw = bytes.Clone(raw)
	for range 1 + r.IntN(4) {
		at := r.IntN(len(raw) + 1)
		end := min(len(raw), at+r.IntN(24))
		switch r.IntN(5) {
		case 0:
			raw = slices.Insert(raw, at, []byte(pieces[r.IntN(len(pieces))])...)
		case 1:
			raw = slices.Delete(raw, at, end)
		case 2:
			raw = slices.Insert(raw, at, raw[at:end]...)
		case 3:
			if at < len(raw) {
				raw[at] = byte(r.IntN(256))
			}
		case 4:
			raw = slices.Replace(raw, at, end, []byte(pieces[r.IntN(len(pieces))])...)
		}
	}
	return raw[:min(len(raw), maxRaw)]
}

// The gateway never sees a request on a connection that a strict parser does not
// see in the same place.
func TestTheGatewaySeesNoRequestThatAStrictParserDoesNot(t *testing.T) {
	w := newWire(t)
	seeds := rawSeeds()
	for _, seed := range seeds {
		w.agree(t, []byte(seed))
	}
	// What is found here is found again: the seed is fixed. make fuzz goes on.
	r := rand.New(rand.NewPCG(9112, 6))
	for range 2000 {
		w.agree(t, mutated(r, []byte(seeds[r.IntN(len(seeds))])))
		if t.Failed() {
			return
		}
	}
}

// The second parser can tell requests apart, or nothing would be compared.
func TestTheStrictParserSeesWhatIsPlain(t *testing.T) {
	for raw, want := range map[string]int{
		"": 0, hidden: 1, hidden + hidden: 2, strings.TrimSuffix(hidden, "\r\n"): 0,
		"POST / HTTP/1.1\r\nContent-Length: 33\r\n\r\n" + hidden + hidden:                                   2,
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n" + hidden + "\r\n0\r\n\r\n" + hidden:   2,
		"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden:      1,
		"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12" + hidden:                      0,
		"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden: 1,
		"GET / HTTP/1.1\r\nX : a\r\n\r\n" + hidden:                                                          0,
	} {
		if got, _ := strictRequests([]byte(raw)); len(got) != want {
			t.Errorf("got %d requests, want %d, of %q", len(got), want, raw)
		}
	}
	if len(hidden) != 0x21 {
		t.Errorf("got %d bytes of hidden, want the 33 that seeds say", len(hidden))
	}
}

func FuzzRawHTTP(f *testing.F) {
	w := newWire(f)
	for _, seed := range rawSeeds() {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > maxRaw {
			return
		}
		w.agree(t, raw)
	})
}
