package chaos

import (
	"testing"

	"svc.internal/pkg/crash"
	"svc.internal/services/proving/internal/trial"
)

func TestMain(m *testing.M) {
	trial.AtOnce(len(crash.Plants()))
	trial.Main(m)
}
