package serve

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
)

func TestAUserIsNamedOnceAndWhole(t *testing.T) {
	ada := Caller{User: "u", Account: "a", Session: "s", Network: "n"}
	got, ok := User(metadata.NewIncomingContext(t.Context(), UserMetadata(ada)))
	if !ok {
		t.Error("ok: got false, want true")
	}
	if got != ada {
		t.Errorf("got %+v, want %+v", got, ada)
	}
	twice := UserMetadata(ada)
	twice.Append(userKey, "other")
	for name, md := range map[string]metadata.MD{
		"none": {}, "two users": twice, "no user": UserMetadata(Caller{Account: "a"}),
		"no account": UserMetadata(Caller{User: "u"}),
		"long":       UserMetadata(Caller{User: strings.Repeat("u", maxCallerID+1), Account: "a"}),
	} {
		if got, ok := User(metadata.NewIncomingContext(t.Context(), md)); ok {
			t.Errorf("%s: got %+v, want no user", name, got)
		}
	}
	if got, ok := User(context.Background()); ok {
		t.Errorf("got %+v outside of a call, want no user", got)
	}
}
