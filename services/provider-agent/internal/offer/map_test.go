package offer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entries is a file as agents for dialect v1 write it.
const entries = `{
  "Qwen/Qwen3-8B": {"endpoint": "http://127.0.0.1:30000", "local_model": "qwen", "gpu_memory": 24000, "category": "llm",
    "api_key": "sk-engine", "context_length": 32768, "format": "fp16", "quantization": "none"},
  "tiny": {"endpoint": "http://127.0.0.1:11434/v1/", "gpu_memory": 0.5, "api_key": ""}
}`

func TestBothPlacesOfAMapAreReadAlike(t *testing.T) {
	for name, text := range map[string]string{"bare": entries, "under models": `{"models": ` + entries + `}`} {
		got, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got) != 2 {
			t.Fatalf("%s: models: got %d, want 2", name, len(got))
		}
		m := got[0]
		if key := m.APIKey.Reveal(); key != "sk-engine" {
			t.Errorf("%s: the engine's key: got %q, want %q", name, key, "sk-engine")
		}
		if text := fmt.Sprintf("%+v", m); strings.Contains(text, "sk-engine") {
			t.Errorf("%s: printed: got %s, want it without the key", name, text)
		}
		got[0].APIKey = got[1].APIKey
		want := []Model{
			{ModelID: "Qwen/Qwen3-8B", EngineURL: "http://127.0.0.1:30000/v1", LocalModel: "qwen", ContextLength: 32768,
				Quantization: "none", Capacity: DefaultCapacity},
			{ModelID: "tiny", EngineURL: "http://127.0.0.1:11434/v1", LocalModel: "tiny", Capacity: DefaultCapacity},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got  %v\nwant %v", name, got, want)
		}
	}
}

func TestFaultsOfAMapNameTheirPlaceAndNoValue(t *testing.T) {
	const secret = "sk-very-secret"
	_, err := Parse([]byte("{\n \"m\": {\"endpoint\": \"ftp://h\", \"speed\": 1,\n  \"api_key\": 7},\n" +
		" \"n\": {\"api_key_file\": \"k\", \"api_key\": \"" + secret + "\"},\n \"sk secret\": 3,\n" +
		" \"o\": {\"endpoint\": \"http://h\", \"gpu_memory\": \"much\", \"engine_url\": \"http://h\"},\n" +
		" \"o\": {\"endpoint\": \"http://h\"}\n}"))
	if err == nil {
		t.Fatal("it is accepted")
	}
	for _, want := range []string{
		`line 2, column 20: "m".endpoint: must begin with http:// or https:// and a host`,
		`line 2, column 40: "m": unknown key "speed"`, `line 3, column 14: "m".api_key: must be a string`,
		`line 4, column 7: "n".endpoint: must be the engine's root`,
		`"n".api_key: stands beside api_key_file; give one of them`, `line 5, column 15: entry 3 must be an object`,
		`"o".gpu_memory: must be a number`, `"o": unknown key "engine_url"`, `"o" is given twice`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want it without values", err)
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 9 {
		t.Errorf("faults: got %d, want 9, in\n%v", n, err)
	}
}

func TestOneAddressOfAnEngineHasOneRoot(t *testing.T) {
	for address, want := range map[string]string{
		"http://h": "http://h/v1", "http://h/": "http://h/v1", "http://h/v1": "http://h/v1", "http://h/v1//": "http://h/v1",
		"http://h/openai": "http://h/openai/v1", "http://h/api/v3": "http://h/api/v3", "http://h/v1beta": "http://h/v1beta",
		"http://v1": "http://v1/v1", "http://h/vendor": "http://h/vendor/v1",
	} {
		if got := Root(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

func TestMergeChangesOnlyWhatIsSaid(t *testing.T) {
	more := []Model{{ModelID: "tiny", EngineURL: "http://127.0.0.1:8000/v1", LocalModel: "t",
		ContextLength: 512, Capacity: 3},
		{ModelID: "new", EngineURL: "http://127.0.0.1:8000"}}
	for name, text := range map[string]string{"bare": entries, "under models": `{"models": ` + entries + `}`} {
		merged, err := Merge([]byte(text), more)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range []string{`"gpu_memory": 24000`, `"api_key": "sk-engine"`, `"gpu_memory": 0.5`,
			`"context_length": 512`, `"endpoint": "http://127.0.0.1:8000"`, `"format": "fp16"`} {
			if !strings.Contains(string(merged), want) {
				t.Errorf("%s: %s is missing in\n%s", name, want, merged)
			}
		}
		again, err := Merge(merged, more)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(again) != string(merged) {
			t.Errorf("%s: a second time: got\n%s\nwant\n%s", name, again, merged)
		}
	}
	of, err := Merge([]byte(good), nil)
	if err != nil {
		t.Fatal(err)
	}
	before, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	after, err := Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("a list: got  %v\nwant %v", after, before)
	}
	if _, err := Merge([]byte(`{"m": {}}`), more); err == nil {
		t.Error("a file with a fault is changed")
	}
}

func TestKeysThatOthersMayReadAreNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "models.json")
	if err := os.WriteFile(path, []byte(entries), 0o600); err != nil {
		t.Fatal(err)
	}
	models, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if ExposedKeys(path, models) {
		t.Error("a file of mode 0600 counts as exposed")
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if !ExposedKeys(path, models) {
		t.Error("a file of mode 0644 does not count as exposed")
	}
	if ExposedKeys(path, models[1:]) {
		t.Error("a file without keys counts as exposed")
	}
}

func TestAnEmptyFolderMeansThatTheFilesAreNotSought(t *testing.T) {
	for text, want := range map[string]bool{
		`{"m":{"endpoint":"http://h","weights_dir":""}}`:                         true,
		`{"models":[{"model_id":"m","engine_url":"http://h","weights_dir":""}]}`: true,
		`{"m":{"endpoint":"http://h","weights_dir":"d"}}`:                        false,
		`{"m":{"endpoint":"http://h"}}`:                                          false,
	} {
		got, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got[0].WithoutFiles != want {
			t.Errorf("%s: got %t, want %t", text, got[0].WithoutFiles, want)
		}
		merged, err := Merge([]byte(text), []Model{{ModelID: "m", EngineURL: "http://other"}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err = Parse(merged); err != nil {
			t.Fatal(err)
		}
		if got[0].WithoutFiles != want {
			t.Errorf("%s, after a merge: got %t, want %t", text, got[0].WithoutFiles, want)
		}
	}
}
