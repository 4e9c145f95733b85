package attack

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/openai"
	"svc.internal/services/proving/internal/trial"
)

func claimed(prompt, completion int) []string {
	return []string{fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, prompt, completion,
		prompt+completion)}
}

// claims are F3: a provider's claim is believed as far as it has bytes.
func claims() []Case {
	return []Case{
		{Hole: "F3", Name: "claim_of_one_word", Before: `"Hello" billed as 37 tokens`,
			Run: func(t testing.TB, s *stage) Outcome {
				id, _, p := s.served(t, model{}, fakeengine.Behaviour{Tokens: []string{"Hello"}, Usage: claimed(25, 37)})
				_, key := s.caller(t)
				r := s.chat(t, key, trial.Chat(id, `,"max_tokens":64`))
				b := s.bill(t, key, r.id())
				// 2.5 times the recount and 8.
				if want := openai.EstimateTokens([]byte("Hello"))*5/2 + 8; b.completion > want || b.completion == 0 {
					t.Errorf("got a bill of %d tokens for one word, want 1 to %d (%d)", b.completion, want, r.status)
				}
				return Outcome{Got: short(p) + fmt.Sprintf(": pay for %d tokens of one word", b.completion), Paid: "1 word",
					Harm: b.String() + " to the consumer"}
			}},
		{Hole: "F3", Name: "claim_of_what_nobody_sees",
			Before: "600 words in a member that nobody knows, billed beside one that is shown",
			Run: func(t testing.TB, s *stage) Outcome {
				id, _, p := s.served(t, model{}, fakeengine.Behaviour{ContentType: "application/json",
					Raw: `{"id":"c","object":"chat.completion","created":1,"model":"m",` +
						`"choices":[{"index":0,"message":{"role":"assistant","content":"Hello","acme":"` + strings.Repeat("word ", 600) +
						`"},"finish_reason":"stop"}],` +
						`"usage":{"prompt_tokens":7,"completion_tokens":700,"total_tokens":707}}`})
				_, key := s.caller(t)
				r := s.chat(t, key, trial.Chat(id, `,"max_tokens":1000`))
				b := s.bill(t, key, r.id())
				if want := openai.EstimateTokens([]byte("Hello"))*5/2 + 8; b.completion > want || b.completion == 0 {
					t.Errorf("got a bill of %d tokens for one word, want 1 to %d (%d)", b.completion, want, r.status)
				}
				return Outcome{Got: short(p) + fmt.Sprintf(": pay for %d tokens of one word", b.completion), Paid: "1 word",
					Harm: b.String() + " to the consumer"}
			}},
		{Hole: "F3", Name: "inflated_claims", Long: true, Before: "gains 32 tokens a request and as many as bytes",
			Run: inflatedClaims},
		{Hole: "F3", Name: "honest_claims", Long: true, Before: "paid in full", Run: honestClaims},
	}
}

// inflatedClaims is a provider that claims 10% to 1,000% more than it said, a thousand
// times, on a model that three honest owners serve too.
func inflatedClaims(t testing.TB, s *stage) Outcome {
	const truth, requests, others, each = 100, 1000, 3, 60
	id := s.put(t, model{})
	_, key := s.caller(t)
	honest := fakeengine.New(t)
	honest.Script(id, fakeengine.Behaviour{Tokens: fakeengine.Words(truth)})
	var owners []*trial.Provider
	for range others {
		owners = append(owners, s.Join(t, s.title(), honest.URL, id))
	}
	for range each {
		for _, p := range owners {
			s.chat(t, key, trial.Chat(id, `,"max_tokens":1024`), "X-Svc-Provider", p.ID)
		}
	}
	cheat := fakeengine.New(t)
	var script []fakeengine.Behaviour
	for i := range requests {
		percent := []int{10, 30, 100, 300, 1000}[i%5]
		script = append(script, fakeengine.Behaviour{Tokens: fakeengine.Words(truth), Usage: claimed(fakeengine.PromptTokens,
			truth+truth*percent/100)})
	}
	cheat.Script(id, script...)
	p := s.Join(t, s.title(), cheat.URL, id)
	billed, asked := 0, 0
	for i := range requests {
		r := s.chat(t, key, trial.Chat(id, `,"max_tokens":1024`), "X-Svc-Provider", p.ID, "X-Svc-Allow-Fallbacks", "false")
		if r.status != http.StatusOK {
			t.Errorf("request %d: got %d %s, want 200", i, r.status, trial.Tail(r.body, 200))
			break
		}
		billed += r.completion
		asked++
	}
	if want := asked*truth*11/10 + asked*8; billed > want {
		t.Errorf("got %d tokens billed for %d said, want at most %d: 10%% and 8 a request", billed, asked*truth, want)
	}
	if !strings.Contains(s.metrics(t, fleetHub), p.ID) {
		t.Errorf("got no metric that names provider %s, want the ratio of its claims", p.ID)
	}
	return Outcome{Got: fmt.Sprintf("%d tokens billed for %d", billed, asked*truth),
		Paid: fmt.Sprintf("%d requests", asked),
		Harm: fmt.Sprintf("%+.1f%%", 100*float64(billed-asked*truth)/float64(max(1, asked*truth)))}
}

// honestClaims are providers whose text has more tokens than a recount finds. As long as
// all providers of the same text claim the same, nobody loses a token.
func honestClaims(t testing.TB, s *stage) Outcome {
	var lost int
	for _, text := range []struct {
		name, text string
		ratio      float64 // tokens over the recount, by counter.go's own table
	}{
		{"base64", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x9f\x11\xe3 honest bytes \x07\x80", 20))),
			1 / 0.79},
		{"thai", strings.Repeat("สวัสดีครับ ยินดีต้อนรับ ", 12), 1 / 0.77},
		{"code", strings.Repeat("for i := range n {\n\tsum += a[i] * b[i]\n}\n", 12), 1 / 1.05},
	} {
		tokens := int(float64(openai.EstimateTokens([]byte(text.text))) * text.ratio)
		id := s.put(t, model{})
		_, key := s.caller(t)
		engine := fakeengine.New(t)
		engine.Script(id, fakeengine.Behaviour{Tokens: []string{text.text}, Usage: claimed(fakeengine.PromptTokens, tokens)})
		var owners []*trial.Provider
		for range 4 {
			owners = append(owners, s.Join(t, s.title(), engine.URL, id))
		}
		for i := range 160 {
			r := s.chat(t, key, trial.Chat(id, `,"max_tokens":1024`), "X-Svc-Provider", owners[i%len(owners)].ID)
			if r.completion != tokens {
				lost += tokens - r.completion
				if i >= 150 {
					t.Errorf("%s, answer %d: got %d tokens billed of an honest claim of %d: got %d, want less than 150", text.name, i,
						r.completion, tokens, i)
				}
			}
		}
	}
	return Outcome{Got: "honest claims", Paid: "in full", Harm: fmt.Sprintf("%d tokens lost in 480 answers", lost)}
}

// fleetHub names the processes whose metrics are read; with a single process, its own.
const fleetHub = "provider-hub"

// metrics are all metrics of a service's replicas.
func (s *stage) metrics(t testing.TB, service string) string {
	t.Helper()
	urls := []string{s.Env["SVC_METRICS_URL"]}
	if f := s.Fleet(); f != nil {
		urls = nil
		for _, name := range f.Replicas(service) {
			urls = append(urls, f.AdminURL(name)+"/metrics")
		}
	}
	text := ""
	for _, url := range urls {
		_, _, body := trial.CallAt(t, url, http.MethodGet, "", "", "")
		text += string(body)
	}
	return text
}

// prompts are F4: tokens of the prompt hide in members that nobody counts.
func prompts() []Case {
	const window = 131072
	ask := func(m model, body func(id string) string, claim int) func(t testing.TB, s *stage) Outcome {
		return func(t testing.TB, s *stage) Outcome {
			m.window = window
			id, _, p := s.served(t, m, fakeengine.Behaviour{Usage: claimed(claim, 5)})
			_, key := s.caller(t)
			r := s.chat(t, key, body(id))
			if r.status != http.StatusOK {
				t.Fatalf("got %d %s, want the answer", r.status, trial.Tail(r.body, 200))
			}
			b := s.bill(t, key, r.id())
			if b.prompt != claim {
				t.Errorf("got a bill of %d for a prompt of %d tokens, want all of them (%d %s)", b.prompt, claim, r.status,
					trial.Tail(r.body, 200))
			}
			return Outcome{Got: fmt.Sprintf("a prompt of %d", claim), Paid: b.String(), Harm: fmt.Sprintf("%s unpaid for %d",
				short(p), claim-b.prompt)}
		}
	}
	words := strings.Repeat("smuggled words ", 10_000)
	picture := func(url string, n int) func(id string) string {
		return func(id string) string {
			part := fmt.Sprintf(`{"type":"image_url","image_url":{"url":%q}}`, url)
			return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":[%s]}]}`, id,
				strings.Repeat(part+",", n-1)+part)
		}
	}
	return []Case{
		{Hole: "F4", Name: "chat_template_kwargs", Before: "20,000 words, 1 token billed",
			Run: ask(model{}, func(id string) string {
				return trial.Chat(id, `,"chat_template_kwargs":{"note":"`+words+`"}`)
			}, 20_000)},
		{Hole: "F4", Name: "unknown_member", Before: "billed", Run: ask(model{}, func(id string) string {
			return trial.Chat(id, `,"documents":[{"text":"`+words+`"}]`)
		}, 20_000)},
		{Hole: "F4", Name: "large_picture", Before: "6,000 tokens, 1,025 billed", Run: ask(model{category: "multimodal"},
			picture(png(4000, 4000), 1), 6000)},
		{Hole: "F4", Name: "many_tiny_pictures", Before: "billed up to 31 of them", Run: ask(model{category: "multimodal"},
			picture(png(8, 8), 31), 31*85+10)},
	}
}

// png is the data URL of a picture with that size in its header.
func png(width, height uint32) string {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("IHDR"), width), height)
	head = append(head, 8, 2, 0, 0, 0)
	file := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n"), 13)
	file = binary.BigEndian.AppendUint32(append(file, head...), crc32.ChecksumIEEE(head))
	end := []byte("IEND")
	file = append(binary.BigEndian.AppendUint32(file, 0), end...)
	file = binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(end))
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(file)
}
