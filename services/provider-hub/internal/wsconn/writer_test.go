package wsconn

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"svc.internal/services/provider-hub/internal/quota"
)

// written is a connection that keeps what is written, and what arrived of it once it
// is closed.
func written(t *testing.T) (c *Conn, got chan []byte) {
	t.Helper()
	local, remote := net.Pipe()
	t.Cleanup(func() { remote.Close() })
	got = make(chan []byte)
	go func() {
		all, _ := io.ReadAll(remote)
		got <- all
	}()
	c = newConn(local, Config{Kind: Text, WriteTimeout: time.Minute}, NewPool(quota.NewBudget(0), &Counts{}))
	c.out.begin()
	return c, got
}

// Batches of every size arrive whole, one after the other, in buffers that other
// connections use, too; an idle connection keeps no large one.
func TestBatchesArriveWholeAndKeepNoLargeBuffer(t *testing.T) {
	c, got := written(t)
	var want []byte
	batches := [][]int{{10}, {100, 5000}, {3000, 3000, 60_000}, {40_000, 40_000}, {20}, {4096}, {1, 4096}}
	for i, sizes := range batches {
		for _, size := range sizes {
			p := bytes.Repeat([]byte{byte('a' + i)}, size)
			want = append(want, p...)
			if n, err := c.out.Write(p); n != size {
				t.Fatalf("wrote: got %d, want %d", n, size)
			} else if err != nil {
				t.Fatalf("got the error %v, want none", err)
			}
			clear(p) // the batch has its own copy
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if cap(c.out.buf) > 2*keptBatch {
			t.Errorf("bytes kept behind batch %d: cap(c.out.buf): got %d, want at most %d", i, cap(c.out.buf), 2*keptBatch)
		} else if c.out.lent != nil {
			t.Errorf("bytes kept behind batch %d: c.out.lent: got %v, want nil", i, c.out.lent)
		}
		// Somebody else uses what was given back.
		other := c.pool.Get()
		clear(*other)
		c.pool.Put(other)
	}
	c.Close()
	if all := <-got; !bytes.Equal(all, want) {
		t.Errorf("bytes that arrived of %d sent: got %q, want %q", len(want), all, want)
	}
}

// A large body goes out in its place, between what is kept before and behind it.
func TestLargeBodiesAreWrittenInTheirPlaceWithoutACopy(t *testing.T) {
	c, got := written(t)
	var want []byte
	for _, size := range []int{0, 10, maxCopied, maxCopied + 1, 1 << 20, 5} {
		body := bytes.Repeat([]byte("x"), size)
		c.Pong([]byte("a"))
		if err := c.Message([]byte("head"), body, "tail"); err != nil {
			t.Fatal(err)
		}
		want = appendFrame(want, opPong, []byte("a"))
		want = appendFrame(want, opText, append(append([]byte("head"), body...), "tail"...))
		if len(c.out.buf) > 3*maxCopied {
			t.Errorf("bytes kept of a body of %d: got %d, want at most %d", size, len(c.out.buf), 3*maxCopied)
		}
	}
	c.CloseFrame(1000, "")
	c.Ping()
	if err := c.Message([]byte("x"), nil, ""); err != nil {
		t.Fatal(err)
	}
	want = appendFrame(want, opClose, []byte{3, 0xe8})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if all := <-got; !bytes.Equal(all, want) {
		t.Errorf("bytes that arrived of %d sent: got %q, want %q", len(want), all, want)
	}
}
