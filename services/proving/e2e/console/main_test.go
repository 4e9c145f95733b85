package console

import (
	"testing"

	"svc.internal/services/proving/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m) }
