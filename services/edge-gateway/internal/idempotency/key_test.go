package idempotency

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

func TestAKeyIsGivenOnceAndIsShortPrintableASCII(t *testing.T) {
	for _, tc := range []struct {
		values []string
		ok     bool
	}{
		{[]string{"k"}, true},
		{[]string{strings.Repeat("k", 255)}, true},
		{[]string{"two words ~!"}, true},
		{[]string{""}, false},
		{[]string{strings.Repeat("k", 256)}, false},
		{[]string{"a", "b"}, false},
		{[]string{"a", "a"}, false},
		{[]string{"tab\t"}, false},
		{[]string{"é"}, false},
		{[]string{"\x7f"}, false},
	} {
		h := http.Header{Header: tc.values}
		token, err := ParseToken(h)
		f, _ := fault.As(err)
		switch {
		case tc.ok && err != nil:
			t.Errorf("%q: got the error %v, want none, where tc.ok", tc.values, err)
		case tc.ok && string(token) != tc.values[0]:
			t.Errorf("%q: token: got %q, want %q, where tc.ok", tc.values, string(token), tc.values[0])
		case !tc.ok && f == nil:
			t.Errorf("%q: f: got no error, want one, where !tc.ok", tc.values)
		case !tc.ok && f.Kind != fault.Invalid:
			t.Errorf("%q: f.Kind: got %d, want %d, where !tc.ok", tc.values, f.Kind, fault.Invalid)
		case !tc.ok && f.Param != "Idempotency-Key":
			t.Errorf(`%q: f.Param: got %q, want "Idempotency-Key", where !tc.ok`, tc.values, f.Param)
		}
		if !Given(h) {
			t.Errorf("%q is not given", tc.values)
		}
	}
	if Given(http.Header{}) {
		t.Error("none is given")
	}
}

// form is a body of the same parts under a boundary.
func form(t testing.TB, boundary, file string) (contentType string, body []byte) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	if err := w.SetBoundary(boundary); err != nil {
		t.Fatal(err)
	}
	part, err := w.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte(file)); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteField("model", "m"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), buf.Bytes()
}

func TestAFormIsTheSameUnderAnotherBoundary(t *testing.T) {
	digest := func(boundary, file string) Digest {
		contentType, body := form(t, boundary, file)
		return Content("/v1/audio/transcriptions", contentType, body)
	}
	if digest("one", "sound") != digest("another", "sound") {
		t.Error("the boundary counts")
	}
	if digest("one", "sound") == digest("one", "noise") {
		t.Error("the file does not count")
	}
}

func TestContentTellsRoutesTypesAndBodiesApart(t *testing.T) {
	seen := map[Digest]string{}
	for _, c := range [][3]string{
		{"/v1/a", "application/json", "{}"}, {"/v1/b", "application/json", "{}"}, {"/v1/a", "text/plain", "{}"},
		{"/v1/a", "application/json", "{} "}, {"/v1/aa", "pplication/json", "{}"}, {"/v1/a", "application/json{}", ""},
		{"/v1/a", "multipart/form-data; boundary=x", "{}"},
	} {
		sum := Content(c[0], c[1], []byte(c[2]))
		if before, ok := seen[sum]; ok {
			t.Errorf("%q has the digest of %s", c, before)
		}
		seen[sum] = strings.Join(c[:], " ")
	}
}

func FuzzParseToken(f *testing.F) {
	for _, seed := range []string{"", "key", "a b", "é", "\x00", strings.Repeat("x", 256)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(http.Header{Header: {text}})
		if err == nil && (string(token) != text || len(text) == 0 || len(text) > 255 ||
			strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })) {
			t.Errorf("%q is accepted", text)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x0e{\"status\":200}body"))
	f.Add([]byte("\x00\x00\x00\xff{}"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, plain []byte) {
		a, err := decode(plain)
		switch {
		case err == nil && a.Status < 200:
			t.Errorf("a.Status: got %d, want at least 200", a.Status)
		case err == nil && a.Status > 599:
			t.Errorf("a.Status: got %d, want at most 599", a.Status)
		case err == nil && len(a.Body) > len(plain):
			t.Errorf("len(a.Body): got %d, want at most %d, in %+v", len(a.Body), len(plain), a)
		}
	})
}
