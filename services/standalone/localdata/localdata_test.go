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
		t.Errorf("a second opening: %v", err)
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
	if err != nil || len(token) != 64 {
		t.Fatalf("token of %d characters, %v", len(token), err)
	}
	pepper, err := d.Pepper()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openFor(t, path)
	if again, err := d.AdminToken(); err != nil || again != token {
		t.Errorf("the token changed, %v", err)
	}
	if again, err := d.Pepper(); err != nil || again != pepper {
		t.Errorf("the pepper changed, %v", err)
	}
	info, err := os.Stat(d.Path("secrets", "pepper"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestAWriteLeavesNothingBehind(t *testing.T) {
	d := openFor(t, t.TempDir())
	for _, text := range []string{"one", "two"} {
		if err := d.Write([]byte(text), "demo.env"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(d.Path("demo.env")); err != nil || string(got) != "two" {
		t.Errorf("%q, %v", got, err)
	}
	entries, err := os.ReadDir(d.Path())
	if err != nil || len(entries) != 2 {
		t.Errorf("entries %v, %v; want the file and the lock", entries, err)
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
				t.Errorf("%s: %s is left, %v", name, left, err)
			}
		}
	}
}
