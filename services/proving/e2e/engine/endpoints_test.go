//go:build engine

package engine

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

func TestALegacyCompletionSaysWhatTheEngineSaysInAChat(t *testing.T) {
	m := open(t, tiny)
	chat, _ := m.chat(t, trial.Chat(tiny, greedy))
	prompt := trial.Text(t, trial.Decode(t, []byte(trial.Chat(tiny, ""))), "messages", 0, "content")
	status, header, text := m.Call(t, http.MethodPost, "/v1/completions", m.key, fmt.Sprintf(`{"model":%q,"prompt":%q%s}`,
		tiny, prompt, greedy))
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", status, text)
	}
	answer := trial.Decode(t, text)
	if got := trial.Text(t, answer, "choices", 0, "text"); got != content(t, chat) {
		t.Errorf("trial.Text(…): got %q, want %q, with %s", got, content(t, chat), text)
	} else if answer["object"] != "text_completion" {
		t.Errorf(`answer["object"]: got %v, want "text_completion", with %s`, answer["object"], text)
	}
	wantPrompt, wantCompletion := tokens(chat["usage"])
	if prompt, completion := m.settled(t, header.Get(trial.RequestIDHeader), "completed"); prompt != wantPrompt {
		t.Errorf("%v and %v tokens are charged, in a chat %v: prompt: got %v, want %v", prompt, completion, chat["usage"],
			prompt, wantPrompt)
	} else if completion != wantCompletion {
		t.Errorf("%v and %v tokens are charged, in a chat %v: completion: got %v, want %v", prompt, completion, chat["usage"],
			completion, wantCompletion)
	}
}

func TestEmbeddingsAreTheEnginesInBothFormsAndChargedByTheInput(t *testing.T) {
	m := open(t, vectors)
	body := fmt.Sprintf(`{"model":%q,"input":["one","two words"]%%s}`, vectors)
	status, _, own := trial.CallAt(t, m.engine.url(), http.MethodPost, "/v1/embeddings", "", fmt.Sprintf(body, ""))
	if status != http.StatusOK {
		t.Fatalf("the engine: got %d, want 200, with %s", status, own)
	}
	want := trial.Decode(t, own)
	wantPrompt, _ := tokens(want["usage"])
	for form, read := range map[string]func(any) []float32{"": numbers, `,"encoding_format":"float"`: numbers,
		`,"encoding_format":"base64"`: packed} {
		status, header, text := m.Call(t, http.MethodPost, "/v1/embeddings", m.key, fmt.Sprintf(body, form))
		if status != http.StatusOK {
			t.Fatalf("%s: got %d, want 200, with %s", form, status, text)
		}
		answer := trial.Decode(t, text)
		if answer["model"] != vectors {
			t.Errorf("%s: the answer: got %v, want %v", form, answer["model"], vectors)
		}
		for i := range 2 {
			got, engines := read(trial.At(answer, "data", i, "embedding")), numbers(trial.At(want, "data", i, "embedding"))
			if len(got) == 0 {
				t.Errorf("%s: vector %d has %d numbers, the engine's %d: len(got): got 0, want at least 1", form,
					i, len(got), len(engines))
			} else if !near(got, engines) {
				t.Errorf("%s: vector %d has %d numbers, the engine's %d: near(got, engines): got false, want true",
					form, i, len(got), len(engines))
			}
		}
		if prompt, completion := m.settled(t, header.Get(trial.RequestIDHeader), "completed"); prompt != wantPrompt {
			t.Errorf("%s: prompt: got %v, want %v", form, prompt, wantPrompt)
		} else if completion != 0 {
			t.Errorf("%s: completion: got %v, want 0", form, completion)
		}
	}
	m.Balanced(t)
}

// numbers reads a vector that is a list of numbers.
func numbers(v any) (vector []float32) {
	list, _ := v.([]any)
	for _, n := range list {
		f, _ := n.(float64)
		vector = append(vector, float32(f))
	}
	return vector
}

// packed reads a vector that is the base64 of its little-endian numbers.
func packed(v any) (vector []float32) {
	text, _ := v.(string)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	for ; len(data) >= 4; data = data[4:] {
		vector = append(vector, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return vector
}

// near reports whether two answers are the same vector: the engine may add up in
// another order from one run to the next.
func near(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-4 {
			return false
		}
	}
	return true
}
