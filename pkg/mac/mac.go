// Package mac computes HMAC-SHA-256 under keys that are used over and over. A new HMAC hashes
// its key twice and allocates six times, which is more than a short message costs. A Pool keeps
// HMACs that have hashed their key already.
package mac

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"sync"
)

// Key is a key.
type Key = [sha256.Size]byte

// Pool keeps HMACs for those who use the same key again. The zero value is ready. It is safe for
// concurrent use.
type Pool struct{ kept sync.Pool }

// MAC is an HMAC under one key. It is not safe for concurrent use.
type MAC struct {
	// Buf is room in which a message is put together. Its content belongs to whoever has the
	// MAC, and nobody else sees it.
	Buf []byte

	hash hash.Hash
	key  Key
	sum  [sha256.Size]byte
}

// Get returns a MAC under a key. Put takes it back.
func (p *Pool) Get(key *Key) *MAC {
	if m, ok := p.kept.Get().(*MAC); ok && subtle.ConstantTimeCompare(m.key[:], key[:]) == 1 {
		return m
	}
	m := &MAC{key: *key}
	m.hash = hmac.New(sha256.New, m.key[:]) // of the copy, so that the caller's key may stay on the stack
	return m
}

// Put keeps a MAC that nobody uses any more.
func (p *Pool) Put(m *MAC) {
	clear(m.Buf)
	m.Buf = m.Buf[:0]
	p.kept.Put(m)
}

// Append appends the HMAC of a message to dst.
func (m *MAC) Append(dst, message []byte) []byte {
	m.hash.Reset()
	m.hash.Write(message)
	return m.hash.Sum(dst)
}

// Matches reports whether sum is the HMAC of a message. It takes as long for every wrong sum.
func (m *MAC) Matches(sum, message []byte) bool {
	return hmac.Equal(sum, m.Append(m.sum[:0], message))
}
