package edgegateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// withCost asks for the cost in the usage.
func withCost(body string) string {
	return strings.Replace(body, "{", `{"usage":{"include":true},`, 1)
}

// A client sees the cost that it is charged.
func TestWhatAPlanCoversCostsNothing(t *testing.T) {
	const vector = `{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":9,"total_tokens":9}}`
	for billing, cost := range map[billingv1.BillingType]string{
		billingv1.BillingType_BILLING_TYPE_PLAN: "0.00", billingv1.BillingType_BILLING_TYPE_PAYG: "0.00000315",
	} {
		f := withKinds(t)
		f.billing.payBy(billing)
		resp := f.post(withCost(hello))
		if body := read(t, resp); !strings.Contains(body, `"cost":`+cost+`,`) {
			t.Errorf("%v, whole: %s", billing, body)
		}
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-Cost-Usd": cost})

		f.hub.set(streamAnswer)
		if body := read(t, f.post(withCost(helloStream))); !strings.Contains(body, `"cost":`+cost+`,`) {
			t.Errorf("%v, streamed: %s", billing, body)
		}

		if billing != billingv1.BillingType_BILLING_TYPE_PLAN {
			cost = "0.00000135" // of the prompt alone
		}
		f.hub.set(answering(vector, 9, 0))
		resp = f.send(embeddingsPath, withCost(embedHello))
		if body := read(t, resp); !strings.Contains(body, `"cost":`+cost+`,`) {
			t.Errorf("%v, embeddings: %s", billing, body)
		}
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-Cost-Usd": cost})
	}
}

// The usage of images is the engine's own. The cost is added to it for a client that
// asks. Where there is no usage none is made up.
func TestImagesShowTheirCostWhenAsked(t *testing.T) {
	f := withKinds(t)
	const one = `"data":[{"url":"https://x.org"}]`
	for usage, want := range map[string]string{
		``:                            `{"usage":{"cost":0.0000006},"created":7,` + one + `}`,
		`,"usage":null`:               `{"created":7,` + one + `,"usage":{"cost":0.0000006}}`,
		`,"usage":{"total_tokens":5}`: `{"created":7,` + one + `,"usage":{"cost":0.0000006,"total_tokens":5}}`,
		`,"usage":{"cost":9}`:         `{"created":7,` + one + `,"usage":{"cost":0.0000006}}`,
	} {
		engine := `{"created":7,` + one + usage + `}`
		f.hub.set(answering(engine, 0, 1))
		if got := read(t, f.send(imagesPath, withCost(paintHello))); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", usage, got, want)
		}
		if got := read(t, f.send(imagesPath, paintHello)); got != engine {
			t.Errorf("%s: not asked for, got %s", usage, got)
		}
	}
}

func TestTheLastEventOfImagesShowsTheCostWhenAsked(t *testing.T) {
	f := withKinds(t)
	const partialName, name = "image_generation.partial_image", "image_generation.completed"
	const partial = `{"type":"` + partialName + `","created_at":1,"b64_json":"AA","partial_image_index":0}`
	const completed = `{"type":"` + name + `","created_at":2,"b64_json":"AAAA","usage":{"total_tokens":5}}`
	send := func(p *played, name, json string, first bool) func() error {
		return func() error {
			return p.send(&hubv1.DispatchEvent{Name: name, Json: []byte(json), FirstContent: first, CompletionTokens: 1})
		}
	}
	line := func(name, json string) string {
		if name != "" {
			name = "event: " + name + "\n"
		}
		return name + "data: " + json + "\n\n"
	}
	shown := strings.Replace(completed, `"usage":{`, `"usage":{"cost":0.0000012,`, 1)
	for _, named := range []string{name, ""} {
		f.hub.set(func(p *played) error {
			return p.steps(send(p, partialName, partial, true), p.committed, send(p, named, completed, false),
				send(p, named, completed, false),
				func() error { return p.finish(0, 2) })
		})
		body := strings.Replace(paintHello, "{", `{"stream":true,`, 1)
		start := line(partialName, partial) + line(named, completed)
		if got, want := read(t, f.send(imagesPath, withCost(body))), start+line(named, shown); got != want {
			t.Errorf("named %q: got\n%s\nwant\n%s", named, got, want)
		}
		if got, want := read(t, f.send(imagesPath, body)), start+line(named, completed); got != want {
			t.Errorf("named %q, not asked for: got\n%s\nwant\n%s", named, got, want)
		}
	}
	// What has come is given, also when the stream fails then.
	f.hub.set(func(p *played) error {
		return p.steps(send(p, name, completed, true), p.committed, func() error { return p.fail(upstreamFailed()) })
	})
	got := read(t, f.send(imagesPath, withCost(strings.Replace(paintHello, "{", `{"stream":true,`, 1))))
	if !strings.HasPrefix(got, line(name, completed)+`data: {"error":`) {
		t.Errorf("of a stream that failed: %s", got)
	}
}

// A transcript begins when the engine has the audio, and the time of the upload is not
// the engine's.
func TestAStreamedTranscriptHasTheWholeTimeForItsFirstContent(t *testing.T) {
	f := withSpeech(t)
	read(t, f.transcribe(speech(field{"stream", "true"})...))
	if open := <-f.hub.opens; open.GetFirstContentTimeoutMs() != open.GetTotalTimeoutMs() ||
		open.GetFirstContentTimeoutMs() <= f.cfg.FirstContentTimeout.Milliseconds() {
		t.Errorf("open says %d ms of %d", open.GetFirstContentTimeoutMs(), open.GetTotalTimeoutMs())
	}
}

// The receipt of the last model attempt names none before it.
func TestAnAnswerOfALaterModelAttemptNamesTheFirst(t *testing.T) {
	f := several(t).start()
	failed := failing(upstreamFailed())
	f.hub.byModel(map[string]func(*played) error{modelID: failed, "m1": failed, "m2": wholeAnswer, "m4": failed})
	for _, last := range []string{"m2", "m4"} {
		resp := f.post(withModels("m1", last))
		read(t, resp)
		first := f.report()
		f.report()
		if w := f.report(); w.GetRequestId() == first.GetRequestId() {
			t.Fatalf("the model attempts are %v and %v", first, w)
		}
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-First-Request-Id": first.GetRequestId()})
	}
	resp := f.post(strings.Replace(withModels("m1"), modelID, "m2", 1))
	read(t, resp)
	wantHeaders(t, resp.Header, map[string]string{"X-Svc-First-Request-Id": ""})
}

// A model whose answers are shorter than the client asks for is passed over.
func TestModelsWithTooShortAnswersArePassedOver(t *testing.T) {
	f := several(t).start() // m5 gives 10 tokens
	f.hub.byModel(map[string]func(*played) error{modelID: failing(upstreamFailed()), "m1": wholeAnswer})
	long := func(body string) string { return strings.Replace(body, "{", `{"max_tokens":11,`, 1) }
	resp := f.post(long(withModels("m5", "m1")))
	if body := read(t, resp); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	for _, want := range []string{modelID, "m1"} {
		if got := (<-f.billing.admits).GetModelId(); got != want {
			t.Errorf("admitted %s, want %s", got, want)
		}
	}
	f.report()
	f.report()
	e := wantError(t, f.post(long(strings.Replace(withModels("m1"), `"model":"`+modelID, `"model":"m5`, 1))), 400,
		"invalid_value")
	if e.Error.Param == nil || *e.Error.Param != "max_tokens" {
		t.Errorf("the param is %v", e.Error.Param)
	}
}

// A model whose name makes the body too long for a hub is passed over alone, and its
// departure is not shown.
func TestAModelWhoseNameDoesNotFitIsPassedOver(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.MaxBodyBytes = 1 << 10 })
	long := strings.Repeat("n", 200)
	for _, id := range []string{long, "m1"} {
		m := proto.Clone(testModel()).(*catalogv1.Model)
		m.ModelId, m.Slug = id, "slug-"+strconv.Itoa(len(id))
		if id == long {
			m.DeprecatedAt = timestamppb.New(time.Now().Add(time.Hour))
		}
		f.catalog.models = append(f.catalog.models, m)
	}
	f.start()
	f.hub.byModel(map[string]func(*played) error{modelID: failing(upstreamFailed()), "m1": wholeAnswer})
	body := withModels("slug-200", "m1")
	body = strings.Replace(body, "Say hello", strings.Repeat("x", 1000-len(body)), 1)
	resp := f.post(strings.Replace(body, `","m1"`, `"`, 1))
	wantError(t, resp, http.StatusBadGateway, "upstream_error")
	wantHeaders(t, resp.Header, map[string]string{"Deprecation": "", "X-Svc-First-Request-Id": ""})
	f.report()
	resp = f.post(body)
	if got := read(t, resp); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, got)
	}
	first, last := f.report(), f.report()
	if first.GetContinuedAs() != last.GetRequestId() {
		t.Errorf("the model attempts are %v and %v", first, last)
	}
}

// A null counts as absent, and no name stands twice in the body that is sent.
func TestAVisitorMayLeaveTheLengthNull(t *testing.T) {
	f := openPlayground(t)
	for i, body := range []string{`"max_tokens":null`, `"max_t\u006fkens" : null`, `"max_completion_tokens":null`} {
		resp := f.visit(strings.Replace(playgroundBody, "{", "{"+body+",", 1))
		if got := read(t, resp); resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", body, resp.StatusCode, got)
		}
		open := <-f.hub.opens
		var sent struct {
			MaxTokens int `json:"max_tokens"`
		}
		if err := json.Unmarshal(open.GetBody(), &sent); err != nil || sent.MaxTokens != 100 ||
			open.GetMaxOutputTokens() != 100 {
			t.Errorf("%d: sent %s, %v", i, open.GetBody(), err)
		}
	}
}

// A plan's money cannot be steered: a client that names who may not serve, or a
// quantization, pays as it goes. A preference that names no provider does not.
func TestWhoNarrowsTheProvidersPaysAsTheyGo(t *testing.T) {
	f := start(t)
	for provider, pinned := range map[string]bool{
		fmt.Sprintf(`{"ignore":%s}`, list(providerA, providerC)): true,
		`{"quantizations":["fp8-of-acme"]}`:                      true,
		`{"ignore":[]}`:                                          false,
		`{"sort":"latency"}`:                                     false,
		`{"allow_fallbacks":false,"max_price":{"prompt":99}}`:    false,
	} {
		read(t, f.post(routed(`"provider":`+provider)))
		if admit := <-f.billing.admits; admit.GetPinned() != pinned {
			t.Errorf("%s: admitted as pinned: %t", provider, admit.GetPinned())
		}
	}
}
