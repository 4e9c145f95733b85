package edgegateway

import (
	"bytes"
	"encoding/binary"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

const transcriptionsPath = "/v1/audio/transcriptions"

// silence is a WAV file of so many milliseconds, at 8 kHz and 8 bits, whose
// header says that it is a second.
func silence(ms int) string {
	b := binary.LittleEndian.AppendUint32([]byte("RIFF"), 8036)
	b = binary.LittleEndian.AppendUint32(append(b, "WAVEfmt "...), 16)
	for _, v := range []uint16{1, 1, 8000, 0, 8000, 0, 1, 8} {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	b = binary.LittleEndian.AppendUint32(append(b, "data"...), 8000)
	return string(append(b, make([]byte, ms*8)...))
}

// field is one field of a form; one whose name begins with @ is a file.
type field struct{ name, value string }

// formBody makes a form with a boundary.
func formBody(t testing.TB, boundary string, fields ...field) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		var part io.Writer
		var err error
		if name, file := strings.CutPrefix(f.name, "@"); file {
			part, err = w.CreateFormFile(name, "speech.mp3") // it is no mp3, and nobody cares
		} else {
			part, err = w.CreateFormField(f.name)
		}
		if err == nil {
			_, err = io.WriteString(part, f.value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

func (f *fleet) transcribe(fields ...field) *http.Response {
	f.t.Helper()
	body, kind := formBody(f.t, "clients-own", fields...)
	return f.send(transcriptionsPath, body, "Content-Type", kind)
}

// speech asks for a second and a half.
func speech(more ...field) []field {
	return append([]field{{"@file", silence(1500)}, {"model", audioID}}, more...)
}

const transcriptJSON = `{"text":"Hello"}`

func transcript(p *played) error {
	switch {
	case p.open.GetStream():
		return p.steps(
			func() error { return p.event(`{"type":"transcript.text.delta","delta":"Hel"}`, true, 0) }, p.committed,
			func() error { return p.event(`{"type":"transcript.text.delta","delta":"lo"}`, false, 0) },
			func() error { return p.event(`{"type":"transcript.text.done","text":"Hello"}`, false, 0) },
			func() error { return p.finish(p.open.GetEstimatedPromptTokens(), 0) })
	case p.open.GetAnswerForm() == hubv1.AnswerForm_ANSWER_FORM_TEXT:
		return p.steps(
			func() error {
				return p.send(&hubv1.DispatchEvent{Json: []byte("1\r\n00:00:00,000 --> 00:00:01,500\r\nHello\r\n"),
					FirstContent: true})
			}, p.committed,
			func() error { return p.finish(p.open.GetEstimatedPromptTokens(), 0) })
	}
	return answering(transcriptJSON, p.open.GetEstimatedPromptTokens(), 0)(p)
}

func withSpeech(t *testing.T, change ...func(*Config)) *fleet {
	t.Helper()
	f := withKinds(t, change...)
	f.hub.set(transcript)
	return f
}

// Hostile test 24: what the provider gets and what is held for it is what was
// measured, whatever the file says of itself and in whichever order the form is.
func TestATranscriptionIsMeasuredAndSentOn(t *testing.T) {
	f := withSpeech(t)
	resp := f.transcribe(field{"language", "en"}, field{"@file", silence(90_001)},
		field{"timestamp_granularities[]", "word"},
		field{"timestamp_granularities[]", "segment"}, field{"temperature", "0.50"}, field{"model", audioID},
		field{"vendor", "\xff"})
	if body := read(t, resp); resp.StatusCode != 200 {
		t.Errorf("resp.StatusCode: got %d, want 200", resp.StatusCode)
	} else if body != `{"usage":{"type":"duration","seconds":91},"text":"Hello"}` {
		t.Errorf("body: got %q, want %q", body, `{"usage":{"type":"duration","seconds":91},"text":"Hello"}`)
	}
	open := awaited(f.t, f.hub.opens)
	admit, sel := awaited(f.t, f.billing.admits), awaited(f.t, f.router.selects)
	switch {
	case open.GetEndpoint() != hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS:
		t.Errorf("open: got %v, want %v", open.GetEndpoint(), hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS)
	case open.GetEstimatedPromptTokens() != 90_001:
		t.Errorf("open.GetEstimatedPromptTokens(): got %d, want 90_001", open.GetEstimatedPromptTokens())
	case open.GetChoices() != 1:
		t.Errorf("open.GetChoices(): got %d, want 1", open.GetChoices())
	case open.GetStream():
		t.Error("open.GetStream(): got true, want false")
	case open.GetAnswerForm() != hubv1.AnswerForm_ANSWER_FORM_JSON:
		t.Errorf("open.GetAnswerForm(): got %v, want %v", open.GetAnswerForm(), hubv1.AnswerForm_ANSWER_FORM_JSON)
	case open.GetModelId() != audioID:
		t.Errorf("open.GetModelId(): got %q, want %q", open.GetModelId(), audioID)
	}
	switch {
	case admit.GetPromptTokens() != 90_001:
		t.Errorf("admit.GetPromptTokens(): got %d, want 90_001", admit.GetPromptTokens())
	case admit.GetMaxCompletionTokens() != 0:
		t.Errorf("admit.GetMaxCompletionTokens(): got %d, want 0", admit.GetMaxCompletionTokens())
	case admit.GetModelId() != audioID:
		t.Errorf("admit.GetModelId(): got %q, want %q", admit.GetModelId(), audioID)
	}
	switch {
	case strings.Join(sel.GetRequiredCapabilities(), " ") != "transcriptions":
		t.Errorf(`select: strings.Join(…): got %q, want "transcriptions"`, strings.Join(sel.GetRequiredCapabilities(), " "))
	case sel.GetBodyBytes() != int64(len(open.GetBody())):
		t.Errorf("select: sel.GetBodyBytes(): got %d, want %d", sel.GetBodyBytes(), int64(len(open.GetBody())))
	case sel.GetPromptTokens() != 0:
		t.Errorf("select: sel.GetPromptTokens(): got %d, want 0", sel.GetPromptTokens())
	}
	if w := f.report(); w.GetMetered().GetPromptTokens() != 90_001 {
		t.Errorf("the request report: w.GetMetered().GetPromptTokens(): got %d, want 90_001",
			w.GetMetered().GetPromptTokens())
	} else if w.GetMetered().GetCompletionTokens() != 0 {
		t.Errorf("the request report: w.GetMetered().GetCompletionTokens(): got %d, want 0",
			w.GetMetered().GetCompletionTokens())
	}
	if span := string(open.GetBody()[open.GetModelOffset() : open.GetModelOffset()+
		open.GetModelLength()]); span != audioID {
		t.Errorf("the model's span: got %q, want %q", span, audioID)
	}
	want := []field{{"model", audioID}, {"language", "en"}, {"@file", silence(90_001)},
		{"timestamp_granularities[]", "word"},
		{"timestamp_granularities[]", "segment"}, {"temperature", "0.50"}, {"vendor", "\xff"}}
	_, params, err := mime.ParseMediaType(open.GetContentType())
	if err != nil {
		t.Fatalf("content type %q: got the error %v, want none", open.GetContentType(), err)
	}
	if params["boundary"] == "clients-own" {
		t.Fatalf(`content type %q: params["boundary"]: got "clients-own", want any but "clients-own"`, open.GetContentType())
	}
	if body, _ := formBody(t, params["boundary"], want...); string(open.GetBody()) != body {
		t.Errorf("sent %d bytes, want %d", len(open.GetBody()), len(body))
	}
}

func TestTranscriptsComeInTheFormThatWasAskedFor(t *testing.T) {
	f := withSpeech(t)
	const subtitles = "1\r\n00:00:00,000 --> 00:00:01,500\r\nHello\r\n"
	for format, text := range map[string]bool{"json": false, "verbose_json": false, "diarized_json": false, "text": true,
		"srt": true, "vtt": true} {
		resp := f.transcribe(speech(field{"response_format", format}, field{"stream", "False"})...)
		body, kind := read(t, resp), resp.Header.Get("Content-Type")
		whole := `{"usage":{"type":"duration","seconds":2},"text":"Hello"}`
		if format != "json" {
			whole = `{"usage":{"type":"duration","seconds":2},"task":"transcribe","duration":1.5,"text":"Hello"}`
		}
		switch {
		case text && body != subtitles:
			t.Errorf("%s: %d: body: got %q, want %q, where text", format, resp.StatusCode, body, subtitles)
		case text && kind != "text/plain; charset=utf-8":
			t.Errorf(`%s: %d: kind: got %q, want "text/plain; charset=utf-8", where text`, format, resp.StatusCode, kind)
		case !text && body != whole:
			t.Errorf("%s: %d: body: got %q, want %q, where !text", format, resp.StatusCode, body, whole)
		case !text && kind != "application/json":
			t.Errorf(`%s: %d: kind: got %q, want "application/json", where !text`, format, resp.StatusCode, kind)
		}
		f.report()
	}
	for _, format := range []string{"json", "text"} {
		resp := f.transcribe(speech(field{"stream", "true"}, field{"response_format", format})...)
		want := "data: {\"type\":\"transcript.text.delta\",\"delta\":\"Hel\"}\n\ndata: {\"type\":\"transcript.text.delta\"," +
			"\"delta\":\"lo\"}\n\n" +
			"data: {\"usage\":{\"type\":\"duration\",\"seconds\":2},\"type\":\"transcript.text.done\",\"text\":\"Hello\"}\n\n"
		if body := read(t, resp); !strings.HasPrefix(body, want) {
			t.Errorf("the stream: got %q, want the prefix %q", body, want)
		} else if resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Errorf(`resp.Header.Get("Content-Type"): got %q, want "text/event-stream; charset=utf-8"`,
				resp.Header.Get("Content-Type"))
		}
		for len(f.hub.opens) > 1 {
			awaited(f.t, f.hub.opens)
		}
		if open := awaited(f.t, f.hub.opens); open.GetAnswerForm() != hubv1.AnswerForm_ANSWER_FORM_JSON {
			t.Errorf("a stream is asked: got %v, want %v", open.GetAnswerForm(), hubv1.AnswerForm_ANSWER_FORM_JSON)
		} else if !open.GetStream() {
			t.Error("open.GetStream(): got false, want true")
		}
		f.report()
	}
	for range 6 {
		awaited(f.t, f.router.selects)
	}
	sel := awaited(f.t, f.router.selects)
	if strings.Join(sel.GetRequiredCapabilities(), " ") != "transcriptions stream" {
		t.Errorf(`select asks: got %q, want "transcriptions stream"`, strings.Join(sel.GetRequiredCapabilities(), " "))
	}
}

func TestATranscriptionIsRefusedByTheFieldThatIsWrong(t *testing.T) {
	f := withSpeech(t)
	file, model := field{"@file", silence(10)}, field{"model", audioID}
	cases := map[string]struct {
		fields      []field
		code, param string
	}{
		"no model":            {[]field{file}, "missing_required_parameter", "model"},
		"no file":             {[]field{model}, "missing_required_parameter", "file"},
		"empty model":         {[]field{file, {"model", ""}}, "invalid_value", "model"},
		"two models":          {[]field{file, model, model}, "duplicate_field", "model"},
		"a model in capitals": {[]field{file, model, {"Model", "x"}}, "duplicate_field", "model"},
		"two files":           {[]field{file, model, file}, "duplicate_field", "file"},
		"a file in capitals":  {[]field{file, model, {"@FILE", "x"}}, "duplicate_field", "file"},
		"two forms": {[]field{file, model, {"response_format", "json"}, {"response_format", "text"}},
			"duplicate_field", "response_format"},
		"two streams":     {[]field{file, model, {"stream", "true"}, {"stream", "false"}}, "duplicate_field", "stream"},
		"a file as text":  {[]field{model, {"file", silence(10)}}, "invalid_value", "file"},
		"a model as file": {[]field{file, {"@model", audioID}}, "invalid_value", "model"},
		"another form":    {[]field{file, model, {"response_format", "yaml"}}, "invalid_value", "response_format"},
		"a stream of 1":   {[]field{file, model, {"stream", "1"}}, "invalid_value", "stream"},
		"streamed subtitles": {[]field{file, model, {"stream", "true"}, {"response_format", "srt"}}, "invalid_value",
			"response_format"},
		"a zip":              {[]field{{"@file", "PK\x03\x04" + strings.Repeat("x", 1000)}, model}, "invalid_value", "file"},
		"an empty file":      {[]field{{"@file", ""}, model}, "invalid_value", "file"},
		"an empty recording": {[]field{{"@file", silence(0)}, model}, "invalid_value", "file"},
		"a pin":              {[]field{file, model, {"provider[only][]", providerA}}, "invalid_value", "provider"},
		"models":             {[]field{file, model, {"models", modelID}}, "invalid_value", "models"},
		"a chat model":       {[]field{file, {"model", modelID}}, "unsupported_endpoint_for_model", "model"},
	}
	for name, c := range cases {
		e := wantError(t, f.transcribe(c.fields...), 400, c.code)
		if e.Error.Param == nil {
			t.Errorf("%s: e.Error.Param: got nil, want a value", name)
		} else if *e.Error.Param != c.param {
			t.Errorf("%s: *e.Error.Param: got %q, want %q", name, *e.Error.Param, c.param)
		}
	}
	body, kind := formBody(t, "b", file, model)
	for name, c := range map[string]struct{ body, kind, code string }{
		"json":         {hello, "application/json", "invalid_request"},
		"no type":      {body, "", "invalid_request"},
		"no boundary":  {body, "multipart/form-data", "invalid_request"},
		"other parts":  {body, kind + "x", "invalid_request"},
		"cut":          {body[:len(body)-4], kind, "invalid_request"},
		"lying length": {strings.Replace(body, "\r\n\r\n", "\r\nContent-Length: 9\r\n\r\n", 1), kind, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, f.send(transcriptionsPath, c.body, "Content-Type", c.kind), 400, c.code)
		})
	}
	wantError(t, f.send(transcriptionsPath, body, "Content-Type", kind, "Content-Type", kind), 400, "invalid_request")
	wantError(t, f.send(transcriptionsPath, body, "Content-Type", kind, "Content-Encoding", "gzip"), 415,
		"unsupported_encoding")
	noReport(t, f)
}

func TestTheOrderOfATranscriptionsErrors(t *testing.T) {
	f := withSpeech(t, func(c *Config) { c.MaxUploadBytes = 1 << 20 })
	large, kind := formBody(t, "b", field{"@file", strings.Repeat("x", 2<<20)})
	wantError(t, f.do(http.MethodPost, transcriptionsPath, large, "Content-Type", kind), 413, "request_too_large")
	unknown, _ := http.NewRequest(http.MethodPost, f.base+transcriptionsPath, io.MultiReader(strings.NewReader(large)))
	resp, err := f.client.Do(unknown)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	wantError(t, resp, 401, "missing_api_key") // nothing of it is read
	wantError(t, f.do(http.MethodPost, transcriptionsPath, "x"), 401, "missing_api_key")
	wantError(t, f.transcribe(field{"@file", "x"}, field{"model", "nobody/has"}), 400, "invalid_value")
	wantError(t, f.transcribe(field{"@file", silence(10)}, field{"model", "nobody/has"}), 404, "model_not_found")
	e := wantError(t, f.transcribe(field{"model", audioID}, field{"@file", silence(1 << 17)[:1<<20+1]}),
		413, "request_too_large")
	if e.Error.Param == nil {
		t.Error("e.Error.Param: got nil, want a value")
	} else if *e.Error.Param != "file" {
		t.Errorf(`*e.Error.Param: got %q, want "file"`, *e.Error.Param)
	}
	f.keys.set(nil, modelID)
	other := withSpeech(t)
	other.keys.set(nil, modelID)
	wantError(t, other.transcribe(speech()...), 403, "model_not_allowed")
	wantError(t, other.do(http.MethodGet, transcriptionsPath, ""), 405, "method_not_allowed")
}

func TestUploadsShareABoundedMemory(t *testing.T) {
	f := withSpeech(t, func(c *Config) { c.UploadMemoryBytes = 300_000 })
	running, release := make(chan struct{}, 2), make(chan struct{})
	f.hub.set(func(p *played) error {
		running <- struct{}{}
		if err := p.held(release); err != nil {
			return err
		}
		return transcript(p)
	})
	first := make(chan *http.Response, 1)
	big := field{"@file", silence(25_000)}
	go func() { first <- f.transcribe(big, field{"model", audioID}) }()
	awaited(t, running)
	resp := f.transcribe(big, field{"model", audioID})
	wantError(t, resp, 503, "service_unavailable")
	wantHeaders(t, resp.Header, map[string]string{"Retry-After": "2", "X-Should-Retry": ""})
	close(release)
	if resp := awaited(t, first); resp.StatusCode != 200 {
		t.Errorf("the first: got %d, want 200", resp.StatusCode)
	}
	f.report()
	if resp := f.transcribe(big, field{"model", audioID}); resp.StatusCode != 200 {
		t.Errorf("with room again: got %d, want 200, with %s", resp.StatusCode, read(t, resp))
	}
}

// SDKs choose another boundary for each try.
func TestATranscriptionThatIsSentAgainIsAnsweredOnce(t *testing.T) {
	f := withSpeech(t)
	for i, boundary := range []string{"first-try", "second-try"} {
		body, kind := formBody(t, boundary, speech()...)
		resp := f.send(transcriptionsPath, body, "Content-Type", kind, "Idempotency-Key", "once")
		if got := read(t, resp); resp.StatusCode != 200 {
			t.Fatalf("try %d: resp.StatusCode: got %d, want 200", i, resp.StatusCode)
		} else if !strings.Contains(got, "Hello") {
			t.Fatalf(`try %d: read(t, resp): got %q, want "Hello" in it`, i, got)
		}
		if again := resp.Header.Get("Idempotency-Replayed"); (again == "true") != (i == 1) {
			t.Errorf(`try %d: replayed: again == "true": got %t, want %t`, i, again == "true", i == 1)
		}
		if i == 0 {
			awaited(f.t, f.claims.ended)
		}
	}
	if len(f.hub.opens) != 1 {
		t.Errorf("it was dispatched: got %d, want 1", len(f.hub.opens))
	}
}

func TestTheSDKTranscribes(t *testing.T) {
	f := withSpeech(t)
	client := f.sdk()
	got, err := client.Audio.Transcriptions.New(t.Context(), openai.AudioTranscriptionNewParams{
		File: openai.File(strings.NewReader(silence(2500)), "speech.wav", "audio/wav"), Model: audioID,
		Include: []openai.TranscriptionInclude{openai.TranscriptionIncludeLogprobs}, TimestampGranularities: []string{"word",
			"segment"},
	})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case got.Text != "Hello":
		t.Errorf(`Text: got %q, want "Hello"`, got.Text)
	case got.Usage.Seconds != 3:
		t.Errorf("Usage.Seconds: got %v, want 3", got.Usage.Seconds)
	}
}
