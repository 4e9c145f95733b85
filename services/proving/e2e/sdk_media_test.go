package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

func legacy(t *testing.T, th *theatre, op string) {
	th.script(fakeengine.Behaviour{Tokens: fakeengine.Words(words)})
	got, sent := th.carryOut(t, th.order(op))
	switch {
	case got.Text != text(words):
		t.Errorf("Text: got %q, want %q", got.Text, text(words))
	case got.Finish != "stop":
		t.Errorf(`Finish: got %q, want "stop"`, got.Finish)
	case len(sent) != 1:
		t.Errorf("len(sent): got %d, want 1", len(sent))
	case sent[0].path != "/v1/completions":
		t.Errorf(`sent[0].path: got %q, want "/v1/completions"`, sent[0].path)
	}
	if receipt := th.Receipt(t, th.key, sent[0].id); receipt["status"] != "settled" {
		t.Errorf(`receipt["status"]: got %v, want "settled"`, receipt["status"])
	} else if receipt["completion_tokens"] != float64(words) {
		t.Errorf(`receipt["completion_tokens"]: got %v, want %v`, receipt["completion_tokens"], float64(words))
	}
}

// embeddings: whatever encoding the SDK asks for, its vectors are the engine's.
func embeddings(t *testing.T, th *theatre) {
	o := th.order("embed")
	o.Model, o.Reply = th.of("embedding"), "Say something else."
	got, sent := th.carryOut(t, o)
	body, err := json.Marshal(map[string]any{"model": o.Model, "input": []string{o.Prompt, o.Reply}})
	if err != nil {
		t.Fatal(err)
	}
	status, _, answer := trial.CallAt(t, th.engine.URL, http.MethodPost, "/v1/embeddings", "", string(body),
		"Content-Type", "application/json")
	var own struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &own); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", status, answer)
	}
	var want [][]float32
	for _, d := range own.Data {
		want = append(want, d.Embedding)
	}
	if len(want) != 2 {
		t.Errorf("len(want): got %d, want 2, in %v", len(want), want)
	} else if !reflect.DeepEqual(got.Vectors, want) {
		t.Errorf("Vectors: got %v, want %v", got.Vectors, want)
	}
	receipt := th.Receipt(t, th.key, sent[0].id)
	switch prompt, _ := receipt["prompt_tokens"].(float64); {
	case receipt["status"] != "settled":
		t.Errorf(`receipt["status"]: got %v, want "settled"`, receipt["status"])
	case prompt == 0:
		t.Error("prompt: got 0, want any but 0")
	case receipt["completion_tokens"] != 0.0:
		t.Errorf(`receipt["completion_tokens"]: got %v, want 0.0`, receipt["completion_tokens"])
	}
}

// images: two are asked for, and the delivered images are billed.
func images(t *testing.T, th *theatre, form string) {
	const drawing = "drawn by an engine"
	th.engine.Script(th.of("image"), fakeengine.Behaviour{Image: []byte(drawing)})
	o := th.order("image")
	o.Model, o.Form = th.of("image"), form
	got, sent := th.carryOut(t, o)
	if len(got.Images) != 2 {
		t.Fatalf("images: got %d, want 2", len(got.Images))
	}
	for _, image := range got.Images {
		if form == "url" && !strings.HasPrefix(image, "https://") || form == "b64_json" &&
			image != base64.StdEncoding.EncodeToString([]byte(drawing)) {
			t.Errorf("image %.200q", image)
		}
	}
	th.billed(t, sent, "images", 2, "0.08")
}

func imageStream(t *testing.T, th *theatre) {
	const drawing = "drawn slowly"
	th.engine.Script(th.of("image"), fakeengine.Behaviour{Image: []byte(drawing)})
	o := th.order("image_stream")
	o.Model = th.of("image")
	got, sent := th.carryOut(t, o)
	if got.Chunks != 2 {
		t.Errorf("Chunks: got %d, want 2", got.Chunks)
	} else if len(got.Images) != 1 {
		t.Errorf("len(got.Images): got %d, want 1, in %v", len(got.Images), got.Images)
	} else if wanted := base64.StdEncoding.EncodeToString([]byte(drawing)); got.Images[0] != wanted {
		t.Errorf("Images[0]: got %q, want %q", got.Images[0], wanted)
	}
	th.billed(t, sent, "images", 1, "0.04")
}

// billed fails the test unless the last request is settled with so many units and so many
// US dollars.
func (th *theatre) billed(t *testing.T, sent []attempt, what string, units float64, dollars string) {
	t.Helper()
	receipt := th.Receipt(t, th.key, sent[len(sent)-1].id)
	switch {
	case receipt["status"] != "settled":
		t.Errorf(`receipt["status"]: got %v, want "settled"`, receipt["status"])
	case receipt[what] != units:
		t.Errorf("receipt[what]: got %v, want %v", receipt[what], units)
	case receipt["cost_usd_str"] != dollars:
		t.Errorf(`receipt["cost_usd_str"]: got %v, want %v`, receipt["cost_usd_str"], dollars)
	}
}

// spokenMs is the length of the speech in milliseconds, with its cost at
// trial.PutModelOf's price.
const (
	spokenMs   = 1500
	spokenCost = "0.00015"
)

// speech is a WAV of silence.
func speech() []byte {
	const rate, frame = 8000, 2 // hertz, bytes
	data := make([]byte, rate*frame*spokenMs/1000)
	var b bytes.Buffer
	b.WriteString("RIFF")
	le := func(values ...any) {
		for _, v := range values {
			// Writing into memory does not fail.
			_ = binary.Write(&b, binary.LittleEndian, v)
		}
	}
	le(uint32(36 + len(data)))
	b.WriteString("WAVEfmt ")
	le(uint32(16), uint16(1), uint16(1), uint32(rate), uint32(rate*frame), uint16(frame), uint16(8*frame))
	b.WriteString("data")
	le(uint32(len(data)))
	b.Write(data)
	return b.Bytes()
}

// transcription: the engine claims an hour, and the length that the gateway measured is
// billed.
func transcription(t *testing.T, th *theatre, form string) {
	th.engine.Script(th.of("audio"), fakeengine.Behaviour{Tokens: fakeengine.Words(words), Seconds: 3600})
	o := th.order("transcribe")
	o.Model, o.Form, o.Audio = th.of("audio"), form, speech()
	got, sent := th.carryOut(t, o)
	if strings.TrimSpace(got.Text) != text(words) {
		t.Errorf("strings.TrimSpace(got.Text): got %q, want %q", strings.TrimSpace(got.Text), text(words))
	}
	if form == "verbose_json" && got.Seconds == 0 {
		t.Error("a verbose answer tells no duration")
	}
	th.billed(t, sent, "audio_seconds", spokenMs/1000.0, spokenCost)
}

func transcriptionStream(t *testing.T, th *theatre) {
	th.engine.Script(th.of("audio"), fakeengine.Behaviour{Tokens: fakeengine.Words(words)})
	o := th.order("transcribe_stream")
	o.Model, o.Audio = th.of("audio"), speech()
	got, sent := th.carryOut(t, o)
	switch {
	case got.Text != text(words):
		t.Errorf("Text: got %q, want %q", got.Text, text(words))
	case got.Finish != text(words):
		t.Errorf("Finish: got %q, want %q", got.Finish, text(words))
	case got.Chunks != words+1:
		t.Errorf("Chunks: got %d, want %d", got.Chunks, words+1)
	}
	th.billed(t, sent, "audio_seconds", spokenMs/1000.0, spokenCost)
}
