package store

import (
	"fmt"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/catalog/internal/weights"
)

const source = "https://weights.example/"

func files(names ...string) weights.Set {
	all := make([]weights.File, len(names))
	for i, name := range names {
		all[i] = weights.File{Name: name, Hash: weights.Hash{byte(i)}, Size: int64(i), URL: source + name}
	}
	return weights.NewSet(source, all)
}

func (r *rig) loadWeights(t *testing.T) (int64, map[string]weights.Set) {
	t.Helper()
	revision, sets, changed, err := r.store.LoadWeights(t.Context(), -1)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if !changed {
		t.Fatal("changed: got false, want true")
	}
	return revision, sets
}

func TestWeightsThatArePutAreLoadedAndReplacedAsAWhole(t *testing.T) {
	r := setup(t)
	if _, sets := r.loadWeights(t); len(sets) != 0 {
		t.Fatalf("at first: got %d, want 0, in %v", len(sets), sets)
	}
	put := func(set weights.Set) {
		t.Helper()
		if err := r.store.PutWeights(t.Context(), "old", set); err != nil {
			t.Fatal(err)
		}
	}
	first := files("b", "a/b", "a-b")
	put(first)
	before, sets := r.loadWeights(t)
	switch got := sets["old"]; {
	case len(sets) != 1:
		t.Errorf("loaded: len(sets): got %d, want 1, in %+v", len(sets), sets)
	case !got.Equal(first):
		t.Errorf("got %+v, want %+v", got, first)
	case got.Composite != first.Composite:
		t.Errorf("Composite: got %v, want %v", got.Composite, first.Composite)
	case got.Bytes != first.Bytes:
		t.Errorf("Bytes: got %d, want %d", got.Bytes, first.Bytes)
	}
	put(first)
	switch _, sets, changed, err := r.store.LoadWeights(t.Context(), before); {
	case err != nil:
		t.Errorf("the same again: got the error %v, want none", err)
	case changed:
		t.Error("the same again: changed: got true, want false")
	case sets != nil:
		t.Errorf("the same again: sets: got %v, want nil", sets)
	}
	second := files("c")
	put(second)
	if _, sets := r.loadWeights(t); !sets["old"].Equal(second) {
		t.Errorf("loaded: got %+v, want %+v", sets["old"], second)
	}
	put(weights.Set{})
	if _, sets := r.loadWeights(t); len(sets) != 0 {
		t.Errorf("once taken away: got %d, want 0, in %v", len(sets), sets)
	}
	if err := r.store.PutWeights(t.Context(), "no/such", first); !fault.Is(err, fault.ModelNotFound) {
		t.Errorf("an unknown model: got the error %v, want the reason %v", err, fault.ModelNotFound)
	}
}

func TestACatalogFullOfFilesRefusesOneMore(t *testing.T) {
	r := setup(t)
	fill := `INSERT INTO model SELECT 'm' || n, 'm' || n, 'm', 'llm', 'open', 'free', true, 1, 1, '{}', '{}', now(), NULL
			FROM generate_series(1, 100) AS n;
		INSERT INTO price_version SELECT gen_random_uuid(), model_id, 0, 0, 0, 0, now(), NULL FROM model
			WHERE model_id <> 'old';
		INSERT INTO weights SELECT model_id, '' FROM model WHERE model_id <> 'old';
		INSERT INTO weight_file SELECT model_id, n::text, sha256(''), 1, 'https://weights.example/'
			FROM weights, generate_series(1, 1000) AS n`
	if _, err := r.owner.Exec(t.Context(), "BEGIN; "+fill+"; COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := r.store.PutWeights(t.Context(), "old", files("one")); !fault.Is(err, CatalogFull) {
		t.Errorf("one file more: got the error %v, want the reason %v", err, CatalogFull)
	}
	if err := r.store.PutWeights(t.Context(), "m1", files("one")); err != nil {
		t.Errorf("fewer than before: %v", err)
	}
}

// TestTheDatabaseRefusesWeightsTheCodeWouldNotMake speaks SQL as the application
// role, as an injected statement would.
func TestTheDatabaseRefusesWeightsTheCodeWouldNotMake(t *testing.T) {
	r := setup(t)
	if err := r.store.PutWeights(t.Context(), "old", files("a")); err != nil {
		t.Fatal(err)
	}
	file := func(column, value string) string {
		values := map[string]string{"model_id": "'old'", "filename": "'new'", "sha256": "sha256('')", "size_bytes": "1",
			"url": "'https://x.example/'"}
		values[column] = value
		return fmt.Sprintf(
			`INSERT INTO weight_file (model_id, filename, sha256, size_bytes, url) VALUES (%s, %s, %s, %s, %s)`,
			values["model_id"], values["filename"], values["sha256"], values["size_bytes"], values["url"])
	}
	for _, honest := range []string{
		file("model_id", "'old'"), file("filename", "'a/b.safetensors'"), file("size_bytes", "9007199254740991"),
		"DELETE FROM weights", "UPDATE model SET min_vram_gb = 65536",
	} {
		if err := r.try(t, r.app, honest); err != nil {
			t.Errorf("%s: %v", honest, err)
		}
	}
	for _, statement := range []string{
		file("model_id", "'none'"), file("filename", "''"), file("filename", "'/a'"), file("filename", "'a/../b'"),
		file("filename", "'..'"),
		file("filename", "'a//b'"), file("filename", `'a\b'`), file("filename", "'a:b'"), file("filename", "E'a\\nb'"),
		file("filename", "repeat('x', 256)"), file("filename", "'a'"), file("sha256", "''"), file("sha256", "sha512('')"),
		file("size_bytes", "-1"), file("size_bytes", "9007199254740992"), file("url", "'http://x.example/'"),
		file("url", "''"),
		file("url", "'https://x.example/' || repeat('x', 1024)"), file("url", "E'https://x.example/\\n'"),
		"INSERT INTO weight_file SELECT 'old', n::text, sha256(''), 1, 'https://x.example/' " +
			"FROM generate_series(1, 1000) AS n",
		"INSERT INTO weight_file SELECT 'old', n::text, sha256(''), 9007199254740991, 'https://x.example/' " +
			"FROM generate_series(1, 2) AS n",
		"INSERT INTO weights VALUES ('none', '')", "INSERT INTO weights VALUES ('old', '')",
		"UPDATE weights SET source_url = 'http://x.example/'", "UPDATE weight_file SET sha256 = sha256('x')",
		"DELETE FROM weight_file",
		"TRUNCATE weights CASCADE", "UPDATE revision SET weights_revision = 0",
		"UPDATE model SET min_vram_gb = -1", "UPDATE model SET min_vram_gb = 65537",
	} {
		if err := r.try(t, r.app, statement); err == nil {
			t.Errorf("the application role may: %s", statement)
		}
	}
}
