package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestEveryKindSurvivesTheWire(t *testing.T) {
	for _, kind := range Kinds() {
		sent := New(kind, "some_reason", "what happened").On("messages[0].role").
			After(1500*time.Millisecond).With("max_context_length", "4096")
		got, ok := As(FromError(ToStatus(fmt.Errorf("serve: %w", sent))))
		if !ok {
			t.Fatalf("kind %d did not come back as a fault", kind)
		}
		if got.Kind != kind || got.Reason != sent.Reason || got.Message != sent.Message ||
			got.Param != sent.Param || got.RetryAfter != sent.RetryAfter || got.Meta["max_context_length"] != "4096" {
			t.Errorf("kind %d came back as %+v", kind, got)
		}
	}
}

func TestACauseIsLoggedButNeverSent(t *testing.T) {
	f := Wrap(errors.New("password=hunter2"), Unavailable, ServiceUnavailable, "try again")
	if !strings.Contains(f.Error(), "hunter2") {
		t.Error("the log does not see the cause")
	}
	if text := fmt.Sprintf("%+v", ToStatus(f)); strings.Contains(text, "hunter2") {
		t.Errorf("the wire sees the cause: %s", text)
	}
	if text := ToStatus(errors.New("dial tcp secret")).Error(); strings.Contains(text, "secret") {
		t.Errorf("the wire sees a plain error: %s", text)
	}
}

func TestErrorsOfTheTransportAreToldApart(t *testing.T) {
	for code, want := range map[codes.Code]Kind{
		codes.Unavailable: Unavailable, codes.DeadlineExceeded: Timeout,
		codes.Canceled: Canceled, codes.Unknown: Internal, codes.Unimplemented: Internal,
	} {
		f, ok := As(FromError(status.Error(code, "x")))
		if !ok || f.Kind != want {
			t.Errorf("%v became %+v", code, f)
		}
	}
	for err, want := range map[error]Kind{context.Canceled: Canceled, context.DeadlineExceeded: Timeout} {
		if f, _ := As(FromError(ToStatus(err))); f == nil || f.Kind != want {
			t.Errorf("%v became %+v", err, f)
		}
	}
	if FromError(nil) != nil || ToStatus(nil) != nil {
		t.Error("no error became one")
	}
}
