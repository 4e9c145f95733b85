package structure

import (
	"bytes"
	"go/ast"
	"go/types"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxLines is how long a function may be, from its first line to its last.
	maxLines = 70
	// maxColumns is how long a line may be. A tab is one column, as lll counts.
	maxColumns = 120
)

// longFunctions returns the lines on which functions of the file begin that are
// longer than maxLines.
func (t *Tree) longFunctions(f *file) []int {
	var found []int
	for _, d := range f.syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			first, last := t.files.Position(fn.Pos()).Line, t.files.Position(fn.End()).Line
			if last-first+1 > maxLines {
				found = append(found, first)
			}
		}
	}
	return found
}

// longLines returns the numbers of the lines that are longer than maxColumns. A
// directive to the compiler cannot be broken.
func longLines(f *file) []int {
	var found []int
	n := 0
	for line := range bytes.Lines(f.text) {
		n++
		line = bytes.TrimRight(line, "\r\n")
		if utf8.RuneCount(line) > maxColumns && !bytes.HasPrefix(line, []byte("//go:")) {
			found = append(found, n)
		}
	}
	return found
}

// Word is a word that the glossary has replaced.
type Word struct {
	// Old is the word, in lower case.
	Old string
	// Under is the directory where nothing is named so; the whole tree when empty.
	Under string
}

// ParseWords reads a list with one word a line, its directory behind it if it has
// one. A line that begins with # is a comment.
func ParseWords(list string) []Word {
	var words []Word
	for line := range strings.Lines(list) {
		part := strings.Fields(line)
		switch {
		case len(part) == 0 || strings.HasPrefix(part[0], "#"):
		case len(part) == 1:
			words = append(words, Word{Old: part[0]})
		default:
			words = append(words, Word{Old: part[0], Under: part[1]})
		}
	}
	return words
}

// outside returns the lines of the file that declare a name with one of the
// words. A name has a word when the word is one of the parts that capitals and
// underscores divide it into: receiptID has receipt, and receipts does not.
func (t *Tree) outside(p *pkg, f *file, words []Word) []int {
	banned := map[string]bool{}
	for _, w := range words {
		if w.Under == "" || strings.HasPrefix(f.path, strings.TrimSuffix(w.Under, "/")+"/") {
			banned[w.Old] = true
		}
	}
	var found []int
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok || p.info.Defs[name] == nil {
			return true
		}
		if _, ok := p.info.Defs[name].(*types.PkgName); ok {
			return true
		}
		for _, part := range parts(name.Name) {
			if banned[part] {
				found = append(found, t.files.Position(name.Pos()).Line)
				break
			}
		}
		return true
	})
	return found
}

// parts divides a name into its words in lower case.
func parts(name string) []string {
	var all []string
	var word []rune
	letters := []rune(name)
	end := func() {
		if len(word) > 0 {
			all = append(all, strings.ToLower(string(word)))
		}
		word = nil
	}
	for i, r := range letters {
		begins := unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(letters[i-1]) ||
			i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if begins || r == '_' {
			end()
		}
		if r != '_' {
			word = append(word, r)
		}
	}
	end()
	return all
}
