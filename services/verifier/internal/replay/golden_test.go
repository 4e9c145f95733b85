package replay_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/lab"
	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/replay"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

var update = flag.Bool("update", false, "make the evidence in testdata anew")

// goldens are evidence that was made once. That of an earlier judge.Version is never made
// anew: it replays by the rules of its version.
var goldens = []struct {
	file string
	make func(*testing.T) *career
	// said are the observations of each piece, verdicts the triggers of all verdicts.
	said, verdicts string
}{
	{
		"testdata/evidence.jsonl.gz", laboratory,
		"B0 U0, R0 U0, R0 C0 U0, D0, B0 C1 U0, R0 C1 U0, B0 C1 U0, D1, , ", "",
	},
	{
		"testdata/verdicts.jsonl.gz", convicted, "", "fail notify pursue convict reverse notify recover ",
	},
	{
		"testdata/unjudged.jsonl.gz", evading,
		", B0 U0, B1 U0, " + strings.Repeat(", ", standing.UnjudgedVoids) + "B0 U0, D0 U0, , , , ", "pass ",
	},
	{
		"testdata/v2/evidence.jsonl.gz", nil,
		"B0 U0, R0 U0, R0 C0 U0, D0, B0 C1 U0, R0 C1 U0, B0 C1 U0, D1, , ", "",
	},
	{
		"testdata/v2/verdicts.jsonl.gz", nil, "", "fail notify pursue convict reverse notify recover ",
	},
	{
		"testdata/v2/unjudged.jsonl.gz", nil,
		", B0 U0, B1 U0, " + strings.Repeat(", ", standing.UnjudgedVoids) + "B0 U0, D0 U0, , ", "pass ",
	},
	{
		"testdata/v1/evidence.jsonl.gz", nil,
		"B0 U0, R0 U0, R0 C0 U0, D0, B0 C1 U0, R0 C1 U0, B0 C1 U0, D1, , ", "",
	},
	{
		"testdata/v1/verdicts.jsonl.gz", nil, "", "fail notify pursue convict reverse notify recover ",
	},
}

// TestCommittedEvidenceReplaysToTheBit computes evidence again that another machine made. It
// is what runs on other processors too, with make replay-archs.
func TestCommittedEvidenceReplaysToTheBit(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		t.Run(g.file, func(t *testing.T) {
			t.Parallel()
			if *update && g.make != nil {
				write(t, g.file, g.make(t))
			}
			report := read(t, g.file)
			said, verdicts := "", ""
			for _, row := range report.Rows {
				if row.Wrong != "" {
					t.Errorf("piece %v: %s", row.ID, row.Wrong)
				}
				said += row.Said + ", "
				for _, v := range row.Verdicts {
					verdicts += v + " "
				}
			}
			if g.said != "" && said != g.said {
				t.Errorf("got the observations %q, want %q", said, g.said)
			}
			if verdicts != g.verdicts {
				t.Errorf("got the verdicts %q, want %q", verdicts, g.verdicts)
			}
			t.Logf("replayed: %d pieces, %d verdicts, %d differ", len(report.Rows), strings.Count(verdicts, " "),
				report.Wrong)
		})
	}
}

// read checks the pieces of a file.
func read(t *testing.T, file string) replay.Report {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatalf("open the evidence: %v", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("unpack the evidence: %v", err)
	}
	var c replay.Checker
	if err := replay.Each(packed, func(s replay.Sealed) error { c.Add(s); return nil }); err != nil {
		t.Fatalf("read the evidence: %v", err)
	}
	return c.Report()
}

// convicted makes the evidence of an offer that fails its benchmark, goes the whole ladder,
// has its penalty reversed, loses needles and recovers.
func convicted(t *testing.T) *career {
	t.Helper()
	c := begin(t)
	c.apply(standing.Event{Run: &standing.RunJudged{Facts: battery.Facts{Asked: 60, Answered: 20, StatedTokens: 8_192}}})
	say := func(exceeded bool, make func(testing.TB, judgetest.Say) judge.Record) {
		c.now = c.now.Add(time.Hour)
		host := "reference-1"
		if c.state.Level == ladder.Confirm {
			host = "reference-2"
		}
		c.judged(make(t, judgetest.Say{N: len(c.sealed), Exceeded: exceeded, Host: host}))
	}
	for c.state.Level != ladder.Penalty {
		say(true, judgetest.Greedy)
	}
	c.apply(standing.Event{Penalty: &standing.PenaltyMoved{Verdict: c.verdict, Final: standing.Reversed}})
	for c.state.Level != ladder.Notice {
		say(true, judgetest.Recall)
	}
	for c.state.Level == ladder.Notice {
		say(false, judgetest.Recall)
	}
	return c
}

// evading makes evidence of an offer that puts blanks behind its answers, sends nothing else
// until it is in the probe lane, is judged again, fails a recall, and answers too slowly and too
// much.
func evading(t *testing.T) *career {
	t.Helper()
	c := begin(t)
	const longer = "xy" // a token beside blanks is not judged
	answer := func(n int, exceeded bool, text string) {
		c.now = c.now.Add(time.Hour)
		r := judgetest.Greedy(t, judgetest.Say{N: n})
		r.Answer.ClaimedOutput += int64(len(longer))
		r.Answer.Raw = []byte(strings.Replace(string(r.Answer.Raw), judgetest.Answer, text, 1))
		own, other := -.6, -.8
		if exceeded {
			own, other = -1.7, -.3
		}
		r.Scores[0].Raw = judgetest.Score(judgetest.Answer+longer, 50, own, other)
		c.judged(r)
	}
	behind, nothing := judgetest.Answer+longer+`\u200b \n`, `\u200b \n`
	c.apply(standing.Event{Run: &standing.RunJudged{Facts: judgetest.Passing()}})
	answer(0, false, behind)
	answer(1, true, behind)
	for n := range standing.UnjudgedVoids {
		answer(n+2, false, nothing)
	}
	if got := c.state.Publish(c.now, c.world).Lane; got != trust.Probe {
		t.Errorf("got the lane %s, want %s", got, trust.Probe)
	}
	answer(30, false, behind)
	recall := judgetest.Recall(t, judgetest.Say{N: 31})
	recall.Calibrations[evidence.Usage.String()] = judgetest.Calibration(t, evidence.Usage, 2, .05, 3)
	c.judged(recall)
	recall.Plan.ID[0], recall.Answer.Failed = 2, true
	c.judged(recall)
	for n, why := range []judge.Cut{judge.Slow, judge.Large} {
		c.now = c.now.Add(time.Hour)
		r := judgetest.Greedy(t, judgetest.Say{N: 40 + n})
		r.Answer.Complete, r.Answer.Cut = false, why
		c.judged(r)
	}
	return c
}

// laboratory makes evidence by engines of the laboratory: an honest host and one of 4-bit
// weights, greedy, sampled and with log-probabilities, and recalls.
func laboratory(t *testing.T) *career {
	t.Helper()
	c := begin(t)
	honest := lab.Honest(lab.Base(), 1)
	cheat := lab.Host(lab.Base(), tinylm.Variant{Seed: 2, WeightBits: 4})
	siblings := map[evidence.Alternative]*tinylm.Model{evidence.Sibling: lab.Smaller()}
	seed := int64(5)
	talk := lab.NewConversations(21)
	probe := func(chat judgetest.Chat, provider *tinylm.Model) {
		for {
			chat.Messages, chat.MaxTokens = talk.Next(), 32
			others := siblings
			if chat.Seed == nil {
				others = nil
			}
			r := chat.Record(t, len(c.sealed), provider, lab.Base(), others)
			r.Calibrations = map[string][]byte{
				evidence.Greedy.String():   judgetest.Calibration(t, evidence.Greedy, .02),
				evidence.Logprobs.String(): judgetest.Calibration(t, evidence.Logprobs, .05, .02),
				evidence.Sampled.String():  judgetest.Ratios(t, evidence.Sibling, evidence.Cooler, evidence.Hotter),
				evidence.Usage.String():    judgetest.Calibration(t, evidence.Usage, 2, .05, 6),
			}
			if j, err := judge.Judge(r); err != nil || len(j.Voids) > 0 {
				continue
			}
			c.judged(r)
			return
		}
	}
	probe(judgetest.Chat{}, honest)
	probe(judgetest.Chat{Seed: &seed, Stream: true}, honest)
	probe(judgetest.Chat{Seed: &seed, Logprobs: true}, honest)
	c.judged(judgetest.Recall(t, judgetest.Say{N: 1}))
	probe(judgetest.Chat{Logprobs: true, Stream: true}, cheat)
	probe(judgetest.Chat{Seed: &seed, Logprobs: true}, cheat)
	probe(judgetest.Chat{Logprobs: true}, cheat)
	c.judged(judgetest.Recall(t, judgetest.Say{N: 2, Exceeded: true}))
	c.apply(standing.Event{Ticked: &standing.Tick{}})
	return c
}

func write(t *testing.T, file string, c *career) {
	t.Helper()
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatalf("pack the evidence: %v", err)
	}
	for _, s := range c.sealed {
		if err := json.NewEncoder(w).Encode(s); err != nil {
			t.Fatalf("write the evidence: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("pack the evidence: %v", err)
	}
	if err := os.MkdirAll("testdata", 0o750); err != nil {
		t.Fatalf("make the folder: %v", err)
	}
	if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
		t.Fatalf("keep the evidence: %v", err)
	}
}
