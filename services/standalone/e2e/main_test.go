package e2e

import (
	"testing"

	"svc.internal/services/standalone/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m) }
