package chaos

import (
	"testing"

	"svc.internal/services/proving/internal/trial"
)

func TestMain(m *testing.M) {
	trial.AtOnce(3) // a fleet that comes up takes most of two processors
	trial.Main(m)
}
