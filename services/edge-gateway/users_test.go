package edgegateway

import (
	"context"
	"net/http"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// GetMe shows the user that the call's metadata names.
func (p *people) GetMe(ctx context.Context, _ *billingv1.GetMeRequest) (*billingv1.GetMeResponse, error) {
	who, ok := serve.User(ctx)
	if !ok {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidSession, "nobody is named")
	}
	return &billingv1.GetMeResponse{User: &billingv1.User{UserId: who.User, AccountId: who.Account}}, nil
}

func TestARouteOfUsersIsServedForTheUserOfTheToken(t *testing.T) {
	f := start(t)
	var me struct {
		User struct {
			ID      string `json:"user_id"`
			Account string `json:"account_id"`
		}
	}
	forged := []string{"Authorization", "Bearer " + sessionToken, "X-Svc-User", "somebody", "X-Svc-Account", "else",
		"Grpc-Metadata-X-Svc-User", "somebody"}
	wantJSON(t, f.do(http.MethodGet, "/api/v1/user/me", "", forged...), 200, &me)
	if me.User.ID != userID {
		t.Errorf("me.User.ID: got %q, want %q", me.User.ID, userID)
	}
	if me.User.Account != "account-1" {
		t.Errorf(`me.User.Account: got %q, want "account-1"`, me.User.Account)
	}
}
