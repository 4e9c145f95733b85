package idempotency_test

import (
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/idempotency"
)

var (
	mine   = ids.RequestID{1}
	theirs = ids.RequestID{2}
	body   = idempotency.Digest{1}
	other  = idempotency.Digest{2}
)

func TestAClaimStandsByItsStateItsHolderAndWhatItIsFor(t *testing.T) {
	const granted, busy, replay, gone, reused, lapsed = idempotency.Granted, idempotency.Busy, idempotency.Replay,
		idempotency.Gone, idempotency.Reused, idempotency.Lapsed
	ask := idempotency.Ask{Request: mine, Content: body}
	for _, tc := range []struct {
		name  string
		claim *idempotency.Record
		want  idempotency.Decision
	}{
		{"none", nil, granted},
		{"running, mine", &idempotency.Record{State: idempotency.Running, Request: mine, Content: body}, granted},
		{"running, mine, not renewed in time", &idempotency.Record{State: idempotency.Running, Request: mine, Content: body,
			Lapsed: true}, granted},
		{"running, theirs", &idempotency.Record{State: idempotency.Running, Request: theirs, Content: body}, busy},
		{"running, theirs, another body", &idempotency.Record{State: idempotency.Running, Request: theirs, Content: other},
			reused},
		{"lapsed, theirs", &idempotency.Record{State: idempotency.Running, Request: theirs, Content: body, Lapsed: true},
			lapsed},
		{"lapsed, theirs, another body", &idempotency.Record{State: idempotency.Running, Request: theirs, Content: other,
			Lapsed: true}, lapsed},
		{"answered", &idempotency.Record{State: idempotency.Answered, Request: theirs, Content: body}, replay},
		{"answered, mine", &idempotency.Record{State: idempotency.Answered, Request: mine, Content: body}, replay},
		{"answered, another body", &idempotency.Record{State: idempotency.Answered, Request: theirs, Content: other}, reused},
		{"not kept", &idempotency.Record{State: idempotency.NotKept, Request: theirs, Content: body, Lapsed: true}, gone},
		{"not kept, another body", &idempotency.Record{State: idempotency.NotKept, Request: theirs, Content: other}, reused},
	} {
		if got := tc.claim.Stands(ask); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
	for _, tc := range []struct {
		fate    idempotency.HolderFate
		content idempotency.Digest
		want    idempotency.Decision
	}{
		{idempotency.CostNothing, body, granted}, {idempotency.CostNothing, other, granted},
		{idempotency.Undecided, body, busy}, {idempotency.Undecided, other, reused},
		{idempotency.Served, body, gone}, {idempotency.Served, other, reused},
	} {
		c := &idempotency.Record{State: idempotency.Running, Request: theirs, Content: tc.content, Lapsed: true}
		if got := c.After(tc.fate, ask); got != tc.want {
			t.Errorf("lapsed, %s, content %v: got %d, want %d", tc.fate, tc.content[0], got, tc.want)
		}
	}
}

func TestAnAnswerIsKeptWithinItsBound(t *testing.T) {
	for _, tc := range []struct {
		end   idempotency.End
		param string
	}{
		{idempotency.End{State: idempotency.Answered, Sealed: make([]byte, idempotency.MaxSealed)}, ""},
		{idempotency.End{State: idempotency.NotKept}, ""},
		{idempotency.End{State: idempotency.Forget}, ""},
		{idempotency.End{State: idempotency.Answered, Sealed: make([]byte, idempotency.MaxSealed+1)}, "answer"},
		{idempotency.End{State: idempotency.Answered}, "answer"},
		{idempotency.End{State: idempotency.NotKept, Sealed: []byte("x")}, "answer"},
		{idempotency.End{State: idempotency.Running}, "end"},
		{idempotency.End{}, "end"},
	} {
		err := tc.end.Validate()
		f, _ := fault.As(err)
		switch {
		case tc.param == "" && err != nil:
			t.Errorf(`%s with %d bytes: got the error %v, want none, where tc.param == ""`, tc.end.State, len(tc.end.Sealed),
				err)
		case tc.param != "" && f == nil:
			t.Errorf(`%s with %d bytes: f: got no error, want one, where tc.param != ""`, tc.end.State, len(tc.end.Sealed))
		case tc.param != "" && f.Param != tc.param:
			t.Errorf(`%s with %d bytes: f.Param: got %q, want %q, where tc.param != ""`, tc.end.State, len(tc.end.Sealed),
				f.Param, tc.param)
		}
	}
}
