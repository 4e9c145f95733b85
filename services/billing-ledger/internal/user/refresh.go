package user

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
)

// A refresh token is used once: it gives a token, and the refresh token that takes its
// place. Two pages that refresh at once show the same one, so for ReuseGrace after its use
// it gives its successor again. Later it can only be a copy. Nobody knows whether the user
// or a thief used it first, so its family ends, the user gets a letter, and the service
// raises an alarm.
//
// The successor is kept sealed under a key that only the text of its predecessor gives. Of
// that text the digest alone is stored, so the store gives nobody a token.
const (
	ReuseGrace = 10 * time.Second
	// MaxRefreshTokens bounds the tokens of a family that are remembered as used. An older
	// one is unknown and ends nothing.
	MaxRefreshTokens = 3000
	// maxFollowed bounds how far the successors of a token are followed within ReuseGrace.
	maxFollowed = 16
)

// Refresh signs a user in again who has a refresh token. It fails with invalid_session and
// session_expired.
func (u *Users) Refresh(ctx context.Context, text, shown string) (in SignedIn, err error) {
	if err := (From{Shown: shown}).check(); err != nil {
		return SignedIn{}, err
	}
	presented := Token{text}
	if in.Token, err = NewToken(u.Random); err != nil {
		return SignedIn{}, err
	}
	if in.Refresh, err = NewToken(u.Random); err != nil {
		return SignedIn{}, err
	}
	r := Rotation{Presented: presented.Digest(), Token: in.Token.Digest(), Successor: in.Refresh.Digest(),
		Sealed: presented.seal(in.Refresh), Shown: shown}
	for range maxFollowed {
		done, err := u.rotate(ctx, r)
		switch {
		case err != nil:
			return SignedIn{}, err
		case done.Sealed == nil:
			in.User, in.Family, in.ExpiresAt, in.RefreshExpiresAt = done.User, done.Family, done.Ends.Token, done.Ends.Refresh
			return in, nil
		}
		if presented, err = presented.open(done.Sealed); err != nil {
			return SignedIn{}, err
		}
		in.Refresh = presented
		r = Rotation{Presented: presented.Digest(), Token: r.Token, Shown: shown}
	}
	return SignedIn{}, fault.New(fault.Unavailable, fault.ServiceUnavailable, "the session is refreshed too often").After(
		ReuseGrace)
}

// rotate uses a refresh token and raises the alarm when it was used before.
func (u *Users) rotate(ctx context.Context, r Rotation) (done Rotated, err error) {
	err = u.Lookups.Do(ctx, func() (err error) {
		done, err = u.Families.Rotate(ctx, r)
		return err
	})
	switch {
	case errors.Is(err, ErrOver):
		return done, fault.New(fault.Unauthenticated, fault.SessionExpired, "the session is over; sign in again")
	case errors.Is(err, ErrNotFound):
		return done, noSession()
	case err != nil:
		return done, fmt.Errorf("refresh a session: %w", err)
	case done.Reused:
		if u.ObserveReuse != nil {
			u.ObserveReuse(ctx, done.User.ID, done.Family)
		}
		return done, noSession()
	}
	return done, nil
}

// sealingPurpose keeps the key of a successor apart from everything else that is made of a
// token.
const sealingPurpose = "svc refresh token successor v1"

// sealer returns the cipher under which the successor of a token is kept. Its key seals one
// text, so the nonce is always the same.
func (t Token) sealer() (cipher.AEAD, []byte) {
	mac := hmac.New(sha256.New, []byte(t.text))
	mac.Write([]byte(sealingPurpose))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has blocks of 16 bytes
	}
	return gcm, make([]byte, gcm.NonceSize())
}

func (t Token) seal(successor Token) []byte {
	gcm, nonce := t.sealer()
	return gcm.Seal(nil, nonce, []byte(successor.text), nil)
}

func (t Token) open(sealed []byte) (Token, error) {
	gcm, nonce := t.sealer()
	text, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil {
		return Token{}, fmt.Errorf("open the successor of a refresh token: %w", err)
	}
	return Token{string(text)}, nil
}
