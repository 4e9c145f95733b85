package offer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/config"
)

const good = `{"models": [
  {"model_id": "llama-3.3-70b", "engine_url": "http://127.0.0.1:8000/v1/", "local_model": "meta/Llama-3.3",` +
	` "context_length": 131072,
   "quantization": "fp8", "capacity": 32, "api_key_file": "key", "weights_dir": "llama",
   "revision": "0f1e2d"},
  {"model_id": "tiny", "engine_url": "http://127.0.0.1:11434/v1"}
]}`

func TestParseReadsEveryKeyAndFillsTheRest(t *testing.T) {
	got, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := []Model{
		{"llama-3.3-70b", "http://127.0.0.1:8000/v1", "meta/Llama-3.3", 131072, "fp8", "0f1e2d", 32, "key", "llama",
			config.Secret{}, false},
		{"tiny", "http://127.0.0.1:11434/v1", "tiny", 0, "", "", DefaultCapacity, "", "",
			config.Secret{}, false},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestFaultsNameTheirPlace(t *testing.T) {
	entry := func(members string) string { return `{"models":[{` + members + `}]}` }
	const id, url = `"model_id":"m"`, `"engine_url":"http://h/v1"`
	for text, want := range map[string]string{
		``:                   "line 1, column 1: unexpected end of document",
		"{\n \"models\": [}": "line 2, column 13: unexpected character",
		`[]`: "line 1, column 1: the file must hold an object: the models by their ids, or a list of them with " +
			"the key models",
		`{}`:             "line 1, column 1: models: 1 to 256 are needed, there are 0",
		`{"models":{}}`:  "line 1, column 11: models: 1 to 256 are needed, there are 0",
		`{"models":7}`:   "line 1, column 11: models must be a list, or a map by model id",
		`{"models":[]}`:  "line 1, column 11: models: 1 to 256 are needed, there are 0",
		`{"models":[3]}`: "line 1, column 12: models[0] must be an object",
		entry(url):       "line 1, column 12: models[0].model_id: needs 1 to 200 characters",
		entry(id): "line 1, column 12: models[0].engine_url: must be the engine's root," +
			" such as http://127.0.0.1:8000/v1",
		entry(id + `,"engine_url":""`): "line 1, column 41: models[0].engine_url: must be the engine's root," +
			" such as http://127.0.0.1:8000/v1",
		entry(`"model_id":"a b",` +
			url): "line 1, column 24: models[0].model_id: may hold letters, digits and . _ : / @ + - only",
		entry(`"model_id":7,` + url): "line 1, column 24: models[0].model_id: must be a string",
		entry(id + `,"engine_url":"ftp://h"`): "models[0].engine_url: must begin with http:// or " +
			"https:// and a host",
		entry(id + `,"engine_url":"http://u:p@h"`): "models[0].engine_url: must not hold a password; use " +
			"api_key_file",
		entry(id + `,"engine_url":"http://h?a=b"`): "models[0].engine_url: must not hold a query or a fragment",
		entry(id + `,"engine_url":"http://h/chat/completions/"`): "models[0].engine_url: must be the root above " +
			"/chat/completions",
		entry(id + `,"engine_url":"http://h:x"`): "models[0].engine_url: is not a URL",
		entry(id + "," + url + `,"revision":"` + strings.Repeat("r", 65) + `"`): "models[0].revision: may hold 64 " +
			"characters at most",
		entry(id + "," + url + `,"capacity":-1`):         "models[0].capacity: must be 0 to 65536",
		entry(id + "," + url + `,"capacity":65537`):      "models[0].capacity: must be 0 to 65536",
		entry(id + "," + url + `,"capacity":"4"`):        "models[0].capacity: must be a whole number",
		entry(id + "," + url + `,"capacity":null`):       "models[0].capacity: must be a whole number",
		entry(id + "," + url + `,"context_length":1.5`):  "models[0].context_length: must be a whole number",
		entry(id + "," + url + `,"context_length":1e99`): "models[0].context_length: must be a whole number",
		entry(id + "," + url +
			`,"quantization":"a\u0000"`): "models[0].quantization: may hold printable characters only",
		entry(id + "," + url + `,"weights_dir":1`):           "models[0].weights_dir: must be a string",
		entry(id + "," + url + `,"weights_dir":"a\u0000"`):   "models[0].weights_dir: may hold printable characters only",
		entry(id + "," + url + `,"Capacity":4`):              `models[0]: unknown key "Capacity"`,
		entry(id + "," + url + `,"capacity":4,"capacity":4`): `models[0]."capacity" is given twice`,
		`{"models":[{` + id + "," + url + `},{` + id + "," + url +
			`}]}`: "models[1].model_id: an earlier entry has the same model_id",
		`{"model":[],"models":[{` + id + "," + url +
			`}]}`: `line 1, column 10: unknown key "model" beside models`,
		"\ufeff" + good: "line 1, column 1: unexpected character",
		good + "x":      "unexpected data after the document",
	} {
		_, err := Parse([]byte(text))
		if err == nil {
			t.Errorf("%s\n got no error, want %s", text, want)
		} else if !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	_, err := Parse([]byte("{\"models\": [\n{\"model_id\": \"\", \"speed\": 9},\n{\"engine_url\": \"x\"}]}"))
	if err == nil {
		t.Fatal("it is accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	switch {
	case len(lines) != 5:
		t.Errorf("len(lines): got %d, want 5", len(lines))
	case !strings.HasPrefix(lines[0], "line 2, "):
		t.Errorf(`lines[0]: got %q, want the prefix "line 2, "`, lines[0])
	case !strings.HasPrefix(lines[4], "line 3, "):
		t.Errorf(`lines[4]: got %q, want the prefix "line 3, "`, lines[4])
	}
}

func TestFaultsAreBounded(t *testing.T) {
	_, err := Parse([]byte(`{"models":[` + strings.Repeat(`{},`, 999) + `{}]}`))
	if n := strings.Count(fmt.Sprint(err), "\n") + 1; n != maxFaults {
		t.Errorf("faults told: got %d, want %d", n, maxFaults)
	}
	if _, err := Parse(make([]byte, maxFile+1)); err == nil {
		t.Error("a file above the bound is accepted")
	}
}

func TestModelsAreBounded(t *testing.T) {
	var entries []string
	for i := range MaxModels + 1 {
		entries = append(entries, fmt.Sprintf(`{"model_id":"m%d","engine_url":"http://h"}`, i))
	}
	if _, err := Parse([]byte(`{"models":[` + strings.Join(entries[1:], ",") + `]}`)); err != nil {
		t.Errorf("%d models: %v", MaxModels, err)
	}
	if _, err := Parse([]byte(`{"models":[` + strings.Join(entries, ",") + `]}`)); err == nil {
		t.Error("one more is accepted")
	}
}

func TestValidateHoldsCodeToTheSameRules(t *testing.T) {
	ok := Model{ModelID: "m", EngineURL: "http://h/v1"}
	if err := Validate([]Model{ok}); err != nil {
		t.Error(err)
	}
	err := Validate([]Model{ok, ok, {ModelID: "x", EngineURL: "h", Capacity: -1}})
	for _, want := range []string{"models[1].model_id", "models[2].engine_url", "models[2].capacity"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("naming %s: got %q, want %q in it", want, fmt.Sprint(err), want)
		}
	}
	if Validate(nil) == nil {
		t.Error("no models are accepted")
	}
}

func TestLoadTakesPathsFromTheFilesFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "models.json")
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	models, err := Load(path)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case models[0].APIKeyFile != filepath.Join(filepath.Dir(path), "key"):
		t.Errorf("models[0].APIKeyFile: got %q, want %q", models[0].APIKeyFile, filepath.Join(filepath.Dir(path), "key"))
	case models[0].WeightsDir != filepath.Join(filepath.Dir(path), "llama"):
		t.Errorf("models[0].WeightsDir: got %q, want %q", models[0].WeightsDir, filepath.Join(filepath.Dir(path), "llama"))
	case models[1].WeightsDir != "":
		t.Errorf(`models[1].WeightsDir: got %q, want ""`, models[1].WeightsDir)
	case models[1].APIKeyFile != "":
		t.Errorf(`models[1].APIKeyFile: got %q, want ""`, models[1].APIKeyFile)
	}
	if _, err := Load(path + "x"); err == nil {
		t.Error("a missing file is accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"models":[{"model_id":"m","engine_url":"http://h","capacity":1,"capacity":1}]}`))
	f.Add([]byte("{\"models\":[{\"model_id\":\"\\ud800\"}]}"))
	f.Add([]byte(`{"models":[[[[[[[[[[]]]]]]]]]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		models, err := Parse(text)
		if (err == nil) == (len(models) == 0) {
			t.Fatalf("err == nil: got %t, want any but %t", err == nil, len(models) == 0)
		}
		if err == nil {
			if err := Validate(models); err != nil {
				t.Fatalf("what Parse takes is refused by Validate: %v", err)
			}
		}
	})
}
