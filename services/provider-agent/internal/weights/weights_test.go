package weights

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fingerprint"
)

func challenge(name string) fingerprint.Challenge {
	return fingerprint.Challenge{
		ID: "c", Nonce: make([]byte, fingerprint.NonceSize),
		Ranges: []fingerprint.Range{{File: name, Offset: 0, Length: 3}},
	}
}

// model makes a folder with one file.
func model(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "a.bin"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open makes folders of models from their paths.
func open(paths map[string]string, log *slog.Logger) *Folders {
	var models []Model
	for id, path := range paths {
		models = append(models, Model{ID: id, Folder: path})
	}
	return New(models, Stores{}, nil, log)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestAnswerIsOfTheModelsOwnFolder(t *testing.T) {
	t.Parallel()
	first, second := model(t), model(t)
	if err := os.WriteFile(filepath.Join(second, "a.bin"), []byte("xyz"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(map[string]string{"one": first, "two": second}, quiet())
	for id, text := range map[string]string{"one": "abc", "two": "xyz"} {
		r := f.Answer(t.Context(), id, challenge("a.bin"))
		want := fingerprint.RangeDigest(challenge("").Nonce, "a.bin", 0, []byte(text))
		if got := bytes.Join(r.Digests, nil); !bytes.Equal(got, want) {
			t.Errorf("%s: the digests: got %x, want %x, with %q", id, got, want, r.Error)
		}
	}
	if r := f.Answer(t.Context(), "three", challenge("a.bin")); r.Error != errNoFolder.Error() {
		t.Errorf("a model without a folder: got %q, want %q", r.Error, errNoFolder)
	}
}

func TestFoldersThatCannotBeUsedAreNamedToTheOwner(t *testing.T) {
	t.Parallel()
	good := model(t)
	var book bytes.Buffer
	log := slog.New(slog.NewTextHandler(&book, nil))
	bad := open(map[string]string{"file": filepath.Join(good, "a.bin")}, log)
	bad.Look(t.Context())
	if bad.Usable() {
		t.Error("a file: bad.Usable(): got true, want false")
	}
	for _, want := range []string{"level=WARN", "model=file", "weights_dir=", "it is not a folder"} {
		if !strings.Contains(book.String(), want) {
			t.Errorf("the log: got %q, want %q in it", book.String(), want)
		}
	}
	f := open(map[string]string{"absent": filepath.Join(good, "absent"), "good": good}, quiet())
	if f.Usable() {
		t.Error("before Look: f.Usable(): got true, want false")
	}
	f.Look(t.Context())
	if !f.Usable() {
		t.Error("f.Usable(): got false, want true")
	}
	r := f.Answer(t.Context(), "absent", challenge("a.bin"))
	if r.Error != errNoOpen.Error() {
		t.Errorf("a missing folder: got %q, want %q, which holds no path", r.Error, errNoOpen)
	}
	if open(nil, quiet()).Usable() {
		t.Error("no folders: Usable(): got true, want false")
	}
}

func TestFolderThatAppearsLaterIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(model(t), "later")
	f := open(map[string]string{"m": path}, quiet())
	f.Look(t.Context())
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "a.bin"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := f.Answer(t.Context(), "m", challenge("a.bin")); r.Error != "" {
		t.Errorf(`r.Error: got %q, want ""`, r.Error)
	}
}

// hung is a file system that answers when it is let go.
type hung struct {
	fstest.MapFS
	entered chan struct{}
	letGo   chan struct{}
}

func (h hung) Open(name string) (fs.File, error) {
	h.entered <- struct{}{}
	<-h.letGo
	return h.MapFS.Open(name)
}

func (h hung) Close() error { return nil }

func TestHungFileSystemHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	h := hung{fstest.MapFS{"a.bin": {Data: []byte("abc")}}, make(chan struct{}, 1), make(chan struct{})}
	returned := make(chan struct{}, 4)
	f := open(map[string]string{"hung": "x", "other": "y"}, quiet())
	f.open = func(path string) (files, error) {
		if path == "y" {
			return nil, errors.New("another folder")
		}
		return closing{h, returned}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-h.entered
		cancel()
	}()
	if r := f.Answer(ctx, "hung", challenge("a.bin")); r.Error != errTime.Error() {
		t.Errorf("the answer: got %q, want %q", r.Error, errTime)
	}
	if r := f.Answer(t.Context(), "hung", challenge("a.bin")); r.Error != errBusy.Error() {
		t.Errorf("while a read hangs: got %q, want %q", r.Error, errBusy)
	}
	if r := f.Answer(t.Context(), "other", challenge("a.bin")); r.Error != errNoOpen.Error() {
		t.Errorf("another folder meanwhile: got %q, want %q", r.Error, errNoOpen)
	}
	f.Look(t.Context())
	if f.Usable() {
		t.Error("f.Usable(): got true, want false")
	}
	close(h.letGo)
	<-returned
	f.models["hung"].turn <- struct{}{} // once the read has returned
	<-f.models["hung"].turn
	if r := f.Answer(t.Context(), "hung", challenge("a.bin")); r.Error != "" {
		t.Errorf(`after the read: got %q, want ""`, r.Error)
	}
}

// closing signals that a folder was closed.
type closing struct {
	hung
	closed chan struct{}
}

func (c closing) Close() error {
	c.closed <- struct{}{}
	return nil
}

func TestLookEndsWithItsContext(t *testing.T) {
	t.Parallel()
	letGo := make(chan struct{})
	defer close(letGo)
	entered := make(chan struct{})
	f := open(map[string]string{"hung": "x"}, quiet())
	f.open = func(string) (files, error) {
		close(entered)
		<-letGo
		return nil, errors.New("late")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	f.Look(ctx)
	if f.Usable() {
		t.Error("f.Usable(): got true, want false")
	}
}

// A look is at the folder of a hundred models once a minute, so its findings are logged
// when they change alone.
func TestWatchNoticesFoldersThatComeAndGo(t *testing.T) {
	there, absent := errors.New("it is there"), errors.New("it is absent")
	synctest.Test(t, func(t *testing.T) {
		var book bytes.Buffer
		var isThere atomic.Bool
		f := open(map[string]string{"m": "x"}, slog.New(slog.NewTextHandler(&book, nil)))
		f.open = func(string) (files, error) {
			if !isThere.Load() {
				return nil, absent
			}
			return hung{}, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Look(ctx)
			f.Watch(ctx)
		}()
		pass := func(d time.Duration) {
			time.Sleep(d) //nolint:forbidigo // of a synctest bubble
			synctest.Wait()
		}
		for n, c := range []struct {
			finds  error
			usable bool
			logged int // lines so far
		}{{absent, false, 1}, {absent, false, 1}, {there, true, 2}, {there, true, 2}, {absent, false, 3}} {
			isThere.Store(errors.Is(c.finds, there))
			pass(time.Minute)
			if got := f.Usable(); got != c.usable {
				t.Errorf("minute %d: usable: got %t, want %t", n, got, c.usable)
			}
			if got := strings.Count(book.String(), "\n"); got != c.logged {
				t.Errorf("minute %d: lines logged: got %d, want %d, in %s", n, got, c.logged, book.String())
			}
		}
		stop()
		<-done
	})
}

func TestAnAnswerWaitsForALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		f := open(map[string]string{"m": "x"}, quiet())
		f.open = func(string) (files, error) {
			<-letGo
			return closing{hung{MapFS: fstest.MapFS{"a.bin": {Data: []byte("abc")}}, entered: make(chan struct{}, 9),
				letGo: letGo}, make(chan struct{}, 9)}, nil
		}
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			f.Look(t.Context())
		}()
		synctest.Wait()
		answered := make(chan fingerprint.Result, 1)
		go func() { answered <- f.Answer(t.Context(), "m", challenge("a.bin")) }()
		synctest.Wait()
		close(letGo)
		if r := <-answered; r.Error != "" {
			t.Errorf("an answer behind a look: got %q, want none", r.Error)
		}
		<-looked
	})
}

func TestALookDuringAnAnswerLeavesTheFolderAsItWas(t *testing.T) {
	t.Parallel()
	f := open(map[string]string{"m": model(t)}, quiet())
	f.Look(t.Context())
	f.models["m"].turn <- struct{}{} // an answer reads
	f.Look(t.Context())
	if !f.Usable() {
		t.Error("while an answer reads: Usable(): got false, want true")
	}
	if r := f.Answer(t.Context(), "m", challenge("a.bin")); r.Error != errBusy.Error() {
		t.Errorf("another answer: got %q, want %q", r.Error, errBusy)
	}
}
