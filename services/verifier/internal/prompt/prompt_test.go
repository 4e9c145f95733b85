package prompt_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/prompt"
)

var secret = prompt.Secret{1, 2, 3}

func writer() *prompt.Writer { return prompt.NewWriter(secret, prompt.Demo()) }

// number returns the n-th of many ids.
func number(n int) (id prompt.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func write(t *testing.T, w *prompt.Writer, id prompt.ID, tokens int) []prompt.Message {
	t.Helper()
	messages, err := w.Write(id, 0, tokens)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func whole(messages []prompt.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Role + ": " + m.Content + "\n")
	}
	return b.String()
}

func TestAPromptFollowsFromSecretAndID(t *testing.T) {
	t.Parallel()
	first := whole(write(t, writer(), number(7), 200))
	if again := whole(write(t, writer(), number(7), 200)); again != first {
		t.Errorf("the same id: got %q, want %q", again, first)
	}
	others := prompt.NewWriter(prompt.Secret{9}, prompt.Demo())
	if other := whole(write(t, others, number(7), 200)); other == first {
		t.Error("another secret wrote the same prompt")
	}
}

func TestNoTwoProbesHaveTheSamePrompt(t *testing.T) {
	t.Parallel()
	w, seen := writer(), map[string]int{}
	for n := range 20_000 {
		text := whole(write(t, w, number(n), 60))
		if before, known := seen[text]; known {
			t.Fatalf("probes %d and %d have the same prompt: %q", before, n, text)
		}
		seen[text] = n
	}
}

func TestPromptsHaveAboutTheLengthThatIsAskedFor(t *testing.T) {
	t.Parallel()
	w := writer()
	for _, tokens := range []int{100, 300, 1_000, 5_000, 100_000} {
		for n := range 20 {
			got := len(whole(write(t, w, number(n), tokens))) / 4
			if got < tokens*7/10 || got > tokens*13/10+250 {
				t.Errorf("%d tokens: got about %d", tokens, got)
			}
		}
	}
	for _, tokens := range []int{0, -1, prompt.MaxTokens + 1} {
		if _, err := w.Write(number(1), 0, tokens); !errors.Is(err, prompt.ErrLength) {
			t.Errorf("%d tokens: got the error %v, want %v", tokens, err, prompt.ErrLength)
		}
	}
}

func TestDrawsOfAProbeAreOtherPromptsOfTheSameLength(t *testing.T) {
	t.Parallel()
	w, seen := writer(), map[string]int{}
	for draw := range 4 {
		messages, err := w.Write(number(3), draw, 1_000)
		if err != nil {
			t.Fatal(err)
		}
		text := whole(messages)
		if before, there := seen[text]; there {
			t.Errorf("draw %d: got the prompt of draw %d, want another", draw, before)
		}
		seen[text] = draw
		if got := len(text) / 4; got < 700 || got > 1_550 {
			t.Errorf("draw %d: got about %d tokens, want about 1000", draw, got)
		}
	}
}

func TestEachDrawOfAProbeHasItsCanary(t *testing.T) {
	t.Parallel()
	w, n := writer(), 0
	for w.Canary(number(n)) == nil {
		n++
	}
	for draw := range 4 {
		messages, err := w.Write(number(n), draw, 300)
		if err != nil {
			t.Fatal(err)
		}
		if !prompt.Names(whole(messages), w.Canary(number(n))) {
			t.Errorf("draw %d: got a prompt without the canary of its probe", draw)
		}
	}
}

func TestPromptsAreWholeAndOfManyForms(t *testing.T) {
	t.Parallel()
	w, forms := writer(), map[string]int{}
	for n := range 2_000 {
		messages := write(t, w, number(n), 400)
		form := ""
		for _, m := range messages {
			form += m.Role[:1]
			if strings.ContainsAny(m.Content, "{}") {
				t.Fatalf("a slot is not filled: %q", m.Content)
			}
		}
		if last := messages[len(messages)-1].Role; last != "user" {
			t.Fatalf("the last message: got the role %q, want user", last)
		}
		forms[form]++
	}
	if len(forms) < 8 {
		t.Errorf("got the forms %v, want at least 8", forms)
	}
}

func TestACanaryNamesItsProbeAndNoOther(t *testing.T) {
	t.Parallel()
	w, marked := writer(), map[int][]string{}
	const probes = 10_000
	for n := range probes {
		if words := w.Canary(number(n)); words != nil {
			marked[n] = words
		}
	}
	if got := len(marked); got < probes/50*7/10 || got > probes/50*13/10 {
		t.Errorf("canaries: got %d of %d, want about one in 50", got, probes)
	}
	for n, words := range marked {
		text := whole(write(t, w, number(n), 50))
		// A text that was passed on: some words lost, others put between.
		lost := strings.ReplaceAll(strings.ReplaceAll(text, words[3]+",", "and"), words[9], "…")
		for other, theirs := range marked {
			if got := prompt.Names(lost, theirs); got != (other == n) {
				t.Fatalf("the text of probe %d, the canary of %d: got %v, want %v", n, other, got, other == n)
			}
		}
	}
	if prompt.Names(strings.Repeat("anchor ", 100), nil) {
		t.Error("a probe without a canary was named")
	}
}

// A long text has every word somewhere.
func TestLongTextsNameNoCanaryByChance(t *testing.T) {
	t.Parallel()
	w := writer()
	long := whole(write(t, w, number(1_000_000), 50_000)) + strings.Join(prompt.Demo().Words, " ")
	for n := range 5_000 {
		if words := w.Canary(number(n)); prompt.Names(long, words) {
			t.Errorf("probe %d with the canary %v is named by a text that is not its own", n, words)
		}
	}
	// In order and close together, but for one word too few.
	words := prompt.Demo().Words[:prompt.CanaryWords]
	if prompt.Names(strings.Join(words[:7], " and "), words) {
		t.Error("seven words named a canary of twelve")
	}
	if spread := strings.Join(words, strings.Repeat(" or", 6)+" "); prompt.Names(spread, words) {
		t.Error("words far apart named a canary")
	}
}

func TestABodySaysWhatIsAsked(t *testing.T) {
	t.Parallel()
	zero, one, seed := 0.0, 1.0, int64(5)
	messages := []prompt.Message{{Role: "user", Content: "a < b & \"c\"\n"}}
	w, layouts := writer(), map[string]bool{}
	for n := range 200 {
		body, err := w.Body(number(n), messages, prompt.Parameters{
			Model: "acme/large", MaxTokens: 64, Temperature: &zero, TopP: &one, Seed: &seed, TopLogprobs: 5, Stream: true,
			IncludeUsage: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Model         string
			MaxTokens     int `json:"max_tokens"`
			Temperature   *float64
			TopP          *float64 `json:"top_p"`
			Seed          int64
			Logprobs      bool
			TopLogprobs   int `json:"top_logprobs"`
			Stream        bool
			StreamOptions map[string]bool `json:"stream_options"`
			Messages      []prompt.Message
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		for what, ok := range map[string]bool{
			"model": got.Model == "acme/large", "max_tokens": got.MaxTokens == 64,
			"temperature": got.Temperature != nil && *got.Temperature == 0, "top_p": got.TopP != nil && *got.TopP == 1,
			"seed": got.Seed == 5, "logprobs": got.Logprobs, "top_logprobs": got.TopLogprobs == 5, "stream": got.Stream,
			"usage": got.StreamOptions["include_usage"], "messages": slices.Equal(got.Messages, messages),
		} {
			if !ok {
				t.Errorf("%s is not as asked in %s", what, body)
			}
		}
		layouts[string(body)] = true
	}
	if len(layouts) != 8 {
		t.Errorf("layouts: got %d, want 8", len(layouts))
	}
	plain, err := w.Body(number(1), messages, prompt.Parameters{Model: "m", MaxTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"temperature", "top_p", "seed", "logprobs", "stream"} {
		if strings.Contains(string(plain), name) {
			t.Errorf("%s is in %s, though it was not asked for", name, plain)
		}
	}
}

func TestBrokenBanksAreRefused(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*prompt.Bank){
		"no system prompt":       func(b *prompt.Bank) { b.Systems = nil },
		"few tasks":              func(b *prompt.Bank) { b.Tasks = b.Tasks[:7] },
		"an unknown slot":        func(b *prompt.Bank) { b.Tasks[0] = "{who}" },
		"an open brace":          func(b *prompt.Bank) { b.Tasks[0] = "{name" },
		"a stray brace":          func(b *prompt.Bank) { b.Sentences[0] = "name}" },
		"a sentence in itself":   func(b *prompt.Bank) { b.Sentences[0] = "{sentence}" },
		"a slot in a filling":    func(b *prompt.Bank) { b.Slots["name"][0] = "{name}" },
		"an empty slot":          func(b *prompt.Bank) { b.Slots["name"] = nil },
		"a slot named sentence":  func(b *prompt.Bank) { b.Slots["sentence"] = []string{"x"} },
		"an empty text":          func(b *prompt.Bank) { b.Systems[0] = "" },
		"a long text":            func(b *prompt.Bank) { b.Systems[0] = strings.Repeat("x", 5_000) },
		"a word twice":           func(b *prompt.Bank) { b.Words[1] = b.Words[0] },
		"a word of two words":    func(b *prompt.Bank) { b.Words[1] = "two words" },
		"too few canaries":       func(b *prompt.Bank) { b.Words = b.Words[:255] },
		"too many canaries":      func(b *prompt.Bank) { b.Words = append(b.Words, "another") },
		"few sentences":          func(b *prompt.Bank) { b.Sentences = nil },
		"a filling of no letter": func(b *prompt.Bank) { b.Slots["name"][0] = "" },
	} {
		bank := prompt.Demo()
		breakIt(&bank)
		text, err := json.Marshal(bank)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := prompt.ReadBank(text); !errors.Is(err, prompt.ErrBank) {
			t.Errorf("%s: got the error %v, want %v", name, err, prompt.ErrBank)
		}
	}
	for _, text := range []string{"", "{}", "null", `{"other":1}`, strings.Repeat(" ", 5<<20)} {
		if _, err := prompt.ReadBank([]byte(text)); !errors.Is(err, prompt.ErrBank) {
			t.Errorf("%.20q: got the error %v, want %v", text, err, prompt.ErrBank)
		}
	}
}

// Whatever bank is read, prompts can be made of it, and filling ends.
func FuzzEveryBankThatIsReadWrites(f *testing.F) {
	text, err := json.Marshal(prompt.Demo())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"systems":["{a}"],"slots":{"a":["b"]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		bank, err := prompt.ReadBank(text)
		if err != nil {
			return
		}
		if _, err := prompt.NewWriter(secret, bank).Write(number(1), 0, 300); err != nil {
			t.Fatal(err)
		}
	})
}
