package disk

import (
	"os"
	"testing"
)

func TestAFlushTakesTimeAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	took, err := SyncP50(dir)
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if took <= 0 {
		t.Errorf("took: got %v, want more than 0", took)
	}
	if left, err := os.ReadDir(dir); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if len(left) != 0 {
		t.Errorf("len(left): got %d, want 0, in %v", len(left), left)
	}
}

func TestAFolderThatIsNotThereIsAnError(t *testing.T) {
	if _, err := SyncP50(t.TempDir() + "/none"); err == nil {
		t.Error("no error")
	}
}
