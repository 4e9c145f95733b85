package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/node"
	"svc.internal/services/verifier"
)

func runTool(t *testing.T, name string, args ...string) (code int, out, errs string) {
	t.Helper()
	p := &program{node.DefaultConfig(), verifier.DefaultConfig()}
	p.Verifier.Sealed = filepath.Join(t.TempDir(), "sealed.json")
	var stdout, stderr bytes.Buffer
	code = tool(t.Context(), p, name, args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

const verdict = "0192f0c0-0000-7000-8000-00000000000e"

func TestACheckOfTheConfigurationRefusesDevelopmentOffLoopback(t *testing.T) {
	t.Parallel()
	for address, refused := range map[string]bool{"127.0.0.1:9000": false, "0.0.0.0:9000": true} {
		p := &program{node.DefaultConfig(), verifier.DefaultConfig()}
		p.Verifier.Development, p.AdminAddr = true, address
		err := p.Validate()
		if got := err != nil && strings.Contains(err.Error(), "SVC_VERIFIER_DEVELOPMENT"); got != refused {
			t.Errorf("%s: got the error %v, want a refusal: %t", address, err, refused)
		}
	}
}

func TestReplayOfAFileEndsByWhatItFinds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "evidence.json")
	for text, want := range map[string]int{
		`{"pieces":[]}`: 1, // the verdict is not among them
		`{"pieces":[{"piece_id":"` + verdict + `","json":"e30=","offset":0,"total":2}]}`: 1,
		`{"pieces":[{"piece_id":"` + verdict + `","json":"e30=","offset":1,"total":9}]}`: 1,
		`{"pieces":[{"piece_id":"` + verdict + `","json":"e30=","offset":0,"total":9}]}`: 1,
		`not JSON`: 2,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _, errs := runTool(t, "replay", "-file", file, verdict); got != want {
			t.Errorf("%s: got the exit code %d (%s), want %d", text, got, errs, want)
		}
	}
}

func TestAWrongCommandLineEndsWithTwo(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"replay"}, {"replay", "a", "b"}, {"replay", "-no"}, {"canary"},
		{"replay", "-file", "/does/not/exist", verdict}} {
		if got, _, _ := runTool(t, args[0], args[1:]...); got != 2 {
			t.Errorf("%v: got the exit code %d, want 2", args, got)
		}
	}
}

// A tool beside a service must not make the secrets of an installation.
func TestAToolMakesNoSealedSettings(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SVC_VERIFIER_SEALED", filepath.Join(dir, "sealed.json"))
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1:1/none")
	t.Setenv("SVC_PEERS", "catalog=127.0.0.1:1,billing-ledger=127.0.0.1:1,settlement=127.0.0.1:1,provider-hub=127.0.0.1:1")
	t.Setenv("SVC_NATS_URL", "nats://127.0.0.1:1")
	t.Setenv("SVC_GRPC_ADDR", "127.0.0.1:0")
	p := &program{node.DefaultConfig(), verifier.DefaultConfig()}
	var out, errs bytes.Buffer
	if got := tool(t.Context(), p, "replay", []string{verdict}, &out, &errs); got != 2 {
		t.Errorf("got the exit code %d, want 2", got)
	}
	if !strings.Contains(errs.String(), "a tool makes none") {
		t.Errorf("got %q, want the reason", errs.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "sealed.json")); err == nil {
		t.Error("the file of sealed settings: got one, want none")
	}
}

func TestSealMakesAFileOnceAndForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sealed.json")
	var errs bytes.Buffer
	if got := seal([]string{path}, &errs); got != 0 {
		t.Fatalf("exit code: got %d, want 0: %s", got, errs.String())
	}
	made, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil {
		t.Error(err)
	} else if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode: got %04o, want 0600", got)
	}
	if got := seal([]string{path}, &errs); got != 2 {
		t.Errorf("exit code of a second time: got %d, want 2", got)
	}
	if again, err := os.ReadFile(path); err != nil {
		t.Error(err)
	} else if !bytes.Equal(again, made) {
		t.Error("the file after a second time: got another, want the same")
	}
	if strings.Contains(errs.String(), "secret\":") {
		t.Errorf("errors: got %q, want no secret", errs.String())
	}
}

func TestSealRefusesACommandLineThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {""}, {"-help"}, {"a", "b"}, {"sealed.json"}} { // this is a checkout
		if got := seal(args, &bytes.Buffer{}); got != 2 {
			t.Errorf("%q: exit code: got %d, want 2", args, got)
		}
	}
}
