package providerhub_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
)

// everything is what an agent declares that takes all requests.
func everything() []string {
	return []string{"chat", "stream", "cancel", "embeddings", "images", "transcriptions"}
}

// endpoints of requests that are not chat.
const (
	embeddings     = hubv1.Endpoint_ENDPOINT_EMBEDDINGS
	images         = hubv1.Endpoint_ENDPOINT_IMAGES
	transcriptions = hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS
)

// mediaOrder is an Open for two vectors, for two images, or for the text of 90
// seconds of audio.
func mediaOrder(m member, a *fakeagent.Agent, endpoint hubv1.Endpoint, stream bool) *hubv1.DispatchOpen {
	o := order(m, a, stream)
	o.Endpoint = endpoint
	switch endpoint {
	case embeddings:
		o.Inputs, o.MaxOutputTokens, o.Choices = 2, 0, 0
		o.Rates = &moneyv1.Rates{InputPicoUsdPerToken: 2, PayoutInputPicoUsdPerToken: 1}
	case images:
		o.Choices, o.MaxOutputTokens, o.EstimatedPromptTokens = 2, 1, 0
		o.Rates = &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_IMAGE, OutputPicoUsdPerToken: 2, PayoutOutputPicoUsdPerToken: 1}
	case transcriptions:
		const form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + testModel + "\r\n--b--\r\n"
		o.Body, o.ContentType = []byte(form), "multipart/form-data; boundary=b"
		o.ModelOffset, o.ModelLength = uint32(strings.Index(form, testModel)), uint32(len(testModel))
		o.MaxOutputTokens, o.EstimatedPromptTokens = 0, 90_000
		o.Rates = &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_AUDIO_MINUTE, InputPicoUsdPerToken: 2, PayoutInputPicoUsdPerToken: 1}
	default:
	}
	return o
}

// ended is how one of the other endpoints' requests came out.
type ended struct {
	result
	usage *eventsv1.UsageEvent // nil when nothing was billed
}

// media has a hub serve requests one after the other.
type media struct {
	*world
	usages *usages
	member member
	agent  *fakeagent.Agent
	billed int
}

func newMedia(t *testing.T) *media {
	w := setup(t)
	m := &media{world: w, usages: w.listen(), member: w.active()}
	m.agent = w.dial(m.member, fakeagent.Options{Capabilities: everything()})
	return m
}

// serve has the agent answer an order by do.
func (m *media) serve(open *hubv1.DispatchOpen, do func(r *fakeagent.Request)) ended {
	m.t.Helper()
	call := m.call(open)
	r := received(m.t, m.agent)
	go do(r)
	e := ended{result: call.rest()}
	if len(e.events) > 0 {
		m.billed++
		e.usage = m.usages.next(m.billed)
	}
	return e
}

// whole answers with a body of status 200.
func (m *media) whole(body string) func(*fakeagent.Request) {
	return func(r *fakeagent.Request) { _ = r.Fail(200, body) } // the hub's word is what counts
}

// pieces answers with bytes and an END.
func pieces(complete bool, all ...string) func(*fakeagent.Request) {
	return func(r *fakeagent.Request) {
		for _, p := range all {
			if r.Data([]byte(p)) != nil {
				return
			}
		}
		_ = r.End(200, complete) // it may have ended already
	}
}

func TestWholeAnswersOfEachKindAreJudgedRestoredAndBilled(t *testing.T) {
	t.Parallel()
	m := newMedia(t)
	text := func(o *hubv1.DispatchOpen) { o.AnswerForm = hubv1.AnswerForm_ANSWER_FORM_TEXT }
	type bill struct{ prompt, completion int64 }
	for name, c := range map[string]struct {
		endpoint hubv1.Endpoint
		change   func(*hubv1.DispatchOpen)
		answer   string
		relayed  string // as the answer when empty
		bill     bill
		failed   string // what a retryable failure says
	}{
		"embeddings, claim": {endpoint: embeddings,
			answer: `{"object":"list","model":"local","data":[{"embedding":[0.1,1e-7],"index":0},{"embedding":"AACAPw=="}],` +
				`"usage":{"prompt_tokens":9,"total_tokens":9}}`,
			relayed: `{"object":"list","model":"` + testModel +
				`","data":[{"embedding":[0.1,1e-7],"index":0},{"embedding":"AACAPw=="}],` +
				`"usage":{"prompt_tokens":9,"total_tokens":9}}`,
			bill: bill{9, 0}},
		"embeddings, no claim, no model": {endpoint: embeddings,
			answer:  `{"data":[{"embedding":[1]},{"embedding":[2]}]}`,
			relayed: `{"model":"` + testModel + `","data":[{"embedding":[1]},{"embedding":[2]}]}`,
			bill:    bill{12, 0}},
		"embeddings, a completion is claimed": {endpoint: embeddings,
			answer: `{"model":"x","data":[{"embedding":[1]},{"embedding":[2]}],` +
				`"usage":{"prompt_tokens":9,"completion_tokens":5000,"total_tokens":5009}}`,
			relayed: `{"model":"` + testModel +
				`","data":[{"embedding":[1]},{"embedding":[2]}],` +
				`"usage":{"prompt_tokens":9,"completion_tokens":5000,"total_tokens":5009}}`,
			bill: bill{9, 0}},
		"embeddings, one vector for two inputs": {endpoint: embeddings, answer: `{"data":[{"embedding":[1]}]}`,
			failed: "one vector for each input"},
		"embeddings, three for two": {endpoint: embeddings,
			answer: `{"data":[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]}`, failed: "one vector for each input"},
		"embeddings, one is empty": {endpoint: embeddings,
			answer: `{"data":[{"embedding":[1]},{"embedding":[]}]}`, failed: "one vector for each input"},
		"embeddings, one is no vector": {endpoint: embeddings,
			answer: `{"data":[{"embedding":[1]},{"embedding":["x"]}]}`, failed: "one vector for each input"},
		"embeddings, one in a base64 of 3 bytes": {endpoint: embeddings,
			answer: `{"data":[{"embedding":[1]},{"embedding":"AAAA"}]}`, failed: "one vector for each input"},
		"embeddings, one is too large": {endpoint: embeddings,
			answer: `{"data":[{"embedding":[1]},{"embedding":[1e999]}]}`, failed: "one vector for each input"},
		"embeddings, broken": {endpoint: embeddings, answer: `{"data":[{"embedding":[1]},{"embedding":[1`,
			failed: "cannot be read"},
		"embeddings, error": {endpoint: embeddings, answer: `{"error":{"message":"out of memory"}}`,
			failed: "out of memory"},

		"images": {endpoint: images,
			answer: `{"created":1,"data":[{"url":"https://x/1"},{"b64_json":"iVBO","revised_prompt":"p"}],` +
				`"usage":{"input_tokens":5,"output_tokens":9000,"total_tokens":9005}}`, bill: bill{0, 2}},
		"hostile 25: fewer than asked": {endpoint: images,
			answer: `{"data":[{"url":"https://x/1"},{"url":""},{"b64_json":null},{}]}`, bill: bill{0, 1}},
		"hostile 25: more than asked": {endpoint: images,
			answer: `{"data":[{"url":"a"},{"url":"b"},{"url":"c"},{"url":"d"}]}`, bill: bill{0, 2}},
		"hostile 25: none": {endpoint: images, answer: `{"created":1,"data":[]}`, failed: "holds no image"},
		"images, error":    {endpoint: images, answer: `{"error":"no memory"}`, failed: "no memory"},
		"images, one said twice": {endpoint: images, answer: `{"data":[{"url":"a","url":"b"}]}`,
			failed: "cannot be read"},
		"transcription": {endpoint: transcriptions,
			answer: `{"text":"good day","usage":{"type":"duration","seconds":1}}`, bill: bill{90_000, 0}},
		"transcription of silence":      {endpoint: transcriptions, answer: `{"text":""}`, bill: bill{90_000, 0}},
		"transcription without text":    {endpoint: transcriptions, answer: `{"segments":[]}`, failed: "has no text"},
		"transcription, text no string": {endpoint: transcriptions, answer: `{"text":null}`, failed: "has no text"},
		"transcription, no JSON":        {endpoint: transcriptions, answer: `good day`, failed: "cannot be read"},
		"as text": {endpoint: transcriptions, change: text,
			answer: "WEBVTT\r\n\r\n00:00.000 --> 00:01.000\r\n\u00fc\r\n", bill: bill{90_000, 0}},
		"silence as text": {endpoint: transcriptions, change: text, answer: "", bill: bill{90_000, 0}},
		"as text, an error": {endpoint: transcriptions, change: text,
			answer: ` {"error":{"message":"no memory"}}`, failed: "no memory"},
		"as text, not UTF-8": {endpoint: transcriptions, change: text, answer: "\xff\xfe",
			failed: "cannot be read"},
	} {
		open := mediaOrder(m.member, m.agent, c.endpoint, false)
		if c.change != nil {
			c.change(open)
		}
		e := m.serve(open, m.whole(c.answer))
		if c.failed != "" {
			switch {
			case !e.failed.GetRetryable():
				t.Errorf("%s: failed: e.failed.GetRetryable(): got false, want true, with %v", name, e.failed)
			case !strings.Contains(e.failed.GetMessage(), c.failed):
				t.Errorf("%s: failed: e.failed.GetMessage(): got %q, want %q in it", name, e.failed.GetMessage(), c.failed)
			case len(e.events) != 0:
				t.Errorf("%s: len(e.events): got %d, want 0", name, len(e.events))
			}
			continue
		}
		if c.relayed == "" {
			c.relayed = c.answer
		}
		switch {
		case e.failed != nil:
			t.Errorf("%s: failed: got %v, want nil", name, e.failed)
			continue
		case len(e.events) != 1:
			t.Errorf("%s: len(e.events): got %d, want 1", name, len(e.events))
			continue
		case string(e.events[0].GetJson()) != c.relayed:
			t.Errorf("%s: e.events[0].GetJson(): got %q, want %q", name, string(e.events[0].GetJson()), c.relayed)
			continue
		case !e.events[0].GetFirstContent():
			t.Errorf("%s: e.events[0].GetFirstContent(): got false, want true", name)
			continue
		}
		if e.finished.GetBillablePromptTokens() != c.bill.prompt {
			t.Errorf("%s: finished: e.finished.GetBillablePromptTokens(): got %d, want %d", name,
				e.finished.GetBillablePromptTokens(), c.bill.prompt)
		} else if e.finished.GetBillableCompletionTokens() != c.bill.completion {
			t.Errorf("%s: finished: e.finished.GetBillableCompletionTokens(): got %d, want %d", name,
				e.finished.GetBillableCompletionTokens(), c.bill.completion)
		} else if e.usage.GetBillablePromptTokens() != c.bill.prompt {
			t.Errorf("%s: e.usage.GetBillablePromptTokens(): got %d, want %d", name, e.usage.GetBillablePromptTokens(),
				c.bill.prompt)
		} else if e.usage.GetBillableCompletionTokens() != c.bill.completion {
			t.Errorf("%s: e.usage.GetBillableCompletionTokens(): got %d, want %d", name, e.usage.GetBillableCompletionTokens(),
				c.bill.completion)
		} else if e.usage.GetEnding() != eventsv1.Ending_ENDING_COMPLETED {
			t.Errorf("%s: e.usage.GetEnding(): got %v, want %v", name, e.usage.GetEnding(), eventsv1.Ending_ENDING_COMPLETED)
		} else if want := unitOf(open); e.usage.GetRates().GetUnit() != want {
			t.Errorf("%s: e.usage.GetRates().GetUnit(): got %v, want %v", name, e.usage.GetRates().GetUnit(), want)
		}
	}
}

// unitOf is the unit of an order's rates, as it is written by hubs.
func unitOf(o *hubv1.DispatchOpen) moneyv1.Unit {
	if u := o.GetRates().GetUnit(); u != moneyv1.Unit_UNIT_UNSPECIFIED {
		return u
	}
	return moneyv1.Unit_UNIT_TOKEN
}

const (
	partial = "event: image_generation.partial_image\n" +
		"data: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"iVBO\",\"partial_image_index\":0}\n\n"
	completed = "event: image_generation.completed\n" +
		"data: {\"type\":\"image_generation.completed\",\"b64_json\":\"iVBO\",\"usage\":{\"total_tokens\":5}}\n\n"
	delta    = "data: {\"type\":\"transcript.text.delta\",\"delta\":\"good day\"}\n\n"
	heard    = "data: {\"type\":\"transcript.text.done\",\"text\":\"good day\"}\n\n"
	done     = "data: [DONE]\n\n"
	midError = "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"out of memory\"}}\n\n"
)

// streamWant is how a stream ends and what is billed.
type streamWant struct {
	events             int
	ending             eventsv1.Ending // 0: retryable
	prompt, completion int64
}

// streamsOfEachKind are answers of engines.
var streamsOfEachKind = map[string]struct {
	endpoint hubv1.Endpoint
	answer   func(*fakeagent.Request)
	want     streamWant
}{
	"images": {images, pieces(true, partial, completed, partial, completed),
		streamWant{4, eventsv1.Ending_ENDING_COMPLETED, 0, 2}},
	"images and [DONE]": {images, pieces(true, completed, completed, done),
		streamWant{2, eventsv1.Ending_ENDING_COMPLETED, 0, 2}},
	"images, the last by END": {images, pieces(true, partial, completed),
		streamWant{2, eventsv1.Ending_ENDING_COMPLETED, 0, 1}},
	"images, the last by [DONE]": {images, pieces(false, partial, completed, done),
		streamWant{2, eventsv1.Ending_ENDING_COMPLETED, 0, 1}},
	"images, an event nobody knows": {images, pieces(true, "event: x\ndata: {}\n\n", completed, completed),
		streamWant{3, eventsv1.Ending_ENDING_COMPLETED, 0, 2}},
	"images, no type but a name": {images,
		pieces(true, "event: image_generation.completed\ndata: {\"b64_json\":\"iVBO\"}\n\n"),
		streamWant{1, eventsv1.Ending_ENDING_COMPLETED, 0, 1}},
	"images, no name but a type": {images,
		pieces(true, "data: {\"type\":\"image_generation.completed\",\"b64_json\":\"iVBO\"}\n\n"),
		streamWant{1, eventsv1.Ending_ENDING_COMPLETED, 0, 1}},
	"hostile 25: more than asked": {images, pieces(true, completed, completed, completed, completed),
		streamWant{2, eventsv1.Ending_ENDING_COMPLETED, 0, 2}},
	"images, partial ones alone": {images, pieces(true, partial, partial), streamWant{2, eventsv1.Ending_ENDING_TRUNCATED,
		0, 0}},
	"images, cut off": {images, pieces(false, partial, completed, partial),
		streamWant{3, eventsv1.Ending_ENDING_TRUNCATED, 0, 1}},
	"images, an error behind one": {images, pieces(true, completed, midError),
		streamWant{1, eventsv1.Ending_ENDING_ENGINE_ERROR, 0, 1}},
	"images, garbage behind one": {images, pieces(true, completed, "data: {\"b64_json\":\"\n\n"),
		streamWant{1, eventsv1.Ending_ENDING_ENGINE_ERROR, 0, 1}},
	"images, an error first": {images, pieces(true, midError), streamWant{}},
	"images, empty ones": {images,
		pieces(true, "event: image_generation.completed\ndata: {\"b64_json\":\"\"}\n\n"), streamWant{}},
	"images, nothing": {images, pieces(true), streamWant{}},
	"transcription": {transcriptions, pieces(true, delta, heard),
		streamWant{2, eventsv1.Ending_ENDING_COMPLETED, 90_000, 0}},
	"transcription, no END": {transcriptions, pieces(false, delta, heard),
		streamWant{2, eventsv1.Ending_ENDING_COMPLETED, 90_000, 0}},
	"transcription of silence": {transcriptions,
		pieces(true, "data: {\"type\":\"transcript.text.done\",\"text\":\"\"}\n\n"),
		streamWant{1, eventsv1.Ending_ENDING_COMPLETED, 90_000, 0}},
	"silence, no END": {transcriptions,
		pieces(false, "data: {\"type\":\"transcript.text.done\",\"text\":\"\"}\n\n"),
		streamWant{1, eventsv1.Ending_ENDING_COMPLETED, 90_000, 0}},
	"transcription by segments": {transcriptions,
		pieces(true, "data: {\"type\":\"transcript.text.segment\",\"text\":\"good day\"}\n\n", heard),
		streamWant{2, eventsv1.Ending_ENDING_COMPLETED, 90_000, 0}},
	"transcription without its end": {transcriptions, pieces(true, delta, delta),
		streamWant{2, eventsv1.Ending_ENDING_TRUNCATED, 0, 0}},
	"transcription and only [DONE]": {transcriptions, pieces(true, delta, done),
		streamWant{1, eventsv1.Ending_ENDING_TRUNCATED, 0, 0}},
	"transcription cut off": {transcriptions, pieces(false, delta), streamWant{1, eventsv1.Ending_ENDING_TRUNCATED,
		0, 0}},
	"transcription, error behind": {transcriptions, pieces(true, delta, midError),
		streamWant{1, eventsv1.Ending_ENDING_ENGINE_ERROR, 0, 0}},
	"transcription, nothing":         {transcriptions, pieces(true, done), streamWant{}},
	"transcription, not streamed":    {transcriptions, pieces(true, `{"text":"good day"}`), streamWant{}},
	"transcription, an error, plain": {transcriptions, pieces(true, `{"error":{"message":"x"}}`), streamWant{}},
}

func TestStreamsOfEachKindEndAndAreBilledAsTheTableSays(t *testing.T) {
	t.Parallel()
	m := newMedia(t)
	for name, c := range streamsOfEachKind {
		e := m.serve(mediaOrder(m.member, m.agent, c.endpoint, true), c.answer)
		if len(e.events) != c.want.events {
			t.Errorf("%s: len(e.events): got %d, want %d", name, len(e.events), c.want.events)
			continue
		}
		if e.failed.GetRetryable() != (c.want.ending == 0) {
			t.Errorf("%s: e.failed.GetRetryable(): got %t, want %t", name, e.failed.GetRetryable(), c.want.ending == 0)
			continue
		}
		if c.want.ending == 0 {
			continue
		}
		switch u := e.usage; {
		case u.GetEnding() != c.want.ending:
			t.Errorf("%s: u.GetEnding(): got %v, want %v", name, u.GetEnding(), c.want.ending)
		case u.GetBillablePromptTokens() != c.want.prompt:
			t.Errorf("%s: u.GetBillablePromptTokens(): got %d, want %d", name, u.GetBillablePromptTokens(), c.want.prompt)
		case u.GetBillableCompletionTokens() != c.want.completion:
			t.Errorf("%s: u.GetBillableCompletionTokens(): got %d, want %d", name, u.GetBillableCompletionTokens(),
				c.want.completion)
		case (e.finished == nil) != (c.want.ending != eventsv1.Ending_ENDING_COMPLETED):
			t.Errorf("%s: finished: e.finished == nil: got %t, want %t", name, e.finished == nil,
				c.want.ending != eventsv1.Ending_ENDING_COMPLETED)
		}
	}
}

func TestEventsOfImagesKeepTheirNamesAndCount(t *testing.T) {
	t.Parallel()
	m := newMedia(t)
	e := m.serve(mediaOrder(m.member, m.agent, images, true), pieces(true, partial,
		"data: {\"type\":\"image_generation.completed\",\"b64_json\":\"QQ==\"}\n\n", "event: x y\ndata: {}\n\n", completed))
	var got []string
	for _, event := range e.events {
		got = append(got, fmt.Sprintf("%s %d %v", event.GetName(), event.GetCompletionTokens(), event.GetFirstContent()))
	}
	want := "image_generation.partial_image 0 true, image_generation.completed 1 false,  1 false, " +
		"image_generation.completed 2 false"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

func TestHangingUpInTheMiddleCostsTheWholeAudioAndTheImagesDelivered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		endpoint           hubv1.Endpoint
		answer             string
		prompt, completion int64
	}{
		"transcription": {transcriptions, delta, 90_000, 0},
		"images":        {images, completed, 0, 1},
	} {
		m := newMedia(t)
		call := m.call(mediaOrder(m.member, m.agent, c.endpoint, true))
		r := received(m.t, m.agent)
		must(t, r.Data([]byte(c.answer)))
		call.content()
		must(t, call.stream.CloseSend())
		wait(t, "the cancel", r.Cancelled())
		must(t, r.End(0, false))
		switch u := m.usages.next(1); {
		case u.GetEnding() != eventsv1.Ending_ENDING_CLIENT_GONE:
			t.Errorf("%s: usage: u.GetEnding(): got %v, want %v", name, u.GetEnding(), eventsv1.Ending_ENDING_CLIENT_GONE)
		case u.GetBillablePromptTokens() != c.prompt:
			t.Errorf("%s: usage: u.GetBillablePromptTokens(): got %d, want %d", name, u.GetBillablePromptTokens(), c.prompt)
		case u.GetBillableCompletionTokens() != c.completion:
			t.Errorf("%s: usage: u.GetBillableCompletionTokens(): got %d, want %d", name, u.GetBillableCompletionTokens(),
				c.completion)
		}
	}
}

func TestAnEngineWithoutTheEndpointIsTheProvidersFault(t *testing.T) {
	t.Parallel()
	m := newMedia(t)
	for _, endpoint := range []hubv1.Endpoint{embeddings, images, transcriptions} {
		for _, status := range []int32{404, 405, 501} {
			e := m.serve(mediaOrder(m.member, m.agent, endpoint, false),
				func(r *fakeagent.Request) { _ = r.Fail(status, `{"detail":"Not Found"}`) })
			if !e.failed.GetRetryable() {
				t.Errorf("%v %d: e.failed.GetRetryable(): got false, want true, with %v", endpoint, status, e.failed)
			} else if e.failed.GetEngineStatus() != status {
				t.Errorf("%v %d: e.failed.GetEngineStatus(): got %d, want %d", endpoint, status, e.failed.GetEngineStatus(), status)
			}
		}
		e := m.serve(mediaOrder(m.member, m.agent, endpoint, false),
			func(r *fakeagent.Request) { _ = r.Fail(400, `{"error":{"message":"no"}}`) })
		if e.failed.GetRetryable() {
			t.Errorf("%v: e.failed.GetRetryable(): got true, want false, with %v", endpoint, e.failed)
		} else if e.failed.GetCode() != "engine_refused" {
			t.Errorf(`%v: e.failed.GetCode(): got %q, want "engine_refused"`, endpoint, e.failed.GetCode())
		}
	}
}

func TestOrdersOfOtherKindsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMedia(t)
	for name, c := range map[string]struct {
		endpoint hubv1.Endpoint
		change   func(*hubv1.DispatchOpen)
	}{
		"an endpoint nobody knows": {embeddings, func(o *hubv1.DispatchOpen) { o.Endpoint = 99 }},
		"embeddings streamed":      {embeddings, func(o *hubv1.DispatchOpen) { o.Stream = true }},
		"embeddings of nothing":    {embeddings, func(o *hubv1.DispatchOpen) { o.Inputs = 0 }},
		"embeddings of too much":   {embeddings, func(o *hubv1.DispatchOpen) { o.Inputs = 2049 }},
		"embeddings as text": {embeddings,
			func(o *hubv1.DispatchOpen) { o.AnswerForm = hubv1.AnswerForm_ANSWER_FORM_TEXT }},
		"embeddings by the image": {embeddings,
			func(o *hubv1.DispatchOpen) { o.Rates.Unit = moneyv1.Unit_UNIT_IMAGE }},
		"images by the token": {images, func(o *hubv1.DispatchOpen) { o.Rates.Unit = moneyv1.Unit_UNIT_TOKEN }},
		"no image":            {images, func(o *hubv1.DispatchOpen) { o.Choices = 0 }},
		"too many images":     {images, func(o *hubv1.DispatchOpen) { o.Choices = 11 }},
		"a large body of images": {images,
			func(o *hubv1.DispatchOpen) { o.Body = append(o.Body, make([]byte, 10<<20)...) }},
		"audio by the token": {transcriptions,
			func(o *hubv1.DispatchOpen) { o.Rates.Unit = moneyv1.Unit_UNIT_TOKEN }},
		"too large a form": {transcriptions,
			func(o *hubv1.DispatchOpen) { o.Body = append(o.Body, make([]byte, 26<<20)...) }},
		"text streamed": {transcriptions, func(o *hubv1.DispatchOpen) {
			o.Stream, o.AnswerForm = true,
				hubv1.AnswerForm_ANSWER_FORM_TEXT
		}},
		"a media type of two lines":      {transcriptions, func(o *hubv1.DispatchOpen) { o.ContentType = "a/b\r\nX: y" }},
		"a media type that is not ASCII": {transcriptions, func(o *hubv1.DispatchOpen) { o.ContentType = "a/ü" }},
		"a media type that is far too long": {transcriptions,
			func(o *hubv1.DispatchOpen) { o.ContentType = strings.Repeat("a", 257) }},
	} {
		open := mediaOrder(m.member, m.agent, c.endpoint, false)
		c.change(open)
		if err := m.call(open).err(); !fault.Is(err, fault.InvalidRequest) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, fault.InvalidRequest)
		}
	}
}

func TestOnlyAgentsThatDeclareAnEndpointAreAsked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{}) // chat alone
	for _, endpoint := range []hubv1.Endpoint{embeddings, images, transcriptions} {
		if err := w.call(mediaOrder(m, a, endpoint, false)).err(); !fault.Is(err, fault.SessionGone) {
			t.Errorf("%v: got the error %v, want the reason %v", endpoint, err, fault.SessionGone)
		}
	}
	call := w.call(order(m, a, false))
	go fakeagent.Answer("x")(received(t, a))
	if r := call.rest(); r.finished == nil {
		t.Errorf("chat: %v", r.failed)
	}
}

func TestAgentIsToldOfTheEndpointAndGetsTheWholeForm(t *testing.T) {
	t.Parallel()
	m := newMedia(t)
	open := mediaOrder(m.member, m.agent, transcriptions, false)
	open.Body = append(open.Body, bytes.Repeat([]byte{0, 255}, 13<<20-len(open.GetBody()))...)
	e := m.serve(open, func(r *fakeagent.Request) {
		switch {
		case !bytes.Equal(r.Body, open.GetBody()):
			t.Errorf("r.Body: got %q, want %q", r.Body, open.GetBody())
		case r.Open.GetEndpoint().String() != "ENDPOINT_TRANSCRIPTIONS":
			t.Errorf(`r.Open.GetEndpoint(): got %q, want "ENDPOINT_TRANSCRIPTIONS"`, r.Open.GetEndpoint().String())
		case r.Open.GetContentType() != open.GetContentType():
			t.Errorf("r.Open.GetContentType(): got %q, want %q", r.Open.GetContentType(), open.GetContentType())
		case string(r.Body[r.Open.GetModelOffset():][:r.Open.GetModelLength()]) != testModel:
			t.Errorf("open: the model in the body: got %q, want %q",
				string(r.Body[r.Open.GetModelOffset():][:r.Open.GetModelLength()]), testModel)
		}
		_ = r.Fail(200, `{"text":"x"}`)
	})
	if e.finished == nil {
		t.Errorf("failed %v", e.failed)
	}
}
