package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

var validDocs = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `1.5e+10`, `1e999999`, `""`, `"a\u0041\n\ud800"`,
	` {"a" : [1, 2, {"b":null}] , "c":"d"} `, `[[],{},[{}],{"a":{}}]`, `{"":""}`, `{"a":1,"a":2}`,
	"\"\xff\xfe\"", `"\"\\\/\b\f\n\r\t"`, `{"mod\u0065l":"x","é":1}`, "\t\n\r [1]\n",
	`{"long key that spans more than one word":"long value with \"escapes\" behind eight bytes"}`,
}

var invalidDocs = []string{
	``, ` `, `{`, `[`, `]`, `}`, `{]`, `[}`, `[1,]`, `{"a":1,}`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a" 1}`,
	`{"a":1 "b":2}`, `[1 2]`, `01`, `-`, `-a`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `NaN`, `Infinity`, `tru`,
	`truE`, `nul`, `falsey`,
	`"`, `"a`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\n\"", "\"a\x00b\"", "\"1234567\x1f\"", "\uFEFF{}", `{} {}`, `1 2`,
	`{}x`, `'a'`, `{"a":1]`, `[{"a":1]`,
	"[1]\x00", "// c\n1", `{"a":"b"`, `{"a":[}`, `{"a":{]}`,
}

func TestScanAcceptsWhatEncodingJSONAccepts(t *testing.T) {
	for _, doc := range validDocs {
		if err := New([]byte(doc), Options{}).Valid(); err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if !json.Valid([]byte(doc)) {
			t.Error("json.Valid([]byte(doc)): got false, want true")
		}
	}
	for _, doc := range invalidDocs {
		err := New([]byte(doc), Options{}).Valid()
		if err == nil {
			t.Errorf("accepted: got no error, want one, with %q", doc)
		} else if json.Valid([]byte(doc)) {
			t.Error("accepted: json.Valid([]byte(doc)): got true, want false")
		}
		var fault *Error
		if !errors.As(err, &fault) {
			t.Errorf("%q: an error with an offset: got the error %v, want a %T", doc, err, fault)
		} else if fault.Offset < 0 || fault.Offset > len(doc) {
			t.Errorf("%q: the offset of the error %v: fault.Offset: got %d, want 0 to %d", doc, err, fault.Offset, len(doc))
		}
	}
}

func TestErrorsNameTheOffsetAndNeverTheContent(t *testing.T) {
	for doc, want := range map[string]Error{
		`{"secret":tru!}`:          {13, ReasonSyntax},
		`{"secret":"a` + "\x01\"}": {12, ReasonControl},
		`{"secret":"a\q"}`:         {12, ReasonEscape},
		`{"secret":1.}`:            {12, ReasonNumber},
		`{"secret":1} secret`:      {13, ReasonTrailing},
		`{"secret":`:               {10, ReasonTruncated},
		`{"secret":-`:              {11, ReasonTruncated},
	} {
		err := New([]byte(doc), Options{}).Valid()
		var fault *Error
		if !errors.As(err, &fault) {
			t.Errorf("%q: got the error %v, want a %T", doc, err, fault)
			continue
		}
		if *fault != want {
			t.Errorf("%q: *fault: got %+v, want %+v", doc, *fault, want)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf(`%q: content: got the error %q, want it without "secret"`, doc, err)
		}
	}
}

func TestMembersGivesKeysSpansAndKinds(t *testing.T) {
	data := []byte(` { "a" : 1 ,"b":"x", "mod\u0065l":{"c":[1]}, "":[ ] ,"n":null,"t":true } `)
	type got struct {
		name, value string
		kind        Kind
		escaped     bool
	}
	want := []got{
		{"a", "1", Number, false}, {"b", `"x"`, String, false}, {"model", `{"c":[1]}`, Object, true},
		{"", "[ ]", Array, false}, {"n", "null", Null, false}, {"t", "true", Bool, false},
	}
	i := 0
	for m, err := range New(data, Options{}).Members() {
		if err != nil {
			t.Fatal(err)
		}
		g := got{string(m.Key.Name(data)), string(m.Value.Of(data)), m.Kind, m.Key.Escaped}
		if i >= len(want) {
			t.Errorf("member: got %d, want less than %d", i, len(want))
		} else if g != want[i] {
			t.Errorf("g: got %+v, want %+v", g, want[i])
		}
		i++
	}
	if i != len(want) {
		t.Errorf("got %d members, want %d", i, len(want))
	}
}

func TestNestedValuesAreWalkedBySpan(t *testing.T) {
	data := []byte(`{"messages":[{"role":"user","content":"a"},{"role":"tool"},7]}`)
	doc := New(data, Options{})
	var seen []string
	for m, err := range doc.Members() {
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range doc.Array(m.Value) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind != Object {
				seen = append(seen, string(e.Value.Of(data)))
				continue
			}
			for f, err := range doc.Object(e.Value) {
				if err != nil {
					t.Fatal(err)
				}
				seen = append(seen, string(f.Key.Name(data))+"="+string(f.Value.Of(data)))
			}
		}
	}
	if got := strings.Join(seen, " "); got != `role="user" content="a" role="tool" 7` {
		t.Errorf("walked: got %q, want %q", got, `role="user" content="a" role="tool" 7`)
	}
}

func TestWalksOfTheWrongKindFail(t *testing.T) {
	doc := New([]byte(`[1]`), Options{})
	for _, err := range doc.Members() {
		if err == nil {
			t.Error("an array has members")
		}
	}
	doc = New([]byte(`{"a":1}`), Options{})
	for _, err := range doc.Array(Span{0, 7}) {
		if err == nil {
			t.Error("an object has elements")
		}
	}
}

// TestFaultBehindTheLastMemberIsSeen is for callers that act on members before the
// walk has ended: they learn of the fault at the end.
func TestFaultBehindTheLastMemberIsSeen(t *testing.T) {
	for _, doc := range []string{`{"a":1} x`, `{"a":1`, `{"a":1,`, `{"a":1]`, `{"a":1}{}`} {
		var last error
		for _, err := range New([]byte(doc), Options{}).Members() {
			last = err
		}
		if last == nil {
			t.Errorf("%q: no error", doc)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	objects := func(n int) []byte {
		return []byte(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
	}
	for _, tc := range []struct {
		doc  []byte
		max  int
		want bool
	}{
		{nested(128), 0, true}, {nested(129), 0, false}, {nested(3), 3, true}, {nested(4), 3, false},
		{objects(128), 0, true}, {objects(129), 0, false}, {objects(1024), 5000, true}, {objects(1025), 5000, false},
		{nested(100_000), 0, false}, {objects(100_000), 0, false}, {bytes.Repeat([]byte("["), 1<<20), 0, false},
	} {
		err := New(tc.doc, Options{MaxDepth: tc.max}).Valid()
		if (err == nil) != tc.want {
			t.Errorf("%.10q… of %d bytes, limit %d: err == nil: got %t, want %t", tc.doc, len(tc.doc), tc.max, err == nil,
				tc.want)
		}
		var fault *Error
		if !tc.want && !errors.As(err, &fault) {
			t.Errorf("refused: got the error %v, want a %T, where !tc.want", err, fault)
		} else if !tc.want && fault.Reason != ReasonDepth {
			t.Errorf("fault.Reason: got %q, want %q, where !tc.want", fault.Reason, ReasonDepth)
		}
	}
	// A walk counts the object that it has entered itself.
	for _, err := range New(objects(4), Options{MaxDepth: 3}).Members() {
		if err == nil {
			t.Error("a walk goes deeper than its limit")
		}
	}
}

func TestMembersAreBounded(t *testing.T) {
	data := []byte(`{"a":1,"b":2,"c":[1,2,3]}`)
	count := func(limit int) (n int, last error) {
		doc := New(data, Options{MaxMembers: limit})
		for _, err := range doc.Members() {
			if last = err; err == nil {
				n++
			}
		}
		return n, last
	}
	if n, err := count(3); n != 3 {
		t.Errorf("count(3): got %d, want 3", n)
	} else if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	var fault *Error
	switch n, err := count(2); {
	case n != 2:
		t.Errorf("count(2): got %d, want 2", n)
	case !errors.As(err, &fault):
		t.Errorf("got the error %v, want a %T", err, fault)
	case fault.Reason != ReasonMembers:
		t.Errorf("fault.Reason: got %q, want %q", fault.Reason, ReasonMembers)
	}
	n := 0
	for _, err := range New([]byte(`[1,2,3]`), Options{MaxMembers: 2}).Array(Span{0, 7}) {
		if err == nil {
			n++
		} else if !errors.As(err, &fault) {
			t.Errorf("got the error %v, want a %T", err, fault)
		} else if fault.Reason != ReasonMembers {
			t.Errorf("fault.Reason: got %q, want %q", fault.Reason, ReasonMembers)
		}
	}
	if n != 2 {
		t.Errorf("elements: got %d, want 2", n)
	}
}

func TestInvalidUTF8IsRefusedOnRequest(t *testing.T) {
	for doc, valid := range map[string]bool{
		`{"a":"é世😀"}`: true, "{\"a\":\"\xff\"}": false, "{\"\xc3\":1}": false, "[\"12345678\xe4\xb8\"]": false,
		"{\"a\":\"\xed\xa0\x80\"}": false, `"\ud800"`: true, "\"\xc0\xaf\"": false, "\"x\\n\xf0\x9f\x98\x80\"": true,
	} {
		if err := New([]byte(doc), Options{RefuseInvalidUTF8: true}).Valid(); (err == nil) != valid {
			t.Errorf("%q: err == nil: got %t, want %t", doc, err == nil, valid)
		}
		if err := New([]byte(doc), Options{}).Valid(); err != nil {
			t.Errorf("%q refused without the option: %v", doc, err)
		}
	}
}

// TestHostileDocumentsCostConstantMemory is hostile test 14 without its clock.
func TestHostileDocumentsCostConstantMemory(t *testing.T) {
	var keys bytes.Buffer
	keys.WriteByte('{')
	for range 1_000_000 {
		keys.WriteString(`"a":1,`)
	}
	keys.WriteString(`"z":0}`)
	text := append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 50<<20)...), `"}`...)
	for name, data := range map[string][]byte{"keys": keys.Bytes(), "string": text} {
		if n := testing.AllocsPerRun(1, func() {
			for _, err := range New(data, Options{}).Members() {
				if err != nil {
					t.Fatal(err)
				}
			}
		}); n > 0 {
			t.Errorf("%s: allocations: got %v, want 0", name, n)
		}
	}
}

func TestCursorDescendsInOnePass(t *testing.T) {
	data := []byte(`{"a":{"b":[1,{"c":2}],"d":3},"e":4}`)
	c := NewCursor(data, Options{})
	var path []string
	var walk func()
	walk = func() {
		switch c.Kind() {
		case Object:
			c.Enter()
			for {
				key, ok := c.NextMember()
				if !ok {
					return
				}
				path = append(path, string(key.Name(data)))
				walk()
			}
		case Array:
			for c.Enter(); c.NextElement(); {
				walk()
			}
		default:
			path = append(path, string(c.Skip().Of(data)))
		}
	}
	walk()
	if err := c.End(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(path, ""); got != "ab1c2d3e4" {
		t.Errorf(`walked: got %q, want "ab1c2d3e4"`, got)
	}
}

func TestCursorRefusesOneValueTooFew(t *testing.T) {
	c := NewCursor([]byte(`{"a":1,"b":2}`), Options{})
	c.Enter()
	c.NextMember()
	if _, ok := c.NextMember(); ok {
		t.Error("a member behind a value that was not consumed: ok of c.NextMember(): got true, want false")
	} else if !c.Failed() {
		t.Error("a member behind a value that was not consumed: c.Failed(): got false, want true")
	}
}

func FuzzScanAgreesWithEncodingJSON(f *testing.F) {
	for _, doc := range append(validDocs, invalidDocs...) {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := New(data, Options{MaxDepth: maxDepthLimit}).Valid()
		var fault *Error
		if errors.As(err, &fault) && fault.Reason == ReasonDepth {
			return
		}
		if (err == nil) != json.Valid(data) {
			t.Fatalf("scan: err == nil: got %t, want %t", err == nil, json.Valid(data))
		}
		strict := New(data, Options{MaxDepth: maxDepthLimit, RefuseInvalidUTF8: true}).Valid()
		if err == nil && (strict == nil) != utf8.Valid(data) {
			t.Fatalf("strict UTF-8 says %v, unicode/utf8 %v", strict, utf8.Valid(data))
		}
		compareMembers(t, data)
	})
}

// compareMembers checks that the members are the members that encoding/json decodes,
// unless two members have the same name.
func compareMembers(t *testing.T, data []byte) {
	got := map[string]string{}
	n := 0
	for m, err := range New(data, Options{MaxDepth: maxDepthLimit}).Members() {
		if err != nil {
			return
		}
		n++
		key := string(m.Key.Name(data))
		got[strings.ToValidUTF8(key, "\uFFFD")] = string(m.Value.Of(data))
		if m.Kind != kindOf(data[m.Value.Start]) {
			t.Fatalf("kind %v for %q", m.Kind, m.Value.Of(data))
		}
	}
	if n != len(got) {
		return // duplicate keys
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("encoding/json: %v", err)
	}
	if utf8.Valid(data) && len(want) != len(got) {
		t.Fatalf("%d members, encoding/json has %d", len(got), len(want))
	}
	for key, value := range want {
		if utf8.Valid(data) && got[key] != string(value) {
			t.Fatalf("member %q is %q, encoding/json has %q", key, got[key], value)
		}
	}
}

func FuzzDecodeStringAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{`""`, `"a"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\ud83d\ude00"`, "\"\xff\xff\"",
		`"\u0000\/"`, `"a" `, `1`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := DecodeString(raw)
		if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
			if err == nil {
				t.Fatalf("%q decoded", raw)
			}
			return
		}
		var want string
		wantErr := json.Unmarshal(raw, &want)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %q, %v; encoding/json has %q, %v: err == nil: got %t, want %t", raw, got, err, want, wantErr,
				err == nil, wantErr == nil)
		}
		if got != want {
			t.Fatalf("%q: %q, %v; encoding/json has %q, %v: DecodeString(raw): got %q, want %q", raw, got, err, want, wantErr,
				got, want)
		}
		if err != nil {
			return
		}
		if n := DecodedLen(raw); n != len(want) {
			t.Fatalf("length %d of %q: got %d, want %d", n, want, n, len(want))
		}
		if !StringIs(raw, want) && utf8.Valid(raw) {
			t.Fatalf("%q is not %q", raw, want)
		}
		back, err := DecodeString(AppendString(nil, got))
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if back != got {
			t.Fatalf("back: got %q, want %q", back, got)
		}
	})
}

func TestIntTakesWholeNumbersAsWritten(t *testing.T) {
	for raw, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-7": -7, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		if got, err := Int([]byte(raw)); err != nil {
			t.Errorf("%s: got the error %v, want none", raw, err)
		} else if got != want {
			t.Errorf("%s: Int([]byte(raw)): got %d, want %d", raw, got, want)
		}
	}
	for _, raw := range []string{"", "-", "1.0", "1e3", "9223372036854775808", "-9223372036854775809",
		"18446744073709551616",
		`"5"`, "null", "01", "1 ", " 1", "+1", "1e", strings.Repeat("9", 10_000)} {
		if got, err := Int([]byte(raw)); err == nil {
			t.Errorf("%.20s: %d", raw, got)
		}
	}
}

func TestIntegralTakesWholeNumbersHoweverWritten(t *testing.T) {
	for raw, want := range map[string]int64{
		"1.0": 1, "1e3": 1000, "1.5e1": 15, "-2.50e2": -250, "100e-2": 1, "0e999999999999": 0, "0.000": 0, "-0.0e5": 0,
		"9223372036854775807.0": math.MaxInt64, "-9.223372036854775808E18": math.MinInt64, "0.00012e5": 12,
	} {
		if got, err := Integral([]byte(raw)); err != nil {
			t.Errorf("%s: got the error %v, want none", raw, err)
		} else if got != want {
			t.Errorf("%s: Integral([]byte(raw)): got %d, want %d", raw, got, want)
		}
	}
	for _, raw := range []string{"1.5", "1e-1", "1e19", "1e999999", "-1e999999999999999999999", "9223372036854775808",
		"1e-999999999999", "x", ""} {
		if got, err := Integral([]byte(raw)); err == nil {
			t.Errorf("%s: %d", raw, got)
		}
	}
}

func TestFloatIsBounded(t *testing.T) {
	if f, err := Float([]byte("0.7"), 0, 2); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if f != 0.7 {
		t.Errorf(`Float([]byte("0.7"), 0, 2): got %v, want 0.7`, f)
	}
	for _, raw := range []string{"2.1", "-0.1", "1e999999", "-1e999999", `"1"`, "NaN", ""} {
		if f, err := Float([]byte(raw), 0, 2); err == nil {
			t.Errorf("%s: %v", raw, f)
		}
	}
}

func TestEqualFoldIsUnicodeSimpleFolding(t *testing.T) {
	for key, want := range map[string]bool{
		"max_tokens": true, "Max_Tokens": true, "max_to\u212Aens": true, "max_token\u017F": true, "max_token": false,
		"max_tokens ": false, "": false,
	} {
		if got := EqualFold([]byte(key), "max_tokens"); got != want {
			t.Errorf("%q: got %t, want %t", key, got, want)
		}
	}
	switch {
	case !EqualFold([]byte("N"), "n"):
		t.Error(`single letters: EqualFold([]byte("N"), "n"): got false, want true`)
	case !EqualFold([]byte("\u212A"), "k"):
		t.Error("single letters, the Kelvin sign first: EqualFold(…): got false, want true")
	case !EqualFold([]byte("k"), "\u212A"):
		t.Error("single letters, the Kelvin sign last: EqualFold(…): got false, want true")
	case EqualFold([]byte("x"), ""):
		t.Error(`single letters: EqualFold([]byte("x"), ""): got true, want false`)
	}
}

func FuzzEqualFoldAgreesWithStrings(f *testing.F) {
	f.Add("model", "Model")
	f.Add("\u212A", "k")
	f.Add("\u017F\u017F", "sS")
	f.Fuzz(func(t *testing.T, a, b string) {
		if got, want := EqualFold([]byte(a), b), strings.EqualFold(a, b); got != want {
			t.Fatalf("%q %q: got %v, want %v", a, b, got, want)
		}
	})
}

func TestAppendStringIsSafeInLinesAndScripts(t *testing.T) {
	for s, want := range map[string]string{
		"a\"b\\c": `"a\"b\\c"`, "\n\r\t\x00\x1f": `"\n\r\t\u0000\u001f"`, "\u2028\u2029\u2030": `"\u2028\u2029` + "\u2030\"",
		"a\xffb": "\"a\uFFFDb\"", "é😀": `"é😀"`,
	} {
		if got := string(AppendString(nil, s)); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
