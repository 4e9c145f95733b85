// Package ids has the identifiers that services exchange: UUIDs of version 7 (RFC 9562),
// typed by what they name, so that an account's id cannot stand where a request's is
// meant.
//
// The leading 48 bits of such an id are Unix milliseconds. Ids that are made later sort
// later. The UTC day of a request's id is the partition of its settled line, whenever it
// settles.
package ids

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// The kinds that an id can name.
type (
	request  struct{}
	account  struct{}
	key      struct{}
	provider struct{}
	price    struct{}
	entry    struct{}
	proposal struct{}
	endpoint struct{}
	change   struct{}
)

// Of is an id of one kind. The zero value names nothing.
type Of[K any] [16]byte

// The kinds of ids.
type (
	// RequestID names one consumer request over all of its attempts.
	RequestID = Of[request]
	// AccountID names a consumer account.
	AccountID = Of[account]
	// KeyID names a consumer or provider key without giving it away.
	KeyID = Of[key]
	// ProviderID names a provider account.
	ProviderID = Of[provider]
	// PriceVersionID names one immutable set of prices.
	PriceVersionID = Of[price]
	// EntryID names one entry of the ledger.
	EntryID = Of[entry]
	// ProposalID names a pending request about a provider account.
	ProposalID = Of[proposal]
	// EndpointID names an external endpoint of a provider.
	EndpointID = Of[endpoint]
	// ChangeID names a scheduled change of a model.
	ChangeID = Of[change]
)

// ErrMalformed is the error for a text that is no UUID.
var ErrMalformed = errors.New("malformed id")

// New makes a version 7 id: now in milliseconds, then 74 bits from random.
func New[K any](now time.Time, random io.Reader) (Of[K], error) {
	var id Of[K]
	if _, err := io.ReadFull(random, id[6:]); err != nil {
		return Of[K]{}, fmt.Errorf("read randomness for an id: %w", err)
	}
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id, nil
}

// NewRequest makes a request's id.
func NewRequest(now time.Time, random io.Reader) (RequestID, error) {
	return New[request](now, random)
}

// NewAccount makes an account's id.
func NewAccount(now time.Time, random io.Reader) (AccountID, error) {
	return New[account](now, random)
}

// NewKey makes a key's id.
func NewKey(now time.Time, random io.Reader) (KeyID, error) { return New[key](now, random) }

// NewProvider makes a provider's id.
func NewProvider(now time.Time, random io.Reader) (ProviderID, error) {
	return New[provider](now, random)
}

// NewPriceVersion makes a price version's id.
func NewPriceVersion(now time.Time, random io.Reader) (PriceVersionID, error) {
	return New[price](now, random)
}

// NewEntry makes a ledger entry's id.
func NewEntry(now time.Time, random io.Reader) (EntryID, error) { return New[entry](now, random) }

// NewProposal makes a proposal's id.
func NewProposal(now time.Time, random io.Reader) (ProposalID, error) {
	return New[proposal](now, random)
}

// NewEndpoint makes an external endpoint's id.
func NewEndpoint(now time.Time, random io.Reader) (EndpointID, error) {
	return New[endpoint](now, random)
}

// NewChange makes a scheduled change's id.
func NewChange(now time.Time, random io.Reader) (ChangeID, error) { return New[change](now, random) }

// ParseRequest reads a request's id.
func ParseRequest(s string) (RequestID, error) { return parse[request](s) }

// ParseAccount reads an account's id.
func ParseAccount(s string) (AccountID, error) { return parse[account](s) }

// ParseKey reads a key's id.
func ParseKey(s string) (KeyID, error) { return parse[key](s) }

// ParseProvider reads a provider's id.
func ParseProvider(s string) (ProviderID, error) { return parse[provider](s) }

// ParsePriceVersion reads a price version's id.
func ParsePriceVersion(s string) (PriceVersionID, error) { return parse[price](s) }

// ParseEntry reads a ledger entry's id.
func ParseEntry(s string) (EntryID, error) { return parse[entry](s) }

// ParseProposal reads a proposal's id.
func ParseProposal(s string) (ProposalID, error) { return parse[proposal](s) }

// ParseEndpoint reads an external endpoint's id.
func ParseEndpoint(s string) (EndpointID, error) { return parse[endpoint](s) }

// ParseChange reads a scheduled change's id.
func ParseChange(s string) (ChangeID, error) { return parse[change](s) }

// parse reads the canonical form of a UUID that is not zero: 8-4-4-4-12 hexadecimal
// digits in either case. It returns ErrMalformed for all else.
func parse[K any](s string) (Of[K], error) {
	var id Of[K]
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return Of[K]{}, ErrMalformed
	}
	var digits [32]byte
	n := 0
	for i := range 36 {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			continue
		}
		digits[n] = s[i]
		n++
	}
	if _, err := hex.Decode(id[:], digits[:]); err != nil || id.IsZero() {
		return Of[K]{}, ErrMalformed
	}
	return id, nil
}

// String returns the canonical lower-case form.
func (id Of[K]) String() string {
	var out [36]byte
	hex.Encode(out[0:8], id[0:4])
	hex.Encode(out[9:13], id[4:6])
	hex.Encode(out[14:18], id[6:8])
	hex.Encode(out[19:23], id[8:10])
	hex.Encode(out[24:36], id[10:16])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return string(out[:])
}

// IsZero reports whether the id names nothing.
func (id Of[K]) IsZero() bool { return id == Of[K]{} }

// Time returns when a version 7 id was made, to the millisecond, in UTC.
func (id Of[K]) Time() time.Time {
	var ms uint64
	for _, b := range id[:6] {
		ms = ms<<8 | uint64(b)
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// Day returns the UTC day, at midnight, on which the id was made.
func (id Of[K]) Day() time.Time { return id.Time().Truncate(24 * time.Hour) }

// Value returns the id as a database value; the zero id is NULL.
func (id Of[K]) Value() (driver.Value, error) {
	if id.IsZero() {
		return nil, nil
	}
	return id.String(), nil
}

// Scan reads an id from a database value; NULL is the zero id.
func (id *Of[K]) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*id = Of[K]{}
		return nil
	case [16]byte:
		*id = v
		return nil
	case string:
		parsed, err := parse[K](v)
		if err != nil {
			return fmt.Errorf("scan id: %w", err)
		}
		*id = parsed
		return nil
	default:
		return fmt.Errorf("scan id from %T", src)
	}
}
