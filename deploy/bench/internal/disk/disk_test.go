package disk

import (
	"os"
	"testing"
)

func TestAFlushTakesTimeAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	took, err := SyncP50(dir)
	if err != nil || took <= 0 {
		t.Errorf("took %v, %v", took, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestAFolderThatIsNotThereIsAnError(t *testing.T) {
	if _, err := SyncP50(t.TempDir() + "/none"); err == nil {
		t.Error("no error")
	}
}
