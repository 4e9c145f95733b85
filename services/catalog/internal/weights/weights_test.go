package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

const source = "https://weights.example/Qwen/Qwen3-8B/"

func listing(name string) Listing {
	sum := sha256.Sum256([]byte(name))
	return Listing{Name: name, Hash: hex.EncodeToString(sum[:]), Bytes: 10, URL: source + "x"}
}

func listings(names ...string) []Listing {
	all := make([]Listing, len(names))
	for i, name := range names {
		all[i] = listing(name)
	}
	return all
}

func TestTheCompositeHashIsOfTheSortedLines(t *testing.T) {
	const a, b = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"00000000000000000000000000000000000000000000000000000000000000ff"
	given := []Listing{
		{Name: "model/shard-1", Hash: strings.ToUpper(b), Algorithm: "sha256", Bytes: 7, URL: source + "1"},
		{Name: "config.json", Hash: a, Bytes: 0, URL: source + "2"},
		{Name: "Zebra", Hash: a, Bytes: 3, URL: source + "3"},
	}
	set, err := Parse(source, given)
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256([]byte("Zebra:" + a + "\nconfig.json:" + a + "\nmodel/shard-1:" + b + "\n"))
	switch {
	case set.Composite != Hash(want):
		t.Errorf("set.Composite: got %v, want %v", set.Composite, Hash(want))
	case set.Bytes != 10:
		t.Errorf("set.Bytes: got %d, want 10", set.Bytes)
	case len(set.Files) != 3:
		t.Errorf("len(set.Files): got %d, want 3, in %+v", len(set.Files), set)
	}
	slices.Reverse(given)
	again, err := Parse(source, given)
	switch {
	case err != nil:
		t.Errorf("in another order: got the error %v, want none", err)
	case !again.Equal(set):
		t.Errorf("in another order: again: got %+v, want %+v", again, set)
	case again.Composite != set.Composite:
		t.Errorf("in another order: again.Composite: got %v, want %v", again.Composite, set.Composite)
	}
	switch none, err := Parse(source, nil); {
	case err != nil:
		t.Errorf("no files: got the error %v, want none", err)
	case !none.Empty():
		t.Errorf("no files: none.Empty(): got false, want true, with %+v", none)
	case !none.Equal(Set{}):
		t.Errorf("no files: none: got %+v, want %+v", none, Set{})
	}
}

func TestABadFileIsRefusedByField(t *testing.T) {
	type spoil func(*Listing)
	name := func(n string) spoil { return func(l *Listing) { l.Name = n } }
	hash := func(h string) spoil { return func(l *Listing) { l.Hash = h } }
	size := func(b float64) spoil { return func(l *Listing) { l.Bytes = b } }
	address := func(u string) spoil { return func(l *Listing) { l.URL = u } }
	for field, spoils := range map[string][]spoil{
		"filename": {
			name(""), name("/etc/passwd"), name("../up"), name("a/../../up"), name("a/.."), name("./a"), name("a//b"),
			name("a/"),
			name(`a\b`), name("C:file"), name("a\nb"), name("a\x00b"), name("a\x7f"), name("ü"), name("\xff"), name("what?"),
			name("a."),
			name("a /b"), name(" a"), name(strings.Repeat("x", MaxFilenameBytes+1)),
		},
		"hash": {
			hash(""), hash(strings.Repeat("a", 63)), hash(strings.Repeat("a", 65)), hash(strings.Repeat("a", 66)),
			hash(strings.Repeat("g", 64)), hash(strings.Repeat("a", 1<<16)),
		},
		"algorithm": {func(l *Listing) { l.Algorithm = "sha1" }, func(l *Listing) { l.Algorithm = "SHA256" }},
		"size_bytes": {
			size(-1), size(0.5), size(1 << 53), size(math.NaN()), size(math.Inf(1)), size(math.Inf(-1)), size(math.MaxFloat64),
		},
		"url": {
			address(""), address("http://weights.example/Qwen/Qwen3-8B/x"), address(source + "x#y"), address(source + " x"),
			address("https://user:secret@weights.example/x"), address("https:///x"), address("https:x"),
			address("file:///etc/passwd"),
			address(source + "\n"), address(source + strings.Repeat("x", MaxURLBytes)), address("https://elsewhere.example/x"),
			address("%"),
		},
	} {
		for i, change := range spoils {
			given := listings("good", "bad")
			change(&given[1])
			_, err := Parse(source, given)
			f, ok := fault.As(err)
			switch {
			case !ok:
				t.Errorf("%s %d: got the error %v, want a fault", field, i, err)
			case f.Kind != fault.Invalid:
				t.Errorf("%s %d: f.Kind: got %d, want %d", field, i, f.Kind, fault.Invalid)
			case f.Reason != fault.InvalidValue:
				t.Errorf("%s %d: f.Reason: got %q, want %q", field, i, f.Reason, fault.InvalidValue)
			case f.Param != "files[1]."+field:
				t.Errorf("%s %d: f.Param: got %q, want %q", field, i, f.Param, "files[1]."+field)
			}
		}
	}
}

func TestFilesThatCannotLieSideBySideAreRefused(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "a"}, {"Model", "model"}, {"a", "a-b", "a/b"}, {"x/Y/z", "X/y"}} {
		if _, err := Parse(source, listings(names...)); !onField(err, "files") {
			t.Errorf("%v: %v", names, err)
		}
	}
	if _, err := Parse("", listings("a-b", "a/b", "ab", "a/b2", ".gitattributes")); err != nil {
		t.Errorf("names apart: %v", err)
	}
}

func TestASetKeepsItsBounds(t *testing.T) {
	full := make([]Listing, MaxFiles)
	for i := range full {
		full[i] = listing(fmt.Sprintf("%0*d", MaxFilenameBytes, i))
		full[i].URL = source + strings.Repeat("x", MaxURLBytes-len(source))
	}
	if _, err := Parse(source, full); err != nil {
		t.Errorf("as much as there may be: %v", err)
	}
	if _, err := Parse(source, append(full, listing("more"))); !onField(err, "files") {
		t.Errorf("one file more: %v", err)
	}
	two := listings("a", "b")
	two[0].Bytes, two[1].Bytes = MaxTotalBytes, 0
	if set, err := Parse(source, two); err != nil {
		t.Errorf("2^53-1 bytes: got the error %v, want none", err)
	} else if set.Bytes != MaxTotalBytes {
		t.Errorf("set.Bytes: got %d, want %d", set.Bytes, MaxTotalBytes)
	}
	two[1].Bytes = 1
	if _, err := Parse(source, two); !onField(err, "files") {
		t.Errorf("2^53 bytes: %v", err)
	}
	for _, bad := range []string{"http://x.example/", "https://" + strings.Repeat("x", MaxSourceBytes),
		"https://u@x.example/"} {
		if _, err := Parse(bad, nil); !onField(err, "weight_source_url") {
			t.Errorf("from %.40s: %v", bad, err)
		}
	}
}

func onField(err error, field string) bool {
	f, ok := fault.As(err)
	return ok && f.Kind == fault.Invalid && f.Reason == fault.InvalidValue && f.Param == field
}

// FuzzANameNeverLeavesItsFolder looks at names as a provider's machine will.
func FuzzANameNeverLeavesItsFolder(f *testing.F) {
	for _, seed := range []string{"config.json", "model/shard-00001-of-00002.safetensors", "../x", "/x", "a/./b", `..\x`,
		".gitattributes", "a\n:b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if nameProblem(name) != "" {
			return
		}
		joined := path.Join("/weights", name)
		switch {
		case joined != "/weights/"+name:
			t.Errorf("joined: got %q, want %q, with %q", joined, "/weights/"+name, name)
		case strings.ContainsAny(name, "\n\\:"):
			t.Errorf("strings.ContainsAny(…): got true, want false, with %q", name)
		case len(name) > MaxFilenameBytes:
			t.Errorf("len(name): got %d, want at most %d, in %q", len(name), MaxFilenameBytes, name)
		}
	})
}
