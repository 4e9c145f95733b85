package wsconn

import (
	"bytes"
	"strings"
	"testing"

	"svc.internal/services/provider-hub/internal/quota"
)

// masked is a frame as a client sends it.
func masked(first byte, payload []byte) []byte {
	head := appendHead([]byte{}, 0, len(payload))
	head[0], head[1] = first, head[1]|maskBit
	key := [4]byte{0x11, 0x22, 0x33, 0x44}
	body := bytes.Clone(payload)
	unmask(key, 0, body)
	return append(append(head, key[:]...), body...)
}

func TestUnmaskingIsIndifferentToWhereAPartBegins(t *testing.T) {
	plain := []byte(strings.Repeat("0123456789", 10))
	key := [4]byte{1, 0xfe, 3, 0x80}
	want := bytes.Clone(plain)
	for i := range want {
		want[i] ^= key[i&3]
	}
	for cut := range len(plain) {
		got := bytes.Clone(plain)
		unmask(key, 0, got[:cut])
		unmask(key, cut, got[cut:])
		if !bytes.Equal(got, want) {
			t.Fatalf("cut at %d: got %x, want %x", cut, got, want)
		}
	}
}

// FuzzReadHead reads beginnings of any content: what is taken for a frame is
// within the standard's bounds.
func FuzzReadHead(f *testing.F) {
	f.Add(masked(finBit|opText, []byte("x")))
	f.Add(masked(opBinary, make([]byte, 300)))
	f.Add(masked(finBit|opBinary, make([]byte, 70_000))[:14])
	f.Add([]byte{finBit | opPing, maskBit | 127, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0})
	pool := NewPool(quota.NewBudget(0), &Counts{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := input{from: &batch{Conn: script{there: bytes.NewReader(data)}}, pool: pool}
		h, err := readHead(&r)
		if err != nil {
			return
		}
		again := appendHead(nil, h.opcode, int(h.length))
		if !h.final {
			again[0] &^= finBit
		}
		again[1] |= maskBit
		again = append(again, h.mask[:]...)
		if !bytes.Equal(again, data[:r.r]) { // a head is within the first read
			t.Fatalf("head %+v: got %x, want %x", h, again, data[:r.r])
		}
		if h.length < 0 {
			t.Fatalf("read: h.length: got %d, want at least 0", h.length)
		}
		if h.opcode >= opClose && h.length > maxControlPayload {
			t.Fatalf("read: h.length: got %d, want at most %d, where h.opcode >= opClose", h.length, maxControlPayload)
		}
	})
}
