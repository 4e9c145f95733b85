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
	write := func(b []byte) {
		if _, err := file.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	write(synced)
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := disk.Sync(); err != nil {
		t.Fatal(err)
	}
	write(loose)
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
