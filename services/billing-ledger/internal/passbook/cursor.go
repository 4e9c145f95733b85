package passbook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// List is a list that has pages.
type List byte

// The lists.
const (
	Ledger List = iota + 1
	Requests
	Receipts
	Invoices
	CreditNotes
)

// Cursors makes and reads cursors. A cursor is a place with a code over it, its list and its
// account, so none is read that was not given, or that was given to another account.
type Cursors struct{ secret []byte }

// NewCursors returns cursors under a secret that all replicas have.
func NewCursors(secret []byte) *Cursors { return &Cursors{secret: secret} }

// The bytes of a cursor: the place, then its code.
const (
	placeBytes  = 12
	codeBytes   = 16
	cursorBytes = placeBytes + codeBytes
)

// Of returns the cursor behind a place.
func (c *Cursors) Of(list List, account ids.AccountID, p Place) string {
	raw := make([]byte, 0, cursorBytes)
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.At.UnixMicro()))
	raw = binary.BigEndian.AppendUint32(raw, uint32(p.N))
	raw = append(raw, c.code(list, account, raw)...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Read returns the place of a cursor. Without a cursor it returns nil: the newest is first.
func (c *Cursors) Read(list List, account ids.AccountID, text string) (*Place, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != cursorBytes ||
		!hmac.Equal(raw[placeBytes:], c.code(list, account, raw[:placeBytes])) {
		return nil, fault.New(fault.Invalid, fault.InvalidValue,
			"cursor must be a next_cursor that this account was given for this list").On("cursor")
	}
	return &Place{
		At: time.UnixMicro(int64(binary.BigEndian.Uint64(raw))).UTC(),
		N:  int32(binary.BigEndian.Uint32(raw[8:placeBytes])),
	}, nil
}

func (c *Cursors) code(list List, account ids.AccountID, place []byte) []byte {
	mac := hmac.New(sha256.New, c.secret)
	_, _ = mac.Write([]byte{byte(list)}) // a hash never fails
	_, _ = mac.Write(account[:])
	_, _ = mac.Write(place)
	return mac.Sum(nil)[:codeBytes]
}
