package structure

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is what the import path of each package of the tree begins with.
const module = "svc.internal/"

// Tree is the hand-written Go of a directory, with its types.
type Tree struct {
	files    *token.FileSet
	packages map[string]*pkg // by directory, slash-separated from the root
	tests    []*file
	foreign  map[string]*types.Package
}

// pkg is a package without its tests.
type pkg struct {
	dir   string
	files []*file
	types *types.Package
	info  *types.Info
}

// file is one hand-written file.
type file struct {
	path   string // slash-separated, from the root
	text   []byte
	syntax *ast.File
}

// Read parses the hand-written Go below root and finds the types of everything
// but tests. A package of another module is taken as empty, because the measures
// only ask for what this tree declares. A value that comes out of a generic
// function of such a package therefore has no type, and its methods are not seen.
func Read(root string) (*Tree, error) {
	t := &Tree{files: token.NewFileSet(), packages: map[string]*pkg{}, foreign: map[string]*types.Package{}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		skipped := strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"
		if d.IsDir() && name != root && skipped {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		return t.add(name, filepath.ToSlash(rel))
	})
	if err != nil {
		return nil, err
	}
	if len(t.packages) == 0 {
		return nil, errors.New("no Go package below " + root)
	}
	for _, dir := range t.dirs() {
		t.check(t.packages[dir])
	}
	return t, nil
}

// add parses one file, unless it is generated.
func (t *Tree) add(name, rel string) error {
	text, err := os.ReadFile(name) // #nosec G122 -- the tree is the developer's own
	if err != nil {
		return err
	}
	if bytes.Contains(text[:min(len(text), 512)], []byte("DO NOT EDIT")) {
		return nil
	}
	syntax, err := parser.ParseFile(t.files, rel, text, parser.ParseComments)
	if err != nil {
		return err
	}
	f := &file{path: rel, text: text, syntax: syntax}
	if strings.HasSuffix(rel, "_test.go") {
		t.tests = append(t.tests, f)
		return nil
	}
	dir := path.Dir(rel)
	if t.packages[dir] == nil {
		t.packages[dir] = &pkg{dir: dir}
	}
	t.packages[dir].files = append(t.packages[dir].files, f)
	return nil
}

// dirs returns the directories of all packages in order.
func (t *Tree) dirs() []string {
	var all []string
	for dir := range t.packages {
		all = append(all, dir)
	}
	slices.Sort(all)
	return all
}

// check finds the types of a package and of the packages that it imports. Faults are
// left to the compiler, because foreign packages are empty and make many.
func (t *Tree) check(p *pkg) {
	if p.types != nil {
		return
	}
	p.info = &types.Info{
		Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{},
	}
	var syntax []*ast.File
	for _, f := range p.files {
		syntax = append(syntax, f.syntax)
	}
	config := types.Config{Importer: t, FakeImportC: true, Error: func(error) {}}
	p.types, _ = config.Check(module+p.dir, t.files, syntax, p.info)
}

// Import returns a package of the tree, or an empty one for any other path.
func (t *Tree) Import(name string) (*types.Package, error) {
	if name == "unsafe" {
		return types.Unsafe, nil
	}
	if dir, ok := strings.CutPrefix(name, module); ok && t.packages[dir] != nil {
		t.check(t.packages[dir])
		return t.packages[dir].types, nil
	}
	if t.foreign[name] == nil {
		t.foreign[name] = types.NewPackage(name, path.Base(name))
		t.foreign[name].MarkComplete()
	}
	return t.foreign[name], nil
}

// fileOf returns the path of the file that declares the object.
func (t *Tree) fileOf(o types.Object) string { return t.files.Position(o.Pos()).Filename }
