package edgegateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// asking is a legacy completion with so many prompts: p0, p1 and so on.
func asking(prompts int, members string) string {
	names := make([]string, prompts)
	for i := range names {
		names[i] = fmt.Sprintf(`"p%d"`, i)
	}
	return `{"model":"tiny",` + members + `"prompt":[` + strings.Join(names, ",") + `]}`
}

// promptIn is the prompt that a dispatch carries.
func promptIn(open *hubv1.DispatchOpen) string {
	var body struct{ Messages []struct{ Content string } }
	if json.Unmarshal(open.GetBody(), &body) != nil || len(body.Messages) != 1 {
		return ""
	}
	return body.Messages[0].Content
}

// echoing answers each prompt with itself.
func echoing(p *played) error {
	prompt := promptIn(p.open)
	if !p.open.GetStream() {
		return answering(strings.Replace(wholeJSON, "Hello", prompt, 1), 9, 3)(p)
	}
	return p.steps(func() error { return p.event(strings.Replace(helloChunk, "Hel", prompt, 1), true, 3) }, p.committed,
		func() error { return p.event(moreChunk, false, 3) },
		func() error { return p.finish(9, 3) })
}

// byPrompt plays a script of its own for one prompt, and echoes the others.
func (h *hub) byPrompt(prompt string, script func(*played) error) {
	h.set(func(p *played) error {
		if promptIn(p.open) == prompt {
			return script(p)
		}
		return echoing(p)
	})
}

// merged is what a client reads of a completion, or of an error beside one.
type merged struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Choices []struct {
		Index int    `json:"index"`
		Text  string `json:"text"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int         `json:"prompt_tokens"`
		Completion int         `json:"completion_tokens"`
		Total      int         `json:"total_tokens"`
		Cost       json.Number `json:"cost"`
	} `json:"usage"`
	Error *struct{ Message, Code string } `json:"error"`
}

func decodeMerged(t testing.TB, body string) merged {
	t.Helper()
	var m merged
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("got %v in %s, want JSON", err, body)
	}
	return m
}

func (m merged) texts() string {
	var out []string
	for _, c := range m.Choices {
		out = append(out, fmt.Sprintf("%d:%s", c.Index, c.Text))
	}
	return strings.Join(out, " ")
}

// reportsOf returns the reports of so many requests, by id.
func (f *fleet) reportsOf(ids []string) map[string]*billingv1.RequestReport {
	f.t.Helper()
	all := map[string]*billingv1.RequestReport{}
	for range ids {
		w := f.report()
		all[w.GetRequestId()] = w
	}
	return all
}

func idsOf(resp *http.Response) []string {
	return strings.Split(resp.Header.Get("X-Svc-Request-Ids"), ",")
}

func TestEachOfSeveralPromptsIsARequestAndTheAnswerIsOne(t *testing.T) {
	f := start(t)
	f.hub.set(echoing)
	const prompts = 6
	resp := f.send(completionsPath, asking(prompts, `"n":2,"usage":{"include":true},`))
	m := decodeMerged(t, read(t, resp))
	if got, want := m.texts(), "0:p0 2:p1 4:p2 6:p3 8:p4 10:p5"; resp.StatusCode != http.StatusOK || got != want {
		t.Errorf("got %d with %s, want 200 with %s", resp.StatusCode, got, want)
	}
	ids := idsOf(resp)
	if m.Object != "text_completion" || m.ID != "cmpl-"+ids[0] || resp.Header.Get("X-Svc-Request-Id") != ids[0] {
		t.Errorf("got a %s named %s, want a text_completion named by %s", m.Object, m.ID, ids[0])
	}
	if u := m.Usage; u == nil || u.Prompt != 9*prompts || u.Completion != 3*prompts || u.Total != 12*prompts ||
		u.Cost != "0.0000189" {
		t.Errorf("got the usage %+v, want the sum of all prompts", u)
	}
	wantHeaders(t, resp.Header, map[string]string{"X-Svc-Cost-Usd": "0.0000189", "X-Svc-Billing-Type": "payg",
		"X-Svc-Provider-Id": providerA})
	accounts := f.reportsOf(ids)
	for i, id := range ids {
		next := ""
		if i+1 < len(ids) {
			next = ids[i+1]
		}
		w := accounts[id]
		if w.GetCommittedAttempt() != 1 || w.GetMetered().GetCompletionTokens() != 3 || w.GetContinuedAs() != next {
			t.Errorf("prompt %d: got the account %v, want one of an answer that leads to %q", i, w, next)
		}
	}
	if got := len(f.billing.admits); got != prompts {
		t.Errorf("got %d holds, want %d", got, prompts)
	}
	noReport(t, f)
}

func TestAStreamOfSeveralPromptsHasOneEnd(t *testing.T) {
	f := start(t)
	f.hub.set(echoing)
	for _, usage := range []bool{false, true} {
		members := `"stream":true,`
		if usage {
			members += `"stream_options":{"include_usage":true},`
		}
		resp := f.send(completionsPath, asking(5, members))
		body, done := strings.CutSuffix(read(t, resp), "data: [DONE]\n\n")
		if !done || strings.Contains(body, "[DONE]") {
			t.Fatalf("got %s, want one end", body)
		}
		said, usages, names := map[int]string{}, 0, map[string]bool{}
		for event := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
			m := decodeMerged(t, strings.TrimPrefix(event, "data: "))
			names[m.ID] = true
			for _, c := range m.Choices {
				said[c.Index] += c.Text
			}
			if m.Usage != nil {
				usages++
				if m.Usage.Total != 60 || len(m.Choices) != 0 {
					t.Errorf("got %s, want the usage of all prompts", event)
				}
			}
			if has := strings.Contains(event, `"usage"`); has != usage {
				t.Errorf("got %s, want a usage: %v", event, usage)
			}
		}
		for i := range 5 {
			if want := fmt.Sprintf("p%dlo", i); said[i] != want {
				t.Errorf("choice %d: got %q, want %q", i, said[i], want)
			}
		}
		if want := map[bool]int{true: 1}[usage]; usages != want || len(names) != 1 || !names["cmpl-"+idsOf(resp)[0]] {
			t.Errorf("got %d usages under the names %v, want %d under one", usages, names, want)
		}
		f.reportsOf(idsOf(resp))
	}
}

// Who cannot pay for all prompts is refused before any is sent anywhere, and what
// was held for the others is given back.
func TestWhoCannotPayForAllPromptsIsServedNone(t *testing.T) {
	for _, refusal := range []error{
		fault.New(fault.Precondition, fault.InsufficientCredits, "the credit is short"),
		fault.New(fault.Exhausted, fault.RateLimitExceeded, "too fast"),
	} {
		f := start(t)
		f.billing.admitOnly(3, refusal)
		resp := f.send(completionsPath, asking(5, ""))
		if body := read(t, resp); resp.StatusCode != http.StatusPaymentRequired &&
			resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("got %d %s, want the refusal", resp.StatusCode, body)
		}
		if got := len(f.hub.opens); got != 0 {
			t.Errorf("got %d prompts sent, want none", got)
		}
		for range 3 {
			if w := f.report(); w.GetCommittedAttempt() != 0 || w.GetOutcome() != billingv1.Outcome_OUTCOME_REFUSED {
				t.Errorf("got the account %v, want one that gives the hold back", w)
			}
		}
	}
}

// A client that is refused costs one admission, however many prompts it sends.
func TestARefusedClientCostsOneAdmission(t *testing.T) {
	f := start(t)
	f.billing.admitOnly(0, fault.New(fault.Precondition, fault.InsufficientCredits, "the credit is short"))
	resp := f.send(completionsPath, asking(16, ""))
	if body := read(t, resp); resp.StatusCode != http.StatusPaymentRequired || len(f.billing.admits) != 1 {
		t.Errorf("got %d after %d admissions, want 402 after one: %s", resp.StatusCode, len(f.billing.admits), body)
	}
	noReport(t, f)
}

// A prompt that is refused by its engine fails the answer. What the others
// answered is billed, and given beside the error; what was not begun is free.
func TestAPromptThatFailsEndsTheAnswerAndLosesNoWork(t *testing.T) {
	f := start(t)
	f.hub.set(func(p *played) error {
		if promptIn(p.open) == "p1" {
			return p.fail(&hubv1.DispatchFailed{Code: "engine_refused", EngineStatus: 400, Message: "a bad prompt"})
		}
		if !comes(func() bool { return len(f.billing.reports) > 0 }) {
			t.Error("p1 has not failed")
		}
		return echoing(p)
	})
	resp := f.send(completionsPath, asking(16, ""))
	body := read(t, resp)
	m := decodeMerged(t, body)
	if resp.StatusCode != http.StatusBadRequest || m.Error == nil ||
		!strings.HasPrefix(m.Error.Message, "prompt[1]: a bad prompt") {
		t.Fatalf("got %d %s, want the engine's refusal of prompt 1", resp.StatusCode, body)
	}
	if resp.Header.Get("X-Should-Retry") != "false" || !strings.HasPrefix(m.texts(), "0:p0 ") {
		t.Errorf("got X-Should-Retry %q and %s, want false and what was answered", resp.Header.Get("X-Should-Retry"),
			m.texts())
	}
	sent, served := len(f.hub.opens), 0
	for i, w := range f.reportsOf(idsOf(resp)) {
		if w.GetCommittedAttempt() != 0 {
			served++
		} else if w.GetRelayedBytes() != 0 || w.GetMetered() != nil {
			t.Errorf("prompt %s: got %v, want a hold that is given back", i, w)
		}
	}
	if served != len(m.Choices) || served != sent-1 || sent != 4 || m.Usage == nil || m.Usage.Total != 12*served {
		t.Errorf("got %d of %d prompts billed, %d given and the usage %+v, want all of the four that were sent but one",
			served, sent, len(m.Choices), m.Usage)
	}
}

// What became of a prompt whose handling panics is for the hub to report: the gateway says nothing of it.
func TestAPromptThatPanicsIsNotReported(t *testing.T) {
	f := start(t)
	var panics atomic.Bool
	panics.Store(true)
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		resp := candidates(providerA)
		if panics.Swap(false) { // p0, because candidates are found for it first
			resp.Candidates[0].DispatchAddress = "panic"
		}
		return resp, nil
	})
	f.hub.set(echoing)
	resp := f.send(completionsPath, asking(2, ""))
	m := decodeMerged(t, read(t, resp))
	if got, want := m.texts(), "1:p1"; resp.StatusCode != http.StatusInternalServerError || got != want {
		t.Errorf("got %d with %s, want 500 with %s", resp.StatusCode, got, want)
	}
	if m.Usage == nil || m.Usage.Total != 12 {
		t.Errorf("got the usage %+v, want that of the prompt that was served", m.Usage)
	}
	if got, want := f.report().GetRequestId(), idsOf(resp)[1]; got != want {
		t.Errorf("got a report of %s, want that of %s, which was served", got, want)
	}
	f.hub.set(wholeAnswer)
	later := f.post(hello)
	if got, want := f.report().GetRequestId(), later.Header.Get("X-Request-Id"); got != want {
		t.Errorf("got a report of %s, want that of %s, which came later", got, want)
	}
}

func TestAStreamOfSeveralPromptsEndsWithTheErrorOfOne(t *testing.T) {
	f := start(t)
	f.hub.byPrompt("p1", failing(upstreamFailed()))
	resp := f.send(completionsPath, asking(3, `"stream":true,`))
	body := read(t, resp)
	events := strings.Split(strings.TrimSpace(body), "\n\n")
	if last := events[len(events)-1]; strings.Contains(body, "[DONE]") ||
		!strings.HasPrefix(last, `data: {"error":{"message":"prompt[1]: `) || strings.Count(body, `"error"`) != 1 {
		t.Errorf("got %s, want the error at its end", body)
	}
	for _, want := range []string{"p0", "p2"} {
		if !strings.Contains(body, `"text":"`+want+`"`) {
			t.Errorf("got %s, want what %s was answered", body, want)
		}
	}
	f.reportsOf(idsOf(resp))
}

// Nobody was served, so the error is the error of a request with one prompt.
func TestWhenNoPromptIsServedNothingIsBilled(t *testing.T) {
	for _, stream := range []string{"", `"stream":true,`} {
		f := start(t)
		f.hub.set(failing(upstreamFailed()))
		resp := f.send(completionsPath, asking(3, stream))
		body := read(t, resp)
		if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("X-Should-Retry") != "" ||
			decodeMerged(t, body).Choices != nil {
			t.Errorf("got %d %q %s, want 502 that may be tried again", resp.StatusCode, resp.Header.Get("X-Should-Retry"), body)
		}
		for _, w := range f.reportsOf(idsOf(resp)) {
			if w.GetCommittedAttempt() != 0 {
				t.Errorf("got the account %v, want nothing billed", w)
			}
		}
	}
}

// An account with fewer places than prompts is served, one after the other.
func TestPromptsWithoutAPlaceWaitForOneOfTheirs(t *testing.T) {
	f := start(t)
	f.hub.set(echoing)
	f.billing.places(1)
	resp := f.send(completionsPath, asking(5, ""))
	m := decodeMerged(t, read(t, resp))
	if got, want := m.texts(), "0:p0 1:p1 2:p2 3:p3 4:p4"; resp.StatusCode != http.StatusOK || got != want {
		t.Errorf("got %d with %s, want 200 with %s", resp.StatusCode, got, want)
	}
}

// A refusal for want of a place may arrive when the prompt that had it has ended,
// and nothing else is under way.
func TestAPromptThatIsRefusedWhileAnotherEndsIsTriedAgain(t *testing.T) {
	f := start(t)
	// The second prompt asks for a place when all do and when it is begun, each time
	// once and after three waits.
	const tries = 8
	last := make(chan struct{})
	var refused atomic.Int32
	f.billing.placesThen(1, func() {
		if refused.Add(1) != tries {
			return
		}
		close(last)
		if !comes(func() bool { return len(f.billing.reports) > 0 }) {
			t.Error("the first prompt has not ended")
		}
	})
	f.hub.byPrompt("p0", func(p *played) error {
		if err := p.held(last); err != nil {
			return err
		}
		return echoing(p)
	})
	resp := f.send(completionsPath, asking(2, ""))
	m := decodeMerged(t, read(t, resp))
	if got, want := m.texts(), "0:p0 1:p1"; resp.StatusCode != http.StatusOK || got != want || refused.Load() < tries {
		t.Errorf("got %d with %s after %d refusals, want 200 with %s after %d", resp.StatusCode, got, refused.Load(), want,
			tries)
	}
}

// Providers with room for one prompt at a time serve all of them.
func TestPromptsWaitForRoomThatOthersOfThemTake(t *testing.T) {
	f := start(t)
	var busy atomic.Bool
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		if !busy.CompareAndSwap(false, true) {
			return nil, fault.New(fault.Unavailable, fault.ProvidersBusy, "busy")
		}
		return candidates(providerA), nil
	})
	f.hub.set(func(p *played) error {
		defer busy.Store(false)
		return echoing(p)
	})
	resp := f.send(completionsPath, asking(6, ""))
	if m := decodeMerged(t, read(t, resp)); resp.StatusCode != http.StatusOK || len(m.Choices) != 6 {
		t.Errorf("got %d with %s, want all six", resp.StatusCode, m.texts())
	}
}

// What stands beside the prompts is sent once for each, so it counts as often.
func TestSeveralPromptsDoNotMultiplyTheBody(t *testing.T) {
	f := start(t)
	resp := f.send(completionsPath, asking(16, `"x":"`+strings.Repeat("y", 1<<20)+`",`))
	if body := read(t, resp); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s, want 413", resp.StatusCode, body)
	}
	if got := len(f.billing.admits); got != 0 {
		t.Errorf("got %d holds, want none", got)
	}
}

// The answers to all prompts are kept at once, so one bound holds for them all.
func TestWholeAnswersToSeveralPromptsHaveOneBound(t *testing.T) {
	f := start(t)
	large := strings.Replace(wholeJSON, "Hello", strings.Repeat("x", 5<<20), 1)
	f.hub.set(answering(large, 9, 3))
	resp := f.send(completionsPath, asking(3, ""))
	if body := read(t, resp); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("got %d with %d bytes, want 502", resp.StatusCode, len(body))
	}
	committed := 0
	for _, w := range f.reportsOf(idsOf(resp)) {
		committed += int(w.GetCommittedAttempt())
	}
	if committed != 2 {
		t.Errorf("got %d answers billed, want the two that fit", committed)
	}
}

// An engine cannot answer another prompt than its own.
func TestAnEngineAnswersItsOwnPromptAlone(t *testing.T) {
	f := start(t)
	f.hub.byPrompt("p0", func(p *played) error {
		return p.steps(func() error { return p.event(strings.Replace(helloChunk, `"index":0`, `"index":1`, 1), true, 3) },
			p.committed,
			func() error { return p.finish(9, 3) })
	})
	body := read(t, f.send(completionsPath, asking(2, `"stream":true,`)))
	for line := range strings.SplitSeq(body, "\n") {
		if strings.Contains(line, `"Hel"`) && !strings.Contains(line, `"index":0`) {
			t.Errorf("got %s, want choice 0", line)
		}
	}
}

func TestTheAnswerToSeveralPromptsIsKept(t *testing.T) {
	f := start(t)
	f.hub.set(echoing)
	first := f.send(completionsPath, asking(3, ""), keyed, "one")
	said := read(t, first)
	f.wantEnd(billingv1.KeyEnd_KEY_END_ANSWERED)
	again := f.send(completionsPath, asking(3, ""), keyed, "one")
	if got := read(t, again); got != said || again.Header.Get("Idempotency-Replayed") != "true" ||
		!slices.Equal(idsOf(again), idsOf(first)) {
		t.Errorf("got %s, want %s again", got, said)
	}
	if got := len(f.billing.admits); got != 3 {
		t.Errorf("got %d holds, want 3", got)
	}
	// What failed is not run again when a part of it is billed.
	f.hub.byPrompt("p1", failing(upstreamFailed()))
	read(t, f.send(completionsPath, asking(3, ""), keyed, "two"))
	f.wantEnd(billingv1.KeyEnd_KEY_END_NOT_KEPT)
}

func TestTheOfficialSDKReadsSeveralPrompts(t *testing.T) {
	f := start(t)
	f.hub.set(echoing)
	client := f.sdk()
	ask := openai.CompletionNewParams{
		Model:  openai.CompletionNewParamsModel(modelID),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"a", "b"}},
	}
	answer, err := client.Completions.New(t.Context(), ask)
	if err != nil || len(answer.Choices) != 2 || answer.Choices[0].Text != "a" || answer.Choices[1].Text != "b" ||
		answer.Choices[1].Index != 1 || answer.Usage.TotalTokens != 24 {
		t.Errorf("got %v %+v, want the answers to a and b", err, answer)
	}
	stream := client.Completions.NewStreaming(t.Context(), ask)
	said := map[int64]string{}
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			said[c.Index] += c.Text
		}
	}
	if stream.Err() != nil || said[0] != "alo" || said[1] != "blo" {
		t.Errorf("got %v %v, want the streams of a and b", stream.Err(), said)
	}
}

// allowance is how much billing admits.
type allowance struct {
	mu      sync.Mutex
	left    int
	refusal error
	open    map[string]bool // requests that have a place; nil when places never end
	refused func()          // is run before a refusal is said, if it is there
}

func (a *allowance) take(request string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[request] {
		return nil
	}
	if a.left == 0 {
		return a.refusal
	}
	a.left--
	if a.open != nil {
		a.open[request] = true
	}
	return nil
}

func (a *allowance) end(request string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[request] {
		delete(a.open, request)
		a.left++
	}
}

// admitOnly admits n requests and refuses the others.
func (b *billing) admitOnly(n int, refusal error) {
	b.allow.Store(&allowance{left: n, refusal: refusal})
}

// places admits n requests at a time.
func (b *billing) places(n int) {
	b.placesThen(n, nil)
}

// placesThen admits n requests at a time, and runs refused before each refusal.
func (b *billing) placesThen(n int, refused func()) {
	b.allow.Store(&allowance{left: n, open: map[string]bool{}, refused: refused,
		refusal: fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded, "too many at once")})
}

// The requests of prompts are named whether their key has a rate or not, and when
// none of them is admitted.
func TestTheRequestsOfPromptsAreNamedInAnyCase(t *testing.T) {
	for name, prepare := range map[string]func(*fleet){
		"a key without a rate": func(f *fleet) { f.billing.noRate = true },
		"a key that is refused": func(f *fleet) {
			f.billing.err = fault.New(fault.Precondition, fault.InsufficientCredits, "no credit")
		},
		"nobody is online": func(f *fleet) {
			f.router.refuse(fault.New(fault.Unavailable, fault.NoProviderOnline, "none"))
		},
	} {
		f := start(t)
		f.hub.set(echoing)
		prepare(f)
		resp := f.send(completionsPath, asking(2, ""))
		read(t, resp)
		ids := idsOf(resp)
		if len(ids) != 2 || ids[0] != resp.Header.Get("X-Svc-Request-Id") {
			t.Errorf("%s: got the requests %q, want two, of which the first is %q",
				name, ids, resp.Header.Get("X-Svc-Request-Id"))
		}
	}
}
