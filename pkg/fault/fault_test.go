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
		switch {
		case got.Kind != kind:
			t.Errorf("kind %d came back: Kind: got %d, want %d", kind, got.Kind, kind)
		case got.Reason != sent.Reason:
			t.Errorf("kind %d came back: Reason: got %q, want %q", kind, got.Reason, sent.Reason)
		case got.Message != sent.Message:
			t.Errorf("kind %d came back: Message: got %q, want %q", kind, got.Message, sent.Message)
		case got.Param != sent.Param:
			t.Errorf("kind %d came back: Param: got %q, want %q", kind, got.Param, sent.Param)
		case got.RetryAfter != sent.RetryAfter:
			t.Errorf("kind %d came back: RetryAfter: got %v, want %v", kind, got.RetryAfter, sent.RetryAfter)
		case got.Meta["max_context_length"] != "4096":
			t.Errorf(`kind %d came back: Meta["max_context_length"]: got %q, want "4096"`, kind, got.Meta["max_context_length"])
		}
	}
}

func TestACauseIsLoggedButNeverSent(t *testing.T) {
	f := Wrap(errors.New("password=hunter2"), Unavailable, ServiceUnavailable, "try again")
	if !strings.Contains(f.Error(), "hunter2") {
		t.Errorf(`what the log sees of the cause: got the error %q, want "hunter2" in it`, f)
	}
	if text := fmt.Sprintf("%+v", ToStatus(f)); strings.Contains(text, "hunter2") {
		t.Errorf(`what the wire sees of the cause: got %q, want it without "hunter2"`, text)
	}
	if text := ToStatus(errors.New("dial tcp secret")).Error(); strings.Contains(text, "secret") {
		t.Errorf(`what the wire sees of a plain error: got %q, want it without "secret"`, text)
	}
}

func TestErrorsOfTheTransportAreToldApart(t *testing.T) {
	for code, want := range map[codes.Code]Kind{
		codes.Unavailable: Unavailable, codes.DeadlineExceeded: Timeout,
		codes.Canceled: Canceled, codes.Unknown: Internal, codes.Unimplemented: Unavailable,
	} {
		f, ok := As(FromError(status.Error(code, "x")))
		if !ok {
			t.Errorf("%v: ok of As(…): got false, want true", code)
		} else if f.Kind != want {
			t.Errorf("%v: f.Kind: got %d, want %d", code, f.Kind, want)
		}
	}
	for err, want := range map[error]Kind{context.Canceled: Canceled, context.DeadlineExceeded: Timeout} {
		if f, _ := As(FromError(ToStatus(err))); f == nil {
			t.Errorf("%v: f: got no error, want one", err)
		} else if f.Kind != want {
			t.Errorf("%v: f.Kind: got %d, want %d", err, f.Kind, want)
		}
	}
	if got := FromError(nil); got != nil {
		t.Errorf("of no error: FromError(nil): got the error %v, want none", got)
	} else if got := ToStatus(nil); got != nil {
		t.Errorf("of no error: ToStatus(nil): got the error %v, want none", got)
	}
}

func TestALookForAFaultAllocatesNothing(t *testing.T) {
	for name, err := range map[string]error{
		"none": nil, "another": context.Canceled, "a fault": New(Invalid, InvalidValue, "no"),
	} {
		if got := testing.AllocsPerRun(100, func() { _, _ = As(err) }); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}
