package providerapi

import (
	"context"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// ownKey is a key of a user's provider account. Nobody keeps the text of a key.
type ownKey struct {
	KeyID     string     `json:"key_id"`
	KeyPrefix string     `json:"key_prefix"`
	Name      string     `json:"name"`
	Active    bool       `json:"active"`
	CreatedAt *time.Time `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
	// LastUsedAt is exact to ten minutes.
	LastUsedAt *time.Time `json:"last_used_at"`
}

// ProviderKeys answers /api/v1/user/me/provider-keys: POST makes a key, GET lists them.
func (a *API) ProviderKeys(ctx context.Context, c Call) (Answer, error) {
	if c.Method == http.MethodPost {
		return a.CreateProviderKey(ctx, c)
	}
	return a.ListProviderKeys(ctx, c)
}

// ListProviderKeys answers GET /api/v1/user/me/provider-keys: the keys of the user's
// provider account, good keys first.
func (a *API) ListProviderKeys(ctx context.Context, c Call) (Answer, error) {
	u, err := a.provider(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Self.ListKeys(called, &hubv1.ListKeysRequest{ProviderId: u.GetProviderId()})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	list := make([]ownKey, 0, len(resp.GetKeys()))
	for _, k := range resp.GetKeys() {
		list = append(list, ownKey{
			KeyID: k.GetKeyId(), KeyPrefix: k.GetKeyPrefix(), Name: k.GetName(), Active: k.GetActive(),
			CreatedAt: moment(k.GetCreatedAt()), ExpiresAt: moment(k.GetExpiresAt()), RevokedAt: moment(k.GetRevokedAt()),
			LastUsedAt: moment(k.GetLastUsedAt()),
		})
	}
	return answer(http.StatusOK, struct {
		ProviderID string   `json:"provider_id"`
		Keys       []ownKey `json:"keys"`
	}{u.GetProviderId(), list})
}

// RevokeProviderKey answers DELETE /api/v1/user/me/provider-keys/{key_id}. The key ends
// for good, with the connections that were made with it. The call is idempotent.
func (a *API) RevokeProviderKey(ctx context.Context, c Call) (Answer, error) {
	u, err := a.provider(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	id, err := url.PathUnescape(c.Rest)
	if err != nil || len(id) > maxKeyID || !utf8.ValidString(id) {
		id = "" // no key has it
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if _, err := a.peers.Self.RevokeKey(called, &hubv1.RevokeKeyRequest{ProviderId: u.GetProviderId(),
		KeyId: id}); err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, struct {
		KeyID   string `json:"key_id"`
		Message string `json:"message"`
	}{id, "The key is revoked, and connections made with it are closed."})
}

// maxKeyID is in bytes, far above the length of a key's id.
const maxKeyID = 64
