package bench_test

import (
	"fmt"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/bench"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
)

// stream is a streamed answer of pieces.
func stream(pieces ...string) []byte {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", p)
	}
	b.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	return []byte(b.String())
}

func whole(text string) []byte {
	return fmt.Appendf(nil, `{"choices":[{"index":0,"message":{"content":%q},"finish_reason":"stop"}]}`, text)
}

func record(k probe.Kind, raw []byte) judge.Record {
	return judge.Record{
		Plan: probe.Plan{ID: probe.ID{5}, Kind: k, MaxTokens: 256, PromptTokens: 600, BytesPerToken: 2},
		Answer: judge.Answer{
			Complete: true, Raw: raw, Chunks: []judge.Chunk{{AtMicros: 250_000, Bytes: 9}, {AtMicros: 1_250_000, Bytes: 9}},
		},
	}
}

func TestAnAnswerIsTimedFromItsFirstChunkToItsLast(t *testing.T) {
	t.Parallel()
	got := bench.Read(record(probe.Greedy, stream("four", "teen", "bytes.")), judge.Judgement{})
	want := bench.Report{Plan: probe.ID{5}, Answered: true, Tokens: 7, FirstMicros: 250_000, Micros: 1_000_000}
	if got != want {
		t.Errorf("report: got %+v, want %+v", got, want)
	}
}

func TestALongAnswerIsCountedUpToWhatWasAsked(t *testing.T) {
	t.Parallel()
	got := bench.Read(record(probe.Greedy, stream(strings.Repeat("a", 4_000))), judge.Judgement{})
	if got.Tokens != 256 {
		t.Errorf("tokens: got %d, want 256", got.Tokens)
	}
}

func TestAnswersThatFailedAreNotAnswered(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*judge.Record){
		"cut":      func(r *judge.Record) { r.Answer.Complete = false },
		"failed":   func(r *judge.Record) { r.Answer.Failed = true },
		"too long": func(r *judge.Record) { r.Answer.TooLong = true },
	} {
		r := record(probe.Greedy, stream("x"))
		spoil(&r)
		if got := bench.Read(r, judge.Judgement{}); got.Answered {
			t.Errorf("%s: got an answer, want none", name)
		}
	}
}

func TestTheObservationOfVIsTheReports(t *testing.T) {
	t.Parallel()
	for _, exceeded := range []bool{true, false} {
		o, err := evidence.Judged(evidence.Visible, exceeded)
		if err != nil {
			t.Fatal(err)
		}
		got := bench.Read(record(probe.Greedy, stream("x")), judge.Judgement{Observations: []evidence.Observation{o}})
		if !got.Judged {
			t.Error("an observation of V: got none, want one")
		}
		if got.Exceeded != exceeded {
			t.Errorf("b of V: got %v, want %v", got.Exceeded, exceeded)
		}
	}
}

func TestTheOldestNeedleThatCameBackCounts(t *testing.T) {
	t.Parallel()
	r := record(probe.Recall, whole("red mill: 111111\nblue tower: 333333"))
	r.Plan.FromEnd, r.Needles = []int{100, 580, 300}, []string{"111111", "222222", "333333"}
	if got := bench.Read(r, judge.Judgement{}); got.Oldest != 300 {
		t.Errorf("oldest needle: got %d, want 300", got.Oldest)
	}
	lost := r
	lost.Answer.Raw = whole("I cannot say.")
	for name, c := range map[string]struct {
		scores []judge.Score
		want   bool
	}{
		"no reference":                 {nil, true},
		"a reference that recalls":     {[]judge.Score{{Raw: whole("111111 222222 333333")}}, false},
		"a reference that cannot":      {[]judge.Score{{Raw: whole("I do not know.")}}, true},
		"a reference that is unusable": {[]judge.Score{{Raw: []byte("{")}}, true},
	} {
		lost.Scores = c.scores
		if got := bench.Read(lost, judge.Judgement{}); got.Unknown != c.want {
			t.Errorf("%s: got unknown %v, want %v", name, got.Unknown, c.want)
		}
	}
}

func TestHostileAnswersMakeReportsThatARunTakes(t *testing.T) {
	t.Parallel()
	r := begin(t, setup())
	for name, raw := range map[string][]byte{
		"nothing": nil, "no JSON": []byte("\x00\xff"), "NaN": []byte(`{"choices":NaN}`),
		"deep": []byte(strings.Repeat("[", 10_000)), "an error": []byte(`{"error":{"message":"no"}}`),
	} {
		rec := record(probe.Greedy, raw)
		rec.Plan = r.Next(noon)[0]
		rec.Answer.Chunks = []judge.Chunk{{AtMicros: 1 << 62}, {AtMicros: -1 << 62}}
		if _, err := r.Took(bench.Read(rec, judge.Judgement{}), noon); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
	}
}
