package structure

import (
	"go/ast"
	"go/types"
)

// graph says which file names identifiers of which: g[a][b] is true when file a
// names an identifier that file b declares.
type graph [][]bool

// arrows returns the arrows between the files of a package. An arrow is one
// ordered pair of files, however often the first names the second. Constants,
// variables, types, functions and methods count, the methods of interfaces too.
// Fields do not count, because a struct's own file and its users share them by design.
func (t *Tree) arrows(p *pkg) graph {
	index := map[string]int{}
	g := make(graph, len(p.files))
	for i, f := range p.files {
		index[f.path] = i
		g[i] = make([]bool, len(p.files))
	}
	for i, f := range p.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if o := p.info.Uses[name]; o != nil && o.Pkg() == p.types && declared(o) {
				if j, ok := index[t.fileOf(o)]; ok && j != i {
					g[i][j] = true
				}
			}
			return true
		})
	}
	return g
}

// declared reports whether the object is the package's and not a function's own
// or a field.
func declared(o types.Object) bool {
	_, function := o.(*types.Func)
	return function || o.Parent() == o.Pkg().Scope()
}

// count returns the number of arrows.
func (g graph) count() int {
	n := 0
	for _, row := range g {
		for _, arrow := range row {
			if arrow {
				n++
			}
		}
	}
	return n
}
