// Package seal makes tampering with the ledger's past evident. The rows of a day
// are hashed when the day is over, and the hash of each day is tied to the hash
// of the day before. So nobody can change, add or take away a row without every
// later root becoming wrong. Whoever keeps a root elsewhere can prove that.
//
// A settled request or an entry belongs to the UTC day on which it was recorded
// by the database's clock, never to the day of its request. So a late delivery
// joins today and leaves closed days alone. The database refuses a row whose day
// is not the day of its transaction, and a row of a closed day.
//
// A day is sealed in three steps, each of which may be repeated. First the day is
// closed, some time after its end. From then on a transaction that would still
// add to the day is refused and begins anew on the present day. Then the
// transactions that were under way when the day was closed are awaited. Then the
// rows of the day are hashed: settled requests by day and id, entries by id,
// postings by entry and leg (see Digest). The hash is stored with the number of
// rows and with the balances of the accounts that moved.
package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"
)

// Version is the version of the digests of days that are sealed now. For each
// version the store has the columns that a digest is made of. A column that is
// added later joins a later version. A day keeps the version with which it was
// sealed.
const Version = 3

// Root is the hash of a day and of all before it.
type Root [sha256.Size]byte

// Counts are how many rows a day has.
type Counts struct {
	Lines, Entries, Postings int64
}

// Day is a sealed day.
type Day struct {
	// Day is midnight in UTC.
	Day time.Time
	// Version is the version of the digest.
	Version int16
	Counts
	Digest [sha256.Size]byte
	// Previous is the root of the day before; zero for the first.
	Previous Root
	Root     Root
}

// Chain sets the root of a day after another's.
func Chain(d Day, previous Root) Day {
	d.Previous = previous
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint16(nil, uint16(d.Version)))
	h.Write(previous[:])
	// Days since 2000, as the database counts them.
	days := int32(d.Day.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) / (24 * time.Hour))
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(days)))
	for _, n := range []int64{d.Lines, d.Entries, d.Postings} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	h.Write(d.Digest[:])
	h.Sum(d.Root[:0])
	return d
}

// Kind tells rows of different tables apart.
type Kind byte

// The kinds of rows.
const (
	Line    Kind = 'L'
	Entry   Kind = 'E'
	Posting Kind = 'P'
)

// null is the length of a value that is not there.
const null = 0xffffffff

// Digest hashes rows in the order in which they are added. A row is its kind
// and then, for each value, its length in four bytes and its bytes in
// PostgreSQL's binary format; NULL is a length of 2^32-1 alone. So no two
// different sequences of rows have the same bytes.
type Digest struct {
	hash   hash.Hash
	counts Counts
	length [4]byte
}

// NewDigest is the digest of nothing.
func NewDigest() *Digest { return &Digest{hash: sha256.New()} }

// Add adds a row.
func (d *Digest) Add(kind Kind, values [][]byte) {
	switch kind {
	case Line:
		d.counts.Lines++
	case Entry:
		d.counts.Entries++
	case Posting:
		d.counts.Postings++
	}
	d.hash.Write([]byte{byte(kind)})
	for _, v := range values {
		n := uint32(null)
		if v != nil {
			n = uint32(len(v))
		}
		binary.BigEndian.PutUint32(d.length[:], n)
		d.hash.Write(d.length[:])
		d.hash.Write(v)
	}
}

// Day is the day that has the rows, in the columns of a version, not yet
// chained.
func (d *Digest) Day(day time.Time, version int16) Day {
	out := Day{Day: day, Version: version, Counts: d.counts}
	d.hash.Sum(out.Digest[:0])
	return out
}
