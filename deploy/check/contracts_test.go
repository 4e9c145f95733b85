package check

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryModuleIsOfOneGoVersion(t *testing.T) {
	directive := regexp.MustCompile(`(?m)^go (\S+)$`)
	for _, name := range append(files(t, "go.mod"), "go.work") {
		if got := directive.FindSubmatch(read(t, name)); got == nil {
			t.Errorf("%s: directive.FindSubmatch(…): got nil, want a value", name)
		} else if string(got[1]) != "1.26.0" {
			t.Errorf(`%s: got[1]: got %q, want "1.26.0"`, name, string(got[1]))
		}
	}
}

func TestEveryRPCSaysWhatItMeans(t *testing.T) {
	for _, name := range files(t, ".proto") {
		if !strings.HasPrefix(name, "proto/svc/") {
			continue
		}
		var above string
		for _, line := range strings.Split(string(read(t, name)), "\n") {
			text := strings.TrimSpace(line)
			if strings.HasPrefix(text, "rpc ") {
				if len(above) < 40 {
					t.Errorf("%s: %s, bytes of its comment on meaning, idempotency and failures: got %d, want at least 40", name, text,
						len(above))
				}
				above = ""
			}
			if comment, ok := strings.CutPrefix(text, "//"); ok {
				above += comment
			} else {
				above = ""
			}
		}
	}
}

func TestEveryLinkOfADocumentLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	for _, name := range files(t, ".md") {
		if strings.HasPrefix(name, "deploy/bench/") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(read(t, name)), -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path.Join(path.Dir(name), target)))); err != nil {
				t.Errorf("%s links to %s, which is not there", name, target)
			}
		}
	}
}

func TestEveryServiceHasItsPage(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "services"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text := string(read(t, "services/"+e.Name()+"/README.md"))
		if !strings.Contains(text, "Owns") && !strings.Contains(text, "owns") && e.Name() != "standalone" {
			t.Errorf("the page of %s does not say what it owns", e.Name())
		}
	}
}

func TestTheTopLevelIsAsAgreed(t *testing.T) {
	allowed := map[string]bool{"proto": true, "services": true, "pkg": true, "deploy": true, "charts": true,
		"buf.yaml": true, "buf.gen.yaml": true, "go.work": true, "go.work.sum": true, "Makefile": true, "README.md": true,
		"LICENSE": true}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !allowed[e.Name()] {
			t.Errorf("%s does not belong at the top", e.Name())
		}
	}
}
