package batch

import (
	"crypto/sha256"
	"hash"
	"strconv"
	"time"

	"svc.internal/pkg/csvout"
	"svc.internal/pkg/ids"
)

// Header is the first row of a CSV.
const Header = "at,kind,request_id,entry_id,account,month,amount_usd,amount_nano_usd,entry_kind,business_id\r\n"

// AppendRow appends the row of a change to a CSV (RFC 4180). A cell of text that a spreadsheet would take for a formula
// begins with an apostrophe; amounts are numbers.
func AppendRow(dst []byte, c *Change) []byte {
	dst = c.At.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, ',')
	dst = append(csvout.AppendCell(dst, string(c.Kind)), ',')
	dst = append(appendID(dst, c.Request), ',')
	dst = append(appendID(dst, c.Entry), ',')
	dst = append(csvout.AppendCell(dst, c.Account), ',')
	dst = append(csvout.AppendCell(dst, c.Month), ',')
	dst = append(append(dst, c.Amount.String()...), ',')
	dst = append(strconv.AppendInt(dst, int64(c.Amount), 10), ',')
	dst = append(csvout.AppendCell(dst, c.EntryKind), ',')
	return append(csvout.AppendCell(dst, c.BusinessID), "\r\n"...)
}

// appendID writes the zero id as an empty cell.
func appendID[K any](dst []byte, id ids.Of[K]) []byte {
	if id.IsZero() {
		return dst
	}
	return append(dst, id.String()...)
}

// Digest is the SHA-256 of a CSV that is written row by row.
type Digest struct {
	hash hash.Hash
	row  []byte
	// Lines counts the rows below the header.
	Lines int64
}

// NewDigest returns the digest of a CSV with the header alone.
func NewDigest() *Digest {
	d := &Digest{hash: sha256.New()}
	_, _ = d.hash.Write([]byte(Header)) // a hash never fails
	return d
}

// Add adds the row of a change.
func (d *Digest) Add(c *Change) {
	d.row = AppendRow(d.row[:0], c)
	_, _ = d.hash.Write(d.row) // a hash never fails
	d.Lines++
}

// Sum returns the digest.
func (d *Digest) Sum() (sum [32]byte) {
	d.hash.Sum(sum[:0])
	return sum
}
