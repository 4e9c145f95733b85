package flow_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/fingerprint"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// visible is a visible greedy probe that feeds V.
func visible(n int) probe.Plan {
	p := plan(n)
	p.Flow, p.Feeds = probe.Visible, evidence.Greedy
	return p
}

// ends makes the hub end challenges to the provider so. References answer.
func (w *world) ends(raw string, end *hubv1.ChallengeFinished) {
	w.answers(func(_ *runRequest, s runStream) error { return answer(s, []byte(raw), end) })
}

func (w *world) answers(run func(*runRequest, runStream) error) {
	asked := provider(0).String()
	w.hub.run = func(m *runRequest, s runStream) (bool, error) {
		if m.GetProviderId() != asked {
			return false, nil
		}
		return true, run(m, s)
	}
}

func TestAVisibleProbeFeedsV(t *testing.T) {
	t.Parallel()
	for _, streamed := range []bool{false, true} {
		w := setup(t)
		var got map[evidence.Family]statistic.Parts
		for n := range 12 {
			p := visible(n)
			p.Streamed = streamed
			r := w.run(p)
			if !r.Answer.Claimed {
				t.Errorf("streamed %v: claimed: got false, want true", streamed)
			}
			if got = judged(t, r).Parts; got[evidence.Greedy] != nil {
				break
			}
		}
		if got[evidence.Greedy] == nil {
			t.Errorf("streamed %v: got no parts of B", streamed)
		}
	}
}

func TestAnInactiveProviderIsChallenged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.join(session(0, "node", false, false, model, "fp16"))
	if r := w.run(visible(1)); !r.Answer.Complete {
		t.Error("complete: got false, want true")
	}
}

func TestNoNodeOfAProviderIsSpared(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.join(session(0, "another", true, false, model, "fp16"))
	nodes := map[string]int{}
	w.answers(func(m *runRequest, _ runStream) error {
		nodes[m.GetNodeId()]++
		return fault.New(fault.Unavailable, fault.ProviderBusy, "no slot")
	})
	for n := range 40 {
		w.wantBack(visible(n), flow.Busy)
	}
	for _, node := range []string{"node", "another"} {
		if got := nodes[node]; got < 8 {
			t.Errorf("the node %s: asked %d times of 40, want about 20", node, got)
		}
	}
	clear(nodes)
	for n := range 10 {
		p := visible(n)
		p.Purpose = probe.Benchmark
		w.wantBack(p, flow.Busy)
	}
	if got := nodes["another"]; got != 10 {
		t.Errorf("a benchmark: the first node was asked %d times of 10", got)
	}
}

func TestAHostIsAskedByItsName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := visible(1)
	p.Purpose, p.Offer.Provider = probe.Calibration, provider(1)
	host := provider(1).String() + "/ref"
	r, err := w.runner.RunOn(t.Context(), p, host)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Host(); got == host {
		t.Error("a reference scored itself")
	}
	if got := w.hub.asked[0].GetProviderId(); got != provider(1).String() {
		t.Errorf("asked: got %s, want %s", got, provider(1))
	}
	var void *flow.Void
	if _, err := w.runner.RunOn(t.Context(), plan(1), host); !errors.As(err, &void) {
		t.Errorf("a hidden probe of a host: got %v, want a void", err)
	}
}

func TestRefusalsOfAHubAreTold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		back flow.Reason
		void flow.Reason
	}{
		{fault.New(fault.Unavailable, fault.ProviderBusy, "x"), flow.Busy, ""},
		{fault.New(fault.Unavailable, fault.HubDraining, "x"), flow.Busy, ""},
		{fault.New(fault.Exhausted, fault.RateLimitExceeded, "x"), flow.Limited, ""},
		{errors.New("x"), flow.PlatformDown, ""},
		{fault.New(fault.Unavailable, fault.SessionGone, "x"), "", flow.Offline},
		{fault.New(fault.Precondition, fault.ChallengeUnsupported, "x"), "", flow.Unsupported},
		{fault.New(fault.Invalid, fault.InvalidRequest, "x"), "", flow.BadPlan},
	} {
		w := setup(t)
		w.answers(func(*runRequest, runStream) error { return tc.err })
		if tc.back != "" {
			w.wantBack(visible(1), tc.back)
		} else {
			w.wantVoid(visible(1), tc.void)
		}
	}
}

func TestASessionThatMovedIsFoundAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	moved := false
	w.hub.run = func(m *runRequest, _ runStream) (bool, error) {
		if m.GetProviderId() == provider(0).String() && !moved {
			moved = true
			w.join(session(0, "node", true, false, model, "fp16"))
			return true, fault.New(fault.Unavailable, fault.SessionGone, "moved")
		}
		return false, nil
	}
	if r := w.run(visible(1)); !r.Answer.Complete {
		t.Error("complete: got false, want true")
	}
}

// A record would say that the provider failed, which a bad line does not prove.
func TestAQuestionWhoseConnectionIsLostHasNoRecord(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.ends("{", &hubv1.ChallengeFinished{End: hubv1.ChallengeEnd_CHALLENGE_END_LOST})
	p := visible(1)
	p.Purpose, p.Run = probe.Benchmark, probe.RunID{1}
	w.wantVoid(p, flow.Disconnected)
}

func TestEndsOfChallengesAreTold(t *testing.T) {
	t.Parallel()
	const body = `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`
	long := `{"error":{"message":"This model's maximum context length is 4096 tokens."}}`
	for name, tc := range map[string]struct {
		raw                       string
		end                       hubv1.ChallengeEnd
		status                    int32
		said                      string
		complete, failed, tooLong bool
	}{
		"answered":       {body, hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED, 200, "", true, false, false},
		"no JSON":        {"<html>", hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED, 200, "", false, false, false},
		"refused":        {"{}", hubv1.ChallengeEnd_CHALLENGE_END_REFUSED, 400, "", false, false, false},
		"broken engine":  {"{}", hubv1.ChallengeEnd_CHALLENGE_END_REFUSED, 500, "", false, true, false},
		"too long":       {long, hubv1.ChallengeEnd_CHALLENGE_END_REFUSED, 400, "", false, false, true},
		"too long, said": {"", hubv1.ChallengeEnd_CHALLENGE_END_REFUSED, 400, "prompt is too long", false, false, true},
		"late":           {body, hubv1.ChallengeEnd_CHALLENGE_END_TIMED_OUT, 0, "", false, true, false},
		"lost":           {body, hubv1.ChallengeEnd_CHALLENGE_END_LOST, 0, "", false, true, false},
		"invalid":        {body, hubv1.ChallengeEnd_CHALLENGE_END_INVALID, 0, "", false, true, false},
	} {
		w := setup(t)
		w.ends(tc.raw, &hubv1.ChallengeFinished{End: tc.end, EngineStatus: tc.status, Error: tc.said})
		a := w.run(visible(1)).Answer
		if a.Complete != tc.complete {
			t.Errorf("%s: complete: got %v, want %v", name, a.Complete, tc.complete)
		}
		if a.Failed != tc.failed {
			t.Errorf("%s: failed: got %v, want %v", name, a.Failed, tc.failed)
		}
		if a.TooLong != tc.tooLong {
			t.Errorf("%s: too long: got %v, want %v", name, a.TooLong, tc.tooLong)
		}
	}
	w := setup(t)
	w.ends("", &hubv1.ChallengeFinished{End: hubv1.ChallengeEnd_CHALLENGE_END_HUB_STOPPED})
	w.wantBack(visible(1), flow.Busy)
}

// A hub that breaks the contract costs the probe nothing but time.
func TestAHubThatBreaksTheContractGivesTheProbeBack(t *testing.T) {
	t.Parallel()
	finished := &hubv1.RunResponse{Message: &hubv1.RunResponse_Finished{
		Finished: &hubv1.ChallengeFinished{End: hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED},
	}}
	for name, run := range map[string]func(*runRequest, runStream) error{
		"no end":        func(*runRequest, runStream) error { return nil },
		"an empty word": func(_ *runRequest, s runStream) error { return s.Send(&hubv1.RunResponse{}) },
		"an unknown end": func(_ *runRequest, s runStream) error {
			return answer(s, []byte("{}"), &hubv1.ChallengeFinished{End: 99})
		},
		"two ends": func(_ *runRequest, s runStream) error {
			return errors.Join(s.Send(finished), s.Send(finished))
		},
	} {
		w := setup(t)
		w.answers(run)
		_, err := w.runner.Run(t.Context(), visible(1))
		var back *flow.GiveBack
		if !errors.As(err, &back) {
			t.Errorf("%s: got the error %v, want it given back", name, err)
		}
	}
}

func TestAnEndlessChallengeIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ended := make(chan struct{})
	w.answers(func(_ *runRequest, s runStream) error {
		defer close(ended)
		piece := &hubv1.RunResponse{Message: &hubv1.RunResponse_Chunk{
			Chunk: &hubv1.ChallengeChunk{Data: bytes.Repeat([]byte("x"), 1<<10), AtUs: -1},
		}}
		for s.Send(piece) == nil {
		}
		return nil
	})
	a := w.run(visible(1)).Answer
	hasEnded(t, ended)
	if got, want := len(a.Raw), flow.AnswerBytes(visible(1)); got > want {
		t.Errorf("bytes: got %d, want at most %d", got, want)
	}
	if got := len(a.Chunks); got > 8_192 {
		t.Errorf("chunks: got %d, want at most 8192", got)
	}
	if !a.Failed {
		t.Error("failed: got false, want true")
	}
	if got := a.Chunks[0].AtMicros; got < 0 {
		t.Errorf("time: got %d, want at least 0", got)
	}
}

// Agents of dialect v1 send the objects of a stream one behind the other.
func TestAStreamOfV1IsReadAsEvents(t *testing.T) {
	t.Parallel()
	w := setup(t)
	object := func(text, finish string) string {
		return `{"choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":` + finish + `}]}`
	}
	end := &hubv1.ChallengeFinished{End: hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED, EngineStatus: 200, Dialect: "v1"}
	w.ends(object("one ", "null")+"\n"+object("two", `"stop"`), end)
	p := visible(1)
	p.Streamed = true
	a := w.run(p).Answer
	if !a.Complete {
		t.Error("complete: got false, want true")
	}
	if got := strings.Count(string(a.Raw), "data: "); got != 3 {
		t.Errorf("events: got %d, want 3", got)
	}
	for _, broken := range []string{object("one", "null"), object("one", `"stop"`) + "{", "[]"} {
		w.ends(broken, end)
		if a := w.run(p).Answer; a.Complete {
			t.Errorf("%.20q: got complete, want not", broken)
		}
	}
}

// weights makes a folder with two files and returns what the catalog says of them.
func weights(t *testing.T, change func([]byte)) (string, []flow.File) {
	t.Helper()
	dir := t.TempDir()
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	change(data)
	files := []flow.File{{Name: "model.bin", Bytes: int64(len(data))}, {Name: "config.json", Bytes: 5}}
	if err := os.WriteFile(filepath.Join(dir, files[0].Name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, files[1].Name), []byte("{  }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, append(files, flow.File{Name: "../secret", Bytes: 9}, flow.File{Name: "empty", Bytes: 0})
}

func same([]byte) {}

// fingerprinted is a world in which provider and reference have files.
func fingerprinted(t *testing.T, change func([]byte)) (*world, probe.Plan) {
	t.Helper()
	w := setup(t)
	dir, files := weights(t, same)
	theirs, _ := weights(t, change)
	w.hub.files[0], w.hub.files[1] = theirs, dir
	for n := range 2 {
		s := session(n, "files", n == 0, n == 1, model, "fp16")
		s.Capabilities = []string{offers.Fingerprints}
		w.join(s)
	}
	w.end(provider(0).String() + "/node")
	w.deps.Files = catalog{files}
	w.build()
	p := plan(1)
	p.Kind, p.Flow, p.Greedy = probe.Fingerprint, probe.Visible, false
	return w, p
}

func TestAFingerprintShowsWrongFiles(t *testing.T) {
	t.Parallel()
	w, p := fingerprinted(t, same)
	r := w.run(p)
	if j := judged(t, r); !j.FilesRight {
		t.Errorf("the same files: got right %v, wrong %v, want right", j.FilesRight, j.FilesWrong)
	}
	if got, want := r.Host(), provider(1).String()+"/files"; got != want {
		t.Errorf("the reference: got %q, want %q", got, want)
	}
	w, p = fingerprinted(t, func(b []byte) {
		for i := range b {
			b[i] ^= 1
		}
	})
	if j := judged(t, w.run(p)); !j.FilesWrong {
		t.Errorf("other files: got right %v, wrong %v, want wrong", j.FilesRight, j.FilesWrong)
	}
}

func TestAFingerprintIsDrawnForItsProvider(t *testing.T) {
	t.Parallel()
	w, p := fingerprinted(t, same)
	var c, again, other fingerprint.Challenge
	for _, to := range []*fingerprint.Challenge{&c, &again} {
		if err := json.Unmarshal(w.run(p).Request, to); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(c.Nonce, again.Nonce) {
		t.Error("the nonce: got another for the same probe")
	}
	if err := c.Validate(); err != nil {
		t.Errorf("the challenge: got %v", err)
	}
	if got := len(c.Ranges); got != fingerprint.MaxRanges {
		t.Errorf("ranges: got %d, want %d", got, fingerprint.MaxRanges)
	}
	for _, f := range c.Files {
		if !slices.Contains([]string{"model.bin", "config.json"}, f.Name) {
			t.Errorf("files: got %q, want those that can be read", f.Name)
		}
	}
	p.ID[15]++
	if err := json.Unmarshal(w.run(p).Request, &other); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(c.Nonce, other.Nonce) {
		t.Error("the nonce: got the same for another probe")
	}
}

func TestALateOrPartialFingerprintProvesNothing(t *testing.T) {
	t.Parallel()
	answered := hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED
	for name, change := range map[string]func(map[string]any, *hubv1.ChallengeFinished){
		"late": func(_ map[string]any, f *hubv1.ChallengeFinished) { f.DurationUs = 3_500_000 },
		"late, slow pong": func(_ map[string]any, f *hubv1.ChallengeFinished) {
			f.DurationUs, f.RoundTripUs = 4_500_000, 9_000_000
		},
		"for another":     func(m map[string]any, _ *hubv1.ChallengeFinished) { m["challenge_id"] = "other" },
		"one too few":     func(m map[string]any, _ *hubv1.ChallengeFinished) { m["digests"] = m["digests"].([][]byte)[1:] },
		"a short digest":  func(m map[string]any, _ *hubv1.ChallengeFinished) { m["digests"].([][]byte)[0] = []byte{1} },
		"with a reason":   func(m map[string]any, _ *hubv1.ChallengeFinished) { m["error"] = "cannot read" },
		"without a chain": func(m map[string]any, _ *hubv1.ChallengeFinished) { delete(m, "chain_digest") },
	} {
		w, p := fingerprinted(t, same)
		w.answers(func(m *runRequest, s runStream) error {
			digests := make([][]byte, len(m.GetFingerprint().GetRanges()))
			for i := range digests {
				digests[i] = make([]byte, fingerprint.DigestSize)
			}
			said := map[string]any{
				"challenge_id": m.GetChallengeId(), "digests": digests, "chain_digest": make([]byte, fingerprint.DigestSize),
			}
			end := &hubv1.ChallengeFinished{End: answered, DurationUs: 50_000, RoundTripUs: 1_000}
			change(said, end)
			raw, err := json.Marshal(said)
			if err != nil {
				return err
			}
			return answer(s, raw, end)
		})
		r := w.run(p)
		if r.Answer.Complete {
			t.Errorf("%s: got complete, want not", name)
		}
		if r.Expected != nil {
			t.Errorf("%s: the reference was asked", name)
		}
	}
}

func TestAFingerprintNeedsItsPrerequisites(t *testing.T) {
	t.Parallel()
	w, p := fingerprinted(t, same)
	w.deps.Files = catalog{nil}
	w.build()
	w.wantVoid(p, flow.NoFiles)
	w.end(provider(1).String() + "/files")
	w.wantVoid(p, flow.NoReference)
	w.join(session(0, "files", true, false, model, "fp16"))
	w.wantVoid(p, flow.Unsupported)
}
