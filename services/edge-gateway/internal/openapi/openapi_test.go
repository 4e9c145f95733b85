package openapi

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// walk gives every object of a JSON value with where it stands.
func walk(at string, value any, each func(at string, o object)) {
	switch v := value.(type) {
	case object:
		each(at, v)
		for name, member := range v {
			walk(at+"/"+name, member, each)
		}
	case []any:
		for _, element := range v {
			walk(at, element, each)
		}
	}
}

func TestTheDescriptionHoldsTogether(t *testing.T) {
	var doc object
	if err := json.Unmarshal(Document(), &doc); err != nil {
		t.Fatal(err)
	}
	walk("", doc, func(at string, o object) {
		ref, ok := o["$ref"].(string)
		if !ok {
			return
		}
		found := any(doc)
		for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			inside, _ := found.(object)
			found = inside[step]
		}
		if found == nil {
			t.Errorf("%s: there is no %s", at, ref)
		}
	})
	named := regexp.MustCompile(`\{(\w+)\}`)
	operations := map[any]string{}
	for path, item := range doc["paths"].(object) {
		for verb, described := range item.(object) {
			op := described.(object)
			where := verb + " " + path
			if other := operations[op["operationId"]]; other != "" {
				t.Errorf(`%s is called: other: got %q, want ""`, where, other)
			} else if op["operationId"] == nil {
				t.Errorf(`%s is called: op["operationId"]: got nil, want a value`, where)
			}
			operations[op["operationId"]] = where
			if summary, _ := op["summary"].(string); len(summary) < 10 {
				t.Errorf("what %s says of itself: got %d, want at least 10, in %q", where, len(summary), summary)
			}
			responses := op["responses"].(object)
			if responses["200"] == nil && responses["201"] == nil && responses["303"] == nil {
				t.Errorf(`what %s says it answers: responses["201"]: got nil, want a value`, where)
			} else if responses["default"] == nil {
				t.Errorf(`what %s says it answers: responses["default"]: got nil, want a value`, where)
			}
			inPath := map[any]bool{}
			parameters, _ := op["parameters"].([]any)
			for _, p := range parameters {
				if p := p.(object); p["in"] == "path" {
					inPath[p["name"]] = true
				}
			}
			for _, m := range named.FindAllStringSubmatch(path, -1) {
				if !inPath[m[1]] {
					t.Errorf("%s does not describe %s", where, m[1])
				}
			}
		}
	}
}

// What an answer has is required of it: clients in strict languages need to know
// that a key is there, if only as null.
func TestAnswersSayWhichKeysTheyHave(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Required   []string
				Properties map[string]json.RawMessage
				Proto      string `json:"x-proto"`
			}
		}
	}
	if err := json.Unmarshal(Document(), &doc); err != nil {
		t.Fatal(err)
	}
	for name, s := range doc.Components.Schemas {
		if s.Proto != "" && !strings.HasSuffix(s.Proto, string(questions)) && len(s.Required) != len(s.Properties) {
			t.Errorf("%s requires %d of %d keys", name, len(s.Required), len(s.Properties))
		}
		for _, key := range s.Required {
			if s.Properties[key] == nil {
				t.Errorf("%s requires %s, which is not described", name, key)
			}
		}
	}
	for name, keys := range map[string]string{
		"ChatCompletion": "id object created model choices usage", "ChatAnswer": "role content refusal",
		"Completion": "id object created model choices usage", "EmbeddingList": "object data model usage",
		"Images":        "created data",
		"Transcription": "text usage", "VerboseTranscription": "language duration text usage", "ModelList": "object data",
		"Model": "id object created owned_by context_length", "Error": "error request_id",
	} {
		if got := strings.Join(doc.Components.Schemas[name].Required, " "); got != keys {
			t.Errorf("%s requires: got %q, want %q", name, got, keys)
		}
	}
}
