//go:build !race

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

const (
	// maxRequestAllocations bounds the heap allocations of a small request that is not streamed,
	// from its first byte to its settlement, in all services and NATS, with some slack.
	maxRequestAllocations = 740
	// maxEventAllocations bounds those of an event of a stream.
	maxEventAllocations = 6

	// allocationsCallers is how many connections make requests, each allocationsEach.
	allocationsCallers, allocationsEach = 16, 40
	// fewPieces and manyPieces are the lengths of two answers, whose difference is the cost of events.
	fewPieces, manyPieces = 4, 64
)

// What a request allocates costs twice, when it is allocated and when it is collected, and it grows
// unnoticed. The client here does not allocate, and the agent with its engine is another process.
func TestARequestAllocatesLittle(t *testing.T) {
	m := trial.Start(t, "SVC_DEMO_AGENT=off")
	m.PutModel(t, allocationsModel)
	provider := m.Provider(t, "allocations")
	startAgent(t, m.WSURL()+"/ws", provider.Key)
	m.WaitOffered(t, allocationsModel, provider.ID)
	account, key := m.Consumer(t, "100")
	m.Unlimit(t, account)

	whole := allocationsOf(t, m.Base(), key, trial.Chat(allocationsModel, `,"max_tokens":64`))
	if whole > maxRequestAllocations {
		t.Errorf("a request: got %d allocations, want at most %d", whole, maxRequestAllocations)
	}
	few := allocationsOf(t, m.Base(), key, trial.Chat(allocationsModel, streamOf(fewPieces)))
	many := allocationsOf(t, m.Base(), key, trial.Chat(allocationsModel, streamOf(manyPieces)))
	event := (many - few) / (manyPieces - fewPieces)
	if event > maxEventAllocations {
		t.Errorf("an event: got %d allocations, want at most %d", event, maxEventAllocations)
	}
	t.Logf("a request allocates %d times, a short stream %d times, an event %d times", whole, few, event)
}

// streamOf asks for a stream of so many pieces.
func streamOf(pieces int) string { return fmt.Sprintf(`,"stream":true,"max_tokens":%d`, pieces) }

// startAgent starts the agent in another process, which ends when its input is closed.
func startAgent(t *testing.T, url, key string) {
	t.Helper()
	agent := exec.Command(os.Args[0])
	agent.Env = append(os.Environ(), agentVariable+"="+url, agentKeyVariable+"="+key)
	agent.Stderr = os.Stderr
	input, err := agent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		if err := agent.Wait(); err != nil {
			t.Errorf("the agent ended: got the error %v, want none", err)
		}
	})
}

// allocationsOf returns how often this process allocates for each of many requests with a body.
func allocationsOf(t *testing.T, base, key, body string) int {
	t.Helper()
	host := strings.TrimPrefix(base, "http://")
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", trial.ChatPath, host, key, len(body), body)
	callers := make([]*rawCaller, allocationsCallers)
	for i := range callers {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		callers[i] = &rawCaller{conn: conn, request: request, buf: make([]byte, 1<<20)}
	}
	ask := func(each int) {
		var wg sync.WaitGroup
		for _, c := range callers {
			wg.Go(func() {
				for range each {
					if err := c.ask(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	ask(allocationsEach / 4) // warms pools, caches and prepared statements up
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ask(allocationsEach)
	runtime.ReadMemStats(&after)
	return int(after.Mallocs-before.Mallocs) / (allocationsCallers * allocationsEach)
}

// rawCaller sends a ready-made request over one connection.
type rawCaller struct {
	conn    net.Conn
	request []byte
	buf     []byte
}

var (
	headEnd, chunksEnd = []byte("\r\n\r\n"), []byte("\r\n0\r\n\r\n")
	okStatus           = fmt.Appendf(nil, "HTTP/1.1 %d ", http.StatusOK)
	lengthHeader       = []byte("Content-Length: ")
)

// ask makes one request and reads the whole answer.
func (c *rawCaller) ask() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	for n := 0; ; {
		more, err := c.conn.Read(c.buf[n:])
		if n += more; c.whole(c.buf[:n]) {
			break
		}
		if err != nil {
			return fmt.Errorf("after %q: %w", c.buf[:n], err)
		}
		if n == len(c.buf) {
			return io.ErrShortBuffer
		}
	}
	if !bytes.HasPrefix(c.buf, okStatus) {
		return fmt.Errorf("got the answer %q, want status 200", c.buf[:200])
	}
	return nil
}

// whole reports whether an answer is complete.
func (c *rawCaller) whole(answer []byte) bool {
	head, body, ok := bytes.Cut(answer, headEnd)
	if !ok {
		return false
	}
	_, rest, ok := bytes.Cut(head, lengthHeader)
	if !ok {
		return bytes.HasSuffix(answer, chunksEnd)
	}
	length := 0
	for _, digit := range rest {
		if digit < '0' || digit > '9' {
			break
		}
		length = 10*length + int(digit-'0')
	}
	return len(body) >= length
}
