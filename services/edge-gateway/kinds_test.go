package edgegateway

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// The models of each category, one each beside testModel.
const (
	seeingID    = "acme/seer"
	embeddingID = "acme/embed"
	imageID     = "acme/paint"
	audioID     = "acme/hear"
)

func withKinds(t *testing.T, change ...func(*Config)) *fleet {
	t.Helper()
	return kindsFleet(t, change...).start()
}

// kindsFleet is the same before it runs.
func kindsFleet(t testing.TB, change ...func(*Config)) *fleet {
	t.Helper()
	f := newFleet(t, change...)
	for id, category := range map[string]catalogv1.Category{
		seeingID: catalogv1.Category_CATEGORY_MULTIMODAL, embeddingID: catalogv1.Category_CATEGORY_EMBEDDING,
		imageID: catalogv1.Category_CATEGORY_IMAGE, audioID: catalogv1.Category_CATEGORY_AUDIO,
	} {
		m := testModel()
		m.ModelId, m.Slug, m.Category = id, "", category
		f.catalog.models = append(f.catalog.models, m)
	}
	return f
}

// send posts a body to a route with the key.
func (f *fleet) send(path, body string, headers ...string) *http.Response {
	f.t.Helper()
	return f.do(http.MethodPost, path, body, append([]string{"Authorization", "Bearer " + f.key}, headers...)...)
}

const (
	completionsPath = "/v1/completions"
	embeddingsPath  = "/v1/embeddings"
	imagesPath      = "/v1/images/generations"
	legacyHello     = `{"model":"acme/tiny-1b","prompt":"Say hello to the world"}`
	embedHello      = `{"model":"acme/embed","input":"Say hello to the world"}`
	paintHello      = `{"model":"acme/paint","prompt":"Say hello to the world"}`
)

// answering is a script that serves one whole answer.
func answering(json string, prompt, completion int64) func(*played) error {
	return func(p *played) error {
		return p.steps(func() error { return p.event(json, true, completion) }, p.committed,
			func() error { return p.finish(prompt, completion) })
	}
}

// A model answers the endpoints of its category, and is refused by all others.
func TestEachCategoryHasItsEndpoints(t *testing.T) {
	f := withKinds(t)
	models := []string{modelID, seeingID, embeddingID, imageID, audioID}
	serves := map[string]map[string]bool{
		"/v1/chat/completions": {modelID: true, seeingID: true},
		completionsPath:        {modelID: true, seeingID: true},
		embeddingsPath:         {embeddingID: true},
		imagesPath:             {imageID: true},
	}
	bodies := map[string]string{"/v1/chat/completions": hello, completionsPath: legacyHello, embeddingsPath: embedHello,
		imagesPath: paintHello}
	right := map[string]string{
		modelID: "/v1/chat/completions", seeingID: "/v1/chat/completions", embeddingID: embeddingsPath, imageID: imagesPath,
		audioID: "/v1/audio/transcriptions",
	}
	for path, body := range bodies {
		for _, id := range models {
			resp := f.send(path, strings.NewReplacer(modelID, id, embeddingID, id, imageID, id).Replace(body))
			if serves[path][id] {
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%s for %s: got %d, want 200, with %s", path, id, resp.StatusCode, read(t, resp))
				}
				f.report()
				continue
			}
			e := wantError(t, resp, 400, "unsupported_endpoint_for_model")
			switch {
			case e.Error.Param == nil:
				t.Errorf("%s for %s: e.Error.Param: got nil, want a value", path, id)
			case *e.Error.Param != "model":
				t.Errorf(`%s for %s: *e.Error.Param: got %q, want "model"`, path, id, *e.Error.Param)
			case !strings.Contains(e.Error.Message, right[id]+"."):
				t.Errorf("%s for %s: e.Error.Message: got %q, want %q in it", path, id, e.Error.Message, right[id]+".")
			}
			noReport(t, f)
		}
	}
}

func TestALegacyCompletionIsAnsweredOverChat(t *testing.T) {
	f := start(t)
	resp := f.send(completionsPath, `{"prompt":["Say \u0068ello"],"model":"tiny","n":2,"seed":1.0,"echo":false}`)
	const want = `{"id":"cmpl-x","object":"text_completion","created":1,"model":"acme/tiny-1b",` +
		`"choices":[{"logprobs":null,"index":0,` +
		`"text":"Hello","finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`
	if body := read(t, resp); resp.StatusCode != 200 {
		t.Errorf("resp.StatusCode: got %d, want 200", resp.StatusCode)
	} else if body != want {
		t.Errorf("body: got %q, want %q", body, want)
	}
	wantHeaders(t, resp.Header, map[string]string{"X-Svc-Cost-Usd": "0.00000315", "X-Svc-Attempts": "1",
		"Content-Type": "application/json"})
	open := awaited(f.t, f.hub.opens)
	const sent = `{"max_tokens":16,"messages":[{"role":"user","content":"Say \u0068ello"}],"model":"acme/tiny-1b","n":2,` +
		`"seed":1.0}`
	switch {
	case string(open.GetBody()) != sent:
		t.Errorf("open.GetBody(): got %q, want %q", string(open.GetBody()), sent)
	case open.GetEndpoint() != hubv1.Endpoint_ENDPOINT_CHAT:
		t.Errorf("open.GetEndpoint(): got %v, want %v", open.GetEndpoint(), hubv1.Endpoint_ENDPOINT_CHAT)
	case open.GetMaxOutputTokens() != 16:
		t.Errorf("open.GetMaxOutputTokens(): got %d, want 16", open.GetMaxOutputTokens())
	case open.GetChoices() != 2:
		t.Errorf("open.GetChoices(): got %d, want 2", open.GetChoices())
	}
	if got := string(open.GetBody()[open.GetModelOffset():][:open.GetModelLength()]); got != `"acme/tiny-1b"` {
		t.Errorf("the model's span: got %q, want %q", got, `"acme/tiny-1b"`)
	}
	if a := awaited(f.t, f.billing.admits); a.GetMaxCompletionTokens() != 32 {
		t.Errorf("admit: got %d, want 32", a.GetMaxCompletionTokens())
	}
	if sel := awaited(f.t, f.router.selects); strings.Join(sel.GetRequiredCapabilities(), " ") != "chat" {
		t.Errorf(`select: strings.Join(…): got %q, want "chat"`, strings.Join(sel.GetRequiredCapabilities(), " "))
	} else if sel.GetExplicitMaxTokens() != 16 {
		t.Errorf("select: sel.GetExplicitMaxTokens(): got %d, want 16", sel.GetExplicitMaxTokens())
	}
	if w := f.report(); w.GetRelayedBytes() != int64(len(want)) {
		t.Errorf("the request report: got %d, want %d", w.GetRelayedBytes(), int64(len(want)))
	}
}

func TestALegacyCompletionShowsItsCostWhenAsked(t *testing.T) {
	f := start(t)
	body := read(t, f.send(completionsPath, strings.Replace(legacyHello, "{", `{"usage":{"include":true},`, 1)))
	if !strings.HasSuffix(body, `"usage":{"cost":0.00000315,"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`) {
		t.Errorf("body: got %q, want the suffix %q", body,
			`"usage":{"cost":0.00000315,"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`)
	}
	f.hub.set(answering(
		`{"id":"chatcmpl-1","choices":[{"index":0,"message":{"content":"x"}}],"usage":{"prompt_tokens":900,`+
			`"completion_tokens":3,"total_tokens":903}}`, 9, 3))
	body = read(t, f.send(completionsPath, legacyHello))
	if !strings.HasSuffix(body, `"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`) {
		t.Errorf("the engine's claim is shown: got %q, want the suffix %q", body,
			`"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`)
	}
}

// Hostile test 22, on legacy completions too.
func TestALegacyStreamIsTheChatsInText(t *testing.T) {
	f := start(t)
	f.hub.set(streamAnswer)
	chunk := func(text, finish string) string {
		return `data: {"id":"cmpl-x","object":"text_completion","created":1,"model":"acme/tiny-1b",` +
			`"choices":[{"logprobs":null,"index":0,"text":"` +
			text + `","finish_reason":` + finish + `}]}` + "\n\n"
	}
	said := chunk("", "null") + chunk("Hel", "null") + chunk("lo", `"stop"`)
	asked := strings.ReplaceAll(said, "data: {", `data: {"usage":null,`)
	const usage = `{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}`
	shown := func(u string) string {
		return `data: {"id":"cmpl-x","object":"text_completion","created":1,"model":"acme/tiny-1b","choices":[],"usage":` +
			u + `}` + "\n\n"
	}
	for members, want := range map[string]string{
		``: said,
		`"stream_options":{"include_usage":false},`: said,
		`"stream_options":{"include_usage":true},`:  asked + shown(usage),
		`"usage":{"include":true},`:                 asked + shown(`{"cost":0.00000315,`+usage[1:]),
	} {
		resp := f.send(completionsPath, strings.Replace(legacyHello, "{", `{"stream":true,`+members, 1))
		if body := read(t, resp); body != want+"data: [DONE]\n\n" {
			t.Errorf("%s\n%s\nwant\n%s", members, body, want)
		}
		open := awaited(f.t, f.hub.opens)
		if !open.GetStream() {
			t.Errorf("%s: open: open.GetStream(): got false, want true, with %v", members, open)
		} else if !strings.Contains(string(open.GetBody()), `"include_usage":true`) {
			t.Errorf("%s: open: open.GetBody(): got %q, want %q in it", members, string(open.GetBody()), `"include_usage":true`)
		}
		if sel := awaited(f.t, f.router.selects); strings.Join(sel.GetRequiredCapabilities(), " ") != "chat stream" {
			t.Errorf(`select asks: got %q, want "chat stream"`, strings.Join(sel.GetRequiredCapabilities(), " "))
		}
	}
}

func TestALegacyStreamThatBreaksSaysSo(t *testing.T) {
	f := start(t)
	f.hub.set(func(p *played) error {
		return p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed,
			func() error { return p.fail(upstreamFailed()) })
	})
	body := read(t, f.send(completionsPath, strings.Replace(legacyHello, "{", `{"stream":true,`, 1)))
	switch {
	case !strings.Contains(body, `"text":"Hel"`):
		t.Errorf("body: got %q, want %q in it", body, `"text":"Hel"`)
	case !strings.Contains(body, `data: {"error":`):
		t.Errorf("body: got %q, want %q in it", body, `data: {"error":`)
	case strings.Contains(body, "[DONE]"):
		t.Errorf(`body: got %q, want it without "[DONE]"`, body)
	}
}

func vectorJSON(embedding string) string {
	return `{"object":"list","data":[{"object":"embedding","index":0,"embedding":` + embedding +
		`}],"model":"acme/embed",` +
		`"usage":{"prompt_tokens":5,"total_tokens":5}}`
}

// packed is 0.5 and -2 as the SDKs ask for them.
var packed = base64.StdEncoding.EncodeToString([]byte{0, 0, 0, 0x3f, 0, 0, 0, 0xc0})

func TestEmbeddingsComeAsTheyWereAskedFor(t *testing.T) {
	f := withKinds(t)
	for _, c := range []struct{ format, engine, want string }{
		{``, `[0.50,-2]`, `[0.50,-2]`},
		{``, `"` + packed + `"`, `[0.5,-2]`},
		{`"encoding_format":"float",`, `"` + packed + `"`, `[0.5,-2]`},
		{`"encoding_format":null,`, `[0.50,-2]`, `[0.50,-2]`},
		{`"encoding_format":"base64",`, `[0.50,-2]`, `"` + packed + `"`},
		{`"encoding_format":"base64",`, `"` + packed + `"`, `"` + packed + `"`},
	} {
		f.hub.set(answering(vectorJSON(c.engine), 5, 0))
		body := strings.Replace(embedHello, "{", "{"+c.format, 1)
		resp := f.send(embeddingsPath, body)
		if got := read(t, resp); resp.StatusCode != 200 {
			t.Errorf("%s of %s: resp.StatusCode: got %d, want 200", c.format, c.engine, resp.StatusCode)
		} else if wanted := vectorJSON(c.want); got != wanted {
			t.Errorf("%s of %s: read(t, resp): got %q, want %q", c.format, c.engine, got, wanted)
		}
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-Cost-Usd": "0.00000075", "Content-Type": "application/json"})
		switch open := awaited(f.t, f.hub.opens); {
		case string(open.GetBody()) != body:
			t.Errorf("open.GetBody(): got %q, want %q", string(open.GetBody()), body)
		case open.GetEndpoint() != hubv1.Endpoint_ENDPOINT_EMBEDDINGS:
			t.Errorf("open.GetEndpoint(): got %v, want %v", open.GetEndpoint(), hubv1.Endpoint_ENDPOINT_EMBEDDINGS)
		case open.GetInputs() != 1:
			t.Errorf("open.GetInputs(): got %d, want 1", open.GetInputs())
		case open.GetMaxOutputTokens() != 1:
			t.Errorf("open.GetMaxOutputTokens(): got %d, want 1", open.GetMaxOutputTokens())
		case open.GetStream():
			t.Errorf("open.GetStream(): got true, want false, with %v", open)
		}
	}
	f.hub.set(answering(`{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":99,"total_tokens":99}}`, 5, 0))
	got := read(t, f.send(embeddingsPath, strings.Replace(embedHello, "{", `{"usage":{"include":true},`, 1)))
	if want := `{"model":"acme/embed","object":"list","data":[{"index":0,"object":"embedding","embedding":[1]}],` +
		`"usage":{"prompt_tokens":5,"total_tokens":5,"cost":0.00000075}}`; got != want {
		t.Errorf("with the cost\n%s\nwant\n%s", got, want)
	}
}

// Each input has the window for itself; all of them are paid for.
func TestEmbeddingsAreHeldWholeAndFitOneByOne(t *testing.T) {
	f := withKinds(t)
	f.hub.set(answering(vectorJSON(`[1]`), 5, 0))
	read(t, f.send(embeddingsPath, `{"model":"acme/embed","input":[[1,2,3],[4,5,6,7]]}`))
	open, admit, sel := awaited(f.t, f.hub.opens), awaited(f.t, f.billing.admits), awaited(f.t, f.router.selects)
	switch {
	case open.GetEstimatedPromptTokens() != 7:
		t.Errorf("open.GetEstimatedPromptTokens(): got %d, want 7", open.GetEstimatedPromptTokens())
	case open.GetInputs() != 2:
		t.Errorf("open.GetInputs(): got %d, want 2", open.GetInputs())
	case open.GetHeldPromptTokens() != admit.GetPromptTokens():
		t.Errorf("open.GetHeldPromptTokens(): got %d, want %d", open.GetHeldPromptTokens(), admit.GetPromptTokens())
	}
	if admit.GetPromptTokens() != 9+16+16 {
		t.Errorf("admit.GetPromptTokens(): got %d, want 9+16+16", admit.GetPromptTokens())
	} else if admit.GetMaxCompletionTokens() != 0 {
		t.Errorf("admit.GetMaxCompletionTokens(): got %d, want 0", admit.GetMaxCompletionTokens())
	}
	switch {
	case sel.GetPromptTokens() != 4:
		t.Errorf("select: sel.GetPromptTokens(): got %d, want 4", sel.GetPromptTokens())
	case sel.GetExplicitMaxTokens() != 0:
		t.Errorf("select: sel.GetExplicitMaxTokens(): got %d, want 0", sel.GetExplicitMaxTokens())
	case strings.Join(sel.GetRequiredCapabilities(), " ") != "embeddings":
		t.Errorf(`select: strings.Join(…): got %q, want "embeddings"`, strings.Join(sel.GetRequiredCapabilities(), " "))
	}
}

func TestVectorsThatNobodyCanReadAreAnothersToMake(t *testing.T) {
	f := withKinds(t)
	f.hub.byAttempt(
		func(p *played) error {
			return p.steps(func() error { return p.event(vectorJSON(`"no base64"`), true, 0) }, p.committed)
		},
		answering(vectorJSON(`[1]`), 5, 0))
	resp := f.send(embeddingsPath, embedHello)
	switch got := read(t, resp); {
	case resp.StatusCode != 200:
		t.Errorf("resp.StatusCode: got %d, want 200", resp.StatusCode)
	case got != vectorJSON(`[1]`):
		t.Errorf("read(t, resp): got %q, want %q", got, vectorJSON(`[1]`))
	case resp.Header.Get("X-Svc-Attempts") != "2":
		t.Errorf(`resp.Header.Get("X-Svc-Attempts"): got %q, want "2"`, resp.Header.Get("X-Svc-Attempts"))
	}
	if w := f.report(); w.GetCommittedAttempt() != 2 {
		t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 2", w.GetCommittedAttempt())
	} else if w.GetAttempts()[0].GetResult() != "failed" {
		t.Errorf(`the request report: w.GetAttempts()[0].GetResult(): got %q, want "failed"`, w.GetAttempts()[0].GetResult())
	}
}

// Hostile test 25: so many images are held as are asked for, and none more is
// billed than the hub says was delivered.
func TestImagesAreHeldByNumber(t *testing.T) {
	f := withKinds(t)
	const one = `{"b64_json":"AAAA","revised_prompt":"x"}`
	f.hub.set(answering(`{"created":7,"data":[`+one+`],"usage":{"total_tokens":1.0}}`, 0, 1))
	resp := f.send(imagesPath, strings.Replace(paintHello, "{",
		`{"n":3,"size":"99999x99999","quality":"hd","response_format":"b64_json",`, 1))
	if got := read(t, resp); resp.StatusCode != 200 {
		t.Errorf("resp.StatusCode: got %d, want 200", resp.StatusCode)
	} else if got != `{"created":7,"data":[`+one+`],"usage":{"total_tokens":1.0}}` {
		t.Errorf("read(t, resp): got %q, want %q", got, `{"created":7,"data":[`+one+`],"usage":{"total_tokens":1.0}}`)
	}
	wantHeaders(t, resp.Header, map[string]string{"X-Svc-Cost-Usd": "0.0000006"})
	open, admit, sel := awaited(f.t, f.hub.opens), awaited(f.t, f.billing.admits), awaited(f.t, f.router.selects)
	switch {
	case open.GetEndpoint() != hubv1.Endpoint_ENDPOINT_IMAGES:
		t.Errorf("open.GetEndpoint(): got %v, want %v", open.GetEndpoint(), hubv1.Endpoint_ENDPOINT_IMAGES)
	case open.GetChoices() != 3:
		t.Errorf("open.GetChoices(): got %d, want 3", open.GetChoices())
	case open.GetMaxOutputTokens() != 1:
		t.Errorf("open.GetMaxOutputTokens(): got %d, want 1", open.GetMaxOutputTokens())
	case open.GetEstimatedPromptTokens() != 0:
		t.Errorf("open.GetEstimatedPromptTokens(): got %d, want 0", open.GetEstimatedPromptTokens())
	case open.GetHeldPromptTokens() != 0:
		t.Errorf("open.GetHeldPromptTokens(): got %d, want 0", open.GetHeldPromptTokens())
	}
	if admit.GetPromptTokens() != 0 {
		t.Errorf("admit.GetPromptTokens(): got %d, want 0", admit.GetPromptTokens())
	} else if admit.GetMaxCompletionTokens() != 3 {
		t.Errorf("admit.GetMaxCompletionTokens(): got %d, want 3", admit.GetMaxCompletionTokens())
	}
	if sel.GetPromptTokens() < 1 {
		t.Errorf("select: sel.GetPromptTokens(): got %d, want at least 1", sel.GetPromptTokens())
	} else if strings.Join(sel.GetRequiredCapabilities(), " ") != "images" {
		t.Errorf(`select: strings.Join(…): got %q, want "images"`, strings.Join(sel.GetRequiredCapabilities(), " "))
	}
}

func TestImagesAreStreamedByNameAndEndWithoutDone(t *testing.T) {
	f := withKinds(t)
	const partial,
		completed = `{"type":"image_generation.partial_image","created_at":1,"b64_json":"AA","partial_image_index":0}`,
		`{"type":"image_generation.completed","created_at":2,"b64_json":"AAAA","usage":{"total_tokens":5}}`
	f.hub.set(func(p *played) error {
		return p.steps(
			func() error {
				return p.send(&hubv1.DispatchEvent{Name: "image_generation.partial_image", Json: []byte(partial),
					FirstContent: true})
			}, p.committed,
			func() error {
				return p.send(&hubv1.DispatchEvent{Name: "image_generation.completed", Json: []byte(completed),
					CompletionTokens: 1})
			},
			func() error { return p.finish(0, 1) })
	})
	resp := f.send(imagesPath, strings.Replace(paintHello, "{", `{"stream":true,"partial_images":1,`, 1))
	want := "event: image_generation.partial_image\ndata: " + partial + "\n\nevent: image_generation.completed\ndata: " +
		completed + "\n\n"
	if got := read(t, resp); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	wantHeaders(t, resp.Header, map[string]string{"Content-Type": "text/event-stream; charset=utf-8",
		"X-Accel-Buffering": "no"})
	if sel := awaited(f.t, f.router.selects); strings.Join(sel.GetRequiredCapabilities(), " ") != "images stream" {
		t.Errorf(`select asks: got %q, want "images stream"`, strings.Join(sel.GetRequiredCapabilities(), " "))
	}
	if w := f.report(); w.GetRelayedTokens() != 1 {
		t.Errorf("the request report: w.GetRelayedTokens(): got %d, want 1", w.GetRelayedTokens())
	} else if !w.GetStream() {
		t.Errorf("the request report: w.GetStream(): got false, want true, with %v", w)
	}
}

func TestNoLineOfAStreamIsLongerThanClientsRead(t *testing.T) {
	f := withKinds(t)
	const most = 24 << 20
	image := func(size int) []byte {
		return []byte(`{"b64_json":"` + strings.Repeat("A", size-len(`data: {"b64_json":""}`)) + `"}`)
	}
	const name = "image_generation.partial_image"
	f.hub.byAttempt(
		func(p *played) error {
			return p.steps(func() error {
				return p.send(&hubv1.DispatchEvent{Name: name, Json: image(most + 1), FirstContent: true})
			}, p.committed)
		},
		func(p *played) error {
			return p.steps(
				func() error { return p.send(&hubv1.DispatchEvent{Name: name, Json: image(most), FirstContent: true}) },
				p.committed,
				func() error { return p.send(&hubv1.DispatchEvent{Name: name, Json: image(most + 1)}) })
		})
	body := read(t, f.send(imagesPath, strings.Replace(paintHello, "{", `{"stream":true,`, 1)))
	line, rest, _ := strings.Cut(strings.TrimPrefix(body, "event: "+name+"\n"), "\n")
	if len(line) != most {
		t.Errorf("a line: got %d, want %d, with %.100s", len(line), most, rest)
	} else if !strings.HasPrefix(rest, "\ndata: {\"error\":") {
		t.Errorf("rest: got %q, want the prefix %q", rest, "\ndata: {\"error\":")
	}
	if w := f.report(); w.GetCommittedAttempt() != 2 {
		t.Errorf("the request report: got %d, want 2", w.GetCommittedAttempt())
	}
}

// Hostile tests 13, 14, 15 and 21 on every endpoint with a JSON body: names that differ
// in case only, a body that is too deep or too large, and a number that does not count
// are 400 and cost nothing.
func TestHostileBodiesAreRefusedOnEveryEndpoint(t *testing.T) {
	f := withKinds(t, func(c *Config) { c.MaxBodyBytes = 1 << 20 })
	number := map[string]string{completionsPath: "max_tokens", embeddingsPath: "dimensions", imagesPath: "n"}
	for path, body := range map[string]string{completionsPath: legacyHello, embeddingsPath: embedHello,
		imagesPath: paintHello} {
		with := func(members string) string { return strings.Replace(body, "{", "{"+members+",", 1) }
		for bad, code := range map[string]string{
			with(`"Model":"acme/tiny-1b"`):                            "duplicate_field",
			with(`"mod\u0065l":"acme/tiny-1b"`):                       "duplicate_field",
			with(`"` + number[path] + `":1,"` + number[path] + `":2`): "duplicate_field",
			with(`"x":` + strings.Repeat("[", 100_000)):               "invalid_request",
			with(strings.Repeat(`"x":1,`, 5000) + `"y":1`):            "invalid_request",
			"\ufeff" + body:        "invalid_request",
			with("\"x\":\"\x00\""): "invalid_request",
			body + "{}":            "invalid_request",
		} {
			wantError(t, f.send(path, bad), 400, code)
		}
		wantError(t, f.send(path, with(`"x":"`+strings.Repeat("x", 1<<20)+`"`)), 413, "request_too_large")
		wantError(t, f.send(path, body, "Content-Encoding", "gzip"), 415, "unsupported_encoding")
		for _, n := range []string{"-1", "0", "2147483648", "9223372036854775808", "1e30", "1e999999", `"5"`, "1.5"} {
			e := wantError(t, f.send(path, with(`"`+number[path]+`":`+n)), 400, "invalid_value")
			if e.Error.Param == nil {
				t.Errorf("%s %s: the param: got nil, want a value", path, n)
			} else if *e.Error.Param != number[path] {
				t.Errorf("%s %s: the param: *e.Error.Param: got %q, want %q", path, n, *e.Error.Param, number[path])
			}
		}
		if resp := f.send(path, with(`"`+number[path]+`":null`)); resp.StatusCode != 200 {
			t.Errorf("%s: null as if absent: got %d, want 200, with %s", path, resp.StatusCode, read(t, resp))
		}
		f.report()
		wantError(t, f.send(path, strings.Replace(body, "world", "\xff", 1)), 400, "invalid_request")
		odd := strings.Replace(body, "world", `\ud800`, 1)
		read(t, f.send(path, odd))
		f.report()
		awaited(f.t, f.hub.opens)
		if open := awaited(f.t, f.hub.opens); !strings.Contains(string(open.GetBody()), `\ud800`) {
			t.Errorf("%s: the bytes that came: got %q, want %q in it", path, string(open.GetBody()), `\ud800`)
		}
	}
	noReport(t, f)
}

func TestTheOfficialSDKReadsEveryKind(t *testing.T) {
	f := withKinds(t)
	client := f.sdk()
	text, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
		Model:  openai.CompletionNewParamsModel(modelID),
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Say hello")},
	})
	switch {
	case err != nil:
		t.Errorf("completions: got the error %v, want none", err)
	case text.Choices[0].Text != "Hello":
		t.Errorf(`completions: text.Choices[0].Text: got %q, want "Hello"`, text.Choices[0].Text)
	case text.Usage.TotalTokens != 12:
		t.Errorf("completions: text.Usage.TotalTokens: got %d, want 12", text.Usage.TotalTokens)
	case text.ID != "cmpl-x":
		t.Errorf(`completions: text.ID: got %q, want "cmpl-x"`, text.ID)
	}
	f.hub.set(answering(vectorJSON(`"`+packed+`"`), 5, 0))
	vectors, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: embeddingID, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a"}},
	})
	if err != nil || len(vectors.Data[0].Embedding) != 2 || math.Abs(vectors.Data[0].Embedding[1]+2) > 1e-9 ||
		vectors.Usage.TotalTokens != 5 {
		t.Errorf("embeddings: %v, %+v", err, vectors)
	}
	f.hub.set(answering(`{"data":[{"b64_json":"AAAA"}]}`, 0, 1))
	pictures, err := client.Images.Generate(t.Context(), openai.ImageGenerateParams{Model: imageID, Prompt: "a cat"})
	switch {
	case err != nil:
		t.Errorf("images: got the error %v, want none", err)
	case pictures.Data[0].B64JSON != "AAAA":
		t.Errorf(`images: pictures.Data[0].B64JSON: got %q, want "AAAA"`, pictures.Data[0].B64JSON)
	case pictures.Created == 0:
		t.Error("images: pictures.Created: got 0, want any but 0")
	}
	f.hub.set(streamAnswer)
	stream := client.Completions.NewStreaming(t.Context(), openai.CompletionNewParams{
		Model:  openai.CompletionNewParamsModel(modelID),
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Say hello")},
	})
	said := ""
	for stream.Next() {
		said += stream.Current().Choices[0].Text
	}
	if stream.Err() != nil {
		t.Errorf("a stream of completions: stream.Err(): got the error %v, want none", stream.Err())
	} else if said != "Hello" {
		t.Errorf(`a stream of completions: said: got %q, want "Hello"`, said)
	}
}

// An image of the largest line that is sent is read by the SDK with the shortest
// limit.
func TestTheOfficialSDKReadsAStreamOfImages(t *testing.T) {
	f := withKinds(t)
	partial := `{"type":"image_generation.partial_image","partial_image_index":0,"b64_json":"AA"}`
	head := `{"type":"image_generation.completed","b64_json":"`
	size := 24<<20 - len("data: "+head+`"}`)
	f.hub.set(func(p *played) error {
		return p.steps(
			func() error {
				return p.send(&hubv1.DispatchEvent{Name: "image_generation.partial_image", Json: []byte(partial),
					FirstContent: true})
			}, p.committed,
			func() error {
				return p.send(&hubv1.DispatchEvent{Name: "image_generation.completed",
					Json: []byte(head + strings.Repeat("A", size) + `"}`), CompletionTokens: 1})
			},
			func() error { return p.finish(0, 1) })
	})
	client := f.sdk()
	stream := client.Images.GenerateStreaming(t.Context(), openai.ImageGenerateParams{Model: imageID, Prompt: "a cat",
		PartialImages: openai.Int(1)})
	var types []string
	last := 0
	for stream.Next() {
		e := stream.Current()
		types, last = append(types, e.Type), len(e.B64JSON)
	}
	switch {
	case stream.Err() != nil:
		t.Errorf("stream.Err(): got the error %v, want none", stream.Err())
	case strings.Join(types, " ") != "image_generation.partial_image image_generation.completed":
		t.Errorf(`strings.Join(types, " "): got %q, want "image_generation.partial_image image_generation.completed"`,
			strings.Join(types, " "))
	case last != size:
		t.Errorf("last: got %d, want %d", last, size)
	}
}

// Whole answers of every kind are JSON with what OpenAI's description requires.
func TestWholeAnswersHaveTheirRequiredMembers(t *testing.T) {
	f := withKinds(t)
	for _, c := range []struct{ path, body, engine, top, entries, entry string }{
		{"/v1/chat/completions", hello,
			`{"id":"x","object":"chat.completion","created":1,"model":"acme/tiny-1b","choices":[{"index":0,` +
				`"message":{"role":"assistant"},"finish_reason":"stop"}]}`,
			"id object created model choices usage", "choices", "index message logprobs finish_reason"},
		{completionsPath, legacyHello,
			`{"id":"x","object":"chat.completion","created":1,"model":"acme/tiny-1b","choices":[{"index":0,` +
				`"message":{"role":"assistant"},"finish_reason":"stop"}]}`,
			"id object created model choices usage", "choices", "index text logprobs finish_reason"},
		{embeddingsPath, embedHello, `{"data":[{"embedding":[1]}]}`, "object data model usage", "data",
			"object index embedding"},
		{imagesPath, paintHello, `{"data":[{"url":"https://x.org"}]}`, "created data", "data", "url"},
	} {
		f.hub.set(answering(c.engine, 1, 1))
		body := read(t, f.send(c.path, c.body))
		var got map[string]json.RawMessage
		var entries []map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if err := json.Unmarshal(got[c.entries], &entries); err != nil || len(entries) != 1 {
			t.Fatalf("%s: %v", body, err)
		}
		for names, in := range map[string]map[string]json.RawMessage{c.top: got, c.entry: entries[0]} {
			for name := range strings.FieldsSeq(names) {
				if _, ok := in[name]; !ok {
					t.Errorf("%s lacks %s: %s", c.path, name, body)
				}
			}
		}
	}
}
