package plan_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"svc.internal/pkg/fakeengine/needle"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
)

func writer() *plan.Writer { return plan.NewWriter(key, prompt.Demo()) }

// request is what a body says.
type request struct {
	Model       string           `json:"model"`
	Messages    []prompt.Message `json:"messages"`
	Input       string           `json:"input"`
	MaxTokens   int              `json:"max_tokens"`
	Temperature *float64         `json:"temperature"`
	TopP        *float64         `json:"top_p"`
	TopLogprobs int              `json:"top_logprobs"`
	Stream      bool             `json:"stream"`
	Seed        *int64           `json:"seed"`
}

func read(t *testing.T, w *plan.Writer, p probe.Plan) (request, []string) {
	t.Helper()
	body, needles, err := w.Body(p)
	if err != nil {
		t.Fatal(err)
	}
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	return r, needles
}

// probes returns what a month of a watched offer asks.
func probes(t *testing.T, days int) []probe.Plan {
	t.Helper()
	o := offer(1)
	o.Level, o.EffectiveTokens, o.StatedTokens = ladder.Watch, 8_192, 8_192
	w := newWorld(o)
	w.organic = plan.Prior()
	var all []probe.Plan
	for _, p := range w.run(t, days) {
		all = append(all, p.Plan)
	}
	return all
}

func TestABodyAsksWhatThePlanSays(t *testing.T) {
	t.Parallel()
	w := writer()
	for _, p := range probes(t, 7) {
		if p.Kind == probe.Fingerprint {
			continue
		}
		r, _ := read(t, w, p)
		check(t, p, "model", r.Model, p.Offer.Model)
		check(t, p, "max_tokens", r.MaxTokens, p.MaxTokens)
		check(t, p, "stream", r.Stream, p.Streamed)
		check(t, p, "top_logprobs", r.TopLogprobs, p.TopLogprobs)
		check(t, p, "temperature 0", r.Temperature != nil && *r.Temperature == 0, p.Greedy)
		check(t, p, "top_p 1", r.TopP != nil && *r.TopP == 1, !p.Greedy)
		check(t, p, "a seed", r.Seed != nil, p.Seed != nil)
	}
}

func check[T comparable](t *testing.T, p probe.Plan, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s of a %s probe: got %v, want %v", what, p.Kind, got, want)
	}
}

func TestALengthIsAboutAsPlanned(t *testing.T) {
	t.Parallel()
	w, sum, n := writer(), 0.0, 0
	for _, p := range probes(t, 14) {
		if p.Kind != probe.Greedy && p.Kind != probe.Sampled || p.PromptTokens < 200 {
			continue
		}
		r, _ := read(t, w, p)
		length := 0
		for _, m := range r.Messages {
			length += len(m.Content)
		}
		sum += math.Log(float64(length) / 4 / float64(p.PromptTokens))
		n++
	}
	within(t, "length of chats by what was planned", math.Exp(sum/float64(n)), 1, .2)
}

func TestAReplayHasTheEarlierTextInALayoutOfItsOwn(t *testing.T) {
	t.Parallel()
	w, earlier, replays, other := writer(), map[probe.ID]probe.Plan{}, 0, 0
	for _, p := range probes(t, 40) {
		earlier[p.ID] = p
		if p.Kind != probe.Replay {
			continue
		}
		first, there := earlier[p.Repeats]
		if !there {
			t.Fatalf("a replay of %v, which was not planned before", p.Repeats)
		}
		if got := p.DueAt.Sub(first.DueAt).Hours(); got < 6 {
			t.Errorf("a replay after %v hours, want at least 6", got)
		}
		a, _ := read(t, w, first)
		b, _ := read(t, w, p)
		if !slices.Equal(a.Messages, b.Messages) {
			t.Errorf("replay of %v: got other messages, want the same", p.Repeats)
		}
		one, _, _ := w.Body(first)
		two, _, _ := w.Body(p)
		if replays++; !bytes.Equal(one, two) {
			other++
		}
	}
	if replays < 5 {
		t.Fatalf("replays: got %d, want at least 5", replays)
	}
	if other == 0 {
		t.Errorf("layouts of %d replays: got those of the first probes, want others", replays)
	}
}

// Screening draws another prompt, and the provider must not see that from the request.
func TestALaterDrawChangesTheTextAlone(t *testing.T) {
	t.Parallel()
	w := writer()
	for _, p := range probes(t, 3) {
		if p.Kind != probe.Greedy {
			continue
		}
		first, _ := read(t, w, p)
		p.Draw = 1
		second, _ := read(t, w, p)
		if slices.Equal(first.Messages, second.Messages) {
			t.Errorf("draw 1 of %v: got the text of draw 0, want another", p.ID)
		}
		check(t, p, "max_tokens", second.MaxTokens, first.MaxTokens)
		check(t, p, "stream", second.Stream, first.Stream)
		check(t, p, "a seed", second.Seed != nil, first.Seed != nil)
	}
}

func TestOnlyChatsHaveLaterDraws(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind probe.Kind
		draw int
		fits bool
	}{
		{probe.Greedy, probe.MaxDraws - 1, true}, {probe.Greedy, probe.MaxDraws, false}, {probe.Greedy, -1, false},
		{probe.Logprobs, 1, true}, {probe.Sampled, 1, false}, {probe.Recall, 1, false},
	} {
		p := probe.Plan{
			ID: probe.ID{15: 1}, Offer: offer(1).Offer, Kind: c.kind, Flow: probe.Hidden, PromptTokens: 1, Draw: c.draw,
		}
		if got := p.Check() == nil; got != c.fits {
			t.Errorf("draw %d of a %s probe: got a plan %t, want %t", c.draw, c.kind, got, c.fits)
		}
	}
}

func TestNeedlesStandWhereThePlanSays(t *testing.T) {
	t.Parallel()
	w, recalls := writer(), 0
	for _, p := range probes(t, 21) {
		if p.Kind != probe.Recall {
			continue
		}
		recalls++
		r, codes := read(t, w, p)
		text := r.Messages[len(r.Messages)-1].Content
		place := map[string]int{}
		for _, f := range needle.Find(text) {
			place[f.Code] = (len(text) - f.Offset) / 4
		}
		for i, code := range codes {
			at, there := place[code]
			if !there {
				t.Fatalf("the code %d: got no needle, want one", i)
			}
			if off := math.Abs(float64(at - p.FromEnd[i])); off > 60 {
				t.Errorf("needle %d of %d tokens: got %d from the end, want %d ± 60", i, p.PromptTokens, at, p.FromEnd[i])
			}
		}
		check(t, p, "needles asked for", len(needle.Asked(text)), 16)
		check(t, p, "needles", len(codes), 16)
		within(t, "tokens of a recall", float64(len(text))/4, float64(p.PromptTokens), 60)
		check(t, p, "needles in the first 2%", p.FromEnd[14] >= p.PromptTokens*97/100, true)
	}
	if recalls < 6 {
		t.Errorf("recalls in three weeks: got %d, want at least 6", recalls)
	}
}

func TestABodyIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	for _, p := range probes(t, 3) {
		one, _, err := writer().Body(p)
		if err != nil {
			t.Fatal(err)
		}
		two, _, _ := writer().Body(p)
		if !bytes.Equal(one, two) {
			t.Errorf("the body of %v: got another, want the same", p.ID)
		}
	}
}

// No two probes have the same request. The bank is the demo's, whose sentences everybody can
// read, so that the texts that probes share are reported and not judged.
func TestNoRequestIsLikeAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares 2,000 requests")
	}
	t.Parallel()
	w, seen := writer(), map[string]bool{}
	in := map[[32]byte]int{}
	n := 0
	var texts []string
	for _, p := range probes(t, 60) {
		if p.Kind == probe.Replay || p.Kind == probe.Recall || n == 2_000 {
			continue
		}
		n++
		body, _, err := w.Body(p)
		if err != nil {
			t.Fatal(err)
		}
		if seen[string(body)] {
			t.Errorf("the request of %v: got an earlier one, want another", p.ID)
		}
		seen[string(body)] = true
		r, _ := read(t, w, p)
		text := ""
		for _, m := range r.Messages {
			text += m.Content + "\n"
		}
		texts = append(texts, text)
		windows := map[[32]byte]bool{}
		for i := 0; i+32 <= len(text); i++ {
			windows[[32]byte([]byte(text[i:i+32]))] = true
		}
		for k := range windows {
			in[k]++
		}
	}
	if n < 2_000 {
		t.Fatalf("requests: got %d, want 2000", n)
	}
	common, most := "", 0
	for k, c := range in {
		if c > most {
			common, most = string(k[:]), c
		}
	}
	longest := longestShared(texts[:200])
	t.Logf("of %d requests, %d share %q; the longest text that two of 200 share has %d bytes", n, most, common, longest)
}

// longestShared returns the length of the longest text that two texts share, by bisection
// over hashes of windows.
func longestShared(texts []string) int {
	low, high := 0, 4_096
	for low < high {
		length := (low + high + 1) / 2
		if shares(texts, length) {
			low = length
		} else {
			high = length - 1
		}
	}
	return low
}

func shares(texts []string, length int) bool {
	owner := map[string]int{}
	for i, text := range texts {
		for at := 0; at+length <= len(text); at++ {
			w := text[at : at+length]
			if o, there := owner[w]; there && o != i {
				return true
			}
			owner[w] = i
		}
	}
	return false
}
