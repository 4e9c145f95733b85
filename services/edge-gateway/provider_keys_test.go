package edgegateway

import (
	"context"
	"net/http"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

const (
	oneKey  = "01890000-0000-7000-8000-00000000000b"
	lastKey = "01890000-0000-7000-8000-00000000000c"
)

func (s *selves) ListKeys(_ context.Context, req *hubv1.ListKeysRequest) (*hubv1.ListKeysResponse, error) {
	return &hubv1.ListKeysResponse{Keys: []*hubv1.ProviderKey{
		{KeyId: oneKey, KeyPrefix: "sk-prov-of", Name: req.GetProviderId(), Active: true, CreatedAt: timestamppb.Now()},
	}}, nil
}

func (s *selves) RevokeKey(_ context.Context, req *hubv1.RevokeKeyRequest) (*hubv1.RevokeKeyResponse, error) {
	switch req.GetKeyId() {
	case oneKey:
		return &hubv1.RevokeKeyResponse{}, nil
	case lastKey:
		return nil, fault.New(fault.Precondition, fault.TransitionNotAllowed, "this is the last key that does not expire")
	}
	return nil, fault.New(fault.NotFound, fault.KeyNotFound, "no such provider key")
}

func TestAUserListsAndRevokesTheKeysOfTheProvider(t *testing.T) {
	const keys = "/api/v1/user/me/provider-keys"
	f := newFleet(t).start()
	auth := []string{"Authorization", "Bearer " + sessionToken}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/consumer/upgrade-to-provider", `{"name":"Ann's"}`, auth...), 201, nil)
	var list struct {
		ProviderID string `json:"provider_id"`
		Keys       []struct {
			ID     string `json:"key_id"`
			Name   string
			Active bool
		}
	}
	wantJSON(t, f.do(http.MethodGet, keys, "", auth...), 200, &list)
	switch {
	case list.ProviderID != providerA:
		t.Errorf("listed: list.ProviderID: got %q, want %q", list.ProviderID, providerA)
	case len(list.Keys) != 1:
		t.Errorf("listed: len(list.Keys): got %d, want 1, in %+v", len(list.Keys), list)
	case list.Keys[0].ID != oneKey:
		t.Errorf("listed: list.Keys[0].ID: got %q, want %q", list.Keys[0].ID, oneKey)
	case list.Keys[0].Name != providerA:
		t.Errorf("listed: list.Keys[0].Name: got %q, want %q", list.Keys[0].Name, providerA)
	case !list.Keys[0].Active:
		t.Error("listed: list.Keys[0].Active: got false, want true")
	}
	for key, status := range map[string]int{oneKey: 200, lastKey: 409, "x": 404, oneKey + "/more": 404} {
		wantJSON(t, f.do(http.MethodDelete, keys+"/"+key, "", auth...), status, nil)
	}
	for path, method := range map[string]string{keys: http.MethodDelete, keys + "/" + oneKey: http.MethodGet} {
		wantJSON(t, f.do(method, path, "", auth...), 405, nil)
	}
}
