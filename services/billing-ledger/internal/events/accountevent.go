package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/kin"
)

// AccountEvents stores what happens to providers, for the accounts of their users, and tells
// the producers what is stored. An event that is delivered twice is stored once. The addresses of
// providers are told to nobody: they mark their providers.
type AccountEvents struct {
	Bus Bus
	// Keep stores events, each once.
	Keep func(context.Context, []accountevent.Event) error
	// Mark keeps marks, each once.
	Mark func(context.Context, []kin.Mark) error
	// Wake has the endpoints of accounts told.
	Wake func()
	Log  *slog.Logger
}

// Run stores until ctx ends. A batch that fails is delivered again after a pause.
func (a *AccountEvents) Run(ctx context.Context) error {
	return a.Bus.Consume(ctx, bus.ConsumerConfig{Stream: bus.AccountStream, Durable: durable}, a.Handle)
}

// Handle stores a batch. After an error the batch must be delivered again. What cannot be read
// is logged and passed over: its producer publishes it again, and has an alarm of the log.
func (a *AccountEvents) Handle(ctx context.Context, msgs []bus.Msg) error {
	var list []accountevent.Event
	var marks []kin.Mark
	noted := map[string][]accountevent.ID{}
	for _, m := range msgs {
		e, seen, err := read(m)
		if err != nil {
			a.Log.ErrorContext(ctx, "an event of an account is invalid", "subject", m.Subject, "error", err)
			continue
		}
		if e.Kind == accountevent.Addresses {
			marks = append(marks, seen...)
		} else {
			list = append(list, e)
		}
		to := accountevent.NoteOf(m.Subject)
		noted[to] = append(noted[to], e.ID)
	}
	if len(noted) == 0 {
		return nil
	}
	if err := a.Mark(ctx, marks); err != nil {
		return err
	}
	if err := a.Keep(ctx, list); err != nil {
		return err
	}
	crash.At("billing.account_event.committed")
	if len(list) > 0 {
		a.Wake()
	}
	a.tell(ctx, noted)
	return nil
}

// tell tells the producers what is stored.
func (a *AccountEvents) tell(ctx context.Context, noted map[string][]accountevent.ID) {
	for to, stored := range noted {
		data, err := accountevent.EncodeNote(stored)
		if err == nil {
			err = a.Bus.Publish(ctx, to, data, nil)
		}
		if err != nil {
			a.Log.WarnContext(ctx, "it was not told which events are stored", "subject", to, "error", err)
		}
	}
}

// read reads an event, with the marks of the addresses of a provider.
func read(m bus.Msg) (e accountevent.Event, marks []kin.Mark, err error) {
	if e, err = accountevent.Decode(m.Subject, m.Data); err != nil || e.Kind != accountevent.Addresses {
		return e, nil, err
	}
	known, err := e.Addresses()
	if err != nil {
		return e, nil, err
	}
	for _, one := range []struct {
		cause   kin.Cause
		address string
	}{{kin.Wallet, known.Wallet}, {kin.PayoutAddress, known.PayoutAddress}} {
		marks, err = appendMark(marks, e.Provider, one.cause, one.address)
		if err != nil {
			return e, nil, err
		}
	}
	return e, marks, nil
}

// appendMark adds the mark of an address that a provider may have. The zero address is skipped, and
// the event's other address marks.
func appendMark(
	marks []kin.Mark, provider ids.ProviderID, cause kin.Cause, address string,
) ([]kin.Mark, error) {
	if address == "" {
		return marks, nil
	}
	evidence, err := kin.OfAddress(address)
	if errors.Is(err, kin.ErrZeroAddress) {
		return marks, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the %s: %w", cause, err)
	}
	return append(marks, kin.Mark{Provider: provider, Cause: cause, Evidence: evidence}), nil
}
