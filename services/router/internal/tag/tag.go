// Package tag names consumer accounts as the router may know them: by an opaque
// digest that says only which requests are of one account.
package tag

import "encoding/binary"

// Size is the length of a tag in bytes.
const Size = 8

// Account is a consumer account. Zero is an account that is not known; all that are
// not known count as one.
type Account uint64

// FromBytes reads a tag. It is false for anything but nothing or Size bytes.
func FromBytes(b []byte) (Account, bool) {
	switch len(b) {
	case 0:
		return 0, true
	case Size:
		return Account(binary.BigEndian.Uint64(b)), true
	default:
		return 0, false
	}
}
