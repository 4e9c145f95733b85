package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"svc.internal/services/standalone/internal/trial"
	"testing"
	"time"
)

// nodeModules installs the SDK once, into an ignored folder beside the script.
func nodeModules(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("node", "node_modules", "openai")); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--no-fund", "--no-audit", "--silent")
	install.Dir = "node"
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}

func TestTheNodeSDKGetsAnswersAndTypedErrors(t *testing.T) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is not installed", program)
			}
			t.Skipf("%s is not installed", program)
		}
	}
	nodeModules(t)
	trial.Each(t, theNodeSDKGetsAnswersAndTypedErrors)
}

// theNodeSDKGetsAnswersAndTypedErrors asks every gateway.
func theNodeSDKGetsAnswersAndTypedErrors(t *testing.T, m *trial.Market) {
	for _, base := range m.Bases() {
		runNode(t, m, base)
	}
}

func runNode(t *testing.T, m *trial.Market, base string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	script := exec.CommandContext(ctx, "node", filepath.Join("node", "sdk.mjs"))
	script.Env = append(os.Environ(), "SVC_BASE_URL="+base, "SVC_API_KEY="+m.Key(), "SVC_MODEL="+m.Model())
	if out, err := script.CombinedOutput(); err != nil {
		t.Errorf("through %s: %v\n%s", base, err, out)
	}
}
