package v1

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/services/provider-hub/internal/dialect"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/wsconn"
)

func TestEachReasonHasItsCodeStatusAndHold(t *testing.T) {
	t.Parallel()
	const hold, short = 30 * time.Second, time.Second
	c := New(Config{RefuseHold: hold})
	for _, tc := range []struct {
		why    session.CloseReason
		want   dialect.Ending
		number int // that the agent is told; 0 for nothing
	}{
		{session.CloseReason{Code: agentwire.CodeShuttingDown, ReconnectAfter: short},
			dialect.Ending{Status: wsconn.StatusServiceRestart, Hold: short, Silent: true}, 0},
		{session.CloseReason{Code: agentwire.CodeInvalidKey}, dialect.Ending{Status: wsconn.StatusPolicy, Hold: hold}, 401},
		{session.CloseReason{Code: agentwire.CodeKeyRevoked}, dialect.Ending{Status: wsconn.StatusPolicy, Hold: hold}, 401},
		{session.CloseReason{Code: agentwire.CodeSuspended}, dialect.Ending{Status: wsconn.StatusPolicy, Hold: hold}, 403},
		{session.CloseReason{Code: agentwire.CodeSuperseded}, dialect.Ending{Status: wsconn.StatusPolicy, Hold: hold}, 409},
		{session.CloseReason{Code: agentwire.CodeTooManySessions},
			dialect.Ending{Status: wsconn.StatusTryLater, Hold: hold}, 429},
		{session.CloseReason{Code: agentwire.CodeTryLater, ReconnectAfter: short},
			dialect.Ending{Status: wsconn.StatusTryLater, Hold: short}, 503},
		{session.CloseReason{Code: agentwire.CodeProtocolError},
			dialect.Ending{Status: wsconn.StatusPolicy, Hold: short}, 400},
		{session.CloseReason{Code: agentwire.CodeTooManyModels, ReconnectAfter: short},
			dialect.Ending{Status: wsconn.StatusPolicy, Hold: hold}, 400},
		{session.CloseReason{ReconnectAfter: short, Bare: true, Status: wsconn.StatusTooBig},
			dialect.Ending{Status: wsconn.StatusTooBig, Hold: short, Silent: true}, 0},
		{session.CloseReason{Code: agentwire.CodeInvalidKey, Status: wsconn.StatusTooBig, Hold: time.Minute},
			dialect.Ending{Status: wsconn.StatusTooBig, Hold: time.Minute}, 401},
	} {
		if tc.why.Hold == 0 {
			tc.why.Hold = short
		}
		if got := c.Ending(&tc.why); got != tc.want {
			t.Errorf("%+v: got %+v, want %+v", tc.why, got, tc.want)
		}
		if tc.want.Silent {
			continue
		}
		var said struct {
			Payload struct {
				Code      int
				RequestID string `json:"request_id"`
				Message   string
			}
		}
		tc.why.Message = "because"
		msg := written(t, session.Outbound{Kind: session.OutFarewell, Name: "r", Why: &tc.why})
		if err := json.Unmarshal(msg, &said); err != nil {
			t.Fatal(err)
		}
		if said.Payload.Code != tc.number || said.Payload.Message != "because" || said.Payload.RequestID != "r" {
			t.Errorf("%s: got %s, want the code %d and the message", tc.why.Code, msg, tc.number)
		}
	}
}

func TestAWarningIsToldWithTheAcknowledgement(t *testing.T) {
	t.Parallel()
	ack := &session.Ack{Grant: session.Grant{Warning: "look"}}
	got := string(written(t, session.Outbound{Kind: session.OutRegistered, Name: "r", Ack: ack}))
	const want = `{"type":"ack","request_id":"r","payload":{"request_id":"r","success":true,` +
		`"message":"registered successfully: look"}}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWhatV1CannotSayIsAnError(t *testing.T) {
	t.Parallel()
	for _, kind := range []session.OutKind{
		session.OutData, session.OutCredit, session.OutCancel, session.OutReset, session.OutDrain, session.OutReceipts,
	} {
		if head, _, _, err := (codec{}).Append(nil, &session.Outbound{Kind: kind}); err == nil || len(head) > 0 {
			t.Errorf("kind %d: got %q, %v, want an error and nothing", kind, head, err)
		}
	}
}

func TestRequestsThatNoMessageCanCarryAreRefused(t *testing.T) {
	t.Parallel()
	const most = maxFrame - envelopeSize
	text := func(n int) []byte {
		body := make([]byte, n)
		for i := range body {
			body[i] = 'x'
		}
		body[0], body[n-1] = '"', '"'
		return body
	}
	for name, tc := range map[string]struct {
		body []byte
		want error
	}{
		"JSON":                    {[]byte(`{"a":1}`), nil},
		"the largest":             {text(most), nil},
		"larger":                  {text(most + 1), session.ErrTooLarge},
		"no JSON":                 {[]byte(`{"a":1}}`), session.ErrNotSendable},
		"nothing":                 {nil, session.ErrNotSendable},
		"a text that is no UTF-8": {[]byte("\"\xff\""), session.ErrNotSendable},
	} {
		if got := fits(&session.Request{Body: tc.body}); !errors.Is(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	// An escape takes six bytes for a byte of the prompt.
	for n, want := range map[int]error{1000: nil, maxFrame / 6: session.ErrTooLarge} {
		task := &session.Benchmark{Test: "math", Prompts: []string{strings.Repeat("\x01", n)}}
		r := &session.Request{Model: "m", Challenge: &session.Challenge{ID: "c", Task: task}}
		if got := fits(r); !errors.Is(got, want) {
			t.Errorf("a benchmark of %d bytes: got %v, want %v", n, got, want)
		}
	}
}
