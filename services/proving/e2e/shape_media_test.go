package e2e

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// done is the last event of most streams.
const done = "data: [DONE]"

func (s *stage) completions() []shaped {
	const path = "/v1/completions"
	body := func(extra string) string { return fmt.Sprintf(`{"model":%q,"prompt":"Once upon"%s}`, s.model, extra) }
	return []shaped{
		{name: "completion", path: path, shape: "text_completion", body: body(""), has: []string{`"usage":`}},
		{name: "completion of an engine that says the least", engine: bare, path: path, shape: "text_completion",
			body: body(""), has: []string{`"text":"hi"`}},
		{name: "completion stream of an engine that says the least", engine: bareStream, path: path,
			shape: "text_completion.chunk", stream: done,
			body: body(`,"stream":true`)},
		{name: "completion stream", path: path, shape: "text_completion.chunk", stream: done, body: body(`,"stream":true`)},
		{name: "completion stream with usage", path: path, shape: "text_completion.chunk", stream: done,
			has:  []string{`"choices":[]`},
			body: body(`,"stream":true,"stream_options":{"include_usage":true}`)},
		{name: "broken completion stream", engine: fakeengine.Behaviour{End: fakeengine.EndReset, EndAfter: broken},
			path:  path,
			shape: "text_completion.chunk", stream: `data: {"error":{`, body: body(`,"stream":true`)},
		{name: "completion with echo", path: path, status: http.StatusBadRequest, shape: "error",
			has: []string{`"param":"echo"`}, body: body(`,"echo":true`)},
		{name: "completion of a model of images", path: path, status: http.StatusBadRequest, shape: "error",
			has:  []string{`"code":"unsupported_endpoint_for_model"`, `"param":"model"`},
			body: strings.Replace(body(""), s.model, s.of("image"), 1)},
	}
}

func (s *stage) vectors() []shaped {
	const path, category = "/v1/embeddings", "embedding"
	body := func(extra string) string {
		return fmt.Sprintf(`{"model":%q,"input":["a","b"]%s}`, s.of(category), extra)
	}
	return []shaped{
		{name: "embeddings", category: category, path: path, shape: "embeddings", body: body(""),
			has: []string{`"embedding":[`}},
		{name: "embeddings in base64", category: category, path: path, shape: "embeddings",
			body: body(`,"encoding_format":"base64"`), has: []string{`"embedding":"`}},
		{name: "embeddings in base64 of an engine that knows none", engine: fakeengine.Behaviour{IgnoreFormat: true},
			category: category, path: path,
			shape: "embeddings", body: body(`,"encoding_format":"base64"`), has: []string{`"embedding":"`}},
		{name: "embeddings of an engine that says the least", category: category, path: path, shape: "embeddings",
			body: body(""),
			engine: fakeengine.Behaviour{ContentType: "application/json",
				Raw: `{"data":[{"embedding":[0.5]},{"embedding":[1.50]}]}`},
			has: []string{`"embedding":[1.50]`, `"index":1`, `"model":"` + s.of(category) + `"`}},
		{name: "embedding of nothing", category: category, path: path, status: http.StatusBadRequest, shape: "error",
			has:  []string{`"param":"input"`},
			body: fmt.Sprintf(`{"model":%q,"input":""}`, s.of(category))},
		{name: "embedding by a model of chat", path: path, status: http.StatusBadRequest, shape: "error",
			has: []string{`"code":"unsupported_endpoint_for_model"`}, body: strings.Replace(body(""), s.of(category), s.model,
				1)},
	}
}

func (s *stage) images() []shaped {
	const path, category = "/v1/images/generations", "image"
	body := func(extra string) string {
		return fmt.Sprintf(`{"model":%q,"prompt":"A cat"%s}`, s.of(category), extra)
	}
	return []shaped{
		{name: "images by URL", category: category, path: path, shape: "images", body: body(`,"n":2,"response_format":"url"`),
			has: []string{`"url":`}},
		{name: "images in base64", category: category, path: path, shape: "images",
			body: body(`,"n":2,"response_format":"b64_json"`), has: []string{`"b64_json":`}},
		{name: "image of an engine that says the least", category: category, path: path, shape: "images", body: body(""),
			engine: fakeengine.Behaviour{ContentType: "application/json", Raw: `{"data":[{"b64_json":"iVBORw0KGgo="}]}`},
			has:    []string{`"created":`}},
		{name: "image stream", category: category, path: path, stream: "event: image_generation.completed",
			body:   body(`,"stream":true,"partial_images":2`),
			shapes: []string{"image_generation.partial_image", "image_generation.completed"}},
		{name: "too many images", category: category, path: path, status: http.StatusBadRequest, shape: "error",
			has: []string{`"param":"n"`}, body: body(`,"n":11`)},
	}
}

func (s *stage) transcriptions() []shaped {
	const path, category = "/v1/audio/transcriptions", "audio"
	verbose := fakeengine.Behaviour{ContentType: "application/json",
		Raw: `{"task":"transcribe","language":"english","duration":3600.5,"text":"hi","segments":[` +
			`{"id":0,"seek":0,"start":0,"end":1.5,"text":"hi","tokens":[1],"temperature":0,"avg_logprob":-0.1,` +
			`"compression_ratio":1,"no_speech_prob":0.01}]}`}
	list := []shaped{
		{name: "transcription", shape: "transcription", has: []string{`{"type":"duration","seconds":2}`}},
		{name: "verbose transcription", engine: verbose, shape: "transcription.verbose",
			has: []string{`{"type":"duration","seconds":2}`}},
		{name: "verbose transcription of an engine that says the least", shape: "transcription.verbose",
			has:    []string{`"duration":`, `"task":"transcribe"`},
			engine: fakeengine.Behaviour{ContentType: "application/json", Raw: `{"language":"english","text":"hi"}`}},
		{name: "transcription stream", stream: `data: {"type":"transcript.text.done"`,
			shapes: []string{"transcript.text.delta", "transcript.text.done"}},
		{name: "transcription as text"}, {name: "transcription as srt"}, {name: "transcription as vtt",
			has: []string{"WEBVTT"}},
		{name: "no audio", status: http.StatusBadRequest, shape: "error", has: []string{`"param":"file"`}},
	}
	fields := [][]string{{}, {"response_format", "verbose_json"}, {"response_format", "verbose_json"}, {"stream", "true"},
		{"response_format", "text"}, {"response_format", "srt"}, {"response_format", "vtt"}, {}}
	for i := range list {
		audio := speech()
		if list[i].name == "no audio" {
			audio = []byte("these are words")
		}
		list[i].category, list[i].path = category, path
		list[i].body, list[i].kind = form(audio, append([]string{"model", s.of(category)}, fields[i]...)...)
	}
	return list
}

// form is a multipart form of a file and pairs of fields' names and values,
// with its content type. The file comes first, as some clients send it.
func form(file []byte, fields ...string) (body, kind string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", "speech.wav")
	if err == nil {
		_, err = part.Write(file)
	}
	for i := 0; i+1 < len(fields) && err == nil; i += 2 {
		err = w.WriteField(fields[i], fields[i+1])
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // writing into memory does not fail
	}
	return b.String(), w.FormDataContentType()
}

// elsewhere are the APIs of others, which name ours.
func (s *stage) elsewhere() []shaped {
	body := trial.Chat(s.model, "")
	return []shaped{
		{name: "responses", path: "/v1/responses", body: body, status: http.StatusNotFound, shape: "error",
			has: []string{"/v1/chat/completions"}},
		{name: "messages", path: "/v1/messages", body: body, status: http.StatusNotFound, shape: "error",
			has: []string{"/v1/chat/completions"}},
	}
}
