package check

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pinRule is a way to fetch that is not pinned by version and hash.
type pinRule struct {
	line *regexp.Regexp
	// unless makes a line of the rule good.
	unless *regexp.Regexp
	says   string
}

var pinRules = []pinRule{
	{regexp.MustCompile(`@(latest|main|master|HEAD|next)\b`), nil, "names a version that changes"},
	{regexp.MustCompile(`[a-z0-9]:latest\b`), nil, "names an image that changes"},
	{regexp.MustCompile(`\bgo\s+(-C\s+\S+\s+)?(install|run|get)\s+([^#]*\s)?"?[a-z0-9.]+\.[a-z]+/[^\s"]+@`), nil,
		"has no hash: make it a tool of a module in deploy/dev/tools"},
	{regexp.MustCompile(`\bnpm\s+(install|i|add|update)\b`), nil, "has no hash: use npm ci with a package-lock.json"},
	{regexp.MustCompile(`\bnpm\s+ci\b`), regexp.MustCompile(`--ignore-scripts`),
		"runs scripts of packages: add --ignore-scripts"},
	{regexp.MustCompile(`\b(npx|pnpm\s+dlx|yarn\s+dlx|bunx)\s`), regexp.MustCompile(`--no-install`),
		"fetches what it runs"},
	{regexp.MustCompile(`\b(curl|wget)\b[^|]*\|\s*(sudo\s+)?(ba|z|da)?sh\b`), nil, "runs what it fetches"},
	{regexp.MustCompile(`\b(ba|z|da)?sh\s+(-c\s+)?["']?[<$]\(\s*(curl|wget)\b`), nil, "runs what it fetches"},
	{regexp.MustCompile(`(?i)^\s*FROM\s+\S+`),
		regexp.MustCompile(`@sha256:[0-9a-f]{64}|(?i)^\s*FROM\s+(scratch|[a-z]+)(\s|$)`), "is an image without a digest"},
	// images.env names each image with its digest, so a variable that must be set will do.
	{regexp.MustCompile(`^\s*image:\s*\S+`), regexp.MustCompile(`@sha256:[0-9a-f]{64}|image:\s*\$\{[A-Z_]+_IMAGE:\?`),
		"is an image without a digest"},
	{regexp.MustCompile(`^\s*-?\s*uses:\s*\S+@`), regexp.MustCompile(`@[0-9a-f]{40}\b`), "is an action without a hash"},
	{regexp.MustCompile(`\bpip3?\s+install\b`), regexp.MustCompile(`--require-hashes`),
		"has no hash: add --require-hashes"},
	{regexp.MustCompile(
		`\b(GONOSUMDB|GONOSUMCHECK|GOINSECURE|GOFLAGS)=\S*(insecure|\*)|\bGOSUMDB=off\b|\bGONOSUM(DB|CHECK)=`), nil,
		"takes away the check of hashes"},
}

// unpinned returns what is wrong with the lines of a script, a Makefile or a
// Dockerfile. A comment fetches nothing.
func unpinned(text string) []string {
	var faults []string
	joined := strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, rule := range pinRules {
			for _, part := range strings.FieldsFunc(line, func(r rune) bool { return r == ';' || r == '&' }) {
				if rule.line.MatchString(part) && (rule.unless == nil || !rule.unless.MatchString(part)) {
					faults = append(faults, fmt.Sprintf("%q %s", part, rule.says))
				}
			}
		}
	}
	return faults
}

// unpinnedPackages returns what is wrong with a package.json and its lock file.
func unpinnedPackages(manifest, lock []byte) []string {
	var faults []string
	var wanted struct {
		Dependencies, DevDependencies, OptionalDependencies map[string]string
	}
	if err := json.Unmarshal(manifest, &wanted); err != nil {
		return []string{err.Error()}
	}
	exact := regexp.MustCompile(`^\d+\.\d+\.\d+(-[\w.]+)?$|^npm:@?[\w./-]+@\d+\.\d+\.\d+(-[\w.]+)?$`)
	for _, list := range []map[string]string{wanted.Dependencies, wanted.DevDependencies, wanted.OptionalDependencies} {
		for name, version := range list {
			if !exact.MatchString(version) {
				faults = append(faults, fmt.Sprintf("%s %q is no version", name, version))
			}
		}
	}
	var locked struct {
		Packages map[string]struct {
			Integrity string
			Link      bool
		}
	}
	if err := json.Unmarshal(lock, &locked); err != nil {
		return append(faults, "the lock file: "+err.Error())
	}
	for name, p := range locked.Packages {
		if name != "" && !p.Link && !strings.HasPrefix(p.Integrity, "sha512-") {
			faults = append(faults, name+" has no integrity in the lock file")
		}
	}
	return faults
}

// scripts are the files that fetch: what make, CI and people run.
func scripts(t *testing.T) []string {
	found := append(files(t, ".sh"), "Makefile", ".ci/run")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci" && d.Name() != ".github" ||
			d.Name() == "node_modules") {
			return fs.SkipDir
		}
		base := d.Name()
		if !d.IsDir() && (strings.HasPrefix(base, "Dockerfile") || strings.HasPrefix(base, "compose.") ||
			strings.Contains(name, ".github/") || strings.HasPrefix(base, "Containerfile")) {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			found = append(found, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Hostile test 60: whatever is fetched is what was reviewed.
func TestEveryFetchIsPinnedByVersionAndHash(t *testing.T) {
	for _, name := range scripts(t) {
		for _, fault := range unpinned(string(read(t, name))) {
			t.Errorf("%s: %s", name, fault)
		}
	}
	for _, name := range files(t, "package.json") {
		lock := path.Join(path.Dir(name), "package-lock.json")
		for _, fault := range unpinnedPackages(read(t, name), read(t, lock)) {
			t.Errorf("%s: %s", name, fault)
		}
	}
	for _, s := range sources(t) {
		// Tests install SDKs: scripts of packages do not run there either.
		text := string(read(t, s.path))
		if !strings.HasPrefix(s.dir, "deploy/check") && strings.Contains(text, `"npm", "ci"`) &&
			strings.Count(text, `"npm", "ci"`) != strings.Count(text, `"npm", "ci", "--ignore-scripts"`) {
			t.Errorf("%s: npm ci without --ignore-scripts", s.path)
		}
		if !strings.HasPrefix(s.dir, "deploy/check") && strings.Contains(text, `"npm", "install"`) {
			t.Errorf("%s: npm install has no hash", s.path)
		}
	}
}

func TestAPlantedUnpinnedFetchIsFound(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	for _, line := range []string{
		"\t@GOBIN=$(BIN) go install golang.org/x/tools/cmd/stringer@latest", "go run example.com/tool@v1.2.3 ./...",
		"GOBIN=x GOWORK=off go install \\\n  github.com/ollama/ollama@$version",
		`nice go install -trimpath -ldflags='-s -w' "github.com/ollama/ollama@$version"`,
		"npm install left-pad", "npm i --save x@1.0.0", "cd web && npm ci --no-fund", "npx cowsay@1.6.0 hello",
		"curl -fsSL https://example.com/install.sh | sh", "wget -qO- https://example.com/x | sudo bash -s -- -y",
		"bash <(curl -s https://example.com)", `sh -c "$(curl -fsSL https://example.com)"`,
		"docker run postgres:latest", "image: postgres:15",
		"image: ${ROUTER_IMAGE:-router:1}",
		"FROM golang:1.26", "FROM debian:bookworm AS base", "  - uses: actions/checkout@v4",
		"pip install requests==2.32.0", "export GONOSUMDB=*", "GOFLAGS=-insecure go build ./...",
		"GOSUMDB=off go mod download",
	} {
		if len(unpinned(line)) == 0 {
			t.Error("faults in a line without a pin: got 0, want at least 1")
		}
	}
	for _, line := range []string{
		"GOWORK=off go -C deploy/dev/tools/buf install tool", "go build -o x ./...", "npm ci --ignore-scripts --no-fund",
		"# npm install is not used",
		"image: postgres:15@sha256:" + digest, "image: ${ROUTER_IMAGE:?make images writes it}",
		"FROM golang:1.26@sha256:" + digest, "FROM scratch", "FROM base AS final",
		"  - uses: actions/checkout@" + digest[:40],
		"apt-get install -y -qq postgresql", "curl -o file https://example.com/file", "go test -run x ./...",
		"for t in @all; do", "go run ./services/proving/cmd/devcerts -dir x",
		"pip install --require-hashes -r requirements.txt", "export GOFLAGS ?= -buildvcs=false -trimpath",
	} {
		if faults := unpinned(line); len(faults) > 0 {
			t.Errorf("faults in a pinned line: got %d, want 0, in %v", len(faults), faults)
		}
	}
	good := `{"packages":{"":{},"node_modules/a":{"version":"1.0.0","integrity":"sha512-x"}}}`
	for _, version := range []string{"^1.0.0", "~1.0.0", "*", "latest", ">=1", "1.x", "github:a/b",
		"https://example.com/a.tgz"} {
		if len(unpinnedPackages([]byte(`{"dependencies":{"a":"`+version+`"}}`), []byte(good))) == 0 {
			t.Error("faults in a version without a pin: got 0, want at least 1")
		}
	}
	if len(unpinnedPackages([]byte(`{"dependencies":{"a":"1.0.0"}}`),
		[]byte(`{"packages":{"node_modules/a":{"version":"1.0.0"}}}`))) == 0 {
		t.Error("got no fault in a lock file without integrity")
	}
	if faults := unpinnedPackages([]byte(`{"dependencies":{"a":"1.0.0"}}`), []byte(good)); len(faults) > 0 {
		t.Errorf("faults in pinned packages: got %d, want 0, in %v", len(faults), faults)
	}
}
