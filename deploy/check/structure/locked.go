package structure

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// locks finds the methods that need their receiver's mutex held.
//
// A type has a mutex when its struct has a field whose type is written
// sync.Mutex or sync.RWMutex. A method of it needs the mutex held when
//   - it uses a field of the receiver that some function of the package changes,
//     or calls a method of the receiver that does and locks no mutex,
//   - it locks no mutex of the type itself,
//   - and every call of it in the package stands where the mutex is held: after
//     a Lock in the same function, or in a method that needs the mutex too.
//
// A branch that ends in a return does not release the mutex for what follows it.
// In a function literal no mutex counts as held, because the source does not say
// when it runs. A method of which only the name is passed on is left out.
type locks struct {
	p *pkg
	// owner is the type whose mutex a field is.
	owner map[types.Object]*types.TypeName
	// changed are the fields that some function assigns to.
	changed map[types.Object]bool
	// calls are the places where a method is called.
	calls map[*types.Func][]place
	// selves are the methods that a method calls on its own receiver.
	selves map[*types.Func][]*types.Func
	// locking are the methods that lock a mutex of their own type.
	locking map[*types.Func]bool
}

// place is a call: the function that it stands in, nil for none that is known to
// hold anything, and the types whose mutex is locked there.
type place struct {
	in   *types.Func
	held map[*types.TypeName]bool
}

// unlocked returns the methods that need the mutex held and lack the suffix.
func (t *Tree) unlocked(p *pkg) []*ast.FuncDecl {
	l := &locks{p: p, owner: map[types.Object]*types.TypeName{}, changed: map[types.Object]bool{},
		calls: map[*types.Func][]place{}, selves: map[*types.Func][]*types.Func{}, locking: map[*types.Func]bool{}}
	for _, f := range p.files {
		l.findMutexes(f.syntax)
	}
	if len(l.owner) == 0 {
		return nil
	}
	need, all := map[*types.Func]*ast.FuncDecl{}, map[*types.Func]*ast.FuncDecl{}
	for _, f := range p.files {
		ast.Inspect(f.syntax, l.change)
	}
	for _, f := range p.files {
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			o, _ := p.info.Defs[fn.Name].(*types.Func)
			l.block(fn.Body.List, &place{in: o, held: map[*types.TypeName]bool{}})
			if o == nil {
				continue
			}
			all[o] = fn
			if l.uses(fn, o) {
				need[o] = fn
			}
		}
	}
	for more := true; more; {
		more = false
		for o, fn := range all {
			uses := func(m *types.Func) bool { return need[m] != nil && !l.locking[m] }
			if need[o] == nil && slices.ContainsFunc(l.selves[o], uses) {
				need[o], more = fn, true
			}
		}
	}
	// What is called from anywhere without the mutex does not need it; that may
	// take the mutex from those it calls.
	for again := true; again; {
		again = false
		for o := range need {
			if l.locking[o] || !l.alwaysHeld(o, need) {
				delete(need, o)
				again = true
			}
		}
	}
	var found []*ast.FuncDecl
	for _, f := range p.files {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && !strings.HasSuffix(fn.Name.Name, "Locked") {
				if o, ok := p.info.Defs[fn.Name].(*types.Func); ok && need[o] != nil {
					found = append(found, fn)
				}
			}
		}
	}
	return found
}

// findMutexes notes the mutexes of the structs that a file declares.
func (l *locks) findMutexes(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		owner, ok := l.p.info.Defs[spec.Name].(*types.TypeName)
		if !ok {
			return true
		}
		for _, field := range s.Fields.List {
			name, ok := field.Type.(*ast.SelectorExpr)
			if !ok || name.Sel.Name != "Mutex" && name.Sel.Name != "RWMutex" {
				continue
			}
			if from, ok := name.X.(*ast.Ident); ok && from.Name == "sync" {
				for _, n := range field.Names {
					l.owner[l.p.info.Defs[n]] = owner
				}
			}
		}
		return true
	})
}

// change notes the fields to which a statement assigns, whole or in part.
func (l *locks) change(n ast.Node) bool {
	switch s := n.(type) {
	case *ast.AssignStmt:
		for _, to := range s.Lhs {
			l.changes(to)
		}
	case *ast.IncDecStmt:
		l.changes(s.X)
	case *ast.CallExpr:
		if f, ok := s.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear") && len(s.Args) > 0 {
			l.changes(s.Args[0])
		}
	}
	return true
}

func (l *locks) changes(e ast.Expr) {
	for {
		switch x := e.(type) {
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			if o := l.p.info.Uses[x.Sel]; o != nil {
				l.changed[o] = true
			}
			e = x.X
		default:
			return
		}
	}
}

// uses reports whether a method of a type with a mutex uses a field of its
// receiver that changes. It notes the methods that are called on the receiver.
func (l *locks) uses(fn *ast.FuncDecl, o *types.Func) bool {
	receiver := receiverOf(o)
	if receiver == nil || !l.hasMutex(receiver) || len(fn.Recv.List[0].Names) == 0 {
		return false
	}
	self := l.p.info.Defs[fn.Recv.List[0].Names[0]]
	found := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); !ok || l.p.info.Uses[x] != self {
				return true
			}
			used := l.p.info.Uses[s.Sel]
			found = found || l.changed[used]
			if m, ok := used.(*types.Func); ok {
				l.selves[o] = append(l.selves[o], m.Origin())
			}
		}
		return true
	})
	return found
}

func (l *locks) hasMutex(t *types.TypeName) bool {
	for _, owner := range l.owner {
		if owner == t {
			return true
		}
	}
	return false
}

func (l *locks) alwaysHeld(o *types.Func, need map[*types.Func]*ast.FuncDecl) bool {
	receiver := receiverOf(o)
	for _, c := range l.calls[o] {
		if !c.held[receiver] && (c.in == nil || need[c.in] == nil || receiverOf(c.in) != receiver) {
			return false
		}
	}
	return len(l.calls[o]) > 0
}

func receiverOf(o *types.Func) *types.TypeName {
	r := o.Signature().Recv()
	if r == nil {
		return nil
	}
	t := r.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

// block goes through statements in order and reports whether they end in a jump.
func (l *locks) block(list []ast.Stmt, at *place) (ends bool) {
	for _, s := range list {
		ends = l.statement(s, at)
	}
	return ends
}

// statement notes the calls of a statement and what it locks and releases.
func (l *locks) statement(s ast.Stmt, at *place) (ends bool) {
	switch s := s.(type) {
	case nil:
	case *ast.BlockStmt:
		return l.block(s.List, at)
	case *ast.LabeledStmt:
		return l.statement(s.Stmt, at)
	case *ast.ReturnStmt:
		l.node(s, at)
		return true
	case *ast.BranchStmt:
		return true
	case *ast.DeferStmt:
		if owner, _ := l.lock(s.Call); owner == nil {
			l.node(s.Call, at)
		}
	case *ast.GoStmt:
		l.node(s.Call, &place{held: map[*types.TypeName]bool{}})
	case *ast.IfStmt:
		l.statement(s.Init, at)
		l.node(s.Cond, at)
		l.branches(at, false, []ast.Stmt{s.Body}, []ast.Stmt{s.Else}) // none is an empty list
	case *ast.ForStmt:
		l.statement(s.Init, at)
		l.node(s.Cond, at)
		l.branches(at, true, append([]ast.Stmt{s.Body}, s.Post))
	case *ast.RangeStmt:
		l.node(s.X, at)
		l.branches(at, true, s.Body.List)
	case *ast.SwitchStmt:
		l.statement(s.Init, at)
		l.node(s.Tag, at)
		l.clauses(s.Body, at)
	case *ast.TypeSwitchStmt:
		l.statement(s.Init, at)
		l.statement(s.Assign, at)
		l.clauses(s.Body, at)
	case *ast.SelectStmt:
		l.clauses(s.Body, at)
	default:
		l.node(s, at)
	}
	return false
}

// clauses goes through the clauses of a switch or a select, one of which runs.
func (l *locks) clauses(body *ast.BlockStmt, at *place) {
	var all [][]ast.Stmt
	for _, c := range body.List {
		switch c := c.(type) {
		case *ast.CaseClause:
			for _, e := range c.List {
				l.node(e, at)
			}
			all = append(all, c.Body)
		case *ast.CommClause:
			all = append(all, append([]ast.Stmt{c.Comm}, c.Body...))
		}
	}
	l.branches(at, true, all...)
}

// branches goes through lists of which one runs, or none when skipped may be.
// After them is held what each that does not end in a jump holds.
func (l *locks) branches(at *place, skipped bool, lists ...[]ast.Stmt) {
	before := maps.Clone(at.held)
	var after []map[*types.TypeName]bool
	if skipped {
		after = append(after, before)
	}
	for _, list := range lists {
		branch := &place{in: at.in, held: maps.Clone(before)}
		if !l.block(list, branch) {
			after = append(after, branch.held)
		}
	}
	if len(after) == 0 {
		return
	}
	at.held = maps.Clone(after[0])
	for _, held := range after[1:] {
		maps.DeleteFunc(at.held, func(t *types.TypeName, _ bool) bool { return !held[t] })
	}
}

// node notes the calls of an expression or a plain statement.
func (l *locks) node(n ast.Node, at *place) {
	if n == nil {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			l.block(n.Body.List, &place{held: map[*types.TypeName]bool{}})
			return false
		case *ast.CallExpr:
			if owner, held := l.lock(n); owner != nil {
				if held {
					at.held[owner] = true
				} else {
					delete(at.held, owner)
				}
				if held && at.in != nil && receiverOf(at.in) == owner {
					l.locking[at.in] = true
				}
			}
		case *ast.Ident:
			if o, ok := l.p.info.Uses[n].(*types.Func); ok {
				l.calls[o.Origin()] = append(l.calls[o.Origin()], place{in: at.in, held: maps.Clone(at.held)})
			}
		}
		return true
	})
}

// lock returns the type whose mutex a call locks or releases, nil for any other
// call, and whether it locks.
func (l *locks) lock(c *ast.CallExpr) (owner *types.TypeName, held bool) {
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	switch f.Sel.Name {
	case "Lock", "RLock":
		held = true
	case "Unlock", "RUnlock":
	default:
		return nil, false
	}
	mutex, ok := f.X.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	return l.owner[l.p.info.Uses[mutex.Sel]], held
}
