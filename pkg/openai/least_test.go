package openai

import (
	"strings"
	"testing"
)

func countsOf(text string) counts {
	var c Counter
	c.Write([]byte(text))
	return c.counts()
}

func TestTheLeastIsBelowWhatVocabulariesMakeOfOddText(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want int // that Least may be: tokens of the vocabulary with the longest ones
	}{
		"one long word":             {"internationalization", 2},
		"rows of signs":             {strings.Repeat("=", 256), 3},
		"rows of lines":             {strings.Repeat("\n", 1000), 0},
		"spaces":                    {strings.Repeat(" ", 1000), 0},
		"a drawn box":               {strings.Repeat("─", 64), 8},
		"a loop of one letter":      {strings.Repeat("a", 160), 10},
		"common words":              {"the responsibility of the government ", 5},
		"words between signs":       {"foo.bar", 2},
		"a number":                  {"1234567890", 3},
		"Chinese of one long token": {"中华人民共和国", 2},
	} {
		if got := countsOf(c.text).least; got > c.want {
			t.Errorf("%s: got at least %d tokens, want at most %d", name, got, c.want)
		}
	}
}

func TestTheLeastOfProseIsNotFarBelowTheEstimate(t *testing.T) {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, and it was glad of the exercise. ", 40)
	all := countsOf(prose)
	if all.least*10 < all.tokens*7 {
		t.Errorf("got at least %d of %d tokens, want at least 70%%: a stream is cut too late", all.least, all.tokens)
	}
}

func TestThePlausibleCountsTextOfWhichTheEstimateFallsShort(t *testing.T) {
	// Tokens are the count of cl100k where the estimate is measured against it.
	for name, c := range map[string]struct {
		text  string
		ratio float64 // the count to the estimate
	}{
		"base64":         {strings.Repeat("dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcw8fQz3K", 20), 1 / 0.79},
		"hexadecimal":    {strings.Repeat("9f86d081884c7d659a2feaa0c55ad015", 20), 1},
		"random letters": {strings.Repeat("qzxjkvbwpfgyhmucldrtsnoaei", 30), 1 / 0.43},
		"Greek":          {strings.Repeat("Η ταχεία αλεπού πηδάει πάνω από τον σκύλο ", 20), 1 / 0.70},
		"Thai":           {strings.Repeat("สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ", 20), 1 / 0.77},
	} {
		all := countsOf(c.text)
		if want := c.ratio * float64(all.tokens); float64(all.plausible) < want {
			t.Errorf("%s: got at most %d tokens, want at least %.0f", name, all.plausible, want)
		}
	}
	prose := strings.Repeat("An honest answer of plain words gives no room to claim more than it holds. ", 40)
	if all := countsOf(prose); all.plausible != all.tokens {
		t.Errorf("prose: got at most %d tokens, want the estimate of %d", all.plausible, all.tokens)
	}
}

func TestTextInMembersThatNobodyKnowsIsDelivered(t *testing.T) {
	const text = "a thought of several words that a vendor keeps in a member of its own"
	want := EstimateTokens([]byte(text))
	for name, doc := range map[string]string{
		"in the delta": `{"choices":[{"index":0,"delta":{"thinking":"` + text + `"}}]}`,
		"in blocks": `{"choices":[{"index":0,"delta":{"content":"","thinking_blocks":[{"type":"thinking","thinking":"` +
			text + `","signature":"xyz"}]}}]}`,
		"in the choice": `{"choices":[{"thoughts":{"deep":[["` + text + `"]]},"index":0,"delta":{}}]}`,
		"beside the same text": `{"choices":[{"index":0,"delta":{"reasoning":"` + text +
			`","reasoning_details":[{"type":"text","text":"` + text + `"}]}}]}`,
	} {
		c := mustScan(t, doc)
		if c.Tokens != want || !c.HasContent || c.ContentBytes < int64(len(text)) {
			t.Errorf("%s: got %d tokens in %d bytes, content %v, want %d", name, c.Tokens, c.ContentBytes, c.HasContent, want)
		}
		var tally Tally
		for range 3 {
			if _, err := tally.Scan([]byte(doc)); err != nil {
				t.Fatal(err)
			}
		}
		if tally.Tokens < 3*want-3 || tally.Tokens > 3*want+3 {
			t.Errorf("%s: got %d tokens of three chunks, want about %d", name, tally.Tokens, 3*want)
		}
	}
	for name, doc := range map[string]string{
		"marks": `{"choices":[{"index":0,"stop_reason":"</s>","content_filter_results":{"hate":{"severity":"safe"}},` +
			`"delta":{"role":"assistant","content":""}}]}`,
		"numbers": `{"choices":[{"index":0,"seed":17,"token_id":5,"done":true,"delta":{}}]}`,
		"no sound": `{"choices":[{"index":0,"delta":{"images":[{"image_url":{"url":""}}],` +
			`"content":[{"type":"image","data":""}]}}]}`,
	} {
		if c := mustScan(t, doc); c.HasContent || c.ContentBytes != 0 || c.Tokens != 0 {
			t.Errorf("%s: got %d tokens in %d bytes, content %v, want nothing", name, c.Tokens, c.ContentBytes, c.HasContent)
		}
	}
}

func TestPicturesAndSoundAreDeliveredWithoutTokens(t *testing.T) {
	base64 := strings.Repeat("iVBORw0K", 1000)
	for name, delta := range map[string]string{
		"a picture":           `"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64 + `"}}]`,
		"a picture in base64": `"images":[{"b64_json":"` + base64 + `"}]`,
		"a picture in a part": `"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64 + `"}}]`,
		"sound":               `"audio":{"id":"a","data":"` + base64 + `"}`,
		"sound in a part":     `"content":[{"type":"output_audio","output_audio":{"data":"` + base64 + `","format":"wav"}}]`,
		"thoughts in secret":  `"reasoning_details":[{"type":"reasoning.encrypted","data":"` + base64 + `"}]`,
	} {
		c := mustScan(t, `{"choices":[{"index":0,"delta":{`+delta+`}}]}`)
		if !c.HasContent || c.ContentBytes < int64(len(base64)) || c.Tokens != 0 || c.Least != 0 || c.Plausible != 0 {
			t.Errorf("%s: got %d tokens (%d, %d) in %d bytes, content %v, want all bytes and no token",
				name, c.Tokens, c.Least, c.Plausible, c.ContentBytes, c.HasContent)
		}
	}
}

func TestNumbersAreDeliveredAndNoText(t *testing.T) {
	ids := "[" + strings.Repeat("151644,", 99) + "7]"
	for name, c := range map[string]struct {
		doc           string
		tokens, least int
	}{
		"beside text":     {`{"choices":[{"index":0,"delta":{"content":"hello"},"token_ids":` + ids + `}]}`, 1, 1},
		"instead of text": {`{"choices":[{"index":0,"delta":{"content":""},"token_ids":` + ids + `}]}`, 100, 0},
		"in arrays of arrays": {`{"choices":[{"index":0,"delta":{"content":"hello"},"hidden_states":[[[0.5,-1e-3]],` + ids +
			`]}]}`, 1, 1},
		"beside all logprobs": {`{"choices":[{"index":0,"delta":{},"logprobs":{"content":[{},{},{}]},"token_ids":[1,2,3]}]}`,
			3, 3},
		"in a vendor's member": {`{"choices":[{"index":0,"delta":{"routed_experts":[` + ids + `]}}]}`, 100, 0},
	} {
		got := mustScan(t, c.doc)
		if got.Tokens != c.tokens || got.Least != c.least || !got.HasContent || got.ContentBytes < 5 {
			t.Errorf("%s: got %d tokens, at least %d, in %d bytes, content %v, want %d and %d",
				name, got.Tokens, got.Least, got.ContentBytes, got.HasContent, c.tokens, c.least)
		}
	}
}

func TestTextThatNobodyLooksForIsNoneOfABillBesideOneThatIsShown(t *testing.T) {
	const vendor = `{"choices":[{"index":0,"delta":{"acme":"%s"}}]}`
	junk := strings.Repeat("word ", 600)
	hidden, shown := strings.Replace(vendor, "%s", junk, 1), `{"choices":[{"index":0,"delta":{"content":"Hello"}}]}`
	both := `{"choices":[{"index":0,"delta":{"content":"Hello","acme":"` + junk + `"}}]}`
	other := `{"choices":[{"index":1,"delta":{"acme":"` + junk + `"}}]}`
	for name, c := range map[string]struct {
		docs          []string
		tokens, least int
	}{
		"in one chunk":       {[]string{both}, 1, 300},
		"behind it":          {[]string{shown, hidden}, 1, 300},
		"before it":          {[]string{hidden, shown}, 1, 300},
		"alone":              {[]string{hidden}, 600, 300},
		"alone in its own":   {[]string{shown, other}, 601, 300},
		"its index comes in": {[]string{hidden, `{"choices":[{"delta":{"content":"Hello"},"index":0}]}`}, 1, 300},
	} {
		var tally Tally
		for _, doc := range c.docs {
			if _, err := tally.Scan([]byte(doc)); err != nil {
				t.Fatal(err)
			}
		}
		if tally.Tokens != c.tokens || tally.Plausible < c.tokens || tally.Plausible > c.tokens+1 || tally.Least < c.least ||
			tally.ContentBytes < int64(len(junk)) {
			t.Errorf("%s: got %d tokens (%d, %d) in %d bytes, want %d and at least %d", name, tally.Tokens, tally.Least,
				tally.Plausible, tally.ContentBytes, c.tokens, c.least)
		}
	}
}

func TestLogprobsWithoutTextAreDelivered(t *testing.T) {
	entry := `{"token":"","logprob":-0.1,"bytes":[72],"top_logprobs":[]}`
	lists := `[` + strings.Repeat(entry+",", 9) + entry + `]`
	for name, c := range map[string]struct {
		doc  string
		want int
	}{
		"chat": {`{"choices":[{"index":0,"delta":{"content":""},"logprobs":{"content":` + lists +
			`,"refusal":null}}]}`, 10},
		"legacy": {
			`{"choices":[{"index":0,"text":"","logprobs":{"tokens":["a","b","c"],"token_logprobs":[-1,-1,-1]}}]}`, 3},
		"beside a text": {`{"choices":[{"index":0,"delta":{"content":"hello"},"logprobs":{"content":` + lists + `}}]}`, 1},
	} {
		got := mustScan(t, c.doc)
		if got.Tokens != c.want || !got.HasContent || got.ContentBytes < int64(c.want) {
			t.Errorf("%s: got %d tokens in %d bytes, content %v, want %d", name, got.Tokens, got.ContentBytes, got.HasContent,
				c.want)
		}
	}
}

func FuzzTheBoundsOfAText(f *testing.F) {
	for _, s := range []string{"hello world", "ΑΒΓ abc", "aGVsbG8gd29ybGQ=", "\\u4e2d\\n  x", "────", "a.b.c", "🎉🎉"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		whole := countsOf(text)
		if whole.least > whole.tokens {
			t.Fatalf("whole.least: got %d, want at most %d, with %q", whole.least, whole.tokens, text)
		}
		if whole.tokens > whole.plausible {
			t.Fatalf("whole.tokens: got %d, want at most %d, with %q", whole.tokens, whole.plausible, text)
		}
		if len(text) == 0 {
			return
		}
		cut = max(0, cut) % len(text)
		var c Counter
		c.Write([]byte(text[:cut]))
		c.Write([]byte(text[cut:]))
		if got := c.counts(); got != whole {
			t.Fatalf("%q cut at %d: got %v, want %v", text, cut, got, whole)
		}
	})
}
