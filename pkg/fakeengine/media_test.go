package fakeengine

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/openai"
)

// send posts a body and reads the whole answer.
func send(t *testing.T, e *Engine, path, kind string, body []byte) (int, string, error) {
	t.Helper()
	resp, err := http.Post(e.URL+path, kind, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// form is the multipart form of a request for a transcription.
func form(t *testing.T, fields ...string) (kind string, body []byte) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	file, err := w.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("RIFF")); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), buf.Bytes()
}

func TestAVectorIsTheSameInEitherEncoding(t *testing.T) {
	e := New(t)
	_, floats, _ := send(t, e, "/v1/embeddings", "application/json",
		[]byte(`{"model":"ok","input":["a","b"],"dimensions":5}`))
	_, packed, _ := send(t, e, "/v1/embeddings", "application/json",
		[]byte(`{"model":"ok","input":["a","b"],"dimensions":5,"encoding_format":"base64"}`))
	var f struct {
		Data []struct{ Embedding []float32 }
	}
	var p struct{ Data []struct{ Embedding string } }
	switch err := errors.Join(json.Unmarshal([]byte(floats), &f), json.Unmarshal([]byte(packed), &p)); {
	case err != nil:
		t.Fatalf("%s\n%s: got the error %v, want none", floats, packed, err)
	case len(f.Data) != 2:
		t.Fatalf("%s\n%s: len(f.Data): got %d, want 2", floats, packed, len(f.Data))
	case len(p.Data) != 2:
		t.Fatalf("%s\n%s: len(p.Data): got %d, want 2", floats, packed, len(p.Data))
	}
	for i := range f.Data {
		raw, err := base64.StdEncoding.DecodeString(p.Data[i].Embedding)
		if err != nil {
			t.Fatal(err)
		}
		var vector []float32
		for ; len(raw) >= 4; raw = raw[4:] {
			vector = append(vector, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		}
		if len(vector) != 5 {
			t.Errorf("vector %d: len(vector): got %d, want 5, in %v", i, len(vector), vector)
		} else if !slices.Equal(vector, f.Data[i].Embedding) {
			t.Errorf("vector %d: vector: got %v, want %v", i, vector, f.Data[i].Embedding)
		} else if want := Vector([]string{`"a"`, `"b"`}[i], 5); !slices.Equal(vector, want) {
			t.Errorf("vector %d: vector: got %v, want %v", i, vector, want)
		}
	}
}

func TestVectorsAndImagesAreAsManyAsTheBehaviourSays(t *testing.T) {
	e := New(t)
	e.Script("b64", Behaviour{Base64: true, Image: []byte("xyz")})
	for _, c := range []struct {
		path, body, item string
		want             int
	}{
		{"/v1/embeddings", `{"model":"ok","input":"a"}`, `"object":"embedding"`, 1},
		{"/v1/embeddings", `{"model":"ok","input":[1,2,3]}`, `"object":"embedding"`, 1},
		{"/v1/embeddings", `{"model":"ok","input":[[1],[2]]}`, `"object":"embedding"`, 2},
		{"/v1/embeddings", `{"model":"count-more","input":"a"}`, `"object":"embedding"`, 3},
		{"/v1/embeddings", `{"model":"count-none","input":"a"}`, `"object":"embedding"`, 0},
		{"/v1/images/generations", `{"model":"ok"}`, `"url":`, 1},
		{"/v1/images/generations", `{"model":"ok","n":4}`, `"url":`, 4},
		{"/v1/images/generations", `{"model":"ok","n":2,"response_format":"b64_json"}`, `"b64_json":"iVBOR`, 2},
		{"/v1/images/generations", `{"model":"b64","n":2}`, `"b64_json":"eHl6"`, 2},
		{"/v1/images/generations", `{"model":"count-less","n":4}`, `"url":`, 1},
		{"/v1/images/generations", `{"model":"count-more","n":2}`, `"url":`, 3},
		{"/v1/images/generations", `{"model":"ok","n":2,"stream":true,"partial_images":2}`,
			`"type":"image_generation.partial_image"`, 4},
		{"/v1/images/generations", `{"model":"ok","n":2,"stream":true}`, "event: image_generation.completed\ndata: {", 2},
	} {
		status, text, err := send(t, e, c.path, "application/json", []byte(c.body))
		switch n := strings.Count(text, c.item); {
		case status != http.StatusOK:
			t.Errorf("%s %s: items: status: got %d, want 200, with %.300s", c.path, c.body, status, text)
		case err != nil:
			t.Errorf("%s %s: items: got the error %v, want none", c.path, c.body, err)
		case n != c.want:
			t.Errorf("%s %s: items: strings.Count(text, c.item): got %d, want %d, with %.300s", c.path, c.body, n, c.want, text)
		}
	}
}

func TestTranscriptionsComeInEveryForm(t *testing.T) {
	e := New(t)
	e.Script("m", Behaviour{Tokens: []string{"good", " day"}, Seconds: 61.5})
	for format, want := range map[string]string{
		"":     `{"text":"good day"}`,
		"json": `{"text":"good day"}`,
		"text": "good day\n",
		"srt":  "1\n00:00:00,000 --> 00:01:01,500\ngood day\n\n",
		"vtt":  "WEBVTT\n\n00:00:00.000 --> 00:01:01.500\ngood day\n\n",
		"verbose_json": `{"task":"transcribe","language":"english","duration":61.5,"text":"good day",` +
			`"segments":[{"id":0,"start":0,"end":61.5,"text":"good day"}]}`,
	} {
		kind, body := form(t, "model", "m", "response_format", format)
		if _, text, err := send(t, e, "/v1/audio/transcriptions", kind, body); err != nil {
			t.Errorf("%q: got the error %v, want none", format, err)
		} else if text != want {
			t.Errorf("%q: text: got %q, want %q", format, text, want)
		}
	}
	kind, body := form(t, "stream", "true", "model", "m")
	_, text, _ := send(t, e, "/v1/audio/transcriptions", kind, body)
	if strings.Count(text, openai.EventTranscriptDelta) != 2 {
		t.Errorf("streamed: strings.Count(…): got %d, want 2", strings.Count(text, openai.EventTranscriptDelta))
	} else if !strings.Contains(text, `"type":"transcript.text.done","text":"good day"`) {
		t.Errorf("streamed: text: got %q, want %q in it", text, `"type":"transcript.text.done","text":"good day"`)
	}
	if r := e.Requests()[0]; r.Model != "m" {
		t.Errorf(`the model: got %q, want "m"`, r.Model)
	}
	if status, _, _ := send(t, e, "/v1/audio/transcriptions", "multipart/form-data; boundary=b",
		[]byte("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n"+
			"m\r\n--b--\r\n")); status != http.StatusBadRequest {
		t.Errorf("without a file: got %d, want 400", status)
	}
}

func TestFaultsReachEveryEndpoint(t *testing.T) {
	e := New(t)
	kind, plain := form(t, "model", "m", "response_format", "text")
	_, streamed := form(t, "model", "m", "stream", "true")
	for name, r := range map[string]struct {
		path, kind string
		body       []byte
		streamed   bool
	}{
		"embeddings":    {"/v1/embeddings", "application/json", []byte(`{"model":"m","input":"a"}`), false},
		"images":        {"/v1/images/generations", "application/json", []byte(`{"model":"m"}`), false},
		"images stream": {"/v1/images/generations", "application/json", []byte(`{"model":"m","stream":true}`), true},
		"text":          {"/v1/audio/transcriptions", kind, plain, false},
	} {
		for end, want := range map[End]func(text string, err error) bool{
			EndError:   func(text string, err error) bool { return err == nil && strings.Contains(text, `{"error":`) },
			EndReset:   func(_ string, err error) bool { return err != nil },
			EndGarbage: func(text string, err error) bool { return err == nil && (r.streamed || !json.Valid([]byte(text))) },
		} {
			e.Script("m", Behaviour{End: end})
			if _, text, err := send(t, e, r.path, r.kind, r.body); !want(text, err) {
				t.Errorf("%s, end %d: %q %v", name, end, text, err)
			}
		}
	}
	for end, last := range map[End]string{EndNoDone: openai.EventTranscriptDelta, EndSilent: openai.EventTranscriptDelta} {
		e.Script("m", Behaviour{End: end, EndAfter: 2})
		switch _, text, err := send(t, e, "/v1/audio/transcriptions", formType(t, streamed), streamed); {
		case err != nil:
			t.Errorf("end %d: got the error %v, want none", end, err)
		case strings.Contains(text, openai.EventTranscriptDone):
			t.Errorf("end %d: text: got %q, want it without %q", end, text, openai.EventTranscriptDone)
		case !strings.Contains(text, last):
			t.Errorf("end %d: text: got %q, want %q in it", end, text, last)
		}
	}
}

// formType is the media type of a form. It has the boundary from the form's first line.
func formType(t *testing.T, body []byte) string {
	t.Helper()
	line, _, ok := bytes.Cut(body, []byte("\r\n"))
	if !ok {
		t.Fatal("no form")
	}
	return "multipart/form-data; boundary=" + string(line[2:])
}
