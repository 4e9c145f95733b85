package batch

import (
	"context"
	"fmt"
	"time"
)

// Signer signs statements.
type Signer interface {
	SignStatement(ctx context.Context, s Stated) (signature, signer []byte, err error)
}

// Sign signs every statement that is not signed, and returns how many it signed. It ends at the first error: a signer
// that is away delays signatures and nothing else.
func Sign(ctx context.Context, store Store, signer Signer) (signed int, err error) {
	var after SharePlace
	for {
		list, err := store.Unsigned(ctx, after, maxShares)
		if err != nil {
			return signed, err
		}
		for _, u := range list {
			signature, by, err := signer.SignStatement(ctx, u.Stated)
			if err != nil {
				return signed, fmt.Errorf("sign the statement of %s of %s: %w", u.Provider,
					u.SharePlace.Day.Format(time.DateOnly), err)
			}
			if err := store.SetSigned(ctx, u, signature, by); err != nil {
				return signed, err
			}
			signed++
		}
		if len(list) < maxShares {
			return signed, nil
		}
		after = list[len(list)-1].SharePlace
	}
}
