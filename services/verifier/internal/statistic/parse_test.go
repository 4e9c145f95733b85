package statistic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/exact"
	"svc.internal/services/verifier/internal/statistic"
)

// contentBody writes positions as an OpenAI chat completion.
func contentBody(ps []statistic.Position) string {
	var b strings.Builder
	b.WriteString(`{"id":"x","choices":[{"index":0,"message":{"content":"?"},"logprobs":{"refusal":null,"content":[`)
	for i, p := range ps {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"token":%s,"logprob":%v,"bytes":null,"top_logprobs":[`, quote(p.Own.Token), p.Own.Logprob)
		for j, e := range p.Top {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"logprob":%v,"token":%s}`, e.Logprob, quote(e.Token))
		}
		b.WriteString(`]}`)
	}
	return b.String() + `]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}`
}

// promptBody writes positions as vLLM's prompt_logprobs, behind lead positions of a prompt.
func promptBody(lead int, ps []statistic.Position) string {
	var b strings.Builder
	b.WriteString(`{"choices":[{"message":{"content":"."}}],"prompt_logprobs":[null`)
	for range lead {
		b.WriteString(`,{"7":{"logprob":-0.5,"rank":1,"decoded_token":"sys"}}`)
	}
	for _, p := range ps {
		fmt.Fprintf(&b, `,{"99":{"logprob":%v,"rank":2,"decoded_token":%s}`, p.Own.Logprob, quote(p.Own.Token))
		for j, e := range p.Top {
			if e != p.Own {
				fmt.Fprintf(&b, `,"%d":{"logprob":%v,"rank":%d,"decoded_token":%s}`, j, e.Logprob, j+1, quote(e.Token))
			}
		}
		b.WriteByte('}')
	}
	return b.String() + `],"usage":{}}`
}

func quote(s string) string {
	q, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(q)
}

func TestContentReadsWhatEnginesWrite(t *testing.T) {
	t.Parallel()
	want := greedyOf(model(31, 50, 1))
	got, v := statistic.Content(nil, []byte(contentBody(want)))
	if v != statistic.None {
		t.Fatalf("got void %q, want none", v)
	}
	if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
		t.Errorf("got %s, want %s", a, b)
	}
}

func TestContentOfAStreamAddsUp(t *testing.T) {
	t.Parallel()
	ps := greedyOf(model(32, 30, 1))
	var got []statistic.Position
	for i := range ps {
		var v statistic.Void
		if got, v = statistic.Content(got, []byte(contentBody(ps[i:i+1]))); v != statistic.None {
			t.Fatalf("event %d: got void %q, want none", i, v)
		}
	}
	if len(got) != 30 {
		t.Errorf("got %d positions, want 30", len(got))
	}
	for _, nothing := range []string{
		`{}`, `{"choices":[]}`, `{"choices":null}`, `{"choices":[{"logprobs":null}]}`,
		`{"choices":[{"logprobs":{"content":null}}]}`,
	} {
		more, v := statistic.Content(got, []byte(nothing))
		if v != statistic.None {
			t.Errorf("%s: got %d positions and %q, want 30", nothing, len(more), v)
		}
		if len(more) != 30 {
			t.Errorf("%s: got %d positions and %q, want 30", nothing, len(more), v)
		}
	}
	full := make([]statistic.Position, statistic.MaxAnswerTokens)
	if _, v := statistic.Content(full, []byte(contentBody(ps[:1]))); v != statistic.TooLarge {
		t.Errorf("a stream that never ends: got %q, want %q", v, statistic.TooLarge)
	}
}

func TestBytesAreTheToken(t *testing.T) {
	t.Parallel()
	const body = `{"choices":[{"logprobs":{"content":[` +
		`{"token":"\ufffd","logprob":-9999,"bytes":[240,159],"top_logprobs":[]}]}}]}`
	got, v := statistic.Content(nil, []byte(body))
	if v != statistic.None {
		t.Errorf("got %+v and %q, want the bytes f0 9f at the least logarithm", got, v)
	}
	if len(got) != 1 {
		t.Errorf("got %+v and %q, want the bytes f0 9f at the least logarithm", got, v)
	}
	if got[0].Own.Token != "\xf0\x9f" {
		t.Errorf("got %+v and %q, want the bytes f0 9f at the least logarithm", got, v)
	}
	if got[0].Own.Logprob != exact.MinLogprob {
		t.Errorf("got %+v and %q, want the bytes f0 9f at the least logarithm", got, v)
	}
}

func TestHostileContentIsVoid(t *testing.T) {
	t.Parallel()
	wrap := func(list string) string { return `{"choices":[{"logprobs":{"content":[` + list + `]}}]}` }
	entry := `{"token":"a","logprob":-1}`
	for name, c := range map[string]struct {
		body string
		want statistic.Void
	}{
		"cut off":         {wrap(entry)[:40], statistic.Malformed},
		"no JSON":         {"<html>", statistic.Malformed},
		"nothing":         {"", statistic.Malformed},
		"behind the end":  {wrap(entry) + "{}", statistic.Malformed},
		"NaN":             {wrap(`{"token":"a","logprob":NaN}`), statistic.Malformed},
		"text for number": {wrap(`{"token":"a","logprob":"-1"}`), statistic.Malformed},
		"positive":        {wrap(`{"token":"a","logprob":0.5}`), statistic.Malformed},
		"infinite":        {wrap(`{"token":"a","logprob":1e999}`), statistic.Malformed},
		"no number":       {wrap(`{"token":"a"}`), statistic.Malformed},
		"null entry":      {wrap(`null`), statistic.Malformed},
		"twice a member":  {wrap(`{"token":"a","logprob":-1,"logprob":-2}`), statistic.Malformed},
		"bad byte":        {wrap(`{"token":"a","logprob":-1,"bytes":[256]}`), statistic.Malformed},
		"content twice":   {`{"choices":[],"choices":[]}`, statistic.Malformed},
		"list as choice":  {`{"choices":[[]]}`, statistic.Malformed},
		"two choices":     {`{"choices":[{},{}]}`, statistic.TooLarge},
		"long token":      {wrap(`{"token":"` + strings.Repeat("a", 513) + `","logprob":-1}`), statistic.TooLarge},
		"many bytes": {wrap(`{"token":"a","logprob":-1,"bytes":[1` + strings.Repeat(",1", 512) + `]}`),
			statistic.TooLarge},
		"many positions": {wrap(entry + strings.Repeat(","+entry, statistic.MaxAnswerTokens)), statistic.TooLarge},
		"many entries": {wrap(`{"token":"a","logprob":-1,"top_logprobs":[` + entry +
			strings.Repeat(","+entry, statistic.MaxEntries) + `]}`), statistic.TooLarge},
		"deep":         {`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, statistic.TooLarge},
		"large":        {`{"x":"` + strings.Repeat("a", statistic.MaxBody) + `"}`, statistic.TooLarge},
		"large spaces": {strings.Repeat(" ", statistic.MaxBody+1) + `{}`, statistic.TooLarge},
	} {
		if _, got := statistic.Content(nil, []byte(c.body)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestPromptFindsTheAnswerFromTheEnd(t *testing.T) {
	t.Parallel()
	want := greedyOf(model(33, 40, 1))
	want[7].Own = statistic.Entry{Token: "off", Logprob: -9 * exact.Nats} // the 21st entry
	for _, lead := range []int{1, 3, statistic.MaxAnswerTokens, 5000} {
		got, v := statistic.Prompt([]byte(promptBody(lead, want)), text(want))
		if v != statistic.None {
			t.Fatalf("%d before: got void %q, want none", lead, v)
		}
		if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
			t.Errorf("%d before: got %s, want %s", lead, a, b)
		}
	}
}

func TestPromptsThatDoNotJoinAreVoid(t *testing.T) {
	t.Parallel()
	ps := greedyOf(model(34, 30, 1))
	body := promptBody(2, ps)
	for name, c := range map[string]struct {
		body, answer string
		want         statistic.Void
	}{
		"another answer":      {body, text(ps) + "x", statistic.NotJoined},
		"across a token":      {body, text(ps)[1:], statistic.NotJoined},
		"longer than all":     {promptBody(0, ps[1:]), text(ps), statistic.NotJoined},
		"no answer":           {body, "", statistic.TooShort},
		"long answer":         {body, strings.Repeat("a", statistic.MaxAnswerBytes+1), statistic.TooLarge},
		"no list":             {`{"choices":[]}`, "a", statistic.NoReference},
		"null":                {`{"prompt_logprobs":null}`, "a", statistic.NoReference},
		"only null positions": {`{"prompt_logprobs":[null,null]}`, "a", statistic.NotJoined},
		"null behind all": {`{"prompt_logprobs":[{"1":{"logprob":-1,"decoded_token":"a"}},null]}`, "a",
			statistic.NotJoined},
		"null entry": {`{"prompt_logprobs":[{"1":null}]}`, "a", statistic.NoReference},
		"an id twice": {`{"prompt_logprobs":[{"1":{"logprob":-1,"decoded_token":"a"},"1":{"logprob":-2}}]}`, "a",
			statistic.NoReference},
		"above one": {`{"prompt_logprobs":[{"1":{"logprob":0,"decoded_token":"a"},"2":{"logprob":0}}]}`, "a",
			statistic.NoReference},
		"too many": {`{"prompt_logprobs":[null` + strings.Repeat(",null", statistic.MaxPromptPositions) + `]}`, "a",
			statistic.NoReference},
	} {
		if _, got := statistic.Prompt([]byte(c.body), c.answer); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	var many strings.Builder
	for i := range statistic.MaxEntries + 1 {
		fmt.Fprintf(&many, `,"%d":{"logprob":-9}`, i)
	}
	body = `{"prompt_logprobs":[{` + many.String()[1:] + `}]}`
	if _, got := statistic.Prompt([]byte(body), "a"); got != statistic.NoReference {
		t.Errorf("many entries: got %q, want %q", got, statistic.NoReference)
	}
}

func TestAListThatIsCutIsVoid(t *testing.T) {
	t.Parallel()
	if _, got := statistic.Prompt([]byte(`{"prompt_logprobs":[`), "a"); got != statistic.NoReference {
		t.Errorf("got %q, want %q", got, statistic.NoReference)
	}
}

func TestTheEndTokenIsTheLikeliestOfItsNames(t *testing.T) {
	t.Parallel()
	p := statistic.Position{Own: statistic.Entry{Token: "a", Logprob: -1}, Top: []statistic.Entry{
		{Token: "a", Logprob: -exact.Nats}, {Token: "</s>", Logprob: -2 * exact.Nats}, {Token: "b", Logprob: -3 * exact.Nats},
	}}
	if best, end, ok := statistic.EndOf(p, []string{"<eot>", "</s>"}); !ok {
		t.Errorf("got %v, %v, %v, want −1 and −2", best, end, ok)
	} else if best != -exact.Nats {
		t.Errorf("got %v, %v, %v, want −1 and −2", best, end, ok)
	} else if end != -2*exact.Nats {
		t.Errorf("got %v, %v, %v, want −1 and −2", best, end, ok)
	}
	if _, end, ok := statistic.EndOf(p, []string{"<eot>"}); !ok {
		t.Errorf("unlisted: got %v, %v, want −3", end, ok)
	} else if end != -3*exact.Nats {
		t.Errorf("unlisted: got %v, %v, want −3", end, ok)
	}
	if _, _, ok := statistic.EndOf(statistic.Position{}, nil); ok {
		t.Error("a position without a list: got an end, want none")
	}
}

func TestTheTotalIsTheSumOfOwnLogprobs(t *testing.T) {
	t.Parallel()
	ps := greedyOf(model(35, 3, 1))
	if got, v := statistic.Total(ps); v != statistic.None {
		t.Errorf("got %v and %q, want the sum", got, v)
	} else if got != ps[0].Own.Logprob+ps[1].Own.Logprob+ps[2].Own.Logprob {
		t.Errorf("got %v and %q, want the sum", got, v)
	}
	if _, v := statistic.Total(nil); v != statistic.TooShort {
		t.Errorf("got %q, want %q", v, statistic.TooShort)
	}
}

// Whatever is read is within the bounds, and no statistic of it is other than a number.
func FuzzContent(f *testing.F) {
	f.Add(contentBody(answer(model(36, 24, 4), 2, positionFull.best)))
	f.Add(`{"choices":[{"logprobs":{"content":[{"token":"\ufffd","logprob":-9999,"bytes":[240,159]}]}}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		ps, v := statistic.Content(nil, []byte(body))
		if v != statistic.None && ps != nil {
			t.Errorf("got positions beside %q", v)
		}
		judge(t, ps)
	})
}

func FuzzPrompt(f *testing.F) {
	ps := answer(model(37, 24, 4), 2, positionFull.best)
	f.Add(promptBody(2, ps), text(ps))
	f.Add(`{"prompt_logprobs":[null,{"1":{"logprob":-1,"rank":1,"decoded_token":"a"}}]}`, "a")
	f.Fuzz(func(t *testing.T, body, answer string) {
		ps, v := statistic.Prompt([]byte(body), answer)
		if v == statistic.None && text(ps) != answer {
			t.Errorf("got the text %q, want %q", text(ps), answer)
		}
		judge(t, ps)
	})
}

func judge(t *testing.T, ps []statistic.Position) {
	t.Helper()
	greedy, _ := statistic.Greedy(ps)
	declared, _ := statistic.Declared(ps, ps, text(ps), true)
	for _, x := range append(greedy, declared...) {
		if !(x >= 0 && x <= 40) {
			t.Errorf("part: got %v, want a small number", x)
		}
	}
	hot, _ := statistic.RatioAtTemperature(ps, statistic.Hot)
	same, _ := statistic.RatioAgainst(ps, ps)
	for _, x := range []float64{hot, same} {
		if !(x >= 0 && x <= statistic.MaxRatio) {
			t.Errorf("ratio: got %v, want 0 to %v", x, statistic.MaxRatio)
		}
	}
}

func FuzzRecall(f *testing.F) {
	f.Add("123456", "a 123456", "b 123456")
	f.Fuzz(func(t *testing.T, needle, reference, answer string) {
		parts, v := statistic.Recall([]string{needle}, reference, answer)
		if v == statistic.None && parts[0] != 0 && strings.Contains(" "+answer+" ", " "+needle+" ") {
			t.Errorf("got %v missing though the answer holds the needle", parts[0])
		}
	})
}
