package e2e

import (
	"testing"

	"svc.internal/services/proving/internal/trial"
)

func TestMain(m *testing.M) {
	trial.AtOnce(6)
	trustServersOfTests()
	trial.Main(m)
}
