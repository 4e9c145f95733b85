package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	. "svc.internal/services/provider-hub/internal/session"
)

const challengeID = "c-1"

var fingerprint = &Fingerprint{
	Nonce: make([]byte, 32), Ranges: []FileRange{{File: "a", Length: 1}, {File: "b", Length: 1}},
}

// challenged is a request of the verifier.
func challenged(task Task) Request {
	r := Request{RequestID: "r", Model: "m", Challenge: &Challenge{ID: challengeID, Task: task}}
	if task == nil {
		r.Stream, r.Body = true, []byte(`{"model":"m"}`)
	}
	return r
}

// openChallenge opens a challenge and has the writer take it and come again.
func openChallenge(t testing.TB, s *wire, r Request) (st *Stream, out [][]byte) {
	t.Helper()
	st, err := s.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	return st, s.out(t)
}

// verifies is a live v2 session of an agent that takes fingerprints.
func verifies(t testing.TB) *wire {
	t.Helper()
	s := live(t, Config{}, "m")
	s.Declare(CapFingerprint)
	sent(t, s)
	return s
}

// result gives a v2 session a CHALLENGE_RESULT; seq is the frame's number on stream 0.
func result(t testing.TB, s *wire, seq uint32, r *agentv2.ChallengeResult) *CloseReason {
	t.Helper()
	return s.receive(encode(t, &agentv2.Frame{Seq: seq, Body: &agentv2.Frame_ChallengeResult{ChallengeResult: r}}))
}

// reply is a reply to a task in v1.
func reply(kind, id, challenge, more string) string {
	member := "challenge_id"
	if kind == "benchmark_response" {
		member = "benchmark_id"
	}
	return fmt.Sprintf(`{"type":%q,"request_id":%q,"payload":{%q:%q%s}}`, kind, id, member, challenge, more)
}

func same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// ends checks the end of a task.
func ends(t testing.TB, end *End, err error, complete bool, text string) {
	t.Helper()
	if end == nil {
		t.Fatalf("got %v, want an end", err)
	}
	same(t, "complete", end.Complete, complete)
	same(t, "error of the end", end.Error, text)
}

// breaks checks that a message ended the connection.
func breaks(t testing.TB, what string, why *CloseReason) {
	t.Helper()
	if why == nil {
		t.Errorf("%s: got it taken, want the connection ended", what)
		return
	}
	same(t, what, why.Code, agentwire.CodeProtocolError)
}

func named(t testing.TB, msg []byte) string {
	t.Helper()
	var m said
	if err := json.Unmarshal(msg, &m); err != nil {
		t.Fatal(err)
	}
	return m.RequestID
}

func TestAChallengeIsOpenedOnASessionThatServesNobody(t *testing.T) {
	for name, s := range map[string]*wire{"v1": liveOld(t, Config{}), "v2": live(t, Config{}, "m")} {
		s.SetStanding(false, false, nil)
		if _, err := s.Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")}); !errors.Is(err, ErrGone) {
			t.Errorf("%s: a consumer's request: got %v, want %v", name, err, ErrGone)
		}
		if _, err := s.Open(challenged(nil)); err != nil {
			t.Errorf("%s: a challenge: got %v, want none", name, err)
		}
		s.Drain(time.Second)
		if _, err := s.Open(challenged(nil)); !errors.Is(err, ErrGone) {
			t.Errorf("%s: while it drains: got %v, want %v", name, err, ErrGone)
		}
	}
}

func TestAChallengeTakesASlotAndIsSeenLikeARequest(t *testing.T) {
	for name, s := range map[string]*wire{"v1": liveOld(t, Config{}), "v2": verifies(t)} {
		for _, task := range []Task{nil, fingerprint} {
			request := Request{RequestID: "r", Model: "m", Stream: true, Body: []byte(`{"model":"m"}`)}
			st, err := s.Open(request)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := s.View()
			slots := s.env.Counts.Slots.Load()
			st.Close(false)
			st, err = s.Open(challenged(task))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := s.View()
			if got.Offers[0] != want.Offers[0] {
				t.Errorf("%s: the offer under a challenge: got %+v, want that under a request, %+v", name, got.Offers[0],
					want.Offers[0])
			}
			if n := s.env.Counts.Slots.Load(); n != slots {
				t.Errorf("%s: slots: got %d, want %d", name, n, slots)
			}
			st.Close(false)
		}
	}
}

func TestTheOneSlotOfAModelIsTheChallenges(t *testing.T) {
	s := fresh(Config{}, speakV2())
	why := s.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: &agentv2.Register{
		Token: "good", NodeId: "node-0001", Models: []*agentv2.ModelOffer{{ModelId: "m", Healthy: true, Capacity: 1}},
	}}}))
	if why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	t.Cleanup(s.end)
	st, _ := openChallenge(t, s, challenged(nil))
	if _, err := s.Open(Request{RequestID: "r", Model: "m"}); !errors.Is(err, ErrBusy) {
		t.Errorf("a request beside it: got %v, want %v", err, ErrBusy)
	}
	st.Close(true)
	if why := s.receive(encode(t, end(st.ID(), 1))); why != nil {
		t.Fatal(why)
	}
	if _, err := s.Open(Request{RequestID: "r", Model: "m"}); err != nil {
		t.Errorf("a request behind it: got %v, want none", err)
	}
	if _, err := s.Open(challenged(nil)); !errors.Is(err, ErrBusy) {
		t.Errorf("a challenge beside the request: got %v, want %v", err, ErrBusy)
	}
}

func TestASessionsChallengesAreBoundedUntilTheirSlotsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveOld(t, Config{})
		var streams []*Stream
		for range MaxChallenges {
			st, _ := openChallenge(t, s, challenged(nil))
			streams = append(streams, st)
		}
		if _, err := s.Open(challenged(nil)); !errors.Is(err, ErrChallenged) {
			t.Errorf("one more: got %v, want %v", err, ErrChallenged)
		}
		if _, err := s.Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")}); err != nil {
			t.Errorf("a request beside them: got %v, want none", err)
		}
		streams[0].Close(true)
		if _, err := s.Open(challenged(nil)); !errors.Is(err, ErrChallenged) {
			t.Errorf("while the agent cannot be cancelled: got %v, want %v", err, ErrChallenged)
		}
		for range 6 {
			time.Sleep(51 * time.Second) //nolint:forbidigo // of a synctest bubble
			tell(t, s, `{"type":"heartbeat","payload":{}}`)
		}
		synctest.Wait()
		if _, err := s.Open(challenged(nil)); err != nil {
			t.Errorf("when the time of its agent is over: got %v, want none", err)
		}
	})
}

func TestWhatAnAgentDoesNotTakeIsNotPutToIt(t *testing.T) {
	deterministic := challenged(&Deterministic{Prompt: "x", MaxTokens: 1})
	benchmark := challenged(&Benchmark{Test: "math", Prompts: []string{"x"}})
	broken, other := challenged(nil), challenged(nil)
	broken.Body, other.Kind = []byte("{"), 1
	big := challenged(nil)
	big.Body = []byte(`{"model":"` + strings.Repeat("x", DefaultBytes) + `"}`)
	for name, c := range map[string]struct {
		session *wire
		r       Request
		want    error
	}{
		"v2 without the capability":      {live(t, Config{}, "m"), challenged(fingerprint), ErrNotOffered},
		"v2 with it":                     {verifies(t), challenged(fingerprint), nil},
		"v2, verify of v1":               {verifies(t), deterministic, ErrNotOffered},
		"v2, benchmark of v1":            {verifies(t), benchmark, ErrNotOffered},
		"v1, fingerprint":                {liveOld(t, Config{}), challenged(fingerprint), nil},
		"v2, a body above its bound":     {live(t, Config{}, "m"), big, ErrTooLarge},
		"v1, a body above a message":     {liveOld(t, Config{}), big, ErrTooLarge},
		"a model that is not served":     {live(t, Config{}, "other"), challenged(nil), ErrNotOffered},
		"v1, a body that is no JSON":     {liveOld(t, Config{}), broken, ErrNotSendable},
		"v2, a kind that is not offered": {live(t, Config{}, "m"), other, ErrNotOffered},
	} {
		if _, err := c.session.Open(c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// The agent's socket takes the batch late, so it could put off times that count from then.
func TestTimesCountFromWhenTheChallengeBeginsToBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const write, first, second = 70 * time.Millisecond, 300 * time.Millisecond, 200 * time.Millisecond
		s := live(t, Config{}, "m")
		sent(t, s)
		st, err := s.Open(challenged(nil))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) //nolint:forbidigo // of a synctest bubble
		same(t, "begun before the writer came", st.Times().Begun.IsZero(), true)
		var o Outbox
		s.Next(&o)
		began := time.Now()
		same(t, "more behind the last byte", o.More, true)
		time.Sleep(write) //nolint:forbidigo // of a synctest bubble
		if why := s.receive(encode(t, data(st.ID(), 1, 5))); why != nil {
			t.Fatal(why) // an answer that overtakes the writer
		}
		s.Next(&o)
		time.Sleep(first) //nolint:forbidigo // of a synctest bubble
		if why := s.receive(encode(t, data(st.ID(), 2, 7))); why != nil {
			t.Fatal(why)
		}
		time.Sleep(second) //nolint:forbidigo // of a synctest bubble
		if why := s.receive(encode(t, end(st.ID(), 3))); why != nil {
			t.Fatal(why)
		}
		_, parts, end, _ := st.TakeParts()
		want := []Part{{End: 5, After: write}, {End: 12, After: write + first}}
		if !slices.Equal(parts, want) {
			t.Errorf("parts: got %v, want %v", parts, want)
		}
		if end == nil {
			t.Error("end: got none, want one")
		}
		same(t, "times", st.Times(), Times{Begun: began, Written: write, Took: write + first + second})
	})
}

// credit grants credit on a stream.
func credit(t testing.TB, s *wire, stream, seq, bytes uint32) {
	t.Helper()
	f := &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: bytes}}}
	if why := s.receive(encode(t, f)); why != nil {
		t.Fatal(why)
	}
}

func TestAnAnswerThatComesBeforeTheLastByteIsEarly(t *testing.T) {
	const body = 300 << 10 // above the credit of a stream
	for name, c := range map[string]struct {
		granted, answer bool // before the answer; bytes before the end
		want            bool
	}{
		"bytes before the last byte": {false, true, true}, "an end before the last byte": {false, false, true},
		"bytes behind it": {true, true, false}, "an end behind it": {true, false, false},
	} {
		s := live(t, Config{}, "m")
		sent(t, s)
		r := challenged(nil)
		r.Body = []byte(`{"model":"` + strings.Repeat("x", body) + `"}`)
		st, _ := openChallenge(t, s, r)
		seq := uint32(1)
		if c.granted {
			credit(t, s, st.ID(), seq, body)
			seq++
			s.out(t)
		}
		if c.answer {
			if why := s.receive(encode(t, data(st.ID(), seq, 5))); why != nil {
				t.Fatal(why)
			}
			seq++
			credit(t, s, st.ID(), seq, body)
			seq++
			s.out(t)
		}
		if why := s.receive(encode(t, end(st.ID(), seq))); why != nil {
			t.Fatal(why)
		}
		same(t, name, st.Times().Early, c.want)
	}
}

func TestAWholeAnswerToAChallengeCountsAsHeldByTheHubAlone(t *testing.T) {
	env := tight(80)
	s := liveOldIn(t, env, "m")
	r := challenged(nil)
	r.Stream = false
	for size, want := range map[int]error{10: nil, 11: ErrNoRoom} { // an eighth is one provider's
		st, out := openChallenge(t, s, r)
		tell(t, s, answer(named(t, out[len(out)-1]), `,"response":"`+strings.Repeat("x", size-2)+`"`))
		sessions, _ := s.Held()
		same(t, "held by the session", sessions, 0)
		if want == nil {
			same(t, "left of the hub's budget", env.Held.Left(), int64(80-size))
		}
		if _, _, _, err := st.TakeParts(); !errors.Is(err, want) {
			t.Errorf("%d bytes: got %v, want %v", size, err, want)
		}
		same(t, "left once it was taken", env.Held.Left(), 80)
		st.Close(false)
	}
	st, out := openChallenge(t, s, r)
	tell(t, s, answer(named(t, out[len(out)-1]), `,"response":"12345678"`))
	st.Close(false)
	same(t, "left once the stream was closed", env.Held.Left(), 80)
	request := Request{RequestID: "r", Model: "m", Body: []byte(`{}`)}
	st, out = openChallenge(t, s, request)
	tell(t, s, answer(named(t, out[len(out)-1]), `,"response":"`+strings.Repeat("x", 100)+`"`))
	if piece, _, err := st.Take(); len(piece) != 102 {
		t.Errorf("a consumer's answer: got %d bytes and %v, want 102", len(piece), err)
	}
}

func TestPartsOfAnAnswerThatIsNotTakenAreBounded(t *testing.T) {
	s := live(t, Config{}, "m")
	sent(t, s)
	st, _ := openChallenge(t, s, challenged(nil))
	for n := range uint32(MaxParts + 100) {
		if why := s.receive(encode(t, data(st.ID(), n+1, 1))); why != nil {
			t.Fatal(why)
		}
	}
	piece, parts, _, _ := st.TakeParts()
	if len(piece) != MaxParts+100 {
		t.Errorf("bytes: got %d, want %d", len(piece), MaxParts+100)
	}
	if len(parts) != MaxParts {
		t.Errorf("parts: got %d, want %d", len(parts), MaxParts)
	}
	if last := parts[len(parts)-1].End; last != len(piece) {
		t.Errorf("the end of the last part: got %d, want %d", last, len(piece))
	}
}

func TestAV1StreamComesAsItsChunks(t *testing.T) {
	s := liveOld(t, Config{})
	st, out := openChallenge(t, s, challenged(nil))
	id := named(t, out[0])
	tell(t, s, chunk(id, `{"model":"local",`+"\n"+` "a":1}`, false))
	tell(t, s, chunk(id, `{"b":2}`, false))
	tell(t, s, chunk(id, `null`, true))
	tell(t, s, streamEnd(id, ""))
	piece, parts, end, err := st.TakeParts()
	if want := `{"model":"local",` + "\n" + ` "a":1}{"b":2}`; string(piece) != want {
		t.Errorf("piece: got %q, want %q", piece, want)
	}
	if len(parts) != 2 {
		t.Errorf("parts: got %d, want 2", len(parts))
	}
	ends(t, end, err, true, "")
	held, holders := s.Held()
	same(t, "bytes held", held, 0)
	same(t, "streams that hold bytes", holders, 0)
}
