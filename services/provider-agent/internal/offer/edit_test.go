package offer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"svc.internal/services/provider-agent/internal/filelock"
)

// The owner's order and white space stay, and so do members that the agent ignores: only the entry comes
// and goes.
func TestAnAddedModelLeavesEveryOtherByteAndARemovalGivesTheFileBack(t *testing.T) {
	const list = "{\"models\": [\n\t{\"model_id\": \"a\", \"engine_url\": \"http://h/v1\"}\n]}\n"
	for name, c := range map[string]struct{ before, after string }{
		"a map": {entries, strings.TrimSuffix(entries, "\n}") + ",\n  \"new\": {\"endpoint\": \"http://h\", " +
			"\"local_model\": \"n\"}\n}"},
		"a map under models": {`{"models": ` + entries + `}`, `{"models": ` + strings.TrimSuffix(entries, "\n}") +
			",\n  \"new\": {\"endpoint\": \"http://h\", \"local_model\": \"n\"}\n}}"},
		"a list": {list, strings.TrimSuffix(list, "\n]}\n") +
			",\n\t{\"model_id\": \"new\", \"engine_url\": \"http://h/v1\", \"local_model\": \"n\"}\n]}\n"},
		"one line": {`{"a":{"endpoint":"http://h"}}`, `{"a":{"endpoint":"http://h"},` +
			`"new": {"endpoint": "http://h", "local_model": "n"}}`},
	} {
		got, err := Add([]byte(c.before), Model{ModelID: "new", EngineURL: "http://h/v1", LocalModel: "n"})
		if err != nil {
			t.Errorf("%s: add: got the error %v, want none", name, err)
			continue
		}
		if string(got) != c.after {
			t.Errorf("%s: add: got\n%s\nwant\n%s", name, got, c.after)
		}
		back, err := Remove(got, "new")
		if err != nil {
			t.Errorf("%s: remove: got the error %v, want none", name, err)
		}
		if string(back) != c.before {
			t.Errorf("%s: remove: got\n%s\nwant\n%s", name, back, c.before)
		}
	}
	first, err := Remove([]byte(entries), "Qwen/Qwen3-8B")
	if err != nil {
		t.Fatalf("the first: got the error %v, want none", err)
	}
	if want := "{\n  \"tiny\": {\"endpoint\""; !strings.HasPrefix(string(first), want) {
		t.Errorf("the first: got %q, want it to begin with %q", first, want)
	}
}

func TestAnEditThatLeavesAFaultChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte) ([]byte, error)
		want   string
	}{
		"no address": {func(b []byte) ([]byte, error) { return Add(b, Model{ModelID: "new", EngineURL: "h"}) },
			`"new".endpoint: must begin with http://`},
		"no id":       {func(b []byte) ([]byte, error) { return Add(b, Model{EngineURL: "http://h"}) }, "needs 1 to"},
		"there twice": {func(b []byte) ([]byte, error) { return Add(b, Model{ModelID: "tiny"}) }, "in the file already"},
		"not there":   {func(b []byte) ([]byte, error) { return Remove(b, "none") }, "is not in the file"},
		"the last": {func(b []byte) ([]byte, error) {
			one, err := Remove(b, "tiny")
			if err != nil {
				return nil, err
			}
			return Remove(one, "Qwen/Qwen3-8B")
		}, "the only model"},
	} {
		path := filepath.Join(t.TempDir(), "models.json")
		if err := errors.Join(os.WriteFile(path, []byte(entries), 0o600), os.Chmod(path, 0o640)); err != nil {
			t.Fatal(err) // a mode that no umask has changed
		}
		if err := Edit(path, c.change); err == nil {
			t.Errorf("%s: got no error, want one", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got the error %v, want %q in it", name, err, c.want)
		}
		expect(t, name, path, entries, 0o640)
	}
	if _, err := Add([]byte(`{"m": {}}`), Model{ModelID: "new", EngineURL: "http://h"}); err == nil {
		t.Error("a file with a fault is changed")
	}
}

// expect checks a file's content and mode, and that no other file is in its folder.
func expect(t *testing.T, name, path, want string, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s: the file: got\n%s\nwant\n%s", name, got, want)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != mode {
		t.Errorf("%s: mode: got %o, want %o", name, got, mode)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("%s: files in the folder: got %d, want 1", name, len(left))
	}
}

func TestAnEditKeepsTheFilesModeAndLinkAndNoticesAnotherWriter(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	path, link := filepath.Join(dir, "models.json"), filepath.Join(links, "models.json")
	add := func(b []byte) ([]byte, error) { return Add(b, Model{ModelID: "m", EngineURL: "http://h"}) }
	if err := Edit(path, add); err != nil {
		t.Fatalf("a file that was not there: got the error %v, want none", err)
	}
	const one = "{\n  \"m\": {\"endpoint\": \"http://h\"}\n}\n"
	expect(t, "a file that was not there", path, one, 0o600)
	if err := errors.Join(os.Symlink(path, link), os.Chmod(path, 0o640)); err != nil {
		t.Fatal(err)
	}
	if err := Edit(link, func(b []byte) ([]byte, error) {
		return Add(b, Model{ModelID: "n", EngineURL: "http://h"})
	}); err != nil {
		t.Fatalf("by a link: got the error %v, want none", err)
	}
	const two = "{\n  \"m\": {\"endpoint\": \"http://h\"},\n  \"n\": {\"endpoint\": \"http://h\"}\n}\n"
	expect(t, "by a link", path, two, 0o640)
	info, err := os.Lstat(link)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: got %v, want a link", info.Mode())
	}
	err = Edit(path, func(b []byte) ([]byte, error) {
		if err := os.WriteFile(path, []byte(one), 0o640); err != nil {
			t.Fatal(err)
		}
		return Remove(b, "n")
	})
	if !errors.Is(err, errMeanwhile) {
		t.Errorf("another writer: got the error %v, want %v", err, errMeanwhile)
	}
	expect(t, "another writer", path, one, 0o640)
}

// The lock is what keeps the edits apart: an edit compares the file first, and replaces it then.
func TestEditsAtOnceAreAllKept(t *testing.T) {
	const edits = 16
	path := filepath.Join(t.TempDir(), "models.json")
	var all sync.WaitGroup
	for n := range edits {
		all.Go(func() {
			if err := Edit(path, func(b []byte) ([]byte, error) {
				return Add(b, Model{ModelID: fmt.Sprintf("m%d", n), EngineURL: "http://h"})
			}); err != nil {
				t.Errorf("edit %d: got the error %v, want none", n, err)
			}
		})
	}
	all.Wait()
	models, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(models) != edits {
		t.Errorf("models: got %d, want %d", len(models), edits)
	}
}

func TestAnEditThatDoesNotEndHoldsNoOtherUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		folder, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		if taken, err := filelock.Take(folder); err != nil || taken {
			t.Skipf("no locks here: %t, %v", taken, err)
		}
		path := filepath.Join(dir, "models.json")
		err = Edit(path, func(b []byte) ([]byte, error) { return Add(b, Model{ModelID: "m", EngineURL: "http://h"}) })
		if !errors.Is(err, errUnderWay) {
			t.Errorf("got the error %v, want %v", err, errUnderWay)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file: got the error %v, want that it is not there", err)
		}
	})
}
