package events

import (
	"context"
	"errors"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/usageseal"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestABacklogOrAFailureKeepsTheConsumerBehind(t *testing.T) {
	c := &Consumer{}
	for _, step := range []struct {
		name    string
		pending uint64
		err     error
		behind  bool
	}{
		{"a backlog", 10_000, nil, true},
		{"its end", 0, nil, false},
		{"a batch that was not settled", 0, errors.New("no database"), true},
		{"the trickle of every day", bus.MaxBatch, nil, false},
	} {
		c.note([]bus.Msg{{Pending: 50_000}, {Pending: step.pending}}, step.err)
		if c.Behind() != step.behind {
			t.Errorf("after %s, behind: got %t, want %t", step.name, c.Behind(), step.behind)
		}
	}
}

func TestABacklogIsAsOldAsWhatWasSettledLast(t *testing.T) {
	early, late := time.Unix(1_790_000_000, 0), time.Unix(1_790_000_060, 0)
	c := &Consumer{}
	for _, step := range []struct {
		name    string
		pending uint64
		err     error
		waiting uint64
		since   time.Time
	}{
		{"a batch with more behind it", 7, nil, 7, late},
		{"a batch that was not settled", 7, errors.New("no database"), 9, early},
		{"the last batch", 0, nil, 0, time.Time{}},
	} {
		c.note([]bus.Msg{{Pending: 8, Published: early}, {Pending: step.pending, Published: late}}, step.err)
		if waiting, since := c.Backlog(); waiting != step.waiting {
			t.Errorf("after %s: waiting: got %d, want %d", step.name, waiting, step.waiting)
		} else if !since.Equal(step.since) {
			t.Errorf("after %s: since: got %v, want %v", step.name, since, step.since)
		}
	}
}

// noKeys is a database that has lost them.
type noKeys struct{ usageseal.Store }

func (noKeys) UsageKey(context.Context, string, usageseal.KeyID) (usageseal.Key, bool, error) {
	return usageseal.Key{}, false, nil
}

// What is published is as old as the outage: it must not count.
func TestUsageWaitsForItsKeyAfterTheStartAndAFailureOnly(t *testing.T) {
	now := clock.NewManual(time.Unix(1_790_000_000, 0))
	c := &Consumer{Seals: &Seals{Ring: usageseal.NewRing(noKeys{}, now)}}
	old := bus.Msg{Subject: bus.SubjectUsage("hub-1"), Data: usageseal.Key{}.Seal(nil),
		Published: now.Now().Add(-24 * time.Hour), Deliveries: 1000}
	for _, step := range []struct {
		name   string
		before func()
		later  bool
	}{
		{"at the start", func() {}, true},
		{"when hubs have had the time", func() { now.Advance(usageseal.KeyWait) }, false},
		{"after a batch that was settled", func() { c.note([]bus.Msg{{}}, nil) }, false},
		{"after one that was not", func() { c.note([]bus.Msg{{}}, errors.New("no database")) }, true},
		{"when hubs have had the time again", func() { now.Advance(usageseal.KeyWait) }, false},
	} {
		step.before()
		_, reject, later, err := c.Seals.read(t.Context(), old.Subject, old.Data)
		if err != nil || later != step.later || (reject == nil) != later {
			t.Errorf("%s: got it waiting %v, rejected %+v, %v, want waiting %v", step.name, later, reject, err, step.later)
			continue
		}
		if reject != nil && (reject.Reason != usage.UnknownKey || reject.Hub != "") {
			t.Errorf("%s: got it rejected as %s and told to %q, want unknown_key and nobody told", step.name, reject.Reason,
				reject.Hub)
		}
	}
}
