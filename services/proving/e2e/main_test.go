package e2e

import (
	"os"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(agentVariable); url != "" {
		os.Exit(playAgent(url))
	}
	trial.AtOnce(6)
	trustServersOfTests()
	trial.Main(m)
}
