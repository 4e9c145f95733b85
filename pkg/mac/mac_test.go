package mac_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"sync"
	"testing"

	"svc.internal/pkg/mac"
)

func sum(key mac.Key, message []byte) []byte {
	h := hmac.New(sha256.New, key[:])
	h.Write(message)
	return h.Sum(nil)
}

func TestEachKeyHasItsOwnSums(t *testing.T) {
	var pool mac.Pool
	for range 3 {
		for n := range byte(4) {
			key, message := mac.Key{31: n}, bytes.Repeat([]byte{n}, int(n)*50)
			m := pool.Get(&key)
			want := append([]byte("before"), sum(key, message)...)
			if got := m.Append([]byte("before"), message); !bytes.Equal(got, want) {
				t.Errorf("key %d: got %x, want %x", n, got, want)
			}
			pool.Put(m)
		}
	}
}

func TestOnlyTheSumOfTheMessageMatches(t *testing.T) {
	var pool mac.Pool
	key, message := mac.Key{1}, []byte("message")
	m := pool.Get(&key)
	defer pool.Put(m)
	right := sum(key, message)
	if !m.Matches(right, message) {
		t.Error("the message's own sum: got refused, want accepted")
	}
	for at := range right {
		wrong := bytes.Clone(right)
		wrong[at] ^= 1
		if m.Matches(wrong, message) {
			t.Errorf("a sum with another byte %d: got accepted, want refused", at)
		}
	}
	for _, wrong := range [][]byte{nil, right[:31], append(bytes.Clone(right), 0)} {
		if m.Matches(wrong, message) {
			t.Errorf("a sum of %d bytes: got accepted, want refused", len(wrong))
		}
	}
}

func TestWhatIsPutTogetherIsForgotten(t *testing.T) {
	var pool mac.Pool
	key := mac.Key{1}
	m := pool.Get(&key)
	m.Buf = append(m.Buf, "a secret"...)
	room := m.Buf
	pool.Put(m)
	if !bytes.Equal(room, make([]byte, len(room))) {
		t.Errorf("after Put: got %q, want zeros", room)
	}
	if len(m.Buf) != 0 {
		t.Errorf("after Put: got %d bytes, want none", len(m.Buf))
	}
}

func TestAPoolServesManyAtOnce(t *testing.T) {
	var pool mac.Pool
	var all sync.WaitGroup
	for n := range byte(8) {
		all.Go(func() {
			key, message := mac.Key{n % 2}, []byte{n}
			want := sum(key, message)
			for range 500 {
				m := pool.Get(&key)
				if !m.Matches(want, message) {
					t.Errorf("key %d: got another sum", n%2)
				}
				pool.Put(m)
			}
		})
	}
	all.Wait()
}
