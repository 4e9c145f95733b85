package engine

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/provider-agent/internal/endpoint"
)

// form is a transcription's form, and where the model's name stands in it.
func form(before, model string) (body []byte, at int) {
	part := func(head, text string) string {
		return "--b\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + text + "\r\n"
	}
	head := before + "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n"
	return []byte(head + model + "\r\n" + part(`name="file"; filename="a.wav"`, "RIFF\x00\xff catalog/m") + "--b--\r\n"),
		len(head)
}

func TestEachEndpointIsAskedAtItsOwnPath(t *testing.T) {
	const text = `{"model":"catalog/m","input":"a","prompt":"p"}`
	multipart, at := form("", "catalog/m")
	for kind, c := range map[endpoint.Endpoint]struct {
		path, media, want string
		body              []byte
	}{
		endpoint.Chat:           {"/v1/chat/completions", "", `"chat.completion"`, []byte(text)},
		endpoint.Embeddings:     {"/v1/embeddings", "application/json; charset=utf-8", `"embedding"`, []byte(text)},
		endpoint.Images:         {"/v1/images/generations", "", `"url"`, []byte(text)},
		endpoint.Transcriptions: {"/v1/audio/transcriptions", "multipart/form-data; boundary=b", `{"text":`, multipart},
	} {
		engine := fakeengine.New(t)
		engine.Script("local", fakeengine.Behaviour{})
		r := asking(text)
		r.Endpoint, r.ContentType, r.Body = kind, c.media, c.body
		want := strings.Replace(text, "catalog/m", "local", 1)
		if kind == endpoint.Transcriptions {
			r.ModelOffset, r.ModelLength = at, len("catalog/m")
			// The name in the file stays: only the place that the hub named counts.
			want = strings.Replace(string(multipart), "catalog/m", "local", 1)
		}
		var got bytes.Buffer
		if a := pool(engine.URL+"/v1", nil).Forward(within(t), r, &got); a.Err != nil || a.Status != 200 ||
			!strings.Contains(got.String(), c.want) {
			t.Errorf("%v: %+v %s", kind, a, got.Bytes())
		}
		seen := engine.Requests()[0]
		media := c.media
		if media == "" {
			media = "application/json"
		}
		if seen.Path != c.path || string(seen.Body) != want || seen.Model != "local" ||
			seen.Header.Get("Content-Type") != media ||
			seen.Header.Get("Content-Length") != strconv.Itoa(len(want)) && seen.Size != len(want) {
			t.Errorf("%v: the engine got %q of %s at %s", kind, seen.Body, seen.Header.Get("Content-Type"), seen.Path)
		}
	}
}

func TestPlaceOfTheModelMustFitTheBodysForm(t *testing.T) {
	multipart, at := form("", "catalog/m")
	for name, r := range map[string]Request{
		"JSON without quotes": {ModelID: "m", Body: []byte(`{"model":"catalog/m"}`), ModelOffset: 10, ModelLength: 9},
		"JSON, one byte":      {ModelID: "m", Body: []byte(`{"model":"catalog/m"}`), ModelOffset: 9, ModelLength: 1},
		"form, nothing": {ModelID: "m", Body: multipart, ContentType: "multipart/form-data; boundary=b",
			ModelOffset: at},
		"form, behind its end": {ModelID: "m", Body: multipart, ContentType: "multipart/form-data; boundary=b",
			ModelOffset: len(multipart) - 1, ModelLength: 2},
		"a form that says JSON": {ModelID: "m", Body: multipart, ContentType: "application/json", ModelOffset: at,
			ModelLength: 9},
		"a type that is none": {ModelID: "m", Body: multipart, ContentType: ";;", ModelOffset: at, ModelLength: 9},
	} {
		if a := pool("http://127.0.0.1:1", nil).Forward(within(t), r, io.Discard); a.Err == nil ||
			a.Err.Error() != errModelSpan.Error() {
			t.Errorf("%s: %v", name, a.Err)
		}
	}
}

func TestAnswersOfImagesMayBeLarger(t *testing.T) {
	for name, c := range map[string]struct {
		kind  endpoint.Endpoint
		bytes int
		fits  bool
	}{
		"images":          {endpoint.Images, 25 << 20, true},
		"too large even":  {endpoint.Images, 26<<20 + 1, false},
		"embeddings":      {endpoint.Embeddings, 15 << 20, true},
		"not embeddings'": {endpoint.Embeddings, 17 << 20, false},
	} {
		engine := fakeengine.New(t)
		engine.Script("local", fakeengine.Behaviour{Raw: strings.Repeat("x", c.bytes), ContentType: "application/json"})
		r := asking(`{"model":"catalog/m"}`)
		r.Endpoint = c.kind
		if a := pool(engine.URL+"/v1", nil).Forward(within(t), r, io.Discard); (a.Err == nil) != c.fits {
			t.Errorf("%s: %v", name, a.Err)
		}
	}
}
