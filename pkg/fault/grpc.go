package fault

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// domain distinguishes our ErrorInfo from those of other systems.
const domain = "svc"

// Names in ErrorInfo's metadata that carry fields of a Fault.
const (
	metaParam      = "svc-param"
	metaRetryAfter = "svc-retry-after-ms"
)

var codeOf = [kinds]codes.Code{
	Internal:        codes.Internal,
	Invalid:         codes.InvalidArgument,
	Unauthenticated: codes.Unauthenticated,
	Denied:          codes.PermissionDenied,
	NotFound:        codes.NotFound,
	Precondition:    codes.FailedPrecondition,
	Exhausted:       codes.ResourceExhausted,
	Unavailable:     codes.Unavailable,
	Timeout:         codes.DeadlineExceeded,
	Canceled:        codes.Canceled,
	Conflict:        codes.AlreadyExists,
}

// ToStatus turns a handler's error into the error that gRPC sends. A fault keeps its
// kind, reason, message and figures, and loses its cause. Any other error becomes a bare
// Internal.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	f, ok := As(err)
	if !ok {
		switch {
		case errors.Is(err, context.Canceled):
			f = New(Canceled, ClientClosed, "the caller went away")
		case errors.Is(err, context.DeadlineExceeded):
			f = New(Timeout, DeadlineExceeded, "the call took too long")
		default:
			f = New(Internal, InternalError, "internal error")
		}
	}
	info := &errdetails.ErrorInfo{Domain: domain, Reason: string(f.Reason), Metadata: map[string]string{}}
	for name, value := range f.Meta {
		info.Metadata[name] = value
	}
	if f.Param != "" {
		info.Metadata[metaParam] = f.Param
	}
	if f.RetryAfter > 0 {
		info.Metadata[metaRetryAfter] = strconv.FormatInt(f.RetryAfter.Milliseconds(), 10)
	}
	st, detailErr := status.New(codeOf[f.Kind], f.Message).WithDetails(info)
	if detailErr != nil {
		return status.Error(codeOf[f.Kind], f.Message)
	}
	return st.Err()
}

// FromError restores the fault that a peer sent. An error of the transport becomes
// Unavailable, Timeout or Canceled, a call that the peer does not know Unavailable, and
// any other error Internal. A nil error stays nil.
func FromError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := As(err); ok {
		return err
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == domain {
			return fromInfo(st, info)
		}
	}
	switch st.Code() {
	case codes.Unavailable:
		return Wrap(err, Unavailable, ServiceUnavailable, "a part of the service does not answer")
	case codes.Unimplemented:
		// While releases are mixed: a peer of an earlier one does not know the call.
		return Wrap(err, Unavailable, ServiceUnavailable, "a part of the service is being replaced")
	case codes.DeadlineExceeded:
		return Wrap(err, Timeout, DeadlineExceeded, "the call took too long")
	case codes.Canceled:
		return Wrap(err, Canceled, ClientClosed, "the caller went away")
	default:
		return Wrap(err, Internal, InternalError, "internal error")
	}
}

func fromInfo(st *status.Status, info *errdetails.ErrorInfo) *Fault {
	f := &Fault{Kind: kindOf(st.Code()), Reason: Reason(info.GetReason()), Message: st.Message()}
	for name, value := range info.GetMetadata() {
		switch name {
		case metaParam:
			f.Param = value
		case metaRetryAfter:
			if ms, err := strconv.ParseInt(value, 10, 64); err == nil {
				f.RetryAfter = time.Duration(ms) * time.Millisecond
			}
		default:
			f.note(name, value)
		}
	}
	return f
}

func kindOf(code codes.Code) Kind {
	for kind, c := range codeOf {
		if c == code {
			return Kind(kind)
		}
	}
	return Internal
}
