//go:build !crashpoints

package crash_test

import (
	"testing"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/crash/crashtest"
)

func TestOrdinaryBuildsPassEveryPoint(t *testing.T) {
	c, err := crashtest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Setenv(crash.EnvSocket, c.Socket())
	stand := c.Arm("test.point", 1)
	if n := testing.AllocsPerRun(100, func() { crash.At("test.point") }); n != 0 {
		t.Errorf("a point allocates: got %v, want 0", n)
	}
	select {
	case pid := <-stand.Reached():
		t.Errorf("process %d stands at a point that is compiled away", pid)
	default:
	}
	if hits := c.Hits("test.point"); hits != 0 {
		t.Errorf("hits told: got %d, want 0", hits)
	}
}

func TestOrdinaryBuildsHaveNoPlantedFault(t *testing.T) {
	for _, name := range crash.Plants() {
		t.Setenv(crash.EnvPlant, name)
		if crash.Planted(name) {
			t.Errorf("%s is planted", name)
		}
	}
}
