package check

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// source is one hand-written Go file.
type source struct {
	path    string // slash-separated, from the root
	dir     string
	pkg     string
	test    bool
	lines   int
	file    *ast.File
	imports []string
}

// files returns the paths of all files with the suffix that belong to the
// project, slash-separated and from the root.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") && name != ".ci" || name == "node_modules" ||
			name == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, suffix) {
			rel, err := filepath.Rel(root, path)
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

// sources parses all hand-written Go files.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, path := range files(t, ".go") {
		text := read(t, path)
		if bytes.Contains(text[:min(len(text), 512)], []byte("DO NOT EDIT")) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		s := source{path: path, dir: path[:max(strings.LastIndexByte(path, '/'), 0)], pkg: file.Name.Name,
			test: strings.HasSuffix(path, "_test.go"), lines: bytes.Count(text, []byte("\n")), file: file}
		for _, imp := range file.Imports {
			s.imports = append(s.imports, strings.Trim(imp.Path.Value, `"`))
		}
		all = append(all, s)
	}
	if len(all) < 50 {
		t.Fatalf("files that the walk finds: got %d, want at least 50", len(all))
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// layer is what a file is for, by its path.
func layer(s source) string {
	parts := strings.Split(s.dir, "/")
	// A module may have a second service, in a folder of its own.
	if at := slices.Index(parts, "internal"); parts[0] == "services" && at >= 2 && at+1 < len(parts) {
		switch parts[at+1] {
		case "rpc", "peers", "store", "events":
			return parts[at+1]
		default:
			return "domain"
		}
	}
	return parts[0]
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented, where := map[string]bool{}, map[string]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		where[s.dir] = s.path
		if s.file.Doc != nil && len(s.file.Doc.Text()) > 20 {
			documented[s.dir] = true
		}
	}
	for dir := range where {
		if !documented[dir] {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

func TestNoPackageIsADrawerForEverything(t *testing.T) {
	for _, s := range sources(t) {
		for _, bad := range []string{"util", "utils", "common", "helper", "helpers", "models", "types", "misc"} {
			if s.pkg == bad {
				t.Errorf("a package named after what it provides: s.pkg: got %q, want any but %q", s.pkg, bad)
			} else if strings.HasSuffix(s.dir, "/"+bad) {
				t.Errorf("a package named after what it provides: s.dir: got %q, want another suffix than %q", s.dir, "/"+bad)
			}
		}
	}
}

func TestNoFileIsTwoIdeas(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > 600 {
			t.Errorf("lines of %s: got %d, want at most 600", s.path, s.lines)
		}
	}
}

func TestDomainPackagesKnowNoSQLNoProtoNoNATS(t *testing.T) {
	// These speak a wire format because it is their domain.
	speaksProto := []string{
		"services/edge-gateway/", "services/provider-agent/", "services/proving/",
		"services/provider-hub/internal/dialect", "services/provider-hub/internal/session/sessiontest",
	}
	// It is a client of NATS that attacks it.
	const speaksNATS = "services/proving/internal/intruder"
	for _, s := range sources(t) {
		if s.test || layer(s) != "domain" {
			continue
		}
		for _, imp := range s.imports {
			switch {
			case strings.Contains(imp, "nats-io/") && s.dir == speaksNATS:
			case strings.Contains(imp, "jackc/pgx"), strings.Contains(imp, "nats-io/"):
				t.Errorf("%s imports %s", s.path, imp)
			case strings.HasPrefix(imp, "svc.internal/proto/"):
				if !slices.ContainsFunc(speaksProto, func(p string) bool { return strings.HasPrefix(s.path, p) }) {
					t.Errorf("%s imports %s", s.path, imp)
				}
			}
		}
	}
}

func TestOnlyStoresSpeakSQL(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !strings.HasPrefix(s.path, "services/") || strings.Contains(s.path, "/internal/store/") {
			continue
		}
		for _, imp := range s.imports {
			// A pool is handed through by those who wire services together.
			if strings.Contains(imp, "jackc/pgx") && !strings.HasSuffix(imp, "/pgxpool") {
				t.Errorf("%s imports %s", s.path, imp)
			}
		}
	}
}

// Only edge-gateway serves the pages of the console, which holds files and nothing else.
func TestNoServiceImportsAnother(t *testing.T) {
	const pages = "svc.internal/services/console"
	for _, s := range sources(t) {
		parts := strings.Split(s.path, "/")
		if parts[0] != "services" || parts[1] == "standalone" || parts[1] == "proving" {
			continue
		}
		for _, imp := range s.imports {
			if imp == pages && parts[1] == "edge-gateway" {
				continue
			}
			if rest, ok := strings.CutPrefix(imp, "svc.internal/services/"); ok && !strings.HasPrefix(rest+"/", parts[1]+"/") {
				t.Errorf("%s imports %s", s.path, imp)
			}
		}
	}
}

func TestDomainsTakeTheirTimeFromAClock(t *testing.T) {
	// These set deadlines on connections, which follow the machine's clock.
	transports := []string{
		"services/edge-gateway/internal/httpapi",
		"services/provider-hub/internal/wsconn", "services/provider-hub/internal/gate",
		"services/provider-agent/internal/connection",
	}
	for _, s := range sources(t) {
		if slices.ContainsFunc(transports, func(dir string) bool { return strings.HasPrefix(s.path, dir) }) {
			continue
		}
		if l := layer(s); s.test || l != "domain" && l != "rpc" && l != "peers" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && (sel.Sel.Name == "Now" || sel.Sel.Name == "Sleep") {
					if !strings.HasPrefix(s.path, "services/proving/") {
						t.Errorf(`calls time.%s: got %q, want the prefix "services/proving/", with %s`, sel.Sel.Name, s.path,
							sel.Sel.Name)
					}
				}
			}
			return true
		})
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test || strings.HasPrefix(s.path, "deploy/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && sel.Sel.Name == "Sleep" &&
					!imports(s, "testing/synctest") {
					t.Errorf("%s sleeps", s.path)
				}
			}
			return true
		})
	}
}

func imports(s source, path string) bool { return slices.Contains(s.imports, path) }

func TestASharedPackageIsShared(t *testing.T) {
	users := map[string]map[string]bool{}
	for _, s := range sources(t) {
		for _, imp := range s.imports {
			name, ok := strings.CutPrefix(imp, "svc.internal/pkg/")
			if !ok {
				continue
			}
			parts := strings.Split(s.path, "/")
			user := strings.Join(parts[:2], "/")
			if user == "pkg/"+strings.Split(name, "/")[0] {
				continue
			}
			if users[name] == nil {
				users[name] = map[string]bool{}
			}
			users[name][user] = true
		}
	}
	for name, by := range users {
		if len(by) < 2 && !strings.Contains(name, "/") {
			t.Errorf("pkg/%s has one importer, %v: it belongs there", name, by)
		}
	}
}
