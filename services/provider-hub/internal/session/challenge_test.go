package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	. "svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

const challengeID = "c-1"

var fingerprint = &Fingerprint{Nonce: make([]byte, 32), Ranges: []FileRange{{File: "a", Length: 1}, {File: "b", Length: 1}}}

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

func TestASessionHasTwoChallengesUntilTheirSlotsAreFree(t *testing.T) {
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
	big := challenged(nil)
	big.Body = []byte(`{"model":"` + strings.Repeat("x", DefaultBytes) + `"}`)
	for name, c := range map[string]struct {
		session *wire
		r       Request
		want    error
	}{
		"v2 without the capability":      {live(t, Config{}, "m"), challenged(fingerprint), ErrNotOffered},
		"v2 with it":                     {verifies(t), challenged(fingerprint), nil},
		"v2, verify of v1":               {verifies(t), challenged(&Deterministic{Prompt: "x", MaxTokens: 1}), ErrNotOffered},
		"v2, benchmark of v1":            {verifies(t), challenged(&Benchmark{Test: "math", Prompts: []string{"x"}}), ErrNotOffered},
		"v1, fingerprint":                {liveOld(t, Config{}), challenged(fingerprint), nil},
		"v2, a body above its bound":     {live(t, Config{}, "m"), big, ErrTooLarge},
		"v1, a body above a message":     {liveOld(t, Config{}), big, ErrTooLarge},
		"a model that is not served":     {live(t, Config{}, "other"), challenged(nil), ErrNotOffered},
		"v1, a body that is no JSON":     {liveOld(t, Config{}), Request{Model: "m", Body: []byte("{"), Challenge: &Challenge{}}, ErrNotSendable},
		"v2, a kind that is not offered": {live(t, Config{}, "m"), Request{Model: "m", Kind: 1, Challenge: &Challenge{}}, ErrNotOffered},
	} {
		if _, err := c.session.Open(c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// The times count from when the writer comes again, because then the batch is written.
func TestTimesCountFromTheLastByteOfTheChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const write, first, second = 70 * time.Millisecond, 300 * time.Millisecond, 200 * time.Millisecond
		s := live(t, Config{}, "m")
		sent(t, s)
		st, err := s.Open(challenged(nil))
		if err != nil {
			t.Fatal(err)
		}
		var o Outbox
		s.Next(&o)
		if !o.More {
			t.Error("more behind the last byte: got false, want true")
		}
		time.Sleep(write) //nolint:forbidigo // of a synctest bubble
		if why := s.receive(encode(t, data(st.ID(), 1, 5))); why != nil {
			t.Fatal(why) // an answer that overtakes the writer
		}
		if piece, _, _, _ := st.TakeParts(); piece != nil {
			t.Errorf("before the writer came again: got %q, want nothing", piece)
		}
		s.Next(&o)
		wrote := time.Now()
		time.Sleep(first) //nolint:forbidigo // of a synctest bubble
		if why := s.receive(encode(t, data(st.ID(), 2, 7))); why != nil {
			t.Fatal(why)
		}
		time.Sleep(second) //nolint:forbidigo // of a synctest bubble
		if why := s.receive(encode(t, end(st.ID(), 3))); why != nil {
			t.Fatal(why)
		}
		_, parts, end, _ := st.TakeParts()
		want := []Part{{End: 5}, {End: 12, After: first}}
		if len(parts) != 2 || parts[0] != want[0] || parts[1] != want[1] {
			t.Errorf("parts: got %v, want %v", parts, want)
		}
		if end == nil {
			t.Error("end: got none, want one")
		}
		if at, took := st.Times(); !at.Equal(wrote) || took != first+second {
			t.Errorf("times: got %v and %v, want %v and %v", at, took, wrote, first+second)
		}
	})
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
	if end == nil || !end.Complete {
		t.Errorf("end: got %+v, %v, want a complete one", end, err)
	}
	if held, holders := s.Held(); held != 0 || holders != 0 {
		t.Errorf("held: got %d bytes of %d streams, want none", held, holders)
	}
}

func TestTasksOfV1AreRepliedToByRequestAndChallenge(t *testing.T) {
	for name, c := range map[string]struct {
		task        Task
		kind, asked string
	}{
		"fingerprint":   {fingerprint, "verify", "verify"},
		"deterministic": {&Deterministic{Prompt: "x", MaxTokens: 1}, "verify", "verify"},
		"benchmark":     {&Benchmark{Test: "math", Prompts: []string{"x"}}, "benchmark_response", "benchmark"},
	} {
		s := longLive(t)
		st, out := openChallenge(t, s, challenged(c.task))
		if len(out) != 1 || !bytes.Contains(out[0], []byte(`"type":"`+c.asked+`"`)) {
			t.Fatalf("%s: got %s, want one message %s", name, out, c.asked)
		}
		id := named(t, out[0])
		other := "benchmark_response"
		if c.kind == other {
			other = "verify"
		}
		for _, stray := range []string{
			reply(c.kind, id, "another", `,"success":true`), reply(c.kind, "nobody", challengeID, `,"success":true`),
			reply(other, id, challengeID, `,"success":true`), answer(id, `,"response":{"a":1}`), chunk(id, `{}`, true),
			streamEnd(id, ""), fmt.Sprintf(`{"type":%q,"request_id":%q}`, c.kind, id),
		} {
			tell(t, s, stray)
			if _, _, end, err := st.TakeParts(); end != nil || err != nil {
				t.Fatalf("%s: %s: got %+v, %v, want it passed over", name, stray, end, err)
			}
		}
		good := reply(c.kind, id, challengeID, `,"success":true,"response":{"text":"x"}`)
		tell(t, s, good)
		piece, parts, end, err := st.TakeParts()
		if !strings.Contains(good, `"payload":`+string(piece)) || len(piece) == 0 || len(parts) != 1 {
			t.Errorf("%s: got %s in %d parts, want the payload of %s in one", name, piece, len(parts), good)
		}
		if end == nil || !end.Complete || err != nil {
			t.Errorf("%s: end: got %+v, %v, want a complete one", name, end, err)
		}
		if n := s.Streams(); n != 0 {
			t.Errorf("%s: slots: got %d, want 0", name, n)
		}
		tell(t, s, good) // twice
	}
}

func TestRepliesToNobodyCountLikeOtherStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // tokens come with time
		for _, text := range []string{
			reply("verify", "r-9", challengeID, ""), reply("benchmark_response", "r-9", challengeID, ""),
		} {
			s := liveOld(t, Config{})
			for n := range 10 * ChatterBurst {
				if why := s.receive([]byte(text)); why != nil {
					t.Fatalf("%s, number %d of an earlier connection: %v", text, n, why)
				}
			}
			if got := s.env.Counts.Strays.Load(); got != 10*ChatterBurst {
				t.Errorf("%s: strays: got %d, want %d", text, got, 10*ChatterBurst)
			}
			if n := floods(longLive(t), text); n != ChatterBurst-1 { // the registration took one token
				t.Errorf("%s: later taken: got %d, want %d", text, n, ChatterBurst-1)
			}
			young := fresh(Config{}, speakV1())
			if n := floods(young, text); n != ChatterBurst {
				t.Errorf("%s: of an unregistered session taken: got %d, want %d", text, n, ChatterBurst)
			}
			young.end()
		}
	})
}

func TestALateReplyOfV1FreesNothingTwiceAndCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := longLive(t)
		st, out := openChallenge(t, s, challenged(fingerprint))
		id := named(t, out[0])
		st.Close(true)
		if got := len(s.out(t)); got != 0 {
			t.Errorf("messages to an agent that cannot be cancelled: got %d, want 0", got)
		}
		if n, _ := s.InFlight("m"); n != 1 {
			t.Errorf("slots until it replies: got %d, want 1", n)
		}
		tell(t, s, reply("verify", id, challengeID, `,"success":true`))
		if n, _ := s.InFlight("m"); n != 0 {
			t.Errorf("slots behind the late reply: got %d, want 0", n)
		}
		if buffered, _ := s.Buffered(); buffered != 0 {
			t.Errorf("bytes kept of a late reply: got %d, want 0", buffered)
		}
	})
}

func TestAnOversizedReplyOfV1EndsItsChallengeAlone(t *testing.T) {
	s := longLive(t)
	st, out := openChallenge(t, s, challenged(fingerprint))
	tell(t, s, reply("verify", named(t, out[0]), challengeID, `,"x":"`+strings.Repeat("x", 1<<20)+`"`))
	if piece, _, _, err := st.TakeParts(); !errors.Is(err, ErrBroken) || len(piece) != 0 {
		t.Errorf("got %d bytes and %v, want none and %v", len(piece), err, ErrBroken)
	}
	if n := s.Streams(); n != 0 {
		t.Errorf("slots: got %d, want 0", n)
	}
	st, out = openChallenge(t, s, challenged(fingerprint))
	if why := s.discarded([]byte(`{"type":"verify","request_id":"`+named(t, out[0])+`"`), 2<<20); why != nil {
		t.Fatal(why)
	}
	if _, _, _, err := st.TakeParts(); !errors.Is(err, ErrNoRoom) {
		t.Errorf("without room: got %v, want %v", err, ErrNoRoom)
	}
}

func TestARefusalOfV1EndsATask(t *testing.T) {
	s := liveOld(t, Config{})
	st, out := openChallenge(t, s, challenged(fingerprint))
	tell(t, s, `{"type":"error","request_id":"`+named(t, out[0])+`","payload":{"code":501,"message":"no"}}`)
	if _, _, end, _ := st.TakeParts(); end == nil || end.Complete || end.Error != "no" {
		t.Errorf("end: got %+v, want an incomplete one with the text", end)
	}
}

func TestAFingerprintIsOneFrameOfStreamZeroAndItsResultEndsIt(t *testing.T) {
	s := verifies(t)
	st, err := s.Open(challenged(fingerprint))
	if err != nil {
		t.Fatal(err)
	}
	out := sent(t, s)
	if len(out) != 1 || out[0].GetStream() != 0 || out[0].GetChallenge().GetChallengeId() != challengeID {
		t.Fatalf("got %v, want one CHALLENGE on stream 0", out)
	}
	if c := out[0].GetChallenge(); len(c.GetRanges()) != 2 || len(c.GetNonce()) != 32 || c.GetModelId() != "m" {
		t.Errorf("got %v, want the task of the model", c)
	}
	digest := bytes.Repeat([]byte{7}, 32)
	why := result(t, s, 2, &agentv2.ChallengeResult{ChallengeId: challengeID, Digests: [][]byte{digest, nil},
		ChainDigest: digest, Error: "b\x00 is gone"})
	if why != nil {
		t.Fatal(why)
	}
	piece, parts, end, err := st.TakeParts()
	var got struct {
		Digests [][]byte `json:"digests"`
		Chain   []byte   `json:"chain_digest"`
		Error   string   `json:"error"`
	}
	if e := json.Unmarshal(piece, &got); e != nil {
		t.Fatalf("%s: %v", piece, e)
	}
	if len(got.Digests) != 2 || !bytes.Equal(got.Digests[0], digest) || len(got.Digests[1]) != 0 {
		t.Errorf("digests: got %x, want one and none", got.Digests)
	}
	if !bytes.Equal(got.Chain, digest) || got.Error != "b is gone" {
		t.Errorf("got %s, want the chain's digest and the cleaned error", piece)
	}
	if len(parts) != 1 || end == nil || !end.Complete || err != nil {
		t.Errorf("got %v, %+v, %v, want a complete end in one part", parts, end, err)
	}
	st.Release(len(piece), piece)
	st.Close(true)
	if more := sent(t, s); len(more) != 0 {
		t.Errorf("behind it: got %v, want nothing: neither a grant nor a cancel", more)
	}
	if n := s.Streams(); n != 0 {
		t.Errorf("slots: got %d, want 0", n)
	}
}

func TestNothingOfAFingerprintIsReadIsARefusal(t *testing.T) {
	s := verifies(t)
	st, _ := openChallenge(t, s, challenged(fingerprint))
	long := strings.Repeat("x", 4<<10)
	if why := result(t, s, 2, &agentv2.ChallengeResult{ChallengeId: challengeID, Error: long}); why != nil {
		t.Fatal(why)
	}
	_, _, end, _ := st.TakeParts()
	if end == nil || end.Complete {
		t.Fatalf("end: got %+v, want an incomplete one", end)
	}
	if len(end.Error) != 1024 {
		t.Errorf("a long text: got %d characters, want it cut to 1024", len(end.Error))
	}
}

func TestAResultThatNoHonestAgentSendsEndsTheConnection(t *testing.T) {
	digest := make([]byte, 32)
	for name, c := range map[string]struct {
		results []*agentv2.ChallengeResult
		err     error // of the challenge
	}{
		"an unknown id": {[]*agentv2.ChallengeResult{{ChallengeId: "other"}}, nil},
		"twice":         {[]*agentv2.ChallengeResult{{ChallengeId: challengeID}, {ChallengeId: challengeID}}, nil},
		"a short digest": {[]*agentv2.ChallengeResult{{ChallengeId: challengeID, Digests: [][]byte{digest[:31]}}},
			ErrBroken},
		"a long digest of the chain": {[]*agentv2.ChallengeResult{{ChallengeId: challengeID,
			ChainDigest: make([]byte, 33)}}, ErrBroken},
		"more digests than ranges": {[]*agentv2.ChallengeResult{{ChallengeId: challengeID,
			Digests: [][]byte{digest, digest, digest}}}, ErrBroken},
		"thousands of digests": {[]*agentv2.ChallengeResult{{ChallengeId: challengeID,
			Digests: make([][]byte, 5000)}}, ErrBroken},
	} {
		s := verifies(t)
		st, _ := openChallenge(t, s, challenged(fingerprint))
		var why *CloseReason
		for i, r := range c.results {
			if why != nil {
				t.Fatalf("%s: result %d: %v", name, i, why)
			}
			why = result(t, s, uint32(i+2), r)
		}
		if why == nil || why.Code != agentwire.CodeProtocolError {
			t.Errorf("%s: got %v, want %s", name, why, agentwire.CodeProtocolError)
		}
		if got := st.Err(); !errors.Is(got, c.err) {
			t.Errorf("%s: the challenge: got %v, want %v", name, got, c.err)
		}
	}
	if why := result(t, verifies(t), 2, &agentv2.ChallengeResult{ChallengeId: challengeID}); why == nil {
		t.Error("a result that nobody asked for: got it taken, want the connection ended")
	}
	s := verifies(t)
	if _, err := s.Open(challenged(fingerprint)); err != nil {
		t.Fatal(err)
	}
	if why := result(t, s, 2, &agentv2.ChallengeResult{ChallengeId: challengeID}); why == nil {
		t.Error("a result before its challenge: got it taken, want the connection ended")
	}
}

func TestNoFrameReachesAFingerprintByItsNumber(t *testing.T) {
	for name, f := range map[string]*agentv2.Frame{
		"DATA": data(1, 1, 5), "END": end(1, 1),
		"ERROR": {Stream: 1, Seq: 1, Body: &agentv2.Frame_Error{Error: &agentv2.Error{}}},
	} {
		s := verifies(t)
		st, _ := openChallenge(t, s, challenged(fingerprint))
		if st.ID() != 1 {
			t.Fatalf("number: got %d, want 1", st.ID())
		}
		if why := s.receive(encode(t, f)); why == nil || why.Code != agentwire.CodeProtocolError {
			t.Errorf("%s: got %v, want %s", name, why, agentwire.CodeProtocolError)
		}
	}
}

// An honest agent that is slow replies when nobody waits any more.
func TestALateResultIsPassedOverAndTheNextFingerprintWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := verifies(t)
		st, _ := openChallenge(t, s, challenged(fingerprint))
		if _, err := s.Open(challenged(fingerprint)); !errors.Is(err, ErrBusy) {
			t.Errorf("a second one: got %v, want %v", err, ErrBusy)
		}
		st.Close(true)
		if out := sent(t, s); len(out) != 0 {
			t.Errorf("cancelled: got %v, want nothing, because there is no such frame", out)
		}
		time.Sleep(11 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		if n, _ := s.InFlight("m"); n != 0 {
			t.Errorf("slots behind the grace: got %d, want 0", n)
		}
		if _, err := s.Open(challenged(fingerprint)); !errors.Is(err, ErrBusy) {
			t.Errorf("before the late result: got %v, want %v", err, ErrBusy)
		}
		if why := result(t, s, 2, &agentv2.ChallengeResult{ChallengeId: challengeID}); why != nil {
			t.Fatalf("the late result: %v", why)
		}
		if _, err := s.Open(challenged(fingerprint)); err != nil {
			t.Errorf("behind it: got %v, want none", err)
		}
	})
}

func TestAFingerprintThatWasNotSentBlocksNone(t *testing.T) {
	s := verifies(t)
	st, err := s.Open(challenged(fingerprint))
	if err != nil {
		t.Fatal(err)
	}
	st.Close(true)
	if _, err := s.Open(challenged(fingerprint)); err != nil {
		t.Errorf("behind it: got %v, want none", err)
	}
	if out := sent(t, s); len(out) != 1 {
		t.Errorf("sent: got %v, want the second alone", out)
	}
}

// Results of fingerprints that were asked for cost the agent no token.
func TestResultsOfManyFingerprintsNeverCount(t *testing.T) {
	s := verifies(t)
	for n := range uint32(10 * ChatterBurst) {
		st, _ := openChallenge(t, s, challenged(fingerprint))
		if why := result(t, s, n+2, &agentv2.ChallengeResult{ChallengeId: challengeID}); why != nil {
			t.Fatalf("number %d: %v", n+1, why)
		}
		piece, _, _, _ := st.TakeParts()
		st.Release(len(piece), piece)
		st.Close(false)
	}
}

func TestTheCapabilityIsToldWithTheRegistration(t *testing.T) {
	s := fresh(Config{}, speakV2())
	defer s.end()
	register := &agentv2.Register{Token: "good", NodeId: "node-0001", Capabilities: []string{"chat", CapFingerprint},
		Models: []*agentv2.ModelOffer{{ModelId: "m", Healthy: true}}}
	if why := s.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: register}})); why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	if _, err := s.Open(challenged(fingerprint)); err != nil {
		t.Errorf("got %v, want a fingerprint taken", err)
	}
}

func TestTheRoundTripIsToldWithTheDialect(t *testing.T) {
	s := live(t, Config{}, "m")
	if dialect, trip := s.Link(); dialect != "v2" || trip != 0 {
		t.Errorf("got %s and %v, want v2 and 0", dialect, trip)
	}
	s.Measured(20 * time.Millisecond)
	if _, trip := s.Link(); trip != 20*time.Millisecond {
		t.Errorf("got %v, want 20 ms", trip)
	}
}

// FuzzReplies drives sessions with a task under way by messages of any content. The
// sessions never panic, and no slot is freed twice.
func FuzzReplies(f *testing.F) {
	f.Add([]byte(reply("verify", "r-1", challengeID, `,"success":true`)), true)
	f.Add([]byte(reply("benchmark_response", "r-1", challengeID, `,"results":[]`)), true)
	f.Add([]byte(reply("verify", "r-1", "x", "")+"\n"+reply("verify", "r-1", challengeID, "")), true)
	f.Add(sessiontest.Encode(f, &agentv2.Frame{Seq: 2, Body: &agentv2.Frame_ChallengeResult{
		ChallengeResult: &agentv2.ChallengeResult{ChallengeId: challengeID, Digests: [][]byte{make([]byte, 32)}},
	}}), false)
	f.Fuzz(func(t *testing.T, script []byte, old bool) {
		var s *wire
		if old {
			s = liveOld(t, Config{})
		} else {
			s = verifies(t)
		}
		st, _ := openChallenge(t, s, challenged(fingerprint))
		for msg := range bytes.SplitSeq(script, []byte("\n")) {
			if why := s.receive(msg); why != nil {
				s.Shut(why)
			}
			s.out(t)
		}
		piece, parts, end, err := st.TakeParts()
		if end != nil && err != nil {
			t.Errorf("got both %+v and %v, want one", end, err)
		}
		last := 0
		for _, p := range parts {
			if p.End <= last || p.End > len(piece) || p.After < 0 {
				t.Errorf("part %+v behind %d of %d bytes", p, last, len(piece))
			}
			last = p.End
		}
		if last != len(piece) {
			t.Errorf("parts: got %d bytes, want %d", last, len(piece))
		}
		if slots, streams := s.env.Counts.Slots.Load(), s.Streams(); slots != int64(streams) || streams > 1 {
			t.Errorf("slots: got %d of %d streams, want as many, at most 1", slots, streams)
		}
	})
}
