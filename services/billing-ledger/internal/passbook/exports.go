package passbook

import (
	"context"
	"errors"
	"sync"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Bounds of the exports under way in a process.
const (
	maxExports          = 16
	maxExportsOfAccount = 2
	// exportTimeout bounds one export, however slowly its reader reads.
	exportTimeout = time.Hour
	exportRetry   = 10 * time.Second
)

// errClosing ends exports when the process stops.
var errClosing = errors.New("the process stops")

// Exports bounds the exports under way. It is safe for concurrent use.
type Exports struct {
	mu     sync.Mutex
	closed bool
	all    map[*func(error)]struct{}
	of     map[ids.AccountID]int
}

// NewExports has none under way.
func NewExports() *Exports {
	return &Exports{all: map[*func(error)]struct{}{}, of: map[ids.AccountID]int{}}
}

// Do runs an export of an account, unless the account or the process has as many as it may.
// The context of the export ends when the process stops, so no slow reader holds that up.
func (e *Exports) Do(ctx context.Context, account ids.AccountID, run func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, exportTimeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end := func(cause error) { cancel(cause) }
	if err := e.begin(account, &end); err != nil {
		return err
	}
	defer e.finish(account, &end)
	err := run(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errClosing) {
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "the export was broken off, because the "+
			"service stops")
	}
	return err
}

func (e *Exports) begin(account ids.AccountID, end *func(error)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return fault.Wrap(errClosing, fault.Unavailable, fault.ServiceUnavailable, "the service stops")
	case e.of[account] >= maxExportsOfAccount:
		return fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded, "an account may have %d exports under way",
			maxExportsOfAccount).After(exportRetry)
	case len(e.all) >= maxExports:
		return fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded, "too many exports are under way").After(
			exportRetry)
	}
	e.all[end] = struct{}{}
	e.of[account]++
	return nil
}

func (e *Exports) finish(account ids.AccountID, end *func(error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, end)
	if e.of[account]--; e.of[account] == 0 {
		delete(e.of, account)
	}
}

// Run waits until ctx ends, and ends all exports then.
func (e *Exports) Run(ctx context.Context) {
	<-ctx.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for end := range e.all {
		(*end)(errClosing)
	}
}
