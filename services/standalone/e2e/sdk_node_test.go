package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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
	m := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	script := exec.CommandContext(ctx, "node", filepath.Join("node", "sdk.mjs"))
	script.Env = append(os.Environ(), "SVC_BASE_URL="+m.base(), "SVC_API_KEY="+m.key(), "SVC_MODEL="+m.env["SVC_MODEL"])
	if out, err := script.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
