package check

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write what the chart copies and what follows from it anew")

const (
	root  = "../.."
	chart = root + "/charts/svc"
)

// services are all services, in the order in which the chart shows them.
func services() []string {
	return []string{"catalog", "billing-ledger", "chain-signer", "settlement", "router", "provider-hub", "verifier",
		"edge-gateway"}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// hold compares a file with what it must be, or writes it under -update.
func hold(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%s: run make chart-update: got %v, want no error", path, err)
	} else if !bytes.Equal(got, want) {
		t.Errorf("%s is behind what it is made of: run make chart-update: got\n%s\nwant\n%s", path, got, want)
	}
}

func fromYAML(t *testing.T, text []byte) map[string]any {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	return content
}

func fromJSON(t *testing.T, text []byte) map[string]any {
	t.Helper()
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	return content
}

// under returns the map at a path of keys; nil where there is none.
func under(content map[string]any, path ...string) map[string]any {
	for _, key := range path {
		content, _ = content[key].(map[string]any)
	}
	return content
}

// valueSets are the chart's sets of values, by name.
func valueSets(t *testing.T) map[string]string {
	t.Helper()
	found, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 6 {
		t.Fatalf("sets of values in charts/svc/ci: got %d, want at least 6", len(found))
	}
	sets := map[string]string{}
	for _, path := range found {
		sets[filepath.Base(path[:len(path)-len("-values.yaml")])] = path
	}
	return sets
}
