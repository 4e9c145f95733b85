package check

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ownSettings are the settings that the chart writes: they are no values of config.
var ownSettings = []string{
	"grpc_addr", "grpc_advertise", "admin_addr", "tls", "peers", "nats_url", "nats_secret", "nats_replicas",
	"database_url", "database_owner_url", "database_allow_unverified", "drain_delay", "drain_timeout", "log", "traces",
	"hub.id", "hub.ws_addr", "hub.journal_dir", "hub.pepper", "gateway.http_addr", "gateway.operator_addr",
	"gateway.operator_hosts", "billing.pepper", "verifier.sealed", "verifier.edge_url",
}

// program returns the path of a program that make chart-check has built.
func program(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("CHART_PROGRAMS")
	if folder == "" {
		t.Skip("CHART_PROGRAMS is not set: make chart-check sets it")
	}
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// printed returns the settings of a program as -print shows them.
func printed(t *testing.T, service string, environ ...string) map[string]any {
	t.Helper()
	return fromYAML(t, printedText(t, service, environ...))
}

func printedText(t *testing.T, service string, environ ...string) []byte {
	t.Helper()
	cmd := exec.Command(program(t, service), "-print")
	cmd.Env = environ
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	// With a value that a setting cannot take, the settings are shown all the same.
	shown := out.Len() > 0 && len(environ) > 0
	if err != nil && !shown {
		t.Fatalf("%s -print: %v: %s", service, err, errs.Bytes())
	}
	return out.Bytes()
}

var emptySetting = regexp.MustCompile(`(?m)^\s*[a-z_0-9]+: "" # ([A-Z0-9_]+)$`)

// secretSettings are the paths of the settings of a program that it never shows: each text
// is set, and the program hides the secrets.
func secretSettings(t *testing.T, service string) []string {
	t.Helper()
	var environ []string
	for _, found := range emptySetting.FindAllSubmatch(printedText(t, service), -1) {
		environ = append(environ, string(found[1])+"="+strings.Repeat("ab", 32))
	}
	var paths []string
	for path, value := range leaves(printed(t, service, environ...), "") {
		if value == "[redacted]" && !slices.Contains(ownSettings, path) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// leaves returns the settings by their dotted paths.
func leaves(content map[string]any, prefix string) map[string]any {
	found := map[string]any{}
	for key, value := range content {
		if inner, ok := value.(map[string]any); ok {
			maps.Copy(found, leaves(inner, prefix+key+"."))
			continue
		}
		found[prefix+key] = value
	}
	return found
}

// configSchema is the schema of the values of config for the settings at prefix.
func configSchema(content map[string]any, secrets []string, prefix string) map[string]any {
	properties := map[string]any{}
	for key, value := range content {
		path := prefix + key
		if slices.Contains(ownSettings, path) || slices.Contains(secrets, path) {
			continue
		}
		switch value := value.(type) {
		case map[string]any:
			properties[key] = map[string]any{"type": "object"}
			if len(value) > 0 {
				properties[key] = configSchema(value, secrets, path+".")
			}
		case bool:
			properties[key] = map[string]any{"type": "boolean"}
		case int, float64:
			properties[key] = map[string]any{"type": "number"}
		case []any:
			properties[key] = map[string]any{"type": "array"}
		default:
			properties[key] = map[string]any{"type": "string"}
		}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

func secretsSchema(paths []string) map[string]any {
	properties := map[string]any{}
	for _, path := range paths {
		properties[path] = map[string]any{"$ref": "#/definitions/secretKey"}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

func TestTheSchemaKnowsEverySettingOfEachProgram(t *testing.T) {
	path := chart + "/values.schema.json"
	schema := fromJSON(t, read(t, path))
	definitions := under(schema, "definitions")
	for _, service := range services() {
		secrets := secretSettings(t, service)
		for name, want := range map[string]map[string]any{
			"config-" + service:  configSchema(printed(t, service), secrets, ""),
			"secrets-" + service: secretsSchema(secrets),
		} {
			if *update {
				definitions[name] = want
			} else if got := definitions[name]; !reflect.DeepEqual(got, any(want)) {
				t.Errorf("%s of values.schema.json is behind the program: run make chart-update: got %v, want %v", name, got, want)
			}
		}
	}
	if !*update {
		return
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	hold(t, path, append(text, '\n'))
}

// TestWhatTheChartSetsItselfIsASetting finds each of ownSettings in a program: one that no
// program has any more would hide a later setting of its name.
func TestWhatTheChartSetsItselfIsASetting(t *testing.T) {
	known := map[string]bool{}
	for _, service := range services() {
		settings := printed(t, service)
		for key := range settings {
			known[key] = true // a section too
		}
		for path := range leaves(settings, "") {
			known[path] = true
		}
	}
	for _, path := range ownSettings {
		if !known[path] {
			t.Errorf("%s: got a setting of no program, want one of a program", path)
		}
	}
}

// TestTheSchemaKnowsEveryValue walks values.yaml: each key has its place in the schema, and
// no object of the schema takes a key that values.yaml does not name.
func TestTheSchemaKnowsEveryValue(t *testing.T) {
	schema := fromJSON(t, read(t, chart+"/values.schema.json"))
	walkSchema(t, "", schema, schema, fromYAML(t, read(t, chart+"/values.yaml")))
}

func walkSchema(t *testing.T, path string, whole, schema, values map[string]any) {
	t.Helper()
	schema = resolve(whole, schema)
	properties := under(schema, "properties")
	if properties == nil {
		return // a map whose keys the user names
	}
	if schema["additionalProperties"] != false {
		t.Errorf("the schema of %q: additionalProperties: got %v, want false", path, schema["additionalProperties"])
	}
	for key, value := range values {
		inner, known := properties[key].(map[string]any)
		if !known {
			t.Errorf("values.yaml: %s.%s: got a key that the schema does not have, want one that it has", path, key)
			continue
		}
		if content, ok := value.(map[string]any); ok {
			walkSchema(t, path+"."+key, whole, inner, content)
		}
	}
	if len(values) == 0 || path == "" {
		return // a map that the user fills
	}
	for key := range properties {
		if _, named := values[key]; !named {
			t.Errorf("values.yaml: %s.%s: got nothing, want the key with its comment", path, key)
		}
	}
}

func resolve(whole, schema map[string]any) map[string]any {
	if name, ok := schema["$ref"].(string); ok {
		return under(whole, "definitions", strings.TrimPrefix(name, "#/definitions/"))
	}
	return schema
}
