package edgegateway

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"svc.internal/services/edge-gateway/internal/openapi"
)

// schemas checks values against the description: as much of JSON Schema as that
// uses of answers.
type schemas struct{ doc map[string]any }

func newSchemas(t testing.TB) schemas {
	t.Helper()
	var s schemas
	if err := json.Unmarshal(openapi.Document(), &s.doc); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s schemas) at(ref string) map[string]any {
	found := any(s.doc)
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		found = found.(map[string]any)[strings.ReplaceAll(step, "~1", "/")]
	}
	return found.(map[string]any)
}

// faults says what of a value the schema does not allow.
func (s schemas) faults(at string, schema map[string]any, value any) (out []string) {
	fault := func(format string, args ...any) { out = append(out, at+" "+fmt.Sprintf(format, args...)) }
	if ref, ok := schema["$ref"].(string); ok {
		out = append(out, s.faults(at, s.at(ref), value)...)
	}
	if choices, ok := schema["anyOf"].([]any); ok && !slices.ContainsFunc(choices, func(one any) bool {
		return len(s.faults(at, one.(map[string]any), value)) == 0
	}) {
		fault("is none of what it may be: %v", value)
	}
	if kinds := texts(schema["type"]); len(kinds) > 0 &&
		!slices.ContainsFunc(kinds, func(kind string) bool { return isKind(value, kind) }) {
		fault("is %v, not %v", value, kinds)
		return out
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, value) {
		fault("is %v, not one of %v", value, enum)
	}
	if want, ok := schema["const"]; ok && !reflect.DeepEqual(value, want) {
		fault("is %v, not %v", value, want)
	}
	switch v := value.(type) {
	case string:
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v) {
			fault("is %q, which is not as %s", v, pattern)
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok {
			for i, element := range v {
				out = append(out, s.faults(fmt.Sprintf("%s[%d]", at, i), items, element)...)
			}
		}
	case map[string]any:
		for _, key := range texts(schema["required"]) {
			if _, ok := v[key]; !ok {
				fault("lacks %s", key)
			}
		}
		properties, _ := schema["properties"].(map[string]any)
		for key, member := range v {
			if of, ok := properties[key].(map[string]any); ok {
				out = append(out, s.faults(at+"."+key, of, member)...)
			}
		}
	}
	return out
}

func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, one := range v {
			out = append(out, one.(string))
		}
		return out
	}
	return nil
}

func isKind(value any, kind string) bool {
	switch v := value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == math.Trunc(v)
	case string:
		return kind == "string"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

// answerOf refers to the schema of an operation's answer in JSON with a status; it is
// empty for none.
func (s schemas) answerOf(o operation, status int) string {
	responses := s.at("#/paths/" + strings.ReplaceAll(o.template, "/", "~1") + "/" + strings.ToLower(o.method) +
		"/responses")
	found, ok := responses[strconv.Itoa(status)].(map[string]any)
	if !ok {
		found = responses["default"].(map[string]any)
	}
	if ref, ok := found["$ref"].(string); ok {
		found = s.at(ref)
	}
	for _, step := range []string{"content", "application/json", "schema"} {
		found, _ = found[step].(map[string]any)
	}
	ref, _ := found["$ref"].(string)
	return ref
}

// wantShape checks one JSON text against a schema of the description.
func (s schemas) wantShape(t *testing.T, what, ref, text string) {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Errorf("%s: %v in %s", what, err, text)
		return
	}
	for _, fault := range s.faults("it", map[string]any{"$ref": ref}, value) {
		t.Errorf("%s: %s\n%s", what, fault, text)
	}
}

// Whatever is asked, what comes back is what the description says: the answer of
// the operation, or an error.
func TestEveryAnswerHasItsDescribedShape(t *testing.T) {
	f := surfaceFleet(t)
	s := newSchemas(t)
	for _, o := range operations(t) {
		for _, credential := range [][]string{f.credential(o), {"Authorization", "Bearer nonsense"}} {
			if o.priced && o.model != modelID {
				continue // the hub here knows chats only
			}
			if strings.HasPrefix(o.path, "/sandbox/") || strings.HasSuffix(o.path, ".csv") {
				continue // pages are HTML, and exports CSV
			}
			resp := f.ask(o, credential...)
			body := read(t, resp)
			if ref := s.answerOf(o, resp.StatusCode); ref != "" {
				s.wantShape(t, o.String(), ref, body)
			} else if o.path != "/openapi.json" {
				t.Errorf(`the schema of %s: got %q, want "/openapi.json"`, o, o.path)
			}
		}
	}
	f.hub.set(streamAnswer)
	for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
		ref, body := "#/components/schemas/ChatCompletionChunk", strings.Replace(helloStream, "{",
			`{"stream_options":{"include_usage":true},`, 1)
		if path == "/v1/completions" {
			ref, body = "#/components/schemas/CompletionChunk", `{"model":"`+modelID+`","prompt":"x","stream":true}`
		}
		events := read(t, f.do(http.MethodPost, path, body, "Authorization", "Bearer "+f.key))
		if !strings.HasSuffix(events, "data: [DONE]\n\n") {
			t.Errorf("%s: got %q, want the suffix %q", path, events, "data: [DONE]\n\n")
		}
		for event := range strings.SplitSeq(strings.TrimSpace(strings.TrimSuffix(events, "data: [DONE]\n\n")), "\n\n") {
			s.wantShape(t, path, ref, strings.TrimPrefix(event, "data: "))
		}
	}
}

// The check itself finds what is wrong.
func TestAShapeThatIsWrongIsSeen(t *testing.T) {
	s := newSchemas(t)
	for text, ref := range map[string]string{
		`{}`: "Error", `{"error":{"message":"m","type":"t","param":1,"code":null},"request_id":"x"}`: "Error",
		strings.Replace(wholeJSON, `"role":`, `"rol":`, 1):  "ChatCompletion",
		strings.Replace(wholeJSON, `"stop"`, `"error"`, 1):  "ChatCompletion",
		strings.Replace(helloChunk, `:null`, `:"error"`, 1): "ChatCompletionChunk",
		`{"object":"list","data":[{"id":"a"}]}`:             "ModelList",
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if len(s.faults("it", map[string]any{"$ref": "#/components/schemas/" + ref}, value)) == 0 {
			t.Errorf("%s passes for %s: got 0, want at least 1", text, ref)
		}
	}
}
