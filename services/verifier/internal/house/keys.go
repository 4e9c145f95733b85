package house

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/dice"
)

// keysOf returns the keys of an account that have not expired, the newest first.
func keysOf(all []Stored, account ids.AccountID, now time.Time) []Stored {
	var own []Stored
	for _, k := range all {
		if k.Account == account && k.ExpiresAt.After(now) {
			own = append(own, k)
		}
	}
	slices.SortFunc(own, func(a, b Stored) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), slices.Compare(a.ID[:], b.ID[:]))
	})
	return own
}

// renew returns the account's newest key, and makes one where the newest has had its week
// or is of no use. Where that fails, an older key that is good is returned with the error.
func (h *House) renew(ctx context.Context, account ids.AccountID, own []Stored, now time.Time) (Key, error) {
	var newest Key
	var expires time.Time
	var useless []ids.KeyID
	var faults []error
	for _, k := range own {
		key, err := h.unseal(k)
		switch {
		case err != nil || h.isRefused(k.ID):
			faults, useless = append(faults, err), append(useless, k.ID)
		case newest.ID.IsZero():
			newest, expires = key, k.ExpiresAt
		}
	}
	if expires.Sub(now) > Overlap || len(useless) > 0 && !h.mayReplace(account, now) {
		return newest, errors.Join(faults...)
	}
	made, err := h.issue(ctx, account, now)
	if err != nil {
		return newest, errors.Join(append(faults, err)...)
	}
	for _, id := range useless {
		faults = append(faults, h.forget(ctx, id))
	}
	return made, errors.Join(faults...)
}

func (h *House) isRefused(id ids.KeyID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused[id]
}

// mayReplace reports whether no useless key of the account was replaced within the hour.
func (h *House) mayReplace(account ids.AccountID, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, ever := h.replaced[account]; ever && now.Sub(last) < replaceEvery {
		return false
	}
	h.replaced[account] = now
	return true
}

// life is how long a key that is made on a day is good.
func (h *House) life(account ids.AccountID, now time.Time) time.Duration {
	day := binary.BigEndian.AppendUint64(nil, uint64(now.Unix()/86_400))
	d := dice.New(h.secret, "house week", account[:], day)
	return Overlap + MinWeek + time.Duration(d.Int64N(int64(MaxWeek-MinWeek)))
}

// issue makes a key. A key that the store does not take is revoked.
func (h *House) issue(ctx context.Context, account ids.AccountID, now time.Time) (Key, error) {
	expires := now.Add(h.life(account, now))
	key, err := h.ledger.Issue(ctx, account, expires)
	if err != nil {
		return Key{}, fmt.Errorf("issue a house key: %w", err)
	}
	stored := Stored{Account: account, ID: key.ID, ExpiresAt: expires}
	if stored.Sealed, err = h.seal(key); err == nil {
		err = h.store.PutHouseKey(ctx, stored)
	}
	if err == nil {
		return key, nil
	}
	revoked := h.ledger.Revoke(context.WithoutCancel(ctx), key.ID)
	return Key{}, errors.Join(revoked, fmt.Errorf("keep a house key: %w", err))
}

// retire revokes and forgets the keys that have expired.
func (h *House) retire(ctx context.Context, stored []Stored, now time.Time) error {
	var faults []error
	for _, k := range stored {
		if !k.ExpiresAt.After(now) {
			faults = append(faults, h.forget(ctx, k.ID))
		}
	}
	return errors.Join(faults...)
}

func (h *House) forget(ctx context.Context, id ids.KeyID) error {
	if err := h.ledger.Revoke(ctx, id); err != nil {
		return fmt.Errorf("revoke a house key: %w", err)
	}
	if err := h.store.ForgetHouseKey(ctx, id); err != nil {
		return fmt.Errorf("forget a house key: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.refused, id)
	return nil
}

// sealedVersion is the first byte of a sealed key.
const sealedVersion = 1

func (h *House) seal(k Key) ([]byte, error) {
	gcm, err := h.cipher(k.ID)
	if err != nil {
		return nil, err
	}
	sealed := make([]byte, 1+gcm.NonceSize(), 1+gcm.NonceSize()+len(k.Text.value)+gcm.Overhead())
	sealed[0] = sealedVersion
	if _, err := io.ReadFull(h.random, sealed[1:]); err != nil {
		return nil, fmt.Errorf("read randomness for a house key: %w", err)
	}
	//nolint:gosec // the nonce was read from random
	return gcm.Seal(sealed, sealed[1:], []byte(k.Text.value), k.Account[:]), nil
}

// unseal opens a key. It returns ErrSealed where one bit of account, id or text is
// another.
func (h *House) unseal(k Stored) (Key, error) {
	gcm, err := h.cipher(k.ID)
	if err != nil {
		return Key{}, err
	}
	if len(k.Sealed) < 1+gcm.NonceSize() || k.Sealed[0] != sealedVersion {
		return Key{}, ErrSealed
	}
	nonce, text := k.Sealed[1:1+gcm.NonceSize()], k.Sealed[1+gcm.NonceSize():]
	plain, err := gcm.Open(nil, nonce, text, k.Account[:])
	if err != nil {
		return Key{}, ErrSealed
	}
	return Key{Account: k.Account, ID: k.ID, Text: NewText(string(plain))}, nil
}

func (h *House) cipher(id ids.KeyID) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, h.secret[:], nil, "svc house key v1 "+string(id[:]), 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of a house key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of a house key: %w", err)
	}
	return cipher.NewGCM(block)
}
