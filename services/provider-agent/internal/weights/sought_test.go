package weights

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/fingerprint"
)

// put writes a file, with its folders.
func put(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// link makes a link, with its folders.
func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// The files of a model, as the catalog lists them: one in a large-file store and a small one.
const (
	tensors = "the weights, which are many"
	config  = `{"layers":1}`
)

// listed is a catalog with the files of every model.
func listed(files map[string]string) List {
	return func(context.Context, string) ([]File, error) {
		var all []File
		for name, content := range files {
			all = append(all, File{Name: name, Hash: hashOf(content), Size: int64(len(content)),
				URL: "https://huggingface.co/source/of-it/resolve/main/" + name})
		}
		return all, nil
	}
}

var (
	modelFiles = map[string]string{"model.safetensors": tensors, "sub/config.json": config}
	ggufFiles  = map[string]string{"model-Q4_K_M.gguf": tensors}
)

// cacheOf makes a cache of Hugging Face with a repository as its own library does: small files are
// named by another digest than SHA-256.
func cacheOf(t *testing.T, repository string, files map[string]string) string {
	t.Helper()
	cache := t.TempDir()
	addRepository(t, cache, repository, files)
	return cache
}

func addRepository(t *testing.T, cache, repository string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		blob := hashOf(content)
		if strings.HasSuffix(name, ".json") {
			blob = fmt.Sprintf("%040x", len(content))
		}
		put(t, filepath.Join(cache, repository, "blobs", blob), content)
		up := strings.Repeat("../", 2+strings.Count(name, "/"))
		link(t, up+"blobs/"+blob, filepath.Join(cache, repository, "snapshots", "0f1e2d", name))
	}
}

func cachesAt(paths ...string) Stores { return Stores{Caches: paths} }

// seeking looks once for the files of the model local, which the marketplace calls market/id.
func seeking(t *testing.T, stores Stores, list List) *Folders {
	t.Helper()
	f := New([]Model{{ID: "market/id", Names: []string{"Own/Local", "market/id"}}}, stores, list, quiet())
	f.Look(t.Context())
	return f
}

// wantProven fails the test unless a challenge of a file is answered with the digest of its content.
func wantProven(t *testing.T, what string, f *Folders, name, content string) {
	t.Helper()
	r := f.Answer(t.Context(), "market/id", challenge(name))
	want := fingerprint.RangeDigest(challenge("").Nonce, name, 0, []byte(content[:3]))
	if got := bytes.Join(r.Digests, nil); !bytes.Equal(got, want) {
		t.Errorf("%s: the digest: got %x, want %x, with %q", what, got, want, r.Error)
	}
}

// wantUnproven fails the test if a challenge of a file is answered.
func wantUnproven(t *testing.T, what string, f *Folders, name string) {
	t.Helper()
	if f.Usable() {
		t.Errorf("%s: Usable(): got true, want false", what)
	}
	if r := f.Answer(t.Context(), "market/id", challenge(name)); r.Error == "" {
		t.Errorf("%s: the digests: got %x, want none", what, r.Digests)
	}
}

func TestFilesAreFoundInTheStoresOfEngines(t *testing.T) {
	t.Parallel()
	ollama := t.TempDir()
	put(t, filepath.Join(ollama, "blobs", "sha256-"+hashOf(tensors)), tensors)
	absent := filepath.Join(t.TempDir(), "absent")
	for what, c := range map[string]struct {
		stores Stores
		files  map[string]string
	}{
		"a blob of Ollama":                    {Stores{Ollama: []string{absent, ollama}}, ggufFiles},
		"a repository of the engine's name":   {cachesAt(cacheOf(t, "models--Own--Local", modelFiles)), modelFiles},
		"a repository of the catalog's name":  {cachesAt(cacheOf(t, "models--market--id", modelFiles)), modelFiles},
		"the repository of the files' source": {cachesAt(cacheOf(t, "models--source--of-it", modelFiles)), modelFiles},
		"a repository of any name":            {cachesAt(absent, cacheOf(t, "models--a--b", modelFiles)), modelFiles},
		"the second of two caches": {cachesAt(cacheOf(t, "models--Own--Local", nil),
			cacheOf(t, "models--Own--Local", modelFiles)), modelFiles},
	} {
		f := seeking(t, c.stores, listed(c.files))
		if !f.Usable() {
			t.Errorf("%s: Usable(): got false, want true", what)
		}
		for name, content := range c.files {
			wantProven(t, what, f, name, content)
		}
	}
}

func TestOnlyTheFilesOfTheCatalogCanBeNamed(t *testing.T) {
	t.Parallel()
	cache := cacheOf(t, "models--Own--Local", modelFiles)
	put(t, filepath.Join(cache, "models--Own--Local", "snapshots", "0f1e2d", "secret"), "secret")
	f := seeking(t, Stores{Caches: []string{cache}}, listed(modelFiles))
	for _, name := range []string{"secret", "../0f1e2d/secret", "blobs/" + hashOf(tensors), "snapshots/0f1e2d/secret"} {
		if r := f.Answer(t.Context(), "market/id", challenge(name)); r.Error == "" {
			t.Errorf("%s: the digests: got %x, want none", name, r.Digests)
		}
	}
}

func TestFilesThatAreNotThoseOfTheCatalogAreNotProven(t *testing.T) {
	t.Parallel()
	other := map[string]string{"model.safetensors": tensors, "sub/config.json": strings.Replace(config, "1", "2", 1)}
	half := map[string]string{"model.safetensors": tensors}
	cut := t.TempDir()
	put(t, filepath.Join(cut, "blobs", "sha256-"+hashOf(tensors)), tensors[1:])
	for what, stores := range map[string]Stores{
		"a small file of another revision": {Caches: []string{cacheOf(t, "models--Own--Local", other)}},
		"a file is missing":                {Caches: []string{cacheOf(t, "models--Own--Local", half)}},
		"a blob of another size":           {Ollama: []string{cut}},
		"no store":                         {Caches: []string{cut + "/a"}, Ollama: []string{cut + "/b"}},
	} {
		wantUnproven(t, what, seeking(t, stores, listed(modelFiles)), "model.safetensors")
	}
	good := Stores{Caches: []string{cacheOf(t, "models--Own--Local", modelFiles)}}
	for what, list := range map[string]List{
		"no answer":          func(context.Context, string) ([]File, error) { return nil, errors.New("away") },
		"no files":           listed(nil),
		"too many files":     func(context.Context, string) ([]File, error) { return make([]File, maxFiles+1), nil },
		"digests of nothing": listedAs("", "model.safetensors"),
		"a digest that is a path": listedAs(strings.Repeat("../", 21)+"a",
			"model.safetensors"),
		"a name that leaves the folder": listedAs(hashOf(config), "../../blobs/x.json"),
	} {
		wantUnproven(t, what, seeking(t, good, list), "model.safetensors")
	}
}

// listedAs is a catalog that lists one file.
func listedAs(hash, name string) List {
	return func(context.Context, string) ([]File, error) {
		return []File{{Name: name, Hash: hash, Size: int64(len(config))}}, nil
	}
}

func TestLinksOutOfAStoreFindNothing(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	secret := put(t, filepath.Join(outside, "secret"), tensors)
	small := put(t, filepath.Join(outside, "config"), config)
	blobs, snapshot, repository := t.TempDir(), t.TempDir(), t.TempDir()
	link(t, secret, filepath.Join(blobs, "blobs", "sha256-"+hashOf(tensors)))
	link(t, small, filepath.Join(snapshot, "models--Own--Local", "snapshots", "main", "config.json"))
	link(t, cacheOf(t, "r", modelFiles)+"/r", filepath.Join(repository, "models--Own--Local"))
	smallFiles := map[string]string{"config.json": config}
	for what, c := range map[string]struct {
		stores Stores
		files  map[string]string
		name   string
	}{
		"a blob":       {Stores{Ollama: []string{blobs}}, ggufFiles, "model-Q4_K_M.gguf"},
		"a small file": {Stores{Caches: []string{snapshot}}, smallFiles, "config.json"},
		"a repository": {Stores{Caches: []string{repository}}, modelFiles, "model.safetensors"},
	} {
		wantUnproven(t, what, seeking(t, c.stores, listed(c.files)), c.name)
	}
}

func TestAFileThatChangesIsNotProvenUntilItIsFoundAnew(t *testing.T) {
	t.Parallel()
	ollama := t.TempDir()
	blob := put(t, filepath.Join(ollama, "blobs", "sha256-"+hashOf(tensors)), tensors)
	f := seeking(t, Stores{Ollama: []string{ollama}}, listed(ggufFiles))
	wantProven(t, "at first", f, "model-Q4_K_M.gguf", tensors)
	next := put(t, filepath.Join(ollama, "next"), tensors)
	if err := os.Rename(next, blob); err != nil {
		t.Fatal(err)
	}
	const want = `"model-Q4_K_M.gguf": there is no such file`
	if r := f.Answer(t.Context(), "market/id", challenge("model-Q4_K_M.gguf")); r.Error != want {
		t.Errorf("a file in its place: got %q, want %q", r.Error, want)
	}
	f.Look(t.Context())
	wantProven(t, "after a look", f, "model-Q4_K_M.gguf", tensors)
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if r := f.Answer(t.Context(), "market/id", challenge("model-Q4_K_M.gguf")); r.Error != want {
		t.Errorf("a file that was removed: got %q, want %q", r.Error, want)
	}
	f.Look(t.Context())
	wantUnproven(t, "after a look at nothing", f, "model-Q4_K_M.gguf")
}

func TestALookReadsABoundedAmount(t *testing.T) {
	t.Parallel()
	const n = maxRead/maxSmall + 1 // one more than a look may read
	cache := t.TempDir()
	zeros := hashOf(string(make([]byte, maxSmall)))
	var files []File
	for i := range n {
		name := fmt.Sprintf("%d.bin", i)
		path := put(t, filepath.Join(cache, "models--Own--Local", "snapshots", "main", name), "")
		if err := os.Truncate(path, maxSmall); err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Name: name, Hash: zeros, Size: maxSmall})
	}
	f := seeking(t, Stores{Caches: []string{cache}}, func(context.Context, string) ([]File, error) { return files, nil })
	if left := f.readable.Load(); left > 0 || left < -maxSmall {
		t.Errorf("bytes that the look had left: got %d, want none", left)
	}
	if got := len(f.models["market/id"].sought.caches.read); got != n-1 {
		t.Errorf("files read by a look: got %d, want %d", got, n-1)
	}
	if f.Usable() {
		t.Error("after the first look: Usable(): got true, want false")
	}
	f.Look(t.Context())
	if !f.Usable() {
		t.Error("after the second look: Usable(): got false, want true")
	}
	f.Look(t.Context())
	if left := f.readable.Load(); left != maxRead {
		t.Errorf("bytes read again: got %d, want none", maxRead-left)
	}
}

func TestALookAtAHugeCacheIsBounded(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	for i := range 4 * maxEntries {
		if err := os.Mkdir(filepath.Join(cache, fmt.Sprintf("models--a--%d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(cache)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if got := len(namesIn(root, ".", maxEntries)); got != maxEntries {
		t.Errorf("entries read: got %d, want %d", got, maxEntries)
	}
	f := seeking(t, Stores{Caches: []string{cache}}, listed(modelFiles))
	wantUnproven(t, "a cache of many others", f, "model.safetensors")
	addRepository(t, cache, "models--Own--Local", modelFiles) // found by its name
	f.Look(t.Context())
	wantProven(t, "a repository that has come", f, "model.safetensors", tensors)
}

func TestTheCatalogIsAskedSeldom(t *testing.T) {
	t.Parallel()
	asked, fault := 0, errors.New("away")
	cache := cacheOf(t, "models--Own--Local", modelFiles)
	f := New([]Model{{ID: "market/id", Names: []string{"Own/Local"}}}, Stores{Caches: []string{cache}},
		func(ctx context.Context, model string) ([]File, error) {
			asked++
			if fault != nil {
				return nil, fault
			}
			return listed(modelFiles)(ctx, model)
		}, quiet())
	look := func(times, want int, usable bool) {
		t.Helper()
		asked = 0
		for range times {
			f.Look(t.Context())
		}
		if asked != want {
			t.Errorf("questions in %d looks: got %d, want %d", times, asked, want)
		}
		if got := f.Usable(); got != usable {
			t.Errorf("Usable(): got %t, want %t", got, usable)
		}
	}
	look(3, 3, false)
	fault = nil
	look(listLooks+1, 1, true)
	fault = errors.New("away again")
	look(3, 3, true) // the last answer still counts
	fault = nil
	look(listLooks+2, 2, true)
}

func TestFilesAreNotSoughtUnlessTheOwnerAllowsIt(t *testing.T) {
	t.Parallel()
	never := func(context.Context, string) ([]File, error) {
		t.Error("the catalog is asked")
		return nil, nil
	}
	folder := model(t)
	stores, names := Stores{Ollama: []string{folder}}, []string{"m"}
	for what, f := range map[string]*Folders{
		"no stores": New([]Model{{ID: "m", Names: names}}, Stores{}, never, quiet()),
		"no names":  New([]Model{{ID: "m"}}, stores, never, quiet()),
		"a folder":  New([]Model{{ID: "m", Folder: folder, Names: names}}, stores, never, quiet()),
	} {
		f.Look(t.Context())
		r := f.Answer(t.Context(), "m", challenge("a.bin"))
		if proven := r.Error == ""; proven != (what == "a folder") {
			t.Errorf("%s: proven: got %t, with %q", what, proven, r.Error)
		}
	}
}

func TestOtherModelsHaveOtherFiles(t *testing.T) {
	t.Parallel()
	var book bytes.Buffer
	cache := cacheOf(t, "models--Own--Local", modelFiles)
	one := Model{ID: "market/id", Names: []string{"Own/Local"}}
	f := New([]Model{one}, Stores{Caches: []string{cache}}, listed(modelFiles), slog.New(slog.NewTextHandler(&book, nil)))
	f.Look(t.Context())
	before := f.of("market/id")
	f.Set([]Model{one, {ID: "other", Folder: model(t)}})
	if f.of("market/id") != before {
		t.Error("a model that stays: what was known of it is gone")
	}
	if r := f.Answer(t.Context(), "other", challenge("a.bin")); r.Error != "" {
		t.Errorf(`a model that has come: got %q, want ""`, r.Error)
	}
	f.Set([]Model{{ID: "other", Folder: model(t)}})
	if r := f.Answer(t.Context(), "market/id", challenge("model.safetensors")); r.Error != errNoFolder.Error() {
		t.Errorf("a model that has gone: got %q, want %q", r.Error, errNoFolder)
	}
	f.Look(t.Context())
	if got := strings.Count(book.String(), "can be proven to the platform now"); got != 1 {
		t.Errorf("how often the log says that files were found: got %d, want 1, in %s", got, book.String())
	}
}

func TestTheStoresAreWhereEnginesPutThem(t *testing.T) {
	t.Parallel()
	variables := func(all map[string]string) func(string) string { return func(name string) string { return all[name] } }
	for _, c := range []struct {
		set  map[string]string
		want Stores
	}{
		{map[string]string{}, Stores{[]string{"/usr/share/ollama/.ollama/models"}, nil}},
		{map[string]string{"HOME": "/home/a"}, Stores{[]string{"/home/a/.ollama/models", "/usr/share/ollama/.ollama/models"},
			[]string{"/home/a/.cache/huggingface/hub"}}},
		{map[string]string{"HOME": "/h", "OLLAMA_MODELS": "/o", "HF_HOME": "/hf", "XDG_CACHE_HOME": "/h/.cache",
			"HF_HUB_CACHE": "relative"},
			Stores{[]string{"/o", "/h/.ollama/models", "/usr/share/ollama/.ollama/models"},
				[]string{"/hf/hub", "/h/.cache/huggingface/hub"}}},
	} {
		if got := StoresOf(variables(c.set)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: got %v, want %v", c.set, got, c.want)
		}
	}
}
