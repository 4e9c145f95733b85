package inference

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

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

// verdict is how an attempt ended. With the zero value the attempt is still under way.
type verdict struct {
	// err is the client's error when no other candidate is tried; nil when the attempt has served.
	err error
	// retry reports whether another candidate may be tried.
	retry  bool
	result string
	// reached reports whether the provider may have begun to work on the request.
	reached      bool
	engineStatus int32
}

// final reports whether the attempt has ended.
func (v verdict) final() bool { return v.result != "" }

// refusedByEngine reports whether the error is the provider's own answer.
func (v verdict) refusedByEngine() bool {
	return v.result == resultRefused && v.engineStatus >= http.StatusBadRequest
}

// served is an attempt that has served.
func served() verdict { return verdict{result: resultServed} }

// failed is an attempt whose provider sent an answer that no client may read.
func failed(committed bool) verdict {
	return verdict{err: upstream(), retry: !committed, result: resultFailed, reached: true}
}

// silent is an attempt whose hub sent nothing for longer than it may.
func silent() verdict {
	return verdict{err: tooLate(), retry: true, result: resultTimeout, reached: true}
}

// declined reads the hub's report of a failed attempt.
func declined(m *hubv1.DispatchFailed, committed bool) verdict {
	v := verdict{
		err:          upstream(),
		retry:        m.GetRetryable() && !committed,
		result:       resultFailed,
		reached:      !m.GetBusy(),
		engineStatus: m.GetEngineStatus(),
	}
	switch {
	case m.GetBusy():
		v.result = resultBusy
	case m.GetCode() == codeTimeout:
		v.result, v.err = resultTimeout, tooLate()
	case m.GetCode() == codeEngineRefused:
		v.result, v.retry = resultRefused, false
		v.err = apierror.NewRefusal(int(m.GetEngineStatus()), openai.Error{
			Message: m.GetMessage(), Type: m.GetEngineType(), Param: m.GetEngineParam(), Code: m.GetEngineCode(),
		})
	}
	return v
}

// broken reads the error with which the stream to the hub ended before the hub had sent an outcome.
func broken(err error, committed bool) verdict {
	v := failed(committed)
	if committed {
		return v
	}
	known, ok := fault.As(err)
	if !ok {
		return v
	}
	switch known.Reason {
	case fault.ProviderBusy:
		v.result, v.reached = resultBusy, false
	case fault.SessionGone, fault.HubDraining, fault.JournalFull:
		v.result, v.reached = resultUnavailable, false
	default:
		if known.Kind == fault.Invalid {
			// The hub calls our own message malformed, and so will the next hub.
			v.retry, v.err = false, fault.Wrap(err, fault.Internal, fault.InternalError, "a hub refused the dispatch")
		}
	}
	return v
}

// unreachable is a hub that could not be asked.
func unreachable(err error) verdict {
	v := broken(err, false)
	v.reached = false
	if v.result == resultFailed {
		v.result = resultUnavailable
	}
	return v
}

// failedElsewhere reports whether a provider that worked on the request has failed it. Where owners decide
// whether their providers serve such requests, a provider whose owner does not allow it has not failed.
func failedElsewhere(failures []verdict, ownersDecide bool) bool {
	return slices.ContainsFunc(failures, func(v verdict) bool {
		return v.reached && (!ownersDecide || v.engineStatus != http.StatusNotImplemented)
	})
}

// exhausted returns the outcome when every attempt has failed. pinned reports whether only the pinned
// provider could serve, late whether no time is left for another attempt.
func exhausted(failures []verdict, pinned, late bool) error {
	attempts := len(failures)
	reached, timeouts := 0, 0
	for _, v := range failures {
		if v.reached {
			reached++
		}
		if v.result == resultTimeout {
			timeouts++
		}
	}
	switch {
	case pinned && reached > 0:
		return fault.New(fault.Unavailable, apierror.RequestedProviderFailed,
			"The requested provider failed, and fallbacks are not allowed.")
	case pinned:
		return fault.New(fault.Unavailable, fault.RequestedProviderUnavailable,
			"The requested provider is not available, and fallbacks are not allowed.")
	case reached == 0:
		return fault.New(fault.Unavailable, fault.ProvidersBusy, "All providers of this model are busy.")
	case timeouts == attempts || late:
		return fault.New(fault.Timeout, fault.DeadlineExceeded,
			"No provider answered in time, after %s.", counted(attempts))
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

// ended returns why a request is over: this process is being stopped, the client left, or the time is over.
func ended(client context.Context) error {
	switch whyOver(client) {
	case stopped:
		return stopping()
	case clientLeft:
		return clientGone()
	default:
		return tooLate()
	}
}

func stopping() error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable, "The service is being restarted.").After(time.Second)
}

func lapsed() error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable,
		"The service stood still for too long while it served this request. Send it again.").After(time.Second)
}

func clientGone() error {
	return fault.New(fault.Canceled, fault.ClientClosed, "The client closed the request.")
}

func tooLate() error {
	return fault.New(fault.Timeout, fault.DeadlineExceeded, "The request took too long.")
}

func upstream() error {
	return fault.New(fault.Unavailable, apierror.UpstreamError, "The provider failed while serving the request.")
}
