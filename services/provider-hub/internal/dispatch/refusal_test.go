package dispatch

import (
	"testing"
	"testing/synctest"

	"svc.internal/pkg/openai"
	"svc.internal/services/provider-hub/internal/session"
)

// TestEveryStatusHasOneToBlame walks all statuses of errors: the lists below
// are the whole table, and what they do not name is 5xx or refuses the content.
func TestEveryStatusHasOneToBlame(t *testing.T) {
	provider := map[int]bool{401: true, 402: true, 403: true, 404: true, 405: true, 407: true, 408: true}
	for status := range 600 {
		want := providersFault
		switch {
		case status == 429:
			want = engineBusy
		case status == 501:
			want = notHere
		case status >= 400 && status <= 499 && !provider[status]:
			want = consumersFault
		}
		if got := blameFor(status); got != want {
			t.Errorf("status %d: got %d, want %d", status, got, want)
		}
	}
}

func TestErrorObjectsWithoutAStatusAreTheProviders(t *testing.T) {
	for _, c := range []struct {
		body string
		want int
	}{
		{`{"error":{"message":"m","code":400}}`, 400},
		{`{"error":{"message":"m","code":"429"}}`, 429},
		{`{"error":{"message":"m","type":"invalid_request_error"}}`, 400},
		{`{"object":"error","message":"m","type":"BadRequestError","code":400}`, 400},
		{`{"error":{"message":"m","code":200}}`, 500},
		{`{"error":{"message":"m","code":"context_length_exceeded"}}`, 500},
		{`{"error":{"message":"m","type":"invalid_request_error","code":"model_not_found"}}`, 404},
		{`{"error":"text"}`, 500},
	} {
		if got := statusOf(openai.ParseError([]byte(c.body))); got != c.want {
			t.Errorf("%s: got %d, want %d", c.body, got, c.want)
		}
	}
}

// A node that answers 501 to everything is not well.
func TestNotSupportedHereIsBelievedWhereAnOwnerHasSomethingToRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Order)
		want   Outcome
	}{
		"an ordinary request":    {func(*Order) {}, Failed},
		"media by address":       {func(o *Order) { o.NamesMedia = true }, Cancelled},
		"members of the engines": {func(o *Order) { o.EngineMembers = true }, Cancelled},
	} {
		synctest.Test(t, func(t *testing.T) {
			refuses := &deafAgent{end: &session.End{Status: 501, Error: "no"}}
			l, _, report := refuses.putOrder(t, c.change)
			switch {
			case l.failed == nil:
				t.Errorf("%s: failed: got nil, want a value", name)
			case !l.failed.Retryable:
				t.Errorf("%s: failed: l.failed.Retryable: got false, want true", name)
			case report.Outcome != c.want:
				t.Errorf("%s: report.Outcome: got %v, want %v", name, report.Outcome, c.want)
			case report.Excused:
				t.Errorf("%s: report.Excused: got true, want false", name)
			}
		})
	}
}

// The bill of a late error that blames the content is the consumer's, but a provider
// that breaks off so again and again is under suspicion.
func TestAnErrorBehindContentIsAFailureWhomeverItBlames(t *testing.T) {
	for code, excused := range map[string]bool{"400": true, "500": false} {
		synctest.Test(t, func(t *testing.T) {
			breaks := &deafAgent{piece: hello + `data: {"error":{"message":"no","code":` + code + `}}` + "\n\n"}
			l, usage, report := breaks.put(t, 0, true, plainCaller)
			switch {
			case l.failed == nil:
				t.Errorf("an error of %s: failed: got nil, want a value", code)
			case l.failed.Retryable:
				t.Errorf("an error of %s: failed: l.failed.Retryable: got true, want false", code)
			case usage == nil:
				t.Errorf("an error of %s: usage: got nil, want a value", code)
			case report.Outcome != Failed:
				t.Errorf("an error of %s: report.Outcome: got %v, want %v", code, report.Outcome, Failed)
			case report.Excused != excused:
				t.Errorf("an error of %s: report.Excused: got %t, want %t", code, report.Excused, excused)
			}
		})
	}
}

func TestWhatIsHeldBackIsBounded(t *testing.T) {
	n := newAnswer(&Order{Model: "m", Stream: true}, "")
	events := 0
	for n.hold(make([]byte, 1000), "") {
		events++
	}
	if events != maxHeld/(1000+heldOverhead) {
		t.Errorf("events of 1,000 bytes are held back: got %d, want %d", events, maxHeld/(1000+heldOverhead))
	}
	if got := n.unhold(); len(got) != events {
		t.Errorf("%d came back: len(got): got %d, want %d", len(got), len(got), events)
	} else if len(got[events-1].json) != 1000 {
		t.Errorf("%d came back: len(got[events-1].json): got %d, want 1000", len(got), len(got[events-1].json))
	} else if found := len(n.unhold()); found != 0 {
		t.Errorf("%d came back: len(n.unhold()): got %d, want 0", len(got), found)
	}
	_, fits := n.gather(make([]byte, 10), 10)
	if _, more := n.gather([]byte{1}, 10); !fits {
		t.Error("a whole answer at its limit: fits of n.gather(make([]byte, 10), 10): got false, want true")
	} else if more {
		t.Error("a whole answer at its limit: more of n.gather([]byte{1}, 10): got true, want false")
	}
	for range 100 {
		n.feed(make([]byte, 1000))
	}
	if len(n.raw) != maxRaw {
		t.Errorf("bytes of what may be an error are kept: got %d, want %d", len(n.raw), maxRaw)
	}
}

// A vendor answers 400 and speaks of the platform's account.
func TestWhatIsSaidOfTheAccountIsNoRefusalOfTheContent(t *testing.T) {
	for body, want := range map[string]blame{
		`{"error":{"message":"m","type":"invalid_request_error","code":"billing_hard_limit_reached"}}`: providersFault,
		`{"error":{"message":"m","type":"invalid_request_error","code":"model_not_found"}}`:            providersFault,
		`{"error":{"message":"m","type":"insufficient_quota","code":null}}`:                            providersFault,
		`{"type":"error","error":{"type":"authentication_error","message":"m"}}`:                       providersFault,
		`{"error":{"message":"m","type":"requests","code":"rate_limit_exceeded"}}`:                     engineBusy,
		`{"type":"error","error":{"type":"Overloaded_Error","message":"m"}}`:                           engineBusy,
		`{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}`:    consumersFault,
	} {
		e := openai.ParseError([]byte(body))
		if got, _ := (&Order{}).blameOf(400, &e); got != want {
			t.Errorf("%s: got %d, want %d", body, got, want)
		}
		if told := e.Message == "m"; told != (want == consumersFault) {
			t.Errorf("%s: got the message %q", body, e.Message)
		}
	}
}

// These are the forms of Anthropic, Gemini and OpenAI. None of them has a type or a code that is of an
// account alone.
func TestWhatAVendorSaysOfThePlatformsAccountIsToldToNobody(t *testing.T) {
	for _, body := range []string{
		`{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access ` +
			`the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`,
		`[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.",` +
			`"status":"INVALID_ARGUMENT"}}]`,
		`{"error":{"message":"Your organization must be verified to stream this model.",` +
			`"type":"invalid_request_error","param":"stream","code":"unsupported_value"}}`,
	} {
		for mode, o := range map[string]*Order{"vendor": {Vendor: true}, "external": {External: true}} {
			e := openai.ParseError([]byte(body))
			got, doubtful := o.blameOf(400, &e)
			if got != providersFault {
				t.Errorf("%s: %s: got %d, want the provider's fault", mode, body, got)
			}
			if !doubtful {
				t.Errorf("%s: %s: got a failure beyond doubt, want suspicion", mode, body)
			}
			if e.Message != ownText {
				t.Errorf("%s: %s: got the message %q, want our own", mode, body, e.Message)
			}
		}
		e := openai.ParseError([]byte(body))
		if got, _ := (&Order{}).blameOf(400, &e); got != consumersFault {
			t.Errorf("of an agent: %s: got %d, want a refusal of the content", body, got)
		}
		if e.Message == ownText {
			t.Errorf("of an agent: %s: got our own text, want the engine's", body)
		}
	}
	e := openai.Error{Message: "'messages' must end with a user's message"}
	if got, _ := (&Order{Vendor: true}).blameOf(400, &e); got != consumersFault {
		t.Errorf("of a vendor: got %d, want a refusal of the content", got)
	}
	if e.Message == ownText {
		t.Error("a refusal of the content: got our own text, want the vendor's")
	}
}

// A server may repeat words of a prompt, so what a message has of an account is suspicion only. It
// reaches the consumer neither before content nor behind it.
func TestWordsOfAnAccountInAMessageAreSuspicionOnly(t *testing.T) {
	const said = "your account org-4711 is overdue"
	for name, c := range map[string]struct {
		piece string
		end   *session.End
	}{
		"in the place of an answer": {piece: `{"error":{"message":"` + said + `"}}`,
			end: &session.End{Status: 400, Complete: true}},
		"in a stream": {piece: `data: {"error":{"message":"` + said + `","code":400}}` + "\n\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			refuses := &deafAgent{piece: c.piece, end: c.end}
			l, _, report := refuses.putOrder(t, func(o *Order) { o.Vendor = true })
			switch {
			case l.failed == nil:
				t.Errorf("%s: got no failure, want one", name)
			case l.failed.Message != ownText:
				t.Errorf("%s: got %q, want our own text", name, l.failed.Message)
			case !l.failed.Retryable:
				t.Errorf("%s: got a failure that is not to be retried elsewhere", name)
			case report.Outcome != Failed:
				t.Errorf("%s: got the outcome %v, want %v", name, report.Outcome, Failed)
			case !report.Excused:
				t.Errorf("%s: got a failure that is not excused", name)
			}
		})
	}
}
