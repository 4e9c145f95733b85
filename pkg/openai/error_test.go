package openai

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAppendErrorHasItsShape(t *testing.T) {
	e := Error{Status: 400, Message: "no \"x\"\n", Type: TypeInvalidRequest, Param: "messages[0]", Code: "invalid_value"}
	if got, want := string(AppendError(nil, e, "r1")),
		`{"error":{"message":"no \"x\"\n","type":"invalid_request_error","param":"messages[0]","code":"invalid_value"},`+
			`"request_id":"r1"}`; got != want {
		t.Errorf(`AppendError(nil, e, "r1"): got %q, want %q`, got, want)
	}
	if got, want := string(AppendError([]byte("x"), Error{Message: "m", Type: TypeServer}, "")),
		`x{"error":{"message":"m","type":"server_error","param":null,"code":null}}`; got != want {
		t.Errorf("AppendError(…): got %q, want %q", got, want)
	}
	// Some clients recognise an error in a stream by this prefix alone.
	event := string(AppendErrorEvent(nil, e, "r1"))
	switch {
	case !strings.HasPrefix(event, `data: {"error":{`):
		t.Errorf("event: got %q, want the prefix %q", event, `data: {"error":{`)
	case !strings.HasSuffix(event, "}\n\n"):
		t.Errorf("event: got %q, want the suffix %q", event, "}\n\n")
	case strings.Count(event, "\n") != 2:
		t.Errorf("strings.Count(…): got %d, want 2", strings.Count(event, "\n"))
	}
}

func TestParseErrorReadsEveryDialect(t *testing.T) {
	for body, want := range map[string]Error{
		`{"error":{"message":"m","type":"t","param":"p","code":"c"}}`: {Message: "m", Type: "t",
			Param: "p", Code: "c"},
		`{"error":{"message":"m","type":"t","param":null,"code":404}}`: {Message: "m", Type: "t",
			Code: "404"},
		`{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}`: {Message: "m",
			Type: "BadRequestError", Code: "400"},
		`{"error":"model 'x' not found"}`: {
			Message: "model 'x' not found"},
		`{"message":"m"}`:        {Message: "m"},
		`{"detail":"Not Found"}`: {Message: "Not Found"},
		`{"detail":[{"loc":["body"],"msg":"field required","type":"value_error"},{"msg":"x"}]}`: {Message: "field required",
			Type: "value_error"},
		`{"detail":{"message":"m","code":"c"}}`: {Message: "m", Code: "c"},
		`[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`: {Message: "bad",
			Code: "400"},
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`: {Message: "Overloaded",
			Type: "overloaded_error"},
		`{"message":"outer","error":{"code":"c"}}`: {Message: "outer",
			Code: "c"},
		`{"message":"outer","error":{"error":{"message":"in"}}}`: {Message: "outer"},
		`"text"`:                      {Message: "text"},
		" Internal Server Error\r\n":  {Message: "Internal Server Error"},
		"<html>\n<h1>502</h1></html>": {Message: "<html> <h1>502</h1></html>"},
		"a\x00b\x1bc\xff":             {Message: "abc\uFFFD"},
		``:                            {},
		`null`:                        {},
		`{}`:                          {},
		`[]`:                          {},
		`12`:                          {},
		`{"error":null}`:              {},
		`{"error":{"message":{"x":1},"type":[],"code":true}}`: {},
		`{"error":{"message":"a\u0000\u0085b"}}`:              {Message: "ab"},
	} {
		if got := ParseError([]byte(body)); got != want {
			t.Errorf("%q: got %+v, want %+v", body, got, want)
		}
	}
}

func TestParseErrorIsBounded(t *testing.T) {
	long := strings.Repeat("é", MaxErrorMessage)
	for _, body := range []string{long, `{"error":"` + long + `"}`, `{"error":{"message":"` + long + `","code":"` + long +
		`","type":"` + long + `"}}`} {
		e := ParseError([]byte(body))
		switch {
		case len(e.Message) > MaxErrorMessage || len(e.Message) < MaxErrorMessage-1:
			t.Errorf("message: got %d, want at most %d and at least %d", len(e.Message), MaxErrorMessage, MaxErrorMessage-1)
		case !utf8.ValidString(e.Message):
			t.Error("utf8.ValidString(e.Message): got false, want true")
		case len(e.Code) > maxErrorField:
			t.Errorf("len(e.Code): got %d, want at most %d", len(e.Code), maxErrorField)
		case len(e.Type) > maxErrorField:
			t.Errorf("len(e.Type): got %d, want at most %d", len(e.Type), maxErrorField)
		}
	}
}

func TestErrorsComeBack(t *testing.T) {
	e := Error{Message: "m", Type: TypeNotFound, Param: "p", Code: "model_not_found"}
	if got := ParseError(AppendError(nil, e, "r")); got != e {
		t.Errorf(`ParseError(AppendError(nil, e, "r")): got %+v, want %+v`, got, e)
	}
}

func FuzzParseError(f *testing.F) {
	for _, body := range []string{`{"error":{"message":"m","type":"t","param":"p","code":5}}`, `[{"error":"x"}]`,
		`{"detail":[{"msg":"x"}]}`, "plain \xff", `{"error":{"error":{"message":1e9}}}`, `[`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e := ParseError(body)
		switch {
		case len(e.Message) > MaxErrorMessage:
			t.Fatalf("len(e.Message): got %d, want at most %d, in %+v", len(e.Message), MaxErrorMessage, e)
		case !utf8.ValidString(e.Message):
			t.Fatal("utf8.ValidString(e.Message): got false, want true")
		case strings.ContainsAny(e.Message, "\x00\r\n\x1b"):
			t.Fatal("strings.ContainsAny(…): got true, want false")
		case len(e.Code) > maxErrorField:
			t.Fatalf("len(e.Code): got %d, want at most %d, in %+v", len(e.Code), maxErrorField, e)
		}
		if out := AppendError(nil, e, "r"); !json.Valid(out) {
			t.Fatalf("%q", out)
		}
	})
}
