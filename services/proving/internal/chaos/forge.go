package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/usageseal"
	"svc.internal/services/proving/internal/chaos/plan"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/intruder"
)

const (
	// handledBound is how long the readers of usage may take to handle an event, with the
	// other faults under way.
	handledBound    = restoreBound
	handledInterval = 100 * time.Millisecond
)

// Forged counts the attempts of intruders.
type Forged struct {
	// Connections and Messages were refused by the server.
	Connections int `json:"connections_refused"`
	Messages    int `json:"messages_refused"`
	// Quarantined are forged events that a hub's own certificate brought into the
	// stream, and that the readers of usage refused.
	Quarantined int `json:"set_aside"`
	// Repeated are genuine events that were published again without effect.
	Repeated int `json:"repeated"`
}

// intrusions are all attempts of a run.
type intrusions struct {
	mu       sync.Mutex
	counts   Forged
	requests map[string]struct{} // whose usage was forged
	wrong    []string
}

func (i *intrusions) count(f func(*Forged)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f(&i.counts)
}

func (i *intrusions) accuse(format string, args ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wrong = append(i.wrong, "forged: "+fmt.Sprintf(format, args...))
}

func (i *intrusions) about(request string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.requests == nil {
		i.requests = map[string]struct{}{}
	}
	i.requests[request] = struct{}{}
}

// forge publishes as an intruder would, while a request stands at the fault's moment, and
// checks the effect. A message that should have been refused, and was not, is in the
// report. An error says that the attempt could not be made.
func (m *market) forge(ctx context.Context, f plan.Fault, release func()) error {
	ctx, cancel := context.WithTimeout(ctx, handledBound)
	defer cancel()
	reader, err := intruder.As(m.fleet, fleet.Settlement)
	if err != nil {
		return fmt.Errorf("forge: %w", err)
	}
	defer reader.Close()
	if f.Cell.What == plan.Strangers {
		err = m.connectAsStrangers(reader)
		release()
		return err
	}
	hubs := m.fleet.Replicas(fleet.Hub)
	if !f.All {
		hubs = hubs[f.Pick%len(hubs):][:1]
	}
	var errs []error
	for _, hub := range hubs {
		e, err := m.overhear(ctx, reader, hub, f.Cell.What == plan.Ticketers)
		if err != nil {
			return err
		}
		switch f.Cell.What {
		case plan.Impostors:
			err = m.publishAsOthers(e)
		case plan.Forgers:
			err = m.publishForged(ctx, reader, hub, e, release)
		case plan.Repeaters:
			err = m.publishAgain(ctx, reader, hub, e, release)
		case plan.Ticketers:
			err = m.publishInvented(ctx, reader, hub, e, release)
		default:
			err = fmt.Errorf("%v is not known", f)
		}
		errs = append(errs, err)
	}
	release()
	return errors.Join(errs...)
}

// overhear waits for usage of a hub.
func (m *market) overhear(
	ctx context.Context, reader *intruder.Client, hub string, ticketed bool,
) (e intruder.Event, err error) {
	err = insist(ctx, func(ctx context.Context) (err error) {
		e, err = reader.Overhear(ctx, fleet.HubID(hub), ticketed)
		return err
	})
	if err != nil {
		return e, err
	}
	m.intrusions.about(e.Request())
	return e, nil
}

// every calls done again and again.
func every(ctx context.Context, pause time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// insist calls ask until it succeeds, because another fault may have what it asks restarted.
// The error is that of the context, with the last of ask.
func insist(ctx context.Context, ask func(context.Context) error) error {
	last := errors.New("nobody was asked")
	err := every(ctx, handledInterval, func() (bool, error) {
		last = ask(ctx)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// connectAsStrangers tries to connect without a certificate that the server knows. The
// server answers others meanwhile.
func (m *market) connectAsStrangers(reader *intruder.Client) error {
	strangers, err := intruder.Strangers(m.fleet, m.path("strangers"))
	if err != nil {
		return fmt.Errorf("forge: %w", err)
	}
	for _, s := range strangers {
		nc, err := s.Connect()
		if err == nil {
			nc.Close()
			m.intrusions.accuse("%s is let in by NATS", s.Name)
			continue
		}
		if err := reader.Answered(restoreBound); err != nil {
			return fmt.Errorf("forge: NATS is away, not strict: %w", err)
		}
		m.intrusions.count(func(c *Forged) { c.Connections++ })
	}
	return nil
}

// publishAsOthers publishes harmful messages with the genuine certificate of every
// service, on every subject that is not the service's own.
func (m *market) publishAsOthers(e intruder.Event) error {
	altered, err := e.Inflated()
	if err != nil {
		return err
	}
	notice, err := e.Notice()
	if err != nil {
		return err
	}
	for _, file := range intruder.Clients(m.fleet) {
		nc, err := intruder.As(m.fleet, file)
		if err != nil {
			return fmt.Errorf("forge as %s: %w", file, err)
		}
		for _, subject := range intruder.Foreign(m.fleet, file) {
			data := []byte("forged")
			switch {
			case strings.HasPrefix(subject, bus.SubjectUsagePrefix):
				data = e.Resealed(altered)
			case subject == bus.SubjectSettled(e.Hub):
				data = notice
			}
			refused, err := nc.Refused(subject, data)
			if err != nil {
				nc.Close()
				return fmt.Errorf("forge as %s: %w", file, err)
			}
			if !refused {
				m.intrusions.accuse("NATS takes from %s what it publishes on %s", file, subject)
				continue
			}
			m.intrusions.count(func(c *Forged) { c.Messages++ })
		}
		nc.Close()
	}
	return nil
}

// forgery is an event that the server must accept and the readers must refuse.
type forgery struct {
	what, by string // by is the hub whose certificate is stolen
	data     []byte
	// ledgerOnly reports that settlement cannot know that the event is forged, and has
	// the true line already.
	ledgerOnly bool
}

// forgeries of an event of a hub, with the certificates and the keys of hubs.
func (m *market) forgeries(ctx context.Context, hub string, e intruder.Event) ([]forgery, error) {
	altered, err := e.Inflated()
	if err != nil {
		return nil, err
	}
	hubs := m.fleet.Replicas(fleet.Hub)
	other := hubs[(slices.Index(hubs, hub)+1)%len(hubs)]
	var key usageseal.Key
	err = insist(ctx, func(ctx context.Context) (err error) {
		key, err = m.books.UsageKey(ctx, fleet.HubID(other))
		return err
	})
	if err != nil {
		return nil, err
	}
	claimed, err := e.Claimed(fleet.HubID(other))
	if err != nil {
		return nil, err
	}
	return []forgery{
		{what: "another count under the genuine seal", by: hub, data: e.Resealed(altered)},
		{what: "another count without a seal", by: hub, data: altered},
		{what: "another hub's usage under a seal of its own", by: other, data: key.Seal(altered)},
		{what: "a request that the hub was not given", by: other, data: key.Seal(claimed), ledgerOnly: true},
	}, nil
}

// publishForged brings altered events into the stream with stolen certificates, and
// checks that both readers set them aside.
func (m *market) publishForged(
	ctx context.Context, reader *intruder.Client, hub string, e intruder.Event, release func(),
) error {
	all, err := m.forgeries(ctx, hub, e)
	if err != nil {
		return err
	}
	var last uint64
	store := func(f forgery) error {
		var err error
		last, err = m.storeAs(ctx, f.by, f.data)
		return err
	}
	for _, f := range all {
		if !f.ledgerOnly {
			if err := store(f); err != nil {
				return err
			}
		}
	}
	release()
	if _, err := m.lines(ctx, e); err != nil {
		return err
	}
	for _, f := range all {
		if f.ledgerOnly {
			if err := store(f); err != nil {
				return err
			}
		}
	}
	if err := m.handled(ctx, reader, last); err != nil {
		return err
	}
	for _, f := range all {
		var ledger, settlement bool
		err := insist(ctx, func(ctx context.Context) (err error) {
			ledger, settlement, err = m.books.Quarantined(ctx, f.data)
			return err
		})
		if err != nil {
			return err
		}
		if !ledger || !settlement && !f.ledgerOnly {
			m.intrusions.accuse("%s of request %s is set aside by billing-ledger %t, by settlement %t", f.what, e.Request(),
				ledger, settlement)
			continue
		}
		m.intrusions.count(func(c *Forged) { c.Quarantined++ })
	}
	return nil
}

// lines returns the lines that the readers have of the event's request, once each has one
// and no more.
func (m *market) lines(ctx context.Context, e intruder.Event) (lines []string, err error) {
	err = insist(ctx, func(ctx context.Context) (err error) {
		if lines, err = m.books.Lines(ctx, e.Request()); err != nil {
			return err
		}
		if len(lines) != 2 {
			return fmt.Errorf("there are %d lines, and 2 readers", len(lines))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("forge: request %s: %w", e.Request(), err)
	}
	return lines, nil
}

// storeAs publishes into the stream as a hub, on the hub's own subject.
func (m *market) storeAs(ctx context.Context, hub string, data []byte) (uint64, error) {
	nc, err := intruder.As(m.fleet, hub)
	if err != nil {
		return 0, fmt.Errorf("forge as %s: %w", hub, err)
	}
	defer nc.Close()
	return nc.Store(ctx, bus.SubjectUsage(fleet.HubID(hub)), rand.Text(), data)
}

// handled waits until both readers of usage have handled a message.
func (m *market) handled(ctx context.Context, reader *intruder.Client, sequence uint64) error {
	ledger, err := intruder.As(m.fleet, fleet.Billing)
	if err != nil {
		return fmt.Errorf("forge: %w", err)
	}
	defer ledger.Close()
	for durable, nc := range map[string]*intruder.Client{bus.DurableBilling: ledger, bus.DurableSettlement: reader} {
		err := every(ctx, handledInterval, func() (bool, error) {
			done, err := nc.Handled(ctx, durable, sequence)
			return err == nil && done, nil
		})
		if err != nil {
			return fmt.Errorf("forge: consumer %s does not come to message %d: %w", durable, sequence, err)
		}
	}
	return nil
}

// publishAgain brings a genuine event into the stream twice more: at once, when it may
// not be settled yet, and when its lines exist.
func (m *market) publishAgain(
	ctx context.Context, reader *intruder.Client, hub string, e intruder.Event, release func(),
) error {
	if _, err := m.storeAs(ctx, hub, e.Raw); err != nil {
		return err
	}
	release()
	before, err := m.lines(ctx, e)
	if err != nil {
		return err
	}
	again, err := m.storeAs(ctx, hub, e.Raw)
	if err != nil {
		return err
	}
	if err := m.handled(ctx, reader, again); err != nil {
		return err
	}
	var after []string
	err = insist(ctx, func(ctx context.Context) (err error) {
		after, err = m.books.Lines(ctx, e.Request())
		return err
	})
	if err != nil {
		return err
	}
	if !slices.Equal(before, after) {
		m.intrusions.accuse("usage that came again changes the lines of request %s from %v to %v", e.Request(), before, after)
		return nil
	}
	m.intrusions.count(func(c *Forged) { c.Repeated += 2 })
	return nil
}

// publishInvented brings usage of requests that nobody admitted into the stream, with a hub's stolen
// certificate and key, and checks that no hold is written for them.
func (m *market) publishInvented(
	ctx context.Context, reader *intruder.Client, hub string, e intruder.Event, release func(),
) error {
	var key usageseal.Key
	err := insist(ctx, func(ctx context.Context) (err error) {
		key, err = m.books.UsageKey(ctx, fleet.HubID(hub))
		return err
	})
	if err != nil {
		return err
	}
	invented := map[string][]byte{} // sealed events by their requests
	var last uint64
	for _, forged := range []bool{true, false} {
		data, request, err := e.Invented(forged)
		if err != nil {
			return err
		}
		invented[request] = key.Seal(data)
		if last, err = m.storeAs(ctx, hub, invented[request]); err != nil {
			return err
		}
	}
	release()
	if err := m.handled(ctx, reader, last); err != nil {
		return err
	}
	for request, data := range invented {
		var held, refused bool
		err := insist(ctx, func(ctx context.Context) (err error) {
			held, refused, err = m.books.Refused(ctx, request, data)
			return err
		})
		if err != nil {
			return err
		}
		if held || !refused {
			m.intrusions.accuse("request %s, which nobody admitted, has a hold %t, and its usage is set aside %t", request, held,
				refused)
			continue
		}
		m.intrusions.count(func(c *Forged) { c.Quarantined++ })
	}
	return nil
}

// unmoved looks for lines that rest on a forged event, at the end of the run.
func (m *market) unmoved(ctx context.Context) error {
	i := &m.intrusions
	i.mu.Lock()
	requests := i.requests
	i.mu.Unlock()
	for request := range requests {
		tokens, err := m.books.MaxCompletion(ctx, request)
		if err != nil {
			return err
		}
		if tokens >= intruder.Inflation {
			i.accuse("request %s has a line of %d tokens", request, tokens)
		}
	}
	return nil
}
