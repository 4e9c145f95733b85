package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	agentv2 "svc.internal/proto/svc/agent/v2"
	. "svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

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
		if !bytes.Contains(out[0], []byte(`"type":"`+c.asked+`"`)) {
			t.Fatalf("%s: got %s, want a message %s", name, out, c.asked)
		}
		same(t, name+": messages", len(out), 1)
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
			_, _, end, err := st.TakeParts()
			same(t, stray, end, nil)
			same(t, stray, err, nil)
		}
		good := reply(c.kind, id, challengeID, `,"success":true,"response":{"text":"x"}`)
		tell(t, s, good)
		piece, parts, end, err := st.TakeParts()
		if !strings.HasSuffix(good, `"payload":`+string(piece)+"}") {
			t.Errorf("%s: got %s, want the payload of %s", name, piece, good)
		}
		same(t, name+": parts", len(parts), 1)
		ends(t, end, err, true, "")
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
	piece, _, _, err := st.TakeParts()
	same(t, "the challenge", err, ErrBroken)
	same(t, "bytes", len(piece), 0)
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
	_, _, end, err := st.TakeParts()
	ends(t, end, err, false, "no")
}

func TestAFingerprintIsOneFrameOfStreamZeroAndItsResultEndsIt(t *testing.T) {
	s := verifies(t)
	st, err := s.Open(challenged(fingerprint))
	if err != nil {
		t.Fatal(err)
	}
	out := sent(t, s)
	same(t, "frames", len(out), 1)
	same(t, "stream", out[0].GetStream(), 0)
	c := out[0].GetChallenge()
	same(t, "id", c.GetChallengeId(), challengeID)
	same(t, "model", c.GetModelId(), "m")
	same(t, "ranges", len(c.GetRanges()), 2)
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
	if !slices.EqualFunc(got.Digests, [][]byte{digest, {}}, bytes.Equal) {
		t.Errorf("digests: got %x, want one and none", got.Digests)
	}
	same(t, "the chain's digest", string(got.Chain), string(digest))
	same(t, "error", got.Error, "b is gone")
	same(t, "parts", len(parts), 1)
	ends(t, end, err, true, "b is gone")
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
	_, _, end, err := st.TakeParts()
	ends(t, end, err, false, long[:1024])
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
		breaks(t, name, why)
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
		breaks(t, name, s.receive(encode(t, f)))
	}
}

// An honest agent that is slow replies when nobody waits any more.
func TestALateResultIsPassedOverAndTheNextFingerprintWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := verifies(t)
		st, _ := openChallenge(t, s, challenged(fingerprint))
		if _, err := s.Open(challenged(fingerprint)); !errors.Is(err, ErrChallenged) {
			t.Errorf("a second one: got %v, want %v", err, ErrChallenged)
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
		if _, err := s.Open(challenged(fingerprint)); !errors.Is(err, ErrChallenged) {
			t.Errorf("before the late result: got %v, want %v", err, ErrChallenged)
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

// A reply to a task spent no credit, so none is granted again for it: the agent would
// believe that it has more than the hub holds.
func TestNoCreditIsGrantedForATask(t *testing.T) {
	s := live(t, Config{ConnWindow: 256}, "m")
	s.Declare(CapFingerprint)
	sent(t, s)
	st, _ := openChallenge(t, s, challenged(fingerprint))
	digest := make([]byte, 32)
	why := result(t, s, 2, &agentv2.ChallengeResult{ChallengeId: challengeID, Digests: [][]byte{digest, digest}})
	if why != nil {
		t.Fatal(why)
	}
	piece, _, _, _ := st.TakeParts()
	if len(piece) < 64 {
		t.Fatalf("reply: got %d bytes, want as many as a grant is due for", len(piece))
	}
	st.Release(len(piece), piece)
	if out := sent(t, s); len(out) != 0 {
		t.Errorf("got %v, want no grant", out)
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
	dialect, trip := s.Link()
	same(t, "dialect", dialect, "v2")
	same(t, "round trip", trip, 0)
	s.Measured(20 * time.Millisecond)
	_, trip = s.Link()
	same(t, "measured", trip, 20*time.Millisecond)
}

// A provider that answers pings late before a challenge would have more time for it.
func TestTheShortestRoundTripCounts(t *testing.T) {
	s := live(t, Config{}, "m")
	for _, trip := range []time.Duration{20 * time.Millisecond, 3 * time.Second, 0} {
		s.Measured(trip)
	}
	_, trip := s.Link()
	same(t, "round trip", trip, 20*time.Millisecond)
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
		for _, p := range parts { // they cover the piece
			if p.End <= last {
				t.Errorf("part %+v: got an end behind %d, want more", p, last)
			}
			if p.After < 0 {
				t.Errorf("part %+v: got a time before the challenge, want none", p)
			}
			last = p.End
		}
		if last != len(piece) {
			t.Errorf("parts: got %d bytes, want %d", last, len(piece))
		}
		same(t, "slots", s.env.Counts.Slots.Load(), int64(s.Streams()))
	})
}
