package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/services/proving/internal/trial"
)

// maxLine bounds a line of a driver for node, in bytes.
const maxLine = 16 << 20

// installed holds the result of installing the SDKs for node.
var installed = sync.OnceValues(installNode)

// installNode installs the lock file's packages, once, into an ignored folder beside the
// scripts. A copy of the lock file in it says for which lock.
func installNode() (string, error) {
	lock, err := os.ReadFile(filepath.Join("node", "package-lock.json"))
	if err != nil {
		return "", err
	}
	stamp := filepath.Join("node", "node_modules", ".installed-lock.json")
	if have, err := os.ReadFile(stamp); err == nil && slices.Equal(have, lock) {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-fund", "--no-audit", "--silent")
	install.Dir = "node"
	if out, err := install.CombinedOutput(); err != nil {
		return string(out), err
	}
	return "", os.WriteFile(stamp, lock, 0o600)
}

// needNode skips the test where node is missing, unless it must not be.
func needNode(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf(`where %s is not installed, CI: got "true", want any but "true"`, program)
			}
			t.Skipf("%s is not installed", program)
		}
	}
	if out, err := installed(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}

// nodeSDK starts node/drive.mjs, which carries out orders with one SDK.
func nodeSDK(name string) func(t *testing.T) func(t *testing.T, o order) result {
	return func(t *testing.T) func(t *testing.T, o order) result {
		needNode(t)
		ctx, cancel := context.WithCancel(context.Background())
		driver := exec.CommandContext(ctx, "node", filepath.Join("node", "drive.mjs"), name)
		stderr := trial.NewOutput()
		driver.Stderr = stderr
		orders, err := driver.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := driver.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := driver.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			orders.Close()
			kill := time.AfterFunc(trial.Patience, cancel)
			defer kill.Stop()
			// Its last lines were read with the last order.
			if err := driver.Wait(); err != nil || t.Failed() {
				t.Logf("the driver of %s ended with %v\n%s", name, err, stderr.Text())
			}
			cancel()
		})
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, maxLine)
		return func(t *testing.T, o order) result {
			// A driver that is stuck ends with the test, and so do its lines.
			stuck := time.AfterFunc(trial.Patience, cancel)
			defer stuck.Stop()
			return carryOut(t, orders, lines, o)
		}
	}
}

// carryOut writes an order and reads its events until the outcome.
func carryOut(t *testing.T, orders io.Writer, lines *bufio.Scanner, o order) result {
	if err := json.NewEncoder(orders).Encode(o); err != nil {
		t.Errorf("the driver takes no order: %v", err)
		return result{}
	}
	for lines.Scan() {
		var said struct {
			Event   string  `json:"event"`
			Outcome *result `json:"outcome"`
		}
		if err := json.Unmarshal(lines.Bytes(), &said); err != nil {
			t.Errorf("the driver says %.200q: %v", lines.Text(), err)
			return result{}
		}
		switch {
		case said.Outcome != nil:
			return *said.Outcome
		case said.Event == "content":
			o.begun()
		case said.Event == "left":
			o.gone()
		}
	}
	t.Errorf("the driver ended without an outcome: %v", lines.Err())
	return result{}
}

func TestTheNodeSDKGetsAnswersAndTypedErrorsFromTheFirstRun(t *testing.T) {
	needNode(t)
	trial.Each(t, func(t *testing.T, m *trial.Market) {
		for _, base := range m.Bases() {
			runNode(t, m, base)
		}
	})
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
