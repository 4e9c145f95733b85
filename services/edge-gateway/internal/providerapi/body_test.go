package providerapi

import (
	"encoding/json"
	"strings"
	"testing"

	"svc.internal/pkg/fault"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// read reads a name that is required and a number that is not.
func read(raw string) (name string, number int64, err error) {
	number = 7
	err = readBody([]byte(raw), member{name: "name", text: &name, limit: 5, required: true},
		member{name: "n", number: &number, limit: 9})
	return name, number, err
}

func TestBodiesAreReadStrictly(t *testing.T) {
	for raw, reason := range map[string]fault.Reason{
		`{"name":"x","name":"y"}`:               apierror.DuplicateField,
		`{"name":"x","n\u0061me":"y"}`:          apierror.DuplicateField,
		`{"name":"x","other":1,"other":2}`:      apierror.DuplicateField,
		`{}`:                                    apierror.MissingRequired,
		``:                                      apierror.MissingRequired,
		`{"name":null}`:                         apierror.MissingRequired,
		`{"name":""}`:                           apierror.MissingRequired,
		`{"Name":"x"}`:                          apierror.MissingRequired,
		`{"name":1}`:                            fault.InvalidValue,
		`{"name":["x"]}`:                        fault.InvalidValue,
		`{"name":"123456"}`:                     fault.InvalidValue,
		`{"name":"x","n":10}`:                   fault.InvalidValue,
		`{"name":"x","n":-1}`:                   fault.InvalidValue,
		`{"name":"x","n":1.5}`:                  fault.InvalidValue,
		`{"name":"x","n":"1"}`:                  fault.InvalidValue,
		`{"name":"x","n":99999999999999999999}`: fault.InvalidValue,
		`[]`:                                    fault.InvalidRequest,
		`"name"`:                                fault.InvalidRequest,
		`{"name":"x"} {}`:                       fault.InvalidRequest,
		`{"name":"x"`:                           fault.InvalidRequest,
		"{\"name\":\"\xff\"}":                   fault.InvalidRequest,
		`{"name":"x","deep":[[[[[[[[1]]]]]]]]}`: fault.InvalidRequest,
		"{" + members(maxMembers) + `,"name":"x"}`:    fault.InvalidRequest,
		`{"name":"x","a":` + strings.Repeat("[", 999): fault.InvalidRequest,
	} {
		if _, _, err := read(raw); !fault.Is(err, reason) {
			t.Errorf("%.60q: %v, want %s", raw, err, reason)
		}
	}
}

func members(n int) string {
	var out []string
	for i := range n {
		out = append(out, `"m`+strings.Repeat("x", i)+`":0`)
	}
	return strings.Join(out, ",")
}

// Agents of another version send more; what they leave out stays as it was.
func TestWhatIsNotKnownIsPassedOver(t *testing.T) {
	for _, raw := range []string{`{"name":"\u00e9t\u00e9","new":{"a":[1]}}`, `{"name":"été","n":null}`} {
		if name, n, err := read(raw); err != nil || name != "été" || n != 7 {
			t.Errorf("%s: %q, %d, %v", raw, name, n, err)
		}
	}
	if _, n, err := read(`{"name":"x","n":0}`); err != nil || n != 0 {
		t.Errorf("a zero is %d, %v", n, err)
	}
}

// What is read is what encoding/json reads, and a refusal tells nothing of the body.
func FuzzReadBody(f *testing.F) {
	for _, seed := range []string{`{"name":"x"}`, `{"name":"x","n":3}`, `{"name":"x","name":"y"}`,
		`{"n\u0061me":"\ud800"}`, `[`, ``, `{"name":"canary"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		name, _, err := read(raw)
		if err != nil {
			if f, ok := fault.As(err); !ok || f.Kind != fault.Invalid || strings.Contains(f.Message, "canary") {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(raw), &want); err != nil || want["name"] != name {
			t.Errorf("%q: %q, encoding/json has %v, %v", raw, name, want["name"], err)
		}
	})
}
