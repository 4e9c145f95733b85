package localdata

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// openFor opens a directory until the test ends.
func openFor(t *testing.T, path string) *Dir {
	t.Helper()
	d := open(t, path)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestOneProcessHasADirectoryAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	first := open(t, path)
	if _, err := Open(path); !errors.Is(err, ErrInUse) {
		t.Errorf("a second opening: got the error %v, want %v", err, ErrInUse)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Close(); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreMadeOnceAndClosedToOthers(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	token, err := d.AdminToken()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(token) != 64 {
		t.Fatalf("token: got %d, want 64", len(token))
	}
	pepper, err := d.Pepper()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openFor(t, path)
	if again, err := d.AdminToken(); err != nil {
		t.Errorf("the token: got the error %v, want none", err)
	} else if again != token {
		t.Errorf("again: got %q, want %q", again, token)
	}
	if again, err := d.Pepper(); err != nil {
		t.Errorf("the pepper: got the error %v, want none", err)
	} else if again != pepper {
		t.Errorf("again: got %v, want %v", again, pepper)
	}
	info, err := os.Stat(d.Path("secrets", "pepper"))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("info.Mode().Perm(): got %v, want 0o600", got)
	}
}

func TestTheBootstrapTokenIsListedAsTheGatewayReadsIt(t *testing.T) {
	d := openFor(t, t.TempDir())
	token, err := d.BootstrapToken()
	if err != nil {
		t.Fatal(err)
	}
	list, err := d.BootstrapTokens()
	if err != nil {
		t.Fatal(err)
	}
	if want := "local:" + token; list != want {
		t.Errorf("the list: got %q, want the name and the token", list)
	}
	if got, err := os.ReadFile(d.Path("secrets", "bootstrap-tokens")); err != nil {
		t.Errorf("the file: got the error %v, want none", err)
	} else if string(got) != list+"\n" {
		t.Error("the file: got another list, want the same")
	}
}

func TestAWriteLeavesNothingBehind(t *testing.T) {
	d := openFor(t, t.TempDir())
	for _, text := range []string{"one", "two"} {
		if err := d.Write([]byte(text), "demo.env"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(d.Path("demo.env")); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if string(got) != "two" {
		t.Errorf(`got %q, want "two"`, string(got))
	}
	entries, err := os.ReadDir(d.Path())
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if len(entries) != 2 {
		t.Errorf("len(entries): got %d, want 2, in %v", len(entries), entries)
	}
}

func TestAMalformedPepperIsRefused(t *testing.T) {
	for _, text := range []string{"", "zz", "00"} {
		if _, err := ParsePepper(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}

func TestThePrivatePostgresIsRemovedWhereverItLives(t *testing.T) {
	for name, elsewhere := range map[string]bool{"inside": false, "behind a link": true, "none": false} {
		path, target := t.TempDir(), filepath.Join(t.TempDir(), "db")
		home := filepath.Join(path, "postgres")
		if elsewhere {
			if err := os.Symlink(target, home); err != nil {
				t.Fatal(err)
			}
			home = target
		}
		if name != "none" {
			if err := os.MkdirAll(filepath.Join(home, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := RemovePostgres(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, left := range []string{target, filepath.Join(path, "postgres")} {
			if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %s is left: got the error %v, want %v", name, left, err, os.ErrNotExist)
			}
		}
	}
}
