package structure

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"strconv"
)

// severalClaims returns the lines of a test on which a check begins that holds
// several claims. A check is an if whose body calls Error, Errorf, Fatal or Fatalf
// of a testing value. Its claims are what || joins in the condition, also behind an
// && that precedes them. The two ends of a range, x < a || x > b, are one claim.
func (t *Tree) severalClaims(f *file) []int {
	imported := map[string]bool{}
	for _, spec := range f.syntax.Imports {
		name, _ := strconv.Unquote(spec.Path.Value) // the parser has read it
		name = path.Base(name)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = true
	}
	var found []int
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		check, ok := n.(*ast.IfStmt)
		if ok && reportsFailure(check.Body, imported) && len(claimsOf(check.Cond)) > 1 {
			found = append(found, t.files.Position(check.Pos()).Line)
		}
		return true
	})
	return found
}

// reportsFailure reports whether a statement of the block fails a test. A call
// whose result nobody uses is that of a testing value, unless a package has the
// function: err.Error() has a result and http.Error is no method.
func reportsFailure(block *ast.BlockStmt, imported map[string]bool) bool {
	for _, statement := range block.List {
		expression, ok := statement.(*ast.ExprStmt)
		if !ok {
			continue
		}
		call, ok := expression.X.(*ast.CallExpr)
		if !ok {
			continue
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		if name, ok := method.X.(*ast.Ident); ok && imported[name.Name] {
			continue
		}
		switch method.Sel.Name {
		case "Error", "Errorf", "Fatal", "Fatalf":
			return true
		}
	}
	return false
}

// claimsOf returns the claims that a condition joins, each of which fails the check.
func claimsOf(condition ast.Expr) []ast.Expr {
	joined, ok := ast.Unparen(condition).(*ast.BinaryExpr)
	switch {
	case ok && joined.Op == token.LOR:
		left, right := claimsOf(joined.X), claimsOf(joined.Y)
		if isRange(left[len(left)-1], right[0]) {
			right = right[1:]
		}
		return append(left, right...)
	case ok && joined.Op == token.LAND:
		if claims := claimsOf(joined.Y); len(claims) > 1 {
			return claims
		}
	}
	return []ast.Expr{condition}
}

// isRange reports whether two conditions are the two ends of a range.
func isRange(one, other ast.Expr) bool {
	low, ok := ast.Unparen(one).(*ast.BinaryExpr)
	if !ok {
		return false
	}
	high, ok := ast.Unparen(other).(*ast.BinaryExpr)
	if !ok || types.ExprString(low.X) != types.ExprString(high.X) {
		return false
	}
	switch low.Op {
	case token.LSS, token.LEQ:
		return high.Op == token.GTR || high.Op == token.GEQ
	case token.GTR, token.GEQ:
		return high.Op == token.LSS || high.Op == token.LEQ
	case token.EQL: // a count of none, or of too many
		return high.Op == token.GTR && types.ExprString(low.Y) == "0"
	}
	return false
}
