package events

import (
	"context"
	"log/slog"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/crash"
)

// AccountEvents stores what happens to providers, for the accounts of their users, and tells
// the producers what is stored. An event that is delivered twice is stored once.
type AccountEvents struct {
	Bus Bus
	// Keep stores events, each once.
	Keep func(context.Context, []accountevent.Event) error
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
	noted := map[string][]accountevent.ID{}
	for _, m := range msgs {
		e, err := accountevent.Decode(m.Subject, m.Data)
		if err != nil {
			a.Log.ErrorContext(ctx, "an event of an account is invalid", "subject", m.Subject, "error", err)
			continue
		}
		list = append(list, e)
		to := accountevent.NoteOf(m.Subject)
		noted[to] = append(noted[to], e.ID)
	}
	if len(list) == 0 {
		return nil
	}
	if err := a.Keep(ctx, list); err != nil {
		return err
	}
	crash.At("billing.account_event.committed")
	a.Wake()
	for to, stored := range noted {
		data, err := accountevent.EncodeNote(stored)
		if err == nil {
			err = a.Bus.Publish(ctx, to, data, nil)
		}
		if err != nil {
			a.Log.WarnContext(ctx, "it was not told which events are stored", "subject", to, "error", err)
		}
	}
	return nil
}
