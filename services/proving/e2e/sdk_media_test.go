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
	if got.Text != text(words) || got.Finish != "stop" || len(sent) != 1 || sent[0].path != "/v1/completions" {
		t.Errorf("got %+v by %d requests", got, len(sent))
	}
	if receipt := th.Receipt(t, th.key, sent[0].id); receipt["status"] != "settled" ||
		receipt["completion_tokens"] != float64(words) {
		t.Errorf("receipt %v", receipt)
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
	if err := json.Unmarshal(answer, &own); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s, %v", status, answer, err)
	}
	var want [][]float32
	for _, d := range own.Data {
		want = append(want, d.Embedding)
	}
	if len(want) != 2 || !reflect.DeepEqual(got.Vectors, want) {
		t.Errorf("got %v, the engine says %v", got.Vectors, want)
	}
	receipt := th.Receipt(t, th.key, sent[0].id)
	if prompt, _ := receipt["prompt_tokens"].(float64); receipt["status"] != "settled" || prompt == 0 ||
		receipt["completion_tokens"] != 0.0 {
		t.Errorf("receipt %v", receipt)
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
		t.Fatalf("%d images", len(got.Images))
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
	if got.Chunks != 2 || len(got.Images) != 1 || got.Images[0] != base64.StdEncoding.EncodeToString([]byte(drawing)) {
		t.Errorf("%d events, images %v", got.Chunks, got.Images)
	}
	th.billed(t, sent, "images", 1, "0.04")
}

// billed fails the test unless the last request is settled with so many units and so many
// US dollars.
func (th *theatre) billed(t *testing.T, sent []attempt, what string, units float64, dollars string) {
	t.Helper()
	receipt := th.Receipt(t, th.key, sent[len(sent)-1].id)
	if receipt["status"] != "settled" || receipt[what] != units || receipt["cost_usd_str"] != dollars {
		t.Errorf("receipt %v", receipt)
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
		t.Errorf("got %+v", got)
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
	if got.Text != text(words) || got.Finish != text(words) || got.Chunks != words+1 {
		t.Errorf("got %+v", got)
	}
	th.billed(t, sent, "audio_seconds", spokenMs/1000.0, spokenCost)
}
