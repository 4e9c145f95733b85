package challenge_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/provider-hub/internal/challenge"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// ranges is a fingerprint of ranges alone, and chain is one with a chain.
func ranges(r ...session.FileRange) *session.Fingerprint {
	return &session.Fingerprint{Nonce: make([]byte, 32), Ranges: r}
}

func chain(length uint32, files ...session.ChainFile) *session.Fingerprint {
	f := ranges(session.FileRange{File: "a", Length: 1})
	f.ChainLength, f.ChainFiles = length, files
	return f
}

func TestEachBoundOfAnInferenceIsKept(t *testing.T) {
	t.Parallel()
	type change = func(o *challenge.Order)
	body := func(text string) change { return func(o *challenge.Order) { o.Body = []byte(text) } }
	for name, c := range map[string]struct {
		change change
		param  string // at fault; empty for none
	}{
		"as it is":             {func(*challenge.Order) {}, ""},
		"no id":                {func(o *challenge.Order) { o.ID = "" }, "challenge_id"},
		"a long id":            {func(o *challenge.Order) { o.ID = strings.Repeat("x", 65) }, "challenge_id"},
		"the longest id":       {func(o *challenge.Order) { o.ID = strings.Repeat("x", 64) }, ""},
		"an id with a quote":   {func(o *challenge.Order) { o.ID = `a"b` }, "challenge_id"},
		"no node":              {func(o *challenge.Order) { o.Node = "" }, "node_id"},
		"no model":             {func(o *challenge.Order) { o.Model = "" }, "model_id"},
		"no time":              {func(o *challenge.Order) { o.Timeout = 0 }, "timeout_ms"},
		"the longest time":     {func(o *challenge.Order) { o.Timeout = 600 * time.Second }, ""},
		"more time":            {func(o *challenge.Order) { o.Timeout = 600*time.Second + 1 }, "timeout_ms"},
		"a form":               {func(o *challenge.Order) { o.Kind = meter.Transcriptions }, "inference.endpoint"},
		"no kind":              {func(o *challenge.Order) { o.Kind = 99 }, "inference.endpoint"},
		"streamed embeddings":  {func(o *challenge.Order) { o.Kind = meter.Embeddings }, "inference.stream"},
		"no body":              {body(""), "inference.body"},
		"the largest body":     {body(`{"model":"m","x":"` + strings.Repeat("x", 10<<20-20) + `"}`), ""},
		"a larger body":        {body(`{"model":"m","x":"` + strings.Repeat("x", 10<<20-19) + `"}`), "inference.body"},
		"no JSON":              {body(`{"model":"m"`), "inference.body"},
		"more than JSON":       {body(`{"model":"m"}{}`), "inference.body"},
		"no object":            {body(`["model","m"]`), "inference.body"},
		"no model in the body": {body(`{"messages":[{"model":"m"}]}`), "inference.body"},
		"another model":        {body(`{"model":"n"}`), "inference.body"},
		"two models":           {body(`{"model":"m","model":"m"}`), "inference.body"},
		"a model in escapes":   {body(`{"\u006dodel":"\u006d"}`), ""},
		"no text":              {body("{\"model\":\"m\",\"x\":\"\xff\"}"), "inference.body"},
	} {
		o := inference(1)
		c.change(o)
		checks(t, name, o, c.param)
	}
}

// checks checks an order that is at fault in param; empty for none.
func checks(t *testing.T, name string, o *challenge.Order, param string) {
	t.Helper()
	err := o.Check()
	if param == "" {
		if err != nil {
			t.Errorf("%s: got %v, want none", name, err)
		}
		return
	}
	refused(t, name, err, fault.Invalid, fault.InvalidRequest)
	if f, ok := fault.As(err); ok {
		same(t, name, f.Param, param)
	}
}

func TestEachBoundOfATaskIsKept(t *testing.T) {
	t.Parallel()
	good := session.FileRange{File: strings.Repeat("f", 255), Offset: 1<<44 - 1<<20, Length: 1 << 20}
	long := session.FileRange{File: strings.Repeat("f", 256), Length: 1}
	large, larger := strings.Repeat("x", 8<<10+1), strings.Repeat("x", 64<<10+1)
	most := strings.Split(strings.Repeat("x,", 31)+"x", ",")
	file := session.ChainFile{File: "a", Size: 1}
	for name, c := range map[string]struct {
		task  session.Task
		param string // at fault; empty for none
	}{
		"the largest range":             {ranges(good), ""},
		"sixteen ranges":                {ranges(make16(good)...), ""},
		"seventeen ranges":              {ranges(append(make16(good), good)...), "fingerprint"},
		"no range":                      {ranges(), "fingerprint"},
		"a short nonce":                 {&session.Fingerprint{Nonce: make([]byte, 31)}, "fingerprint"},
		"a range without file":          {ranges(session.FileRange{Length: 1}), "fingerprint"},
		"a long file":                   {ranges(long), "fingerprint"},
		"an empty range":                {ranges(session.FileRange{File: "a"}), "fingerprint"},
		"a large range":                 {ranges(session.FileRange{File: "a", Length: 1<<20 + 1}), "fingerprint"},
		"a range beyond every file":     {ranges(session.FileRange{File: "a", Offset: 1 << 44, Length: 1}), "fingerprint"},
		"a file that leaves its folder": {ranges(session.FileRange{File: "../a", Length: 1}), "fingerprint"},
		"a range before a file":         {ranges(session.FileRange{File: "a", Offset: -1, Length: 1}), "fingerprint"},
		"a chain":                       {chain(256, file), ""},
		"a long chain":                  {chain(257, file), "fingerprint"},
		"a chain of nothing":            {chain(1), "fingerprint"},
		"files without a chain":         {chain(0, file), "fingerprint"},
		"many files":                    {chain(1, make([]session.ChainFile, 65)...), "fingerprint"},
		"an empty file":                 {chain(1, session.ChainFile{File: "a"}), "fingerprint"},
		"a prompt":                      {&session.Deterministic{Prompt: strings.Repeat("x", 64<<10), MaxTokens: 500}, ""},
		"a long prompt":                 {&session.Deterministic{Prompt: larger, MaxTokens: 1}, "deterministic.prompt"},
		"no tokens":                     {&session.Deterministic{Prompt: "x"}, "deterministic.max_tokens"},
		"many tokens":                   {&session.Deterministic{Prompt: "x", MaxTokens: 501}, "deterministic.max_tokens"},
		"a benchmark":                   {&session.Benchmark{Test: "code", Prompts: most}, ""},
		"another test":                  {&session.Benchmark{Test: "poetry", Prompts: []string{"x"}}, "benchmark.test_type"},
		"no prompts":                    {&session.Benchmark{Test: "code"}, "benchmark.prompts"},
		"an empty one":                  {&session.Benchmark{Test: "code", Prompts: []string{""}}, "benchmark.prompts"},
		"many prompts":                  {&session.Benchmark{Test: "code", Prompts: make([]string, 33)}, "benchmark.prompts"},
		"a long prompt of a benchmark":  {&session.Benchmark{Test: "code", Prompts: []string{large}}, "benchmark.prompts"},
	} {
		o := fingerprint(1)
		o.Task = c.task
		checks(t, name, o, c.param)
	}
}

func make16(r session.FileRange) []session.FileRange {
	all := make([]session.FileRange, session.MaxRanges)
	for i := range all {
		all[i] = r
	}
	return all
}

// FuzzBodies checks bodies of any content: what is taken is an object that names the model
// once, as encoding/json reads it.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"model":"m"}`))
	f.Add([]byte(`{"Model":"m","model":"n"}`))
	f.Add([]byte(`{"\u006dodel":"m","messages":[{"model":"n"}]}`))
	f.Add([]byte(` {"a":[{}],"model" : "\u006d" } `))
	f.Fuzz(func(t *testing.T, body []byte) {
		o := inference(1)
		o.Body = body
		if o.Check() != nil {
			return
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(body, &all); err != nil {
			t.Fatalf("got it taken, want what encoding/json says: %v", err)
		}
		var named string
		if err := json.Unmarshal(all["model"], &named); err != nil {
			t.Fatalf("got it taken, want a name in it: %v", err)
		}
		same(t, "the model", named, model)
	})
}
