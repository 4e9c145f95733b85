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
		switch a := pool(engine.URL+"/v1", nil).Forward(within(t), r, &got); {
		case a.Err != nil:
			t.Errorf("%v: a.Err: got the error %v, want none", kind, a.Err)
		case a.Status != 200:
			t.Errorf("%v: a.Status: got %d, want 200, with %s", kind, a.Status, got.Bytes())
		case !strings.Contains(got.String(), c.want):
			t.Errorf("%v: got %q, want %q in it", kind, got.String(), c.want)
		}
		seen := engine.Requests()[0]
		media := c.media
		if media == "" {
			media = "application/json"
		}
		switch {
		case seen.Path != c.path:
			t.Errorf("%v: seen.Path: got %q, want %q", kind, seen.Path, c.path)
		case string(seen.Body) != want:
			t.Errorf("%v: the engine: seen.Body: got %q, want %q", kind, string(seen.Body), want)
		case seen.Model != "local":
			t.Errorf(`%v: seen.Model: got %q, want "local"`, kind, seen.Model)
		case seen.Header.Get("Content-Type") != media:
			t.Errorf(`%v: seen.Header.Get("Content-Type"): got %q, want %q`, kind, seen.Header.Get("Content-Type"), media)
		case seen.Header.Get("Content-Length") != strconv.Itoa(len(want)) && seen.Size != len(want):
			t.Errorf("%v: seen.Size: got %d, want %d", kind, seen.Size, len(want))
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
		if a := pool("http://127.0.0.1:1", nil).Forward(within(t), r, io.Discard); a.Err == nil {
			t.Errorf("%s: a.Err: got no error, want one", name)
		} else if a.Err.Error() != errModelSpan.Error() {
			t.Errorf("%s: a.Err.Error(): got %q, want %q", name, a.Err.Error(), errModelSpan.Error())
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
			t.Errorf("%s: a.Err == nil: got %t, want %t", name, a.Err == nil, c.fits)
		}
	}
}
