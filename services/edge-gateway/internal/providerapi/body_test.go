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
			t.Errorf("%.60q: got %v, want %s", raw, err, reason)
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
		switch name, n, err := read(raw); {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", raw, err)
		case name != "été":
			t.Errorf(`%s: name: got %q, want "été"`, raw, name)
		case n != 7:
			t.Errorf("%s: n of read(raw): got %d, want 7", raw, n)
		}
	}
	if _, n, err := read(`{"name":"x","n":0}`); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if n != 0 {
		t.Errorf("a zero: got %d, want 0", n)
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
			switch f, ok := fault.As(err); {
			case !ok:
				t.Errorf("%q: got the error %v, want a fault", raw, err)
			case f.Kind != fault.Invalid:
				t.Errorf("%q: f.Kind: got %d, want %d", raw, f.Kind, fault.Invalid)
			case strings.Contains(f.Message, "canary"):
				t.Errorf(`%q: f.Message: got %q, want it without "canary"`, raw, f.Message)
			}
			return
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Errorf("%q: got the error %v, want none", raw, err)
		} else if want["name"] != name {
			t.Errorf("%q: name: got %q, want %q", raw, name, want["name"])
		}
	})
}
