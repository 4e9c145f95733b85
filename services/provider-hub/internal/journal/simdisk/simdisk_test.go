package simdisk_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"svc.internal/services/provider-hub/internal/journal/simdisk"
)

func TestCrashKeepsWhatWasSyncedAndMayLoseTheRest(t *testing.T) {
	disk := simdisk.New()
	file, err := disk.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	synced, loose := bytes.Repeat([]byte("s"), 100), bytes.Repeat([]byte("l"), 300)
	write := func(b []byte, at int64) {
		if _, err := file.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	write(synced, 0)
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := disk.Sync(); err != nil {
		t.Fatal(err)
	}
	write(loose, 100)
	if _, err := disk.Create("b"); err != nil {
		t.Fatal(err)
	}
	var whole, cut, torn, with, without int
	for seed := range uint64(2000) {
		after := disk.Crash(rand.New(rand.NewPCG(seed, 0)))
		content := after.Content("a")
		switch {
		case !bytes.HasPrefix(content, synced):
			t.Fatalf("seed %d lost synced bytes: %q", seed, content)
		case len(content) == 400 && bytes.HasSuffix(content, loose):
			whole++
		case bytes.HasPrefix(loose, content[100:]):
			cut++
		default:
			torn++
		}
		names, err := after.List()
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 2 {
			with++
		} else {
			without++
		}
	}
	for name, n := range map[string]int{"cut": cut, "torn": torn, "created": with, "not created": without} {
		if n == 0 {
			t.Errorf("crashes that left it %s: got 0, want any but 0", name)
		}
	}
	t.Logf("whole %d, cut %d, torn %d, created %d of %d", whole, cut, torn, with, with+without)
}

func TestCrashKeepsSyncedBytesThatWereNotWrittenOver(t *testing.T) {
	disk := simdisk.New()
	file, err := disk.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	synced := append(bytes.Repeat([]byte("s"), 100), make([]byte, 300)...)
	over := bytes.Repeat([]byte("o"), 150)
	if _, err := file.WriteAt(synced, 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := disk.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(over, 100); err != nil {
		t.Fatal(err)
	}
	var whole, none, torn int
	for seed := range uint64(2000) {
		content := disk.Crash(rand.New(rand.NewPCG(seed, 0))).Content("a")
		if len(content) != len(synced) {
			t.Fatalf("seed %d: length: got %d, want %d", seed, len(content), len(synced))
		}
		if !bytes.Equal(content[:100], synced[:100]) {
			t.Fatalf("seed %d: bytes before: got %q, want %q", seed, content[:100], synced[:100])
		}
		if !bytes.Equal(content[250:], synced[250:]) {
			t.Fatalf("seed %d: bytes behind: got %q, want %q", seed, content[250:], synced[250:])
		}
		switch {
		case bytes.Equal(content[100:250], over):
			whole++
		case bytes.Equal(content, synced):
			none++
		default:
			torn++
		}
	}
	for name, n := range map[string]int{"written over": whole, "as it was": none, "torn": torn} {
		if n == 0 {
			t.Errorf("crashes that left it %s: got 0, want any but 0", name)
		}
	}
}
