package peers

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// directoryOf is a hub whose answer is this error.
type directoryOf struct{ err error }

func (d directoryOf) GetProvider(
	context.Context, *hubv1.GetProviderRequest, ...grpc.CallOption,
) (*hubv1.GetProviderResponse, error) {
	return &hubv1.GetProviderResponse{}, d.err
}

func TestOnlyAHubThatSaysSoMakesAProviderUnknown(t *testing.T) {
	missing := fault.New(fault.NotFound, fault.ProviderNotFound, "there is no such provider")
	for name, tc := range map[string]struct {
		err    error
		exists bool
		tells  bool
	}{
		"known":             {nil, true, true},
		"unknown":           {missing, false, true},
		"unknown, as sent":  {fault.ToStatus(missing), false, true},
		"hub away":          {status.Error(codes.Unavailable, "x"), false, false},
		"route is missing":  {status.Error(codes.NotFound, "x"), false, false},
		"something unusual": {errors.New("x"), false, false},
	} {
		exists, err := AskHub(directoryOf{tc.err})(t.Context(), "p")
		if exists != tc.exists {
			t.Errorf("%s: exists: got %t, want %t", name, exists, tc.exists)
		} else if (err == nil) != tc.tells {
			t.Errorf("%s: err == nil: got %t, want %t", name, err == nil, tc.tells)
		}
	}
}
