package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"svc.internal/services/provider-hub/internal/meter"
)

func chatOrder(stream bool, bound, choices int64) *Order {
	o := orderOf(meter.Chat, stream, false)
	o.MaxOutput, o.Choices, o.EstimatedPrompt, o.HeldPrompt = bound, choices, 10, 40
	return o
}

func deltas(choice int, words ...string) string {
	var b strings.Builder
	for _, w := range words {
		fmt.Fprintf(&b, "data: {\"id\":\"x\",\"choices\":[{\"index\":%d,\"delta\":{\"content\":%q}}]}\n\n", choice, w)
	}
	return b.String()
}

func wordsOf(n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = " word"
	}
	return words
}

const streamEnd = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

func TestAStreamIsCutWithinOneEventOfItsMark(t *testing.T) {
	const bound = 100
	answer := deltas(0, wordsOf(3000)...) + streamEnd
	heard, usage := answered(t, Config{}, chatOrder(true, bound, 1), []byte(answer), len(answer)/2, true)
	if !heard.finished {
		t.Fatal("heard.finished: got false, want true")
	}
	if usage == nil {
		t.Fatal("usage: got nil, want a value")
	}
	if got, want := len(heard.events), int(meter.Mark(1, bound))+1; got != want {
		t.Errorf("%d events were relayed, want the %d of the mark and the end", got-1, want-1)
	}
	var last struct {
		Model   string
		Choices []struct {
			Index  int
			Finish string `json:"finish_reason"`
		}
	}
	switch err := json.Unmarshal(heard.events[len(heard.events)-1].JSON, &last); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(last.Choices) != 1:
		t.Errorf("len(last.Choices): got %d, want 1, with %s", len(last.Choices), heard.events[len(heard.events)-1].JSON)
	case last.Choices[0].Finish != "length":
		t.Errorf(`last.Choices[0].Finish: got %q, want "length", with %s`, last.Choices[0].Finish,
			heard.events[len(heard.events)-1].JSON)
	case last.Model != "acme/m":
		t.Errorf(`last.Model: got %q, want "acme/m", with %s`, last.Model, heard.events[len(heard.events)-1].JSON)
	}
	if want := (meter.Bill{Prompt: 10, Completion: bound, Claim: meter.Absent}); usage.Bill != want {
		t.Errorf("billed: got %+v, want %+v", usage.Bill, want)
	}
}

func TestACutFinishesTheChoicesThatAreOpen(t *testing.T) {
	answer := deltas(0, wordsOf(5)...) +
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" + deltas(1, wordsOf(200)...) +
		"data: [DONE]\n\n"
	heard, usage := answered(t, Config{}, chatOrder(true, 10, 3), []byte(answer), 1, true)
	last := string(heard.events[len(heard.events)-1].JSON)
	switch {
	case strings.Contains(last, `"index":0`):
		t.Errorf("the last event: got %q, want it without %q", last, `"index":0`)
	case !strings.Contains(last, `"index":1`):
		t.Errorf("the last event: got %q, want %q in it", last, `"index":1`)
	case !strings.Contains(last, `"index":2`):
		t.Errorf("the last event: got %q, want %q in it", last, `"index":2`)
	}
	if usage.Bill.Completion != 30 {
		t.Errorf("billed: got %d tokens, want the order of 30", usage.Bill.Completion)
	}
}

func TestAWholeAnswerBeyondItsMarkIsRefusedAndFree(t *testing.T) {
	whole := func(words int) []byte {
		return []byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ", words) +
			`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`)
	}
	body := whole(3000)
	heard, usage := answered(t, Config{}, chatOrder(false, 100, 1), body, 10, true)
	switch {
	case heard.failed == nil:
		t.Error("failed: got nil, want a value")
	case !heard.failed.Retryable:
		t.Error("heard.failed.Retryable: got false, want true")
	case usage != nil:
		t.Errorf("usage: got %+v, want nil", usage)
	case len(heard.events) != 0:
		t.Errorf("len(heard.events): got %d, want 0", len(heard.events))
	}
	body = whole(110)
	if heard, usage = answered(t, Config{}, chatOrder(false, 100, 1), body, 10, true); !heard.finished {
		t.Error("heard.finished: got false, want true")
	} else if usage.Bill.Completion != 1 {
		t.Errorf("usage.Bill.Completion: got %d, want 1", usage.Bill.Completion)
	}
}

func TestHonestAnswersOfEveryKindOfTextAreNotCut(t *testing.T) {
	// Each text with how many tokens the vocabulary with the fewest makes of it.
	for name, c := range map[string]struct {
		text  string
		bound int64
	}{
		"long common words":  {strings.Repeat(" responsibility", 100), 100},
		"a row of signs":     {strings.Repeat("=", 6400), 100},
		"a loop of laughter": {strings.Repeat("hahahaha", 100), 100},
		"blank lines":        {strings.Repeat("\n", 3000), 20},
		"a drawn line":       {strings.Repeat("─", 1600), 100},
		"Chinese":            {strings.Repeat("中华人民共和国", 50), 100},
		"Thai":               {strings.Repeat("สวัสดีครับ", 40), 112},
	} {
		answer := deltas(0, c.text) + streamEnd
		heard, usage := answered(t, Config{}, chatOrder(true, c.bound, 1), []byte(answer), len(answer)/2, true)
		switch {
		case !heard.finished:
			t.Errorf("%s: finished: heard.finished: got false, want true", name)
		case usage == nil:
			t.Errorf("%s: usage: got nil, want a value", name)
		case !bytes.Contains(heard.events[len(heard.events)-1].JSON, []byte(`"stop"`)):
			t.Errorf("%s: heard.events[len(heard.events)-1].JSON: got %q, want %q in it", name,
				heard.events[len(heard.events)-1].JSON, []byte(`"stop"`))
		}
	}
}

func TestWhatAVendorKeepsApartIsNotFree(t *testing.T) {
	for name, member := range map[string]string{
		"blocks of thought": `"content":"","thinking_blocks":[{"type":"thinking","thinking":"a long thought of many words"}]`,
		"details":           `"content":null,"reasoning_details":[{"text":"a long thought of many words"}]`,
	} {
		body := []byte(`{"choices":[{"index":0,"message":{"role":"assistant",` + member + `},"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}`)
		_, usage := answered(t, Config{}, chatOrder(false, 100, 1), body, 10, true)
		if want := (meter.Bill{Prompt: 9, Completion: 7, Claim: meter.Valid}); usage == nil || usage.Bill != want {
			t.Errorf("%s: got %+v, want %+v", name, usage, want)
		}
	}
	logprobs := []byte(
		`{"choices":[{"index":0,"message":{"role":"assistant","content":""},` +
			`"logprobs":{"content":[{"token":"a"},{"token":"b"}]},` +
			`"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`)
	if _, usage := answered(t, Config{}, chatOrder(false, 100, 1), logprobs, 10, true); usage == nil ||
		usage.Bill.Prompt != 9 || usage.Bill.Completion != 2 {
		t.Errorf("logprobs alone: got %+v, want 9 and 2 tokens", usage)
	}
}

func TestAPictureAloneIsAnAnswer(t *testing.T) {
	const picture = `"content":"","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]`
	const usage = `,"usage":{"prompt_tokens":9,"completion_tokens":20,"total_tokens":29}`
	for name, c := range map[string]struct {
		body   string
		stream bool
		want   meter.Bill
	}{
		"whole": {`{"choices":[{"index":0,"message":{` + picture + `},"finish_reason":"stop"}]` + usage + `}`, false,
			meter.Bill{Prompt: 9, Completion: 8, Claim: meter.Valid}},
		"without usage": {`{"choices":[{"index":0,"message":{` + picture + `},"finish_reason":"stop"}]}`, false,
			meter.Bill{Prompt: 10, Completion: 1, Claim: meter.Absent}},
		"streamed": {`data: {"choices":[{"index":0,"delta":{` + picture + `}}]}` + "\n\n" + streamEnd, true,
			meter.Bill{Prompt: 10, Completion: 1, Claim: meter.Absent}},
	} {
		heard, usage := answered(t, Config{}, chatOrder(c.stream, 100, 1), []byte(c.body), 10, true)
		switch {
		case !heard.finished:
			t.Errorf("%s: finished: heard.finished: got false, want true", name)
		case usage == nil:
			t.Errorf("%s: usage: got nil, want a value", name)
		case usage.Bill != c.want:
			t.Errorf("%s: usage.Bill: got %+v, want %+v", name, usage.Bill, c.want)
		}
	}
}

func TestAPictureIsATokenHoweverMuchWasClaimedBefore(t *testing.T) {
	d := New(Config{}, Env{}, nil, nil, nil, nil)
	o := chatOrder(false, 100, 1)
	for i := range 2000 {
		d.claims.Bill(o.Provider, o.Model, 100, int64(i/1000*200)) // modest first, which later claims live on
	}
	a := &attempt{dispatcher: d, order: o, answer: newAnswer(o, ""), relayedBytes: 1000}
	if bill := a.bill(a.served(meter.Completed, meter.Claim{State: meter.Valid, Prompt: 10,
		Completion: 90})); bill.Completion != 1 {
		t.Errorf("got %+v, want a token", bill)
	}
}

func TestWhatNobodyLooksForIsNotBilledBesideAnAnswer(t *testing.T) {
	junk := strings.Repeat("word ", 600)
	body := []byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello","acme":"` + junk +
		`"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":9,"completion_tokens":700,"total_tokens":709}}`)
	_, usage := answered(t, Config{}, chatOrder(false, 1000, 1), body, 10, true)
	if want := (meter.Bill{Prompt: 9, Completion: 10, Claim: meter.Valid}); usage == nil || usage.Bill != want {
		t.Errorf("got %+v, want %+v", usage, want)
	}
}

func TestIdsOfTokensDoNotMakeAnAnswerTooLong(t *testing.T) {
	ids := strings.TrimSuffix(strings.Repeat("151644,", 100), ",")
	body := []byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ", 100) +
		`"},"token_ids":[` + ids + `],` +
		`"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":100,"total_tokens":109}}`)
	heard, usage := answered(t, Config{}, chatOrder(false, 100, 1), body, 10, true)
	switch want := (meter.Bill{Prompt: 9, Completion: 100, Claim: meter.Valid}); {
	case !heard.finished:
		t.Error("heard.finished: got false, want true")
	case usage == nil:
		t.Error("usage: got nil, want a value")
	case usage.Bill != want:
		t.Errorf("usage.Bill: got %+v, want %+v", usage.Bill, want)
	}
}

func TestAnAnswerThatItsOwnStopEndsAtOnceCostsItsPrompt(t *testing.T) {
	body := []byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`)
	for _, asked := range []bool{true, false} {
		o := chatOrder(false, 100, 1)
		o.StopAsked = asked
		_, usage := answered(t, Config{}, o, body, 10, true)
		want := meter.Bill{Claim: meter.Valid}
		if asked {
			want = meter.Bill{Prompt: 9, Completion: 1, Claim: meter.Valid}
		}
		if usage == nil || usage.Bill != want {
			t.Errorf("stop asked %v: got %+v, want %+v", asked, usage, want)
		}
	}
}

func TestInflatedPromptsGainNoMoreThanTheirEstimateAccountsFor(t *testing.T) {
	d := New(Config{}, Env{}, nil, nil, nil, nil)
	o := chatOrder(true, 100, 1)
	o.EstimatedPrompt, o.HeldPrompt = 1000, 2750
	a := &attempt{dispatcher: d, order: o, relayedTokens: 1, relayedBytes: 4}
	billed := int64(0)
	for range 1000 {
		s := a.served(meter.WallLimit, meter.Claim{State: meter.Valid, Prompt: 2750, Completion: 1})
		billed += a.bill(s).Prompt
	}
	if most := int64(1000 * (1000 + 250 + 24) * 11 / 10); billed > most+8*1000 {
		t.Errorf("billed: got %d tokens of prompts of 1,000,000, want at most %d", billed, most+8*1000)
	}
	for range 1000 {
		s := a.served(meter.ClientGone, meter.Claim{State: meter.Valid, Prompt: 1200, Completion: 1})
		prompts := New(Config{}, Env{}, nil, nil, nil, nil).prompts
		if got := prompts.Bill(o.Provider, o.Model, s.PlausiblePrompt(), 1200); got != 1200 {
			t.Fatalf("an honest prompt was billed: got %d, want 1200", got)
		}
	}
}

// Of a picture by its address only the hold is certain. What a provider does not claim
// of it is no room for claims of text, and what it claims is seen.
func TestMediaHaveAnAccountOfTheirOwn(t *testing.T) {
	const estimate, held, text, prompts = 1000, 17_000, 1274, 1000
	of := func(d *Dispatcher, heldPrompt, claimed int64) int64 {
		o := chatOrder(true, 100, 1)
		o.EstimatedPrompt, o.HeldPrompt = estimate, heldPrompt
		a := &attempt{dispatcher: d, order: o, relayedTokens: 1, relayedBytes: 4}
		return a.bill(a.served(meter.WallLimit, meter.Claim{State: meter.Valid, Prompt: claimed, Completion: 1})).Prompt
	}
	d := New(Config{}, Env{}, nil, nil, nil, nil)
	billed := int64(0)
	for range prompts {
		if got := of(d, held, estimate); got != estimate {
			t.Fatalf("an honest picture was billed: got %d, want %d", got, estimate)
		}
		billed += of(d, 2750, 2750)
	}
	if most := int64(prompts*text*11/10 + 8*prompts); billed > most {
		t.Errorf("billed: got %d tokens of prompts of text beside pictures, want at most %d", billed, most)
	}
	for range prompts {
		of(d, held, held)
	}
	inText, inMedia := d.HighestPrompts(5)
	if len(inText) != 1 || inText[0].Ratio != 2.75 || len(inMedia) != 1 || inMedia[0].Ratio != float64(held)/estimate {
		t.Errorf("got the ratios %+v of text and %+v of media, want 2.75 and %d of one provider", inText,
			inMedia, held/estimate)
	}
}

func TestALateErrorThatBlamesTheContentCostsThePrompt(t *testing.T) {
	for code, prompt := range map[string]int64{"400": 10, "500": 0} {
		answer := deltas(0, wordsOf(60)...) + "data: {\"error\":{\"message\":\"no\",\"code\":" + code + "}}\n\n"
		heard, usage := answered(t, Config{}, chatOrder(true, 100, 1), []byte(answer), 10, true)
		switch {
		case heard.failed == nil:
			t.Errorf("an error of %s: failed: got nil, want a value", code)
		case usage == nil:
			t.Errorf("an error of %s: usage: got nil, want a value", code)
		case usage.Bill.Prompt != prompt:
			t.Errorf("an error of %s: usage.Bill.Prompt: got %d, want %d", code, usage.Bill.Prompt, prompt)
		case usage.Bill.Completion != 60:
			t.Errorf("an error of %s: usage.Bill.Completion: got %d, want 60", code, usage.Bill.Completion)
		}
	}
}
