package structure

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"
)

// Walk names a handler and the value that is followed from it.
type Walk struct {
	Name string
	// Under is the directory whose packages the walk does not leave.
	Under string
	// Start is the handler, as package directory below Under, type and method.
	Start string
	// Forms are the types that the value has on its way, as package directory
	// below Under and type. A struct with a field of such a type is one too.
	Forms []string
}

// Walks are the walks that are measured.
var Walks = []Walk{{
	Name:  "chat in edge-gateway",
	Under: "services/edge-gateway",
	Start: "internal/httpapi.Handler.answerJSON",
	Forms: []string{
		"internal/httpapi.exchange", "internal/openaiapi.Request",
		"internal/inference.Request", "internal/inference.modelAttempt", "internal/inference.Result",
	},
}}

// Steps is what a walk costs its reader.
type Steps struct {
	// Entered is how many files the walk enters, the handler's own among them.
	Entered int
	// Returned is how many calls lead back into a file that the walk had left.
	Returned int
	// Trace has one line for each of these calls.
	Trace []string
}

// follower is a walk under way.
type follower struct {
	tree    *Tree
	walk    Walk
	bodies  map[*types.Func]*ast.FuncDecl
	in      map[*types.Func]*pkg
	forms   map[types.Object]bool
	walked  map[*types.Func]bool
	entered map[string]bool
	steps   Steps
}

// Follow goes through the functions that a value passes, depth first and in the
// order of the source. It goes into a function that the walk's directory declares
// when its receiver or a parameter has a form of the value. It goes into each
// function once, where that is first named: called, or passed on as a callback. A
// function literal belongs to the function around it. A call of an interface's
// method or of a variable is not followed, because the source does not say what
// it calls. A call within a file counts nothing. A call into another file counts
// as entered the first time, and as returned each time after.
func (t *Tree) Follow(w Walk) (Steps, error) {
	f := &follower{tree: t, walk: w, bodies: map[*types.Func]*ast.FuncDecl{}, in: map[*types.Func]*pkg{},
		forms: map[types.Object]bool{}, walked: map[*types.Func]bool{}, entered: map[string]bool{}}
	var start *types.Func
	for _, dir := range t.dirs() {
		if !strings.HasPrefix(dir+"/", w.Under+"/") {
			continue
		}
		p := t.packages[dir]
		for _, file := range p.files {
			for _, d := range file.syntax.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if o, ok := p.info.Defs[fn.Name].(*types.Func); ok && fn.Body != nil {
					f.bodies[o], f.in[o] = fn, p
					if f.name(o) == w.Start {
						start = o
					}
				}
			}
		}
	}
	if start == nil {
		return Steps{}, fmt.Errorf("the walk of %s starts at %s, which %s does not declare", w.Name, w.Start, w.Under)
	}
	if err := f.findForms(); err != nil {
		return Steps{}, err
	}
	if !f.passes(start) {
		return Steps{}, fmt.Errorf("the walk of %s follows nothing that %s has", w.Name, w.Start)
	}
	f.call(start, "")
	return f.steps, nil
}

// findForms finds the types of the walk's forms and the structs that hold one.
func (f *follower) findForms() error {
	for _, form := range f.walk.Forms {
		dir, name, _ := strings.Cut(form, ".")
		p := f.tree.packages[f.walk.Under+"/"+dir]
		if p == nil || p.types.Scope().Lookup(name) == nil {
			return fmt.Errorf("the walk of %s follows %s, which %s does not declare", f.walk.Name, form, f.walk.Under)
		}
		f.forms[p.types.Scope().Lookup(name)] = true
	}
	for more := true; more; {
		more = false
		for dir, p := range f.tree.packages {
			if !strings.HasPrefix(dir+"/", f.walk.Under+"/") {
				continue
			}
			for _, name := range p.types.Scope().Names() {
				o, ok := p.types.Scope().Lookup(name).(*types.TypeName)
				if ok && !f.forms[o] && f.holds(o) {
					f.forms[o], more = true, true
				}
			}
		}
	}
	return nil
}

// holds reports whether the type is a struct with a field of a form.
func (f *follower) holds(o *types.TypeName) bool {
	s, ok := o.Type().Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for field := range s.Fields() {
		if f.form(field.Type()) {
			return true
		}
	}
	return false
}

// form reports whether the type is a form of the value or a pointer to one.
func (f *follower) form(t types.Type) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := t.(*types.Named)
	return ok && f.forms[n.Obj()]
}

// passes reports whether the value passes through the function.
func (f *follower) passes(o *types.Func) bool {
	s := o.Signature()
	if r := s.Recv(); r != nil && f.form(r.Type()) {
		return true
	}
	for p := range s.Params().Variables() {
		if f.form(p.Type()) {
			return true
		}
	}
	return false
}

// call goes into a function from a file.
func (f *follower) call(o *types.Func, from string) {
	o = o.Origin()
	if f.bodies[o] == nil || f.walked[o] || !f.passes(o) {
		return
	}
	f.walked[o] = true
	to := f.tree.fileOf(o)
	switch {
	case to == from:
	case !f.entered[to]:
		f.entered[to] = true
		f.steps.Entered++
		f.steps.Trace = append(f.steps.Trace, fmt.Sprintf("enters     %s: %s", to, f.name(o)))
	default:
		f.steps.Returned++
		f.steps.Trace = append(f.steps.Trace, fmt.Sprintf("returns to %s: %s", to, f.name(o)))
	}
	ast.Inspect(f.bodies[o].Body, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			if called, ok := f.in[o].info.Uses[name].(*types.Func); ok {
				f.call(called, to)
			}
		}
		return true
	})
}

// name returns a function's directory below the walk's, type and name.
func (f *follower) name(o *types.Func) string {
	s := strings.TrimPrefix(strings.TrimPrefix(o.Pkg().Path(), module+f.walk.Under), "/") + "."
	if r := o.Signature().Recv(); r != nil {
		t := r.Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		if n, ok := t.(*types.Named); ok {
			s += n.Obj().Name() + "."
		}
	}
	return s + o.Name()
}
