package session

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Batches of every size arrive whole, one after the other, in buffers that other
// connections use, too; an idle connection keeps no large one.
func TestBatchesArriveWholeAndKeepNoLargeBuffer(t *testing.T) {
	large := &sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}
	local, remote := net.Pipe()
	defer remote.Close()
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(remote)
		got <- all
	}()
	c := &batchConn{Conn: local, large: large}
	c.batch()
	var want []byte
	for i, sizes := range [][]int{{10}, {100, 5000}, {3000, 3000, 60_000}, {40_000, 40_000}, {20}, {4096}, {1, 4096}} {
		for _, size := range sizes {
			p := bytes.Repeat([]byte{byte('a' + i)}, size)
			want = append(want, p...)
			if n, err := c.Write(p); n != size || err != nil {
				t.Fatalf("wrote %d of %d: %v", n, size, err)
			}
			clear(p) // the batch has its own copy
		}
		if err := c.flush(time.Minute); err != nil {
			t.Fatal(err)
		}
		if cap(c.buf) > 2*keptBatch || c.lent != nil {
			t.Errorf("%d bytes are kept behind batch %d", cap(c.buf), i)
		}
		// Somebody else uses what was given back.
		other := large.Get().(*[]byte)
		clear(*other)
		large.Put(other)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if all := <-got; !bytes.Equal(all, want) {
		t.Errorf("%d bytes arrived that differ from the %d sent", len(all), len(want))
	}
}

// A large body goes out in its place, between what is kept before and behind it.
func TestLargeBodiesAreWrittenInTheirPlaceWithoutACopy(t *testing.T) {
	large := &sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}
	local, remote := net.Pipe()
	defer remote.Close()
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(remote)
		got <- all
	}()
	c := &batchConn{Conn: local, large: large}
	c.batch()
	var want []byte
	for _, size := range []int{0, 10, maxCopied, maxCopied + 1, 1 << 20, 5} {
		body := bytes.Repeat([]byte("x"), size)
		c.frame(opPing, []byte("a"))
		if err := c.message(opText, []byte("head"), body, "tail", time.Minute); err != nil {
			t.Fatal(err)
		}
		want = appendFrame(want, opPing, []byte("a"))
		want = appendFrame(want, opText, append(append([]byte("head"), body...), "tail"...))
		if len(c.buf) > 3*maxCopied {
			t.Errorf("%d bytes are kept of a body of %d", len(c.buf), size)
		}
	}
	c.close(1000, "")
	c.frame(opPing, nil)
	if err := c.message(opText, []byte("x"), nil, "", time.Minute); err != nil {
		t.Fatal(err)
	}
	want = appendFrame(want, opClose, []byte{3, 0xe8})
	if err := c.flush(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if all := <-got; !bytes.Equal(all, want) {
		t.Errorf("%d bytes arrived that differ from the %d sent", len(all), len(want))
	}
}
