package fingerprint

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math/bits"
)

// The first lines of what is digested. A change of a form needs another line.
const (
	rangeLine = "svc fingerprint range v1\n"
	chainLine = "svc fingerprint chain v1\n"
	blockLine = "svc fingerprint block v1\n"
)

// RangeDigest is the digest of a range whose bytes are known.
func RangeDigest(nonce []byte, name string, offset int64, bytes []byte) []byte {
	d := newDigester(nonce)
	d.beginRange(Range{File: name, Offset: offset, Length: len(bytes)})
	d.mac.Write(bytes)
	return d.mac.Sum(nil)
}

// digester makes the digests of one challenge. Its memory is used again.
type digester struct {
	mac  hash.Hash
	head []byte
}

func newDigester(nonce []byte) *digester { return &digester{mac: hmac.New(sha256.New, nonce)} }

// beginRange begins the digest of a range; its bytes follow.
func (d *digester) beginRange(r Range) { d.begin(append(d.head[:0], rangeLine...), r) }

// beginBlock begins the digest that follows another one in the chain; the bytes of the
// block follow.
func (d *digester) beginBlock(before []byte, block Range) {
	d.begin(append(append(d.head[:0], blockLine...), before...), block)
}

func (d *digester) begin(head []byte, r Range) {
	head = appendName(head, r.File)
	head = binary.BigEndian.AppendUint64(head, uint64(r.Offset))
	d.head = binary.BigEndian.AppendUint32(head, uint32(r.Length))
	d.mac.Reset()
	d.mac.Write(d.head)
}

// start is the digest that the chain begins with.
func (d *digester) start(c Challenge) []byte {
	head := append(d.head[:0], chainLine...)
	head = binary.BigEndian.AppendUint32(head, uint32(c.Blocks))
	head = binary.BigEndian.AppendUint32(head, uint32(len(c.Files)))
	for _, f := range c.Files {
		head = binary.BigEndian.AppendUint64(appendName(head, f.Name), uint64(f.Size))
	}
	d.head = head
	d.mac.Reset()
	d.mac.Write(head)
	return d.mac.Sum(nil)
}

func appendName(b []byte, name string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(name))), name...)
}

// chosen is the number that a digest chooses of n, which is positive.
func chosen(digest []byte, n int64) int64 {
	high, low := binary.BigEndian.Uint64(digest), binary.BigEndian.Uint64(digest[8:])
	return int64(bits.Rem64(high, low, uint64(n)))
}

// blockAt is the block with a number, which is below numbering(files).
func blockAt(files []File, number int64) (file File, block Range) {
	for _, f := range files {
		if n := f.blocks(); number >= n {
			number -= n
			continue
		}
		offset := number * BlockSize
		return f, Range{File: f.Name, Offset: offset, Length: int(min(BlockSize, f.Size-offset))}
	}
	return File{}, Range{}
}
