package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/card"
)

const (
	// SignatureHeader is the header of a webhook's signature.
	SignatureHeader = "X-Svc-Signature"
	// sendInterval is the pause between two looks for events to send, sendTimeout bounds one
	// try, and sendBatch what is taken at once.
	sendInterval = 5 * time.Second
	sendTimeout  = 5 * time.Second
	sendBatch    = 20
	// MaxTries bounds how often an event is sent. What is lost then is found by the list.
	MaxTries = 10
)

// Sender sends the sandbox's events, as a card processor does.
type Sender struct {
	Store Store
	// Renew charges subscriptions that are due.
	Renew func(context.Context) error
	Keys  card.Keys
	Clock clock.Clock
	// URL is where webhooks go.
	URL    string
	Client *http.Client
	Log    *slog.Logger
	// Still leaves out looks that would find nothing.
	Still *clock.Still

	wake chan struct{}
}

// NewSender returns a sender; the fields are the caller's to fill.
func NewSender(s Sender) *Sender {
	s.wake = make(chan struct{}, 1)
	return &s
}

// Wake begins the next look at once.
func (s *Sender) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// Run sends what is due, at every interval and when it is woken, until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	timer := time.NewTicker(sendInterval)
	defer timer.Stop()
	for more := true; more; more = clock.Next(ctx, timer.C, s.wake, s.Still) {
		if err := s.Still.Learn(errors.Join(s.Renew(ctx), s.SendDue(ctx))); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "the sandbox could not renew or send its events", "error", err)
		}
	}
}

// SendDue sends what is due once.
func (s *Sender) SendDue(ctx context.Context) error {
	due, err := s.Store.TakeEvents(ctx, sendBatch)
	for _, e := range due {
		err = errors.Join(err, s.send(ctx, e))
	}
	return err
}

// send sends an event. An answer other than 200 counts for nothing.
func (s *Sender) send(ctx context.Context, e Event) error {
	body, err := encode(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send event %s: %w", e.ID, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(SignatureHeader, s.Keys.Sign(body, s.Clock.Now()))
	answer, err := s.Client.Do(req)
	if err != nil {
		return fmt.Errorf("send event %s: %w", e.ID, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	_ = answer.Body.Close() // it was read as far as it counts
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("send event %s: got status %d", e.ID, answer.StatusCode)
	}
	return s.Store.EventSent(ctx, e.ID)
}

// encode writes an event in the form that card.ParseEvent reads.
func encode(e Event) ([]byte, error) {
	body, err := json.Marshal(map[string]any{
		"id": e.ID, "type": e.Type, "livemode": false, "data": map[string]any{"object": map[string]string{"id": e.Object}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	return body, nil
}
