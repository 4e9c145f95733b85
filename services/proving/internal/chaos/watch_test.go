package chaos

import (
	"errors"
	"testing"
	"time"

	"svc.internal/services/proving/internal/chaos/caller"
	"svc.internal/services/proving/internal/chaos/engine"
	"svc.internal/services/proving/internal/chaos/record"
)

func TestWhatAClientMayNotBeTold(t *testing.T) {
	began := time.Unix(1000, 0)
	w := &watch{breaks: []span{{begin: began, end: began.Add(10 * time.Second)}}}
	call := func(c record.Client, after, took time.Duration, end string, err error) caller.Call {
		c.SentAt, c.EndedAt = began.Add(after), began.Add(after+took)
		return caller.Call{Client: c, End: end, Err: err}
	}
	broke := errors.New("reset")
	for name, c := range map[string]struct {
		call  caller.Call
		wrong bool
	}{
		"a whole answer": {call(record.Client{Status: 200, Complete: true}, 0, time.Second, "", nil),
			false},
		"late": {call(record.Client{Status: 200, Complete: true}, 0, callBound, "", nil), true},
		"cut short with an error": {call(record.Client{Status: 200, ErrorEvent: true, ErrorCode: "x"}, 0,
			time.Second, "", nil), false},
		"cut short in silence":        {call(record.Client{Status: 200}, 0, time.Second, "", nil), true},
		"broken while a gateway died": {call(record.Client{}, time.Second, time.Second, "", broke), false},
		"broken, and no gateway died": {call(record.Client{}, time.Minute, time.Second, "", broke), true},
		"left":                        {call(record.Client{Left: true}, time.Minute, time.Second, "", broke), false},
		"an error that says what it is": {call(record.Client{Status: 503, ErrorCode: "no_provider_online"}, 0,
			time.Second, "", nil), false},
		"an error without a name": {call(record.Client{Status: 503}, 0, time.Second, "", nil), true},
		"out of credit": {call(record.Client{Status: 402, ErrorCode: "x"}, 0, time.Second, "", nil),
			false},
		"blamed for nothing": {call(record.Client{Status: 404, ErrorCode: "x"}, 0, time.Second, "", nil),
			true},
		"refused as the engine was asked to": {call(record.Client{Status: 400, ErrorCode: "x"}, 0, time.Second,
			engine.EndRefuse, nil), false},
	} {
		if got := w.untruthLocked(c.call); (got != "") != c.wrong {
			t.Errorf(`%s: got != "": got %t, want %t`, name, got != "", c.wrong)
		}
	}
	if w.late != 1 {
		t.Errorf("late: got %d, want 1", w.late)
	}
}

func TestAPriceIsItsMillionths(t *testing.T) {
	for text, want := range map[string]int64{"1": 1_000_000, "0.9": 900_000, "12.5": 12_500_000, "30.04": 30_040_000,
		"0.000001": 1} {
		if got := micro(text); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
