package events

import (
	"errors"
	"testing"
	"time"

	"svc.internal/pkg/bus"
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
			t.Errorf("after %s, behind is %v", step.name, c.Behind())
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
		if waiting, since := c.Backlog(); waiting != step.waiting || !since.Equal(step.since) {
			t.Errorf("after %s %d wait since %v", step.name, waiting, since)
		}
	}
}
