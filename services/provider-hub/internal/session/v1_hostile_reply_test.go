package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "svc.internal/services/provider-hub/internal/session"
)

// repliedTo are the kinds of replies with a task of each.
var repliedTo = map[string]Task{
	"verify": fingerprint, "benchmark_response": &Benchmark{Test: "math", Prompts: []string{"x"}},
}

// serves checks that a consumer's request is served on a session.
func serves(t testing.TB, what string, s *wire) {
	t.Helper()
	st, id := ask(t, s, false)
	tell(t, s, answer(id, `,"response":{"fine":true}`))
	piece, end, err := st.Take()
	ends(t, end, err, true, "")
	same(t, what+": the request's answer", string(piece), `{"fine":true}`)
	st.Close(false)
}

// What the agent says is the verifier's to judge. The hub reads of it only whether the
// agent could do what was asked.
func TestAbsurdRepliesOfV1AreWholeJSONAndHurtNothing(t *testing.T) {
	for kind, task := range repliedTo {
		for what, c := range map[string]struct {
			more     string
			complete bool
			text     string
		}{
			"absurd numbers": {`,"success":true,"results":[{"latency_ms":1e999,"tokens_in":-1,"tokens_out":1e308}],` +
				`"total_latency_ms":-9223372036854775809`, true, ""},
			"10,000 results": {`,"success":true,"results":[` + strings.Repeat(`{"correct":true},`, 9_999) + `{}]`, true, ""},
			"deep results": {`,"success":true,"results":[` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `]`, true,
				""},
			"words for truth":     {`,"success":"true","results":[],"response":null,"error":"e"`, false, "e"},
			"an error of no text": {`,"success":0,"results":null,"error":{"a":[1]}`, kind != "verify", ""},
			"a hostile error": {`,"success":false,"error":"` + strings.Repeat(`\u0000\u202e\"`, 5_000) + `x"`, false,
				strings.Repeat(`"`, 1024)},
			"success and its opposite": {`,"success":true,"results":[1],"success":false,"results":[],"error":"e"`, false, "e"},
		} {
			s := longLive(t)
			st, out := openChallenge(t, s, challenged(task))
			tell(t, s, reply(kind, named(t, out[0]), challengeID, c.more))
			piece, parts, end, err := st.TakeParts()
			ends(t, end, err, c.complete, c.text)
			same(t, what+": the reply is JSON", json.Valid(piece), true)
			same(t, what+": parts", len(parts), 1)
			st.Close(false)
			serves(t, kind+", "+what, s)
		}
	}
}

func TestAReplyOfV1NamesItsChallengePlainly(t *testing.T) {
	for kind, task := range repliedTo {
		member := "challenge_id"
		if kind == "benchmark_response" {
			member = "benchmark_id"
		}
		for what, c := range map[string]struct {
			payload string
			taken   bool
		}{
			"another, then the right one": {`{"` + member + `":"other","` + member + `":"` + challengeID + `"}`, true},
			"the right one, then another": {`{"` + member + `":"` + challengeID + `","` + member + `":"other"}`, false},
			"with an escape":              {`{"` + member + `":"c\u002d1"}`, false},
			"a number":                    {`{"` + member + `":1}`, false},
			"none":                        {`{}`, false},
			"null":                        {`null`, false},
			"a list":                      {`[]`, false},
		} {
			s := longLive(t)
			st, out := openChallenge(t, s, challenged(task))
			id := named(t, out[0])
			tell(t, s, `{"type":"`+kind+`","request_id":"`+id+`","payload":`+c.payload+`}`)
			_, _, end, err := st.TakeParts()
			same(t, kind+", "+what+": taken", end != nil, c.taken)
			same(t, kind+", "+what+": error", err, nil)
			if !c.taken {
				tell(t, s, reply(kind, id, challengeID, `,"success":true,"results":[1]`))
				_, _, end, err = st.TakeParts()
				ends(t, end, err, true, "")
			}
			st.Close(false)
			serves(t, kind+", "+what, s)
		}
	}
}

func TestRepliesOfV1ThatAreLateTwiceOrForARequestEndNothing(t *testing.T) {
	for kind, task := range repliedTo {
		s := longLive(t)
		st, out := openChallenge(t, s, challenged(task))
		late := reply(kind, named(t, out[0]), challengeID, `,"success":true,"results":[1]`)
		st.Close(true)
		tell(t, s, late)
		next, out := openChallenge(t, s, challenged(task))
		tell(t, s, late) // twice, and the next challenge has the same id
		tell(t, s, reply(kind, named(t, out[0]), "c-0", ""))
		request, id := ask(t, s, true)
		tell(t, s, reply(kind, id, challengeID, `,"success":true,"results":[1]`))
		for what, open := range map[string]*Stream{"the next challenge": next, "a request": request} {
			_, end, err := open.Take()
			same(t, kind+": the end of "+what, end, nil)
			same(t, kind+": the error of "+what, err, nil)
		}
		tell(t, s, reply(kind, named(t, out[0]), challengeID, `,"success":true,"results":[1]`))
		_, _, end, err := next.TakeParts()
		ends(t, end, err, true, "")
	}
}

// No JSON has these numbers, so nobody knows where in the message it goes wrong.
func TestAReplyOfV1ThatIsNoJSONIsNoAnswer(t *testing.T) {
	for kind, task := range repliedTo {
		for _, number := range []string{"NaN", "-Infinity", "1e", "0x1", "01"} {
			s := longLive(t)
			st, out := openChallenge(t, s, challenged(task))
			why := s.receive([]byte(reply(kind, named(t, out[0]), challengeID, `,"success":true,"results":[`+number+`]`)))
			breaks(t, kind+" with "+number, why)
			s.Shut(why)
			piece, _, end, err := st.TakeParts()
			same(t, kind+" with "+number+": the end", end, nil)
			same(t, kind+" with "+number+": the error", err, ErrLost)
			same(t, kind+" with "+number+": bytes", len(piece), 0)
		}
	}
}
