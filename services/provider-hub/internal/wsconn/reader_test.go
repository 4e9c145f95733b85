package wsconn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/quota"
)

// maxTaken is what the handler of these tests takes, in bytes.
const maxTaken = 16 << 20

// ear is a handler that notes what it hears.
type ear struct {
	heard  []string
	last   []byte
	closes bool // messages have no effect from the first ping on
	pinged bool
}

func (e *ear) Closing() bool         { return e.closes && e.pinged }
func (e *ear) MaxMessage() int64     { return maxTaken }
func (e *ear) Owner() ids.ProviderID { return ids.ProviderID{1} }
func (e *ear) Keeps(size int64) bool { return size > 0 }
func (e *ear) Pong()                 { e.heard = append(e.heard, "pong") }
func (e *ear) TooLarge(before, n int64) {
	e.heard = append(e.heard, fmt.Sprintf("too large: %d behind %d", n, before))
}

func (e *ear) Message(msg []byte) {
	e.last = bytes.Clone(msg)
	e.heard = append(e.heard, fmt.Sprintf("message: %.20s", msg))
}

func (e *ear) Discarded(head []byte, size int64) {
	e.heard = append(e.heard, fmt.Sprintf("discarded: %d of %d", len(head), size))
}

func (e *ear) Ping(payload []byte) {
	e.pinged = true
	e.heard = append(e.heard, fmt.Sprintf("ping: %s", payload))
}

// script is a socket that reads what is there.
type script struct {
	net.Conn
	there io.Reader
}

func (s script) Read(p []byte) (int, error) { return s.there.Read(p) }

// reading is a connection that reads what is there. A provider has an eighth of
// budget bytes for its large messages.
func reading(t *testing.T, budget int64, data ...[]byte) (c *Conn, peer net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	cfg := Config{Kind: Text, WriteTimeout: time.Minute, LargeTimeout: time.Minute}
	pool := NewPool(quota.NewBudget(budget), &Counts{})
	c = newConn(script{near, bytes.NewReader(slices.Concat(data...))}, cfg, pool)
	c.out.begin()
	return c, far
}

// violates reads up to a breach and returns its status; 0 for none.
func violates(t *testing.T, c *Conn, h Handler) uint16 {
	t.Helper()
	var v *Violation
	if err := c.Read(h); !errors.As(err, &v) {
		t.Errorf("read: got %v, want a violation", err)
		return 0
	}
	return v.Status
}

func TestHandlerHearsMessagesAndWhatComesBetween(t *testing.T) {
	c, peer := reading(t, 1<<20,
		masked(finBit|opPong, nil), masked(opText, []byte("one ")), masked(finBit|opPing, []byte("there?")),
		masked(finBit|opContinuation, []byte("message")), masked(finBit|opText, nil),
		masked(finBit|opClose, []byte{3, 0xe8, 'b', 'y', 'e'}), masked(finBit|opText, []byte("behind the end")))
	answer := make(chan []byte)
	go func() {
		b := make([]byte, 4)
		_, _ = io.ReadFull(peer, b)
		answer <- b
	}()
	var h ear
	if err := c.Read(&h); !errors.Is(err, errPeerClosed) {
		t.Errorf("got the error %v, want %v", err, errPeerClosed)
	}
	if want := []string{"pong", "ping: there?", "message: one message", "message: "}; !slices.Equal(h.heard, want) {
		t.Errorf("heard: got %q, want %q", h.heard, want)
	}
	if got := <-answer; !bytes.Equal(got, []byte{finBit | opClose, 2, 3, 0xe8}) {
		t.Errorf("a close: got %x, want %x", got, []byte{finBit | opClose, 2, 3, 0xe8})
	}
	if got := c.pool.counts.FramesIn.Load(); got != 2 {
		t.Errorf("got %d messages counted, want 2", got)
	}
}

func TestMessageThatHasNoEffectIsNotKept(t *testing.T) {
	c, _ := reading(t, 1<<20,
		masked(finBit|opPing, nil), masked(finBit|opText, []byte("\xff")), masked(finBit|opPong, nil))
	h := ear{closes: true}
	if err := c.Read(&h); !errors.Is(err, io.EOF) {
		t.Errorf("got the error %v, want %v", err, io.EOF)
	}
	if want := []string{"ping: ", "pong"}; !slices.Equal(h.heard, want) {
		t.Errorf("heard: got %q, want %q", h.heard, want)
	}
}

func TestMessageInManyFragmentsIsNotCopiedForEach(t *testing.T) {
	const total, share = 8 << 20, 32 << 20
	text := []byte(strings.Repeat("x", total))
	var data []byte
	opcode := opText
	for piece := range slices.Chunk(text, 4<<10) {
		data = append(data, masked(opcode, piece)...)
		opcode = opContinuation
	}
	c, _ := reading(t, quota.Shares*share, data, masked(finBit|opContinuation, nil))
	var h ear
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := c.Read(&h); !errors.Is(err, io.EOF) {
		t.Fatalf("got the error %v, want %v", err, io.EOF)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20 {
		t.Errorf("MiB allocated for 8: got %d, want at most 100<<20", took)
	}
	if !bytes.Equal(h.last, text) {
		t.Errorf("got %d bytes, want the %d sent", len(h.last), total)
	}
	if left := c.pool.large.Left(); left != quota.Shares*share {
		t.Errorf("bytes of the budget are left: got %d, want %d", left, quota.Shares*share)
	}
}

func TestLengthOfAFragmentCannotOverflowTheBoundOfAMessage(t *testing.T) {
	endless := append(binary.BigEndian.AppendUint64([]byte{finBit | opContinuation, maskBit | 127}, 1<<63-1), 0, 0, 0, 0)
	c, _ := reading(t, 1<<30, masked(opText, []byte("{")), endless, make([]byte, 32<<20))
	var h ear
	if got := violates(t, c, &h); got != StatusTooBig {
		t.Errorf("got status %d, want %d", got, StatusTooBig)
	}
	if want := []string{fmt.Sprintf("too large: %d behind 1", int64(1<<63-1))}; !slices.Equal(h.heard, want) {
		t.Errorf("heard: got %q, want %q", h.heard, want)
	}
}

func TestMessageThatIsThrownAwayIsBoundedAsAnyOther(t *testing.T) {
	half := masked(opText, make([]byte, maxTaken/2+1))
	rest := masked(finBit|opContinuation, make([]byte, maxTaken/2))
	c, _ := reading(t, 0, half, rest)
	if got := violates(t, c, &ear{}); got != StatusTooBig {
		t.Errorf("got status %d, want %d", got, StatusTooBig)
	}
}

func TestMessageThatThereIsNoRoomForIsHeardOfByItsBeginning(t *testing.T) {
	const size = 1 << 20
	c, _ := reading(t, quota.Shares*(size-1),
		masked(finBit|opText, make([]byte, size)), masked(finBit|opText, []byte("next")))
	var h ear
	if err := c.Read(&h); !errors.Is(err, io.EOF) {
		t.Errorf("got the error %v, want %v", err, io.EOF)
	}
	want := []string{fmt.Sprintf("discarded: %d of %d", bufferBytes, size), "message: next"}
	if !slices.Equal(h.heard, want) {
		t.Errorf("heard: got %q, want %q", h.heard, want)
	}
	if got := c.pool.counts.Discarded.Load(); got != 1 {
		t.Errorf("got %d counted, want 1", got)
	}
	if left := c.pool.large.Left(); left != quota.Shares*(size-1) {
		t.Errorf("bytes of the budget are left: got %d, want %d", left, quota.Shares*(size-1))
	}
}

// sockets returns a connection over TCP, and its peer.
func sockets(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	peer, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	conn, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := newConn(conn, Config{Kind: Text, WriteTimeout: time.Minute, LargeTimeout: time.Minute},
		NewPool(quota.NewBudget(1<<20), &Counts{}))
	c.out.begin()
	return c, peer
}

func TestASocketThatWaitsKeepsNoBuffer(t *testing.T) {
	c, peer := sockets(t)
	if err := c.br.raw.Control(func(fd uintptr) {
		if c.br.attempt(fd) {
			t.Errorf("an attempt while nothing is there: got true, want false")
		}
	}); err != nil {
		t.Fatal(err)
	}
	if c.br.lent != nil {
		t.Error("a buffer is kept while nothing is there")
	}
	var all []byte
	const messages = 400
	for n := range messages { // many fit into a buffer, and some are cut by its end
		all = append(all, masked(finBit|opText, []byte(strings.Repeat("x", 100+n)))...)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := peer.Write(all)
		sent <- errors.Join(err, peer.Close())
	}()
	e := &each{ear: &ear{}}
	e.message = func() {
		if last := e.last; len(last) != 100+len(e.heard)-1 {
			t.Errorf("message %d: got %d bytes, want %d", len(e.heard), len(last), 100+len(e.heard)-1)
		}
	}
	if err := c.Read(e); !errors.Is(err, io.EOF) {
		t.Errorf("read: got the error %v, want %v", err, io.EOF)
	}
	if err := <-sent; err != nil {
		t.Errorf("sent: got the error %v, want none", err)
	}
	if len(e.heard) != messages {
		t.Errorf("messages: got %d, want %d", len(e.heard), messages)
	}
	if c.br.lent != nil {
		t.Error("a buffer is kept after all was read")
	}
	if c.out.reads.Load() == 0 {
		t.Error("reads are no sign of life: got 0, want some")
	}
}

func TestASocketThatWaitsForTheRestOfAHeadKeepsNoBuffer(t *testing.T) {
	c, peer := sockets(t)
	if _, err := peer.Write([]byte{finBit | opText}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.br.Peek(1); err != nil {
		t.Fatal(err)
	}
	if err := c.out.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.br.Peek(2); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the rest of a head: got the error %v, want %v", err, os.ErrDeadlineExceeded)
	}
	if c.br.lent != nil {
		t.Error("a buffer is kept for half of a head")
	}
	if err := c.out.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Write([]byte{maskBit}); err != nil {
		t.Fatal(err)
	}
	head, err := c.br.Peek(2)
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte{finBit | opText, maskBit}; !bytes.Equal(head, want) {
		t.Errorf("the head: got %x, want %x", head, want)
	}
}

// each is an ear that is told of each message.
type each struct {
	*ear
	message func()
}

func (e *each) Message(msg []byte) {
	e.ear.Message(msg)
	e.message()
}
