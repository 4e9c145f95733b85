package tinylm

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// continued is a body whose last message is the beginning of the answer. text is the
// inside of a JSON string.
func continued(text, members string) string {
	return `{"model":"tinylm-1","messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"` + text +
		`"}],"continue_final_message":true,"add_generation_prompt":false,"max_tokens":1,` + members + `}`
}

// scoredToken is an entry as a client reads it.
type scoredToken struct {
	Logprob float64
	Rank    int
	Decoded string `json:"decoded_token"`
	Bytes   []int
}

type scoredAnswer struct {
	completion
	PromptLogprobs []map[string]scoredToken `json:"prompt_logprobs"`
}

func scoredOf(t testing.TB, h http.Handler, body string) scoredAnswer {
	t.Helper()
	w := post(t, h, body)
	if w.Code != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", w.Code, w.Body)
	}
	return decodeAs[scoredAnswer](t, w.Body.Bytes())
}

func TestPromptLogprobsHaveTheShapeOfVLLM(t *testing.T) {
	t.Parallel()
	got := scoredOf(t, NewServer(load(t), options()), continued(`Hé <こ>`, `"prompt_logprobs":5`))
	layout := Prompt([]Message{{RoleUser, "Hello"}})
	tokens := slices.Concat(layout, []byte("Hé <こ>"))
	if len(got.PromptLogprobs) != len(tokens) {
		t.Fatalf("entries: got %d, want %d", len(got.PromptLogprobs), len(tokens))
	}
	if got.PromptLogprobs[0] != nil {
		t.Errorf("first entry: got %v, want null", got.PromptLogprobs[0])
	}
	if got.Usage.PromptTokens != len(tokens) {
		t.Errorf("prompt tokens: got %d, want %d", got.Usage.PromptTokens, len(tokens))
	}
	text := ""
	for i, entry := range got.PromptLogprobs[1:] {
		actual, found := entry[strconv.Itoa(int(tokens[i+1]))]
		if !found {
			t.Fatalf("entry %d: got %v, want token %d in it", i+1, entry, tokens[i+1])
		}
		if !slices.Equal(actual.Bytes, []int{int(tokens[i+1])}) {
			t.Errorf("bytes of entry %d: got %v, want %v", i+1, actual.Bytes, []int{int(tokens[i+1])})
		}
		if i+1 >= len(layout) {
			text += actual.Decoded
		}
		ranks := map[int]bool{}
		for _, token := range entry {
			ranks[token.Rank] = true
		}
		for rank := 1; rank <= 5; rank++ {
			if !ranks[rank] {
				t.Errorf("entry %d: got the ranks %v, want %d among them", i+1, ranks, rank)
			}
		}
		if most := 6; len(entry) > most {
			t.Errorf("entry %d: got %d tokens, want at most %d", i+1, len(entry), most)
		}
	}
	if text != "Hé <こ>" {
		t.Errorf("joined text: got %q, want %q", text, "Hé <こ>")
	}
}

func TestEachTokenStandsOnceInItsEntry(t *testing.T) {
	t.Parallel()
	w := post(t, NewServer(load(t), options()), continued("Hello!", `"prompt_logprobs":20`))
	want := 0
	for _, entry := range decodeAs[scoredAnswer](t, w.Body.Bytes()).PromptLogprobs {
		want += len(entry)
	}
	if got := strings.Count(w.Body.String(), `"decoded_token"`); got != want {
		t.Errorf("tokens in the text: got %d, want the %d that its objects hold", got, want)
	}
}

// TestScoredAnswersHaveTheLogprobsOfTheirGeneration asks for an answer with logprobs and
// scores it in a second request.
func TestScoredAnswersHaveTheLogprobsOfTheirGeneration(t *testing.T) {
	t.Parallel()
	h := NewServer(load(t), options())
	for _, temperature := range []string{"0", "1"} {
		w := post(t, h, request(`"logprobs":true,"max_tokens":60,"seed":5,"temperature":`+temperature))
		written := decodeAs[completion](t, w.Body.Bytes()).Choices[0]
		inside, _ := json.Marshal(written.Message.Content)
		got := scoredOf(t, h, continued(strings.Trim(string(inside), `"`), `"prompt_logprobs":0`)).PromptLogprobs
		got = got[len(got)-len(written.Message.Content):]
		for i, entry := range got {
			token := written.Logprobs.Content[i]
			actual := entry[strconv.Itoa(token.Bytes[0])]
			if math.Abs(actual.Logprob-token.Logprob) > 1e-6 {
				t.Errorf("temperature %s, byte %d: got %v, want %v", temperature, i, actual.Logprob, token.Logprob)
			}
			if len(entry) != 1 {
				t.Errorf("temperature %s, tokens at byte %d: got %d, want 1", temperature, i, len(entry))
			}
			if temperature == "0" && actual.Rank != 1 {
				t.Errorf("rank of greedy byte %d: got %d, want 1", i, actual.Rank)
			}
		}
	}
}

func TestFinalMessageIsContinued(t *testing.T) {
	t.Parallel()
	h := NewServer(load(t), options())
	whole := decodeAs[completion](t, post(t, h, request(`"temperature":0`)).Body.Bytes()).Choices[0].Message.Content
	for _, n := range []int{0, 1, 7, len(whole)} {
		body := strings.Replace(continued(whole[:n], `"temperature":0`), `"max_tokens":1`, `"max_tokens":200`, 1)
		got := decodeAs[completion](t, post(t, h, body).Body.Bytes()).Choices[0].Message.Content
		if got != whole[n:] {
			t.Errorf("answer behind %d bytes: got %q, want %q", n, got, whole[n:])
		}
	}
}

func TestContinuedTextKeepsItsSpace(t *testing.T) {
	t.Parallel()
	got := scoredOf(t, NewServer(load(t), options()), continued(`\n Hi\r \u0004`, `"prompt_logprobs":1`)).PromptLogprobs
	text := []byte{}
	for _, entry := range got[len(got)-7:] {
		for id, token := range entry {
			if want := strconv.Itoa(token.Bytes[0]); id != want {
				t.Errorf("token id: got %q, want %q", id, want)
			}
			if len(entry) == 1 || token.Rank > 1 {
				text = append(text, byte(token.Bytes[0]))
			}
		}
	}
	if want := "\n Hi\r \x04"; string(text) != want {
		t.Errorf("scored text: got %q, want %q", text, want)
	}
}

// TestLargestScoringIsWhole scores as many tokens as the context holds.
func TestLargestScoringIsWhole(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", ContextTokens-1-len(Prompt([]Message{{RoleUser, "Hello"}})))
	w := post(t, NewServer(load(t), options()), continued(text, `"prompt_logprobs":20`))
	if got, most := w.Body.Len(), 10<<20; got > most {
		t.Errorf("length of the answer: got %d, want at most %d", got, most)
	}
	if got, want := len(decodeAs[scoredAnswer](t, w.Body.Bytes()).PromptLogprobs), ContextTokens-1; got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}
}

func TestScoringsBeyondTheBoundAreRefused(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.MaxConcurrent = 100
	s := &server{model: load(t), opts: opts, slots: make(chan struct{}, 100), scoring: make(chan struct{}, maxScoring)}
	s.opts.ModelName = ModelName
	for range maxScoring {
		s.scoring <- struct{}{}
	}
	h := http.HandlerFunc(s.chatCompletions)
	if got := describe(t, post(t, h, continued("a", `"prompt_logprobs":0`))); got != "429  rate_limit_exceeded" {
		t.Errorf("a scoring too many: got %q, want 429", got)
	}
	if w := post(t, h, continued("a", `"logprobs":true`)); w.Code != http.StatusOK {
		t.Errorf("an answer without prompt_logprobs: got %d, want 200", w.Code)
	}
	<-s.scoring
	if w := post(t, h, continued("a", `"prompt_logprobs":0`)); w.Code != http.StatusOK {
		t.Errorf("a scoring within the bound: got %d, want 200", w.Code)
	}
}

func TestServerKnowsItsModelByTheGivenName(t *testing.T) {
	t.Parallel()
	opts := options()
	opts.ModelName = "lab/base"
	h := NewServer(load(t), opts)
	body := strings.Replace(request(""), ModelName, "lab/base", 1)
	if got := decodeAs[completion](t, post(t, h, body).Body.Bytes()).Model; got != "lab/base" {
		t.Errorf("model of an answer: got %q, want %q", got, "lab/base")
	}
	if got := describe(t, post(t, h, request(""))); got != "404 model model_not_found" {
		t.Errorf("another model: got %q, want 404", got)
	}
}

func FuzzDecodedTokensJoinToTheText(f *testing.F) {
	f.Add("Hé こ🙂")
	f.Add("\u0080\uffff\U0010ffff")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, strings.ToValidUTF8(text, ""))
		var u unfinished
		joined := ""
		for _, b := range []byte(text) {
			joined += u.with(b)
			u.take(b)
		}
		if joined != text {
			t.Errorf("joined: got %q, want %q", joined, text)
		}
	})
}

func FuzzUnfinishedTakesAnyBytes(f *testing.F) {
	f.Add([]byte("\xf0\x9f\x99\xff\xff\x80\x80\xe3A"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var u unfinished
		for _, b := range text {
			_ = u.with(b)
			if u.take(b); u.n >= len(u.bytes) {
				t.Fatalf("bytes held: got %d, want under %d", u.n, len(u.bytes))
			}
		}
	})
}
