package events

import (
	"errors"
	"testing"

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
