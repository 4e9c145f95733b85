package kill

import (
	"testing"

	"svc.internal/services/proving/internal/trial"
)

func TestMain(m *testing.M) {
	trial.AtOnce(rounds * halves)
	trial.Main(m)
}
