package multipartform

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

// part is one part as most clients write it.
func part(name, value string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
}

const (
	last = "--b--\r\n"
	file = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n" +
		"\x00\r\n--not\xff\r\n"
)

// withHead is a form of one part with these headers.
func withHead(head string) string { return "--b\r\n" + head + "\r\n\r\nx\r\n" + last }

func TestAFormIsItsPartsInTheirOrder(t *testing.T) {
	form, err := Parse([]byte(part("model", "m")+file+part("include[]", "a")+part("include[]", "")+last), "b")
	if err != nil {
		t.Fatal(err)
	}
	want := []Part{
		{Name: "model", Body: []byte("m")},
		{Name: "file", File: true, FileName: "a.wav", ContentType: "audio/wav", Body: []byte("\x00\r\n--not\xff")},
		{Name: "include[]", Body: []byte("a")}, {Name: "include[]", Body: []byte{}},
	}
	if len(form) != len(want) {
		t.Fatalf("parts: got %d, want %d", len(form), len(want))
	}
	for i, w := range want {
		switch p := form[i]; {
		case p.Name != w.Name:
			t.Errorf("part %d: p.Name: got %q, want %q", i, p.Name, w.Name)
		case p.File != w.File:
			t.Errorf("part %d: p.File: got %t, want %t", i, p.File, w.File)
		case p.FileName != w.FileName:
			t.Errorf("part %d: p.FileName: got %q, want %q", i, p.FileName, w.FileName)
		case p.ContentType != w.ContentType:
			t.Errorf("part %d: p.ContentType: got %q, want %q", i, p.ContentType, w.ContentType)
		case !bytes.Equal(p.Body, w.Body):
			t.Errorf("part %d: p.Body: got %q, want %q", i, p.Body, w.Body)
		}
	}
}

func TestFormsThatClientsWriteAreRead(t *testing.T) {
	for _, head := range []string{
		`content-disposition: form-data; name="x"`, `Content-Disposition:form-data;name=x`,
		`CONTENT-DISPOSITION: FORM-DATA; NAME="x"; FILENAME="y z"`,
		"Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=\"x\"",
		"Content-Disposition: form-data; name=\"x\"\r\nContent-Transfer-Encoding: binary\r\nContent-Length: 1",
		`Content-Disposition: form-data; name="x"; filename="gr%22n.mp3"; filename*=UTF-8''gr%C3%BCn.mp3`,
		"Content-Disposition: form-data; name=\"x\"; filename=\"grün.mp3\"",
		`Content-Disposition: form-data; name="x"; filename=""`,
	} {
		switch form, err := Parse([]byte(withHead(head)), "b"); {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", head, err)
		case len(form) != 1:
			t.Errorf("%s: len(form): got %d, want 1, in %v", head, len(form), form)
		case form[0].Name != "x":
			t.Errorf(`%s: form[0].Name: got %q, want "x"`, head, form[0].Name)
		case string(form[0].Body) != "x":
			t.Errorf(`%s: form[0].Body: got %q, want "x"`, head, string(form[0].Body))
		}
	}
	for _, body := range []string{last, last + "\r\n", "--b--", "\r\n--b--\r\n", "\r\n" + part("x", "y") + last} {
		if _, err := Parse([]byte(body), "b"); err != nil {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestWhatParsersReadDifferentlyIsRefused(t *testing.T) {
	name := `Content-Disposition: form-data; name="x"`
	for _, head := range []string{
		"", "Content-Type: text/plain", "Content-Disposition: attachment; name=\"x\"", "Content-Disposition: form-data",
		name + "\r\n" + name, name + "\r\n folded", name + "\r\n: x", name + "\r\nX Y: z", name + "\r\nX : z",
		name + "\r\nno colon",
		name + "\nX: y", name + "\rX: y", name + "\x00", `Content-Disposition: form-data; name="x`,
		`Content-Disposition: form-data; name=""`,
		`Content-Disposition: form-data; name="a\"b"`, `Content-Disposition: form-data; name="mo\del"`,
		`Content-Disposition: form-data; name="x"y`, `Content-Disposition: form-data; name=x y`,
		name + `; name="y"`, name + `; filename="a"; filename="b"`, name + `; name*=UTF-8''model`, name + `; more="y"`,
		name + ";;",
		`Content-Disposition: form-data; name=" x"`, `Content-Disposition: form-data; name`,
		"Content-Disposition: form-data; name=\"\xff\"",
		name + "\r\nContent-Length: 2", name + "\r\nContent-Length: 01", name + "\r\nContent-Transfer-Encoding: base64",
		`Content-Disposition: form-data; name="` + strings.Repeat("x", maxName+1) + `"`,
	} {
		refused(t, withHead(head))
	}
	for _, body := range []string{
		"", "--b", "--b\r\n", "preamble\r\n" + last, last + "epilogue", part("x", "y"), part("x", "y") + "--b-", "--b" + last,
		"--b\r\n\r\nx\r\n" + last, strings.ReplaceAll(part("x", "y")+last, "\r\n", "\n"), part("x", "y") + "--b \r\n" + last,
		part("x", "--b") + "--bb--", part("x", "y--b") + last, part("x", "y\n--b--\n") + last,
	} {
		refused(t, body)
	}
}

func refused(t *testing.T, body string) {
	t.Helper()
	if form, err := Parse([]byte(body), "b"); !fault.Is(err, fault.InvalidRequest) {
		t.Errorf("got the error %v, want the reason %v, with %q (form is %v)", err, fault.InvalidRequest, body, form)
	}
}

func TestAFormHasBounds(t *testing.T) {
	parts := strings.Repeat(part("x", ""), MaxParts)
	if form, err := Parse([]byte(parts+last), "b"); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if len(form) != MaxParts {
		t.Errorf("len(form): got %d, want %d", len(form), MaxParts)
	}
	refused(t, parts+part("x", "")+last)
	head := "Content-Disposition: form-data; name=\"x\"\r\nX: "
	most := head + strings.Repeat("y", MaxHead-len(head)-4)
	if _, err := Parse([]byte(withHead(most)), "b"); err != nil {
		t.Error(err)
	}
	refused(t, withHead(most+"y"))
}

func TestABoundaryIsCheckedBeforeItIsUsed(t *testing.T) {
	for value, want := range map[string]string{
		"multipart/form-data; boundary=abc":                               "abc",
		`Multipart/Form-Data; charset=utf-8; boundary="a b'()+_,-./:=?c"`: "a b'()+_,-./:=?c",
		"multipart/form-data; boundary=" + strings.Repeat("x", 70):        strings.Repeat("x", 70),
	} {
		if got, err := Boundary(value); err != nil {
			t.Errorf("%s: got the error %v, want none", value, err)
		} else if got != want {
			t.Errorf("%s: Boundary(value): got %q, want %q", value, got, want)
		}
	}
	for _, value := range []string{
		"", "application/json", "multipart/mixed; boundary=b", "multipart/form-data", `multipart/form-data; boundary=""`,
		`multipart/form-data; boundary="b "`,
		`multipart/form-data; boundary="b\r\n"`, `multipart/form-data; boundary="b{"`,
		"multipart/form-data; boundary=a; boundary=b",
		"multipart/form-data; boundary=" + strings.Repeat("x", 71),
	} {
		if got, err := Boundary(value); !fault.Is(err, fault.InvalidRequest) {
			t.Errorf("%s: %q: got the error %v, want the reason %v", value, got, err, fault.InvalidRequest)
		}
	}
}

func TestNamesThatAreActedOnStandOnce(t *testing.T) {
	for body, want := range map[string]fault.Reason{
		part("model", "m"):                            "",
		part("x", "m") + part("x", "n"):               "",
		part("model", "m") + part("model", "m"):       DuplicateField,
		part("model", "m") + part("Model", "n"):       DuplicateField,
		part("MODEL", "m"):                            DuplicateField,
		part("model", "a\r\nb"):                       fault.InvalidValue,
		part("model", "\xff"):                         fault.InvalidValue,
		part("model", strings.Repeat("x", maxName+1)): fault.InvalidValue,
		strings.Replace(file, `"file"`, `"model"`, 1): fault.InvalidValue,
	} {
		form, err := Parse([]byte(body+last), "b")
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := form.Text("model")
		f, _ := fault.As(err)
		switch {
		case want == "" && err != nil:
			t.Errorf(`%q: got the error %v, want none, where want == ""`, body, err)
		case want != "" && !fault.Is(err, want):
			t.Errorf(`%q: got the error %v, want the reason %v, where want != ""`, body, err, want)
		case want != "" && f.Param != "model":
			t.Errorf(`%q: f.Param: got %q, want "model", where want != ""`, body, f.Param)
		case want != "" && value != "":
			t.Errorf(`%q: value: got %q, want "", where want != ""`, body, value)
		}
	}
}

func TestTheModelIsSentFirst(t *testing.T) {
	form, err := Parse([]byte(part("language", "en")+file+part("model", "alias")+part("include[]", "a")+
		part("include[]", "b")+last), "b")
	if err != nil {
		t.Fatal(err)
	}
	body, at, err := form.Build("own", "acme/whisper")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(part("model", "acme/whisper")+part("language", "en")+file+part("include[]", "a")+
		part("include[]", "b")+last, "--b", "--own")
	if string(body) != want || string(body[at.Start:at.Start+at.Length]) != "acme/whisper" {
		t.Errorf("got %q, %+v\nwant %q", body, at, want)
	}
	if _, _, err := form.Build("not", "m"); err == nil {
		t.Error("a boundary that stands in a part was used")
	}
	if got, err := Boundary(ContentType("own")); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got != "own" {
		t.Errorf(`Boundary(ContentType("own")): got %q, want "own"`, got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(part("model", "m") + file + part("include[]", "") + last))
	f.Add([]byte(withHead(`Content-Disposition: form-data; name=x; filename="y"; filename*=UTF-8''y`)))
	f.Add([]byte("\r\n--b--"))
	f.Add([]byte(withHead("Content-Disposition: form-data; name=\"x\"\r\nContent-Length: 1")))
	f.Fuzz(func(t *testing.T, body []byte) {
		form, err := Parse(body, "b")
		if err != nil {
			return
		}
		agrees(t, form, body, "b")
		built, at, err := form.Build("another-boundary", "a/model")
		if err != nil {
			return
		}
		again, err := Parse(built, "another-boundary")
		if err != nil {
			t.Fatalf("what was built cannot be read: %v\n%q", err, built)
		}
		agrees(t, again, built, "another-boundary")
		switch {
		case string(built[at.Start:at.Start+at.Length]) != "a/model":
			t.Fatalf(`the model, which stands first: built[at.Start:at.Start+at.Length]: got %q, want "a/model"`,
				string(built[at.Start:at.Start+at.Length]))
		case again[0].Name != "model":
			t.Fatalf(`the model, which stands first: again[0].Name: got %q, want "model", with %q`, again[0].Name, built)
		case string(again[0].Body) != "a/model":
			t.Fatalf(`the model, which stands first: again[0].Body: got %q, want "a/model", with %q`, string(again[0].Body),
				built)
		}
		rest := again[1:]
		for _, p := range form {
			if p.Name == "model" {
				continue
			}
			if len(rest) == 0 {
				t.Fatalf("part %q, as it came: len(rest): got 0, want at least 1", p.Name)
			}
			if !bytes.Equal(p.raw, rest[0].raw) {
				t.Fatalf("part %q, as it came: p.raw: got %q, want %q", p.Name, p.raw, rest[0].raw)
			}
			rest = rest[1:]
		}
		if len(rest) > 0 {
			t.Fatalf("parts added: got %d, want 0", len(rest))
		}
	})
}

// agrees checks a form against what mime/multipart reads.
func agrees(t *testing.T, form Form, body []byte, boundary string) {
	t.Helper()
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for i, p := range form {
		theirs, err := r.NextRawPart()
		if err != nil {
			t.Fatalf("part %d: %v in %q", i, err, body)
		}
		value, err := io.ReadAll(theirs)
		if err != nil {
			t.Fatalf("part %d is %q, theirs: got the error %v, want none", i, p.Body, err)
		}
		if !bytes.Equal(value, p.Body) {
			t.Fatalf("part %d is %q, theirs: value: got %q, want %q", i, p.Body, value, p.Body)
		}
		_, params, err := mime.ParseMediaType(theirs.Header.Get("Content-Disposition"))
		if theirs.FormName() != p.Name {
			t.Fatalf("part %d is %q of %q, theirs: theirs.FormName(): got %q, want %q", i, p.Name, p.FileName, theirs.FormName(),
				p.Name)
		}
		if err == nil && !strings.Contains(string(p.raw), "*") && params["filename"] != p.FileName {
			t.Fatalf(`part %d is %q of %q, theirs: params["filename"]: got %q, want %q, where !strings.Contains(string(p.raw), `+
				`"*")`, i, p.Name, p.FileName, params["filename"], p.FileName)
		}
		if theirs.Header.Get("Content-Type") != p.ContentType {
			t.Fatalf("part %d has the type %q, theirs: got %q, want %q", i, p.ContentType, theirs.Header.Get("Content-Type"),
				p.ContentType)
		}
	}
	if _, err := r.NextRawPart(); !errors.Is(err, io.EOF) {
		t.Fatalf("they find more: got the error %v, want %v, with %q", err, io.EOF, body)
	}
}
