package inference

import (
	"net/http"
	"strconv"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/openai"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// Results of an attempt, as billing-ledger keeps them.
const (
	resultServed      = "served"
	resultFailed      = "failed"
	resultTimeout     = "timeout"
	resultBusy        = "busy"
	resultRefused     = "refused"
	resultClientGone  = "client_gone"
	resultUnavailable = "unavailable"
)

// Codes of hubv1.DispatchFailed.
const (
	codeTimeout       = "timeout"
	codeEngineRefused = "engine_refused"
)

// failure is why an attempt did not serve.
type failure struct {
	// err is what the client is told when nothing more is tried.
	err error
	// retry tells that another candidate may be tried.
	retry  bool
	result string
	// reached tells that the provider may have begun to work on the request.
	reached      bool
	engineStatus int32
}

// declined reads what the hub said of a failed attempt.
func declined(m *hubv1.DispatchFailed, committed bool) *failure {
	f := &failure{
		err:          upstream(),
		retry:        m.GetRetryable() && !committed,
		result:       resultFailed,
		reached:      !m.GetBusy(),
		engineStatus: m.GetEngineStatus(),
	}
	switch {
	case m.GetBusy():
		f.result = resultBusy
	case m.GetCode() == codeTimeout:
		f.result, f.err = resultTimeout, tooLate()
	case m.GetCode() == codeEngineRefused:
		f.result, f.retry = resultRefused, false
		f.err = apierror.NewRefusal(int(m.GetEngineStatus()), openai.Error{
			Message: m.GetMessage(), Type: m.GetEngineType(), Param: m.GetEngineParam(), Code: m.GetEngineCode(),
		})
	}
	return f
}

// broken reads the error with which the stream to the hub ended, before the
// hub had told of an outcome.
func broken(err error, committed bool) *failure {
	if committed {
		return &failure{err: upstream(), result: resultFailed, reached: true}
	}
	f := &failure{err: upstream(), retry: true, result: resultFailed, reached: true}
	known, ok := fault.As(err)
	if !ok {
		return f
	}
	switch known.Reason {
	case fault.ProviderBusy:
		f.result, f.reached = resultBusy, false
	case fault.SessionGone, fault.HubDraining, fault.JournalFull:
		f.result, f.reached = resultUnavailable, false
	default:
		if known.Kind == fault.Invalid {
			// The hub calls our own message malformed; so will the next.
			f.retry, f.err = false, fault.Wrap(err, fault.Internal, fault.InternalError, "a hub refused the dispatch")
		}
	}
	return f
}

// unreachable is a hub that could not be asked.
func unreachable(err error) *failure {
	f := broken(err, false)
	f.reached = false
	if f.result == resultFailed {
		f.result = resultUnavailable
	}
	return f
}

// exhausted is the outcome when every attempt has failed.
func (s *session) exhausted() error {
	attempts := len(s.failures)
	reached, timeouts := 0, 0
	for _, f := range s.failures {
		if f.reached {
			reached++
		}
		if f.result == resultTimeout {
			timeouts++
		}
	}
	switch {
	case s.bound() && reached > 0:
		return fault.New(fault.Unavailable, apierror.RequestedProviderFailed,
			"The requested provider failed, and fallbacks are not allowed.")
	case s.bound():
		return fault.New(fault.Unavailable, fault.RequestedProviderUnavailable,
			"The requested provider is not available, and fallbacks are not allowed.")
	case reached == 0:
		return fault.New(fault.Unavailable, fault.ProvidersBusy, "All providers of this model are busy.")
	case timeouts == attempts || s.call.Stream && s.firstContentLeft() <= 0:
		return fault.New(fault.Timeout, fault.DeadlineExceeded, "No provider answered in time, after %s.", counted(attempts))
	}
	if attempts == 1 {
		return fault.New(fault.Unavailable, apierror.UpstreamError, "The only attempt failed upstream.")
	}
	return fault.New(fault.Unavailable, apierror.UpstreamError, "All %d attempts failed upstream.", attempts)
}

func counted(attempts int) string {
	if attempts == 1 {
		return "1 attempt"
	}
	return strconv.Itoa(attempts) + " attempts"
}

// tell gives the client an error within a stream that has begun; an answer
// that has not begun is left to the caller.
func (s *session) tell(err error) {
	a := apierror.Of(err)
	s.setAttempts()
	if !s.out.begun || a.Status == apierror.StatusClientClosed || !s.call.Stream {
		return
	}
	if s.call.Running.Valid() {
		s.answer.release(s.out)
	} else {
		s.drop() // there is no time left to ask whether it is paid for
	}
	s.out.errorEvent(a.Error, s.call.RequestID)
}

// refusedBy reports whether an error is the provider's own answer.
func refusedBy(f *failure) bool {
	return f.result == resultRefused && f.engineStatus >= http.StatusBadRequest
}
