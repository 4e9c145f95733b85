package camouflage

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"regexp"
	"strings"
)

// Half names the half of the library's paragraphs that a text is taken from, so that
// consumers and probes never share one.
type Half uint32

// The halves.
const (
	Consumers Half = iota
	Probes
)

const (
	// minParagraph and maxParagraph bound a paragraph in bytes. Wider ones are no prose.
	minParagraph = 60
	maxParagraph = 900
	// maxParagraphs bounds the paragraphs that are read.
	maxParagraphs = 20_000
	// proseShare is the part of a paragraph that letters and spaces are at least.
	proseShare = .9
)

// ErrCorpus is the error for a folder with too little text.
var ErrCorpus = errors.New("too little text in the library")

// Paragraphs returns the paragraphs of comments of Go files that are of one half, each once,
// in the order of the files. src is the folder src of a Go distribution.
func Paragraphs(src fs.FS, half Half) ([]string, error) {
	var found []string
	known := map[string]bool{}
	err := fs.WalkDir(src, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || len(found) >= maxParagraphs:
			return nil
		}
		text, err := fs.ReadFile(src, path)
		if err != nil {
			return err
		}
		for _, p := range paragraphs(string(text)) {
			if halfOf(p) == half && !known[p] {
				found, known[p] = append(found, p), true
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the texts of the library: %w", err)
	}
	if len(found) < 1_000 {
		return nil, fmt.Errorf("%w: %d paragraphs", ErrCorpus, len(found))
	}
	return found, nil
}

func halfOf(paragraph string) Half {
	h := fnv.New32a()
	_, _ = h.Write([]byte(paragraph)) // it never fails
	return Half(h.Sum32() >> 16 & 1)
}

// notProse is what comments have beside prose: lists, code, directives.
var notProse = regexp.MustCompile(`^(//go:|Copyright |Deprecated|TODO|\+build)|[{}\\]|https?:|\t`)

// paragraphs returns the prose of a file's comments.
func paragraphs(text string) []string {
	var found []string
	var b strings.Builder
	end := func() {
		if p := strings.TrimSpace(b.String()); prose(p) {
			found = append(found, p)
		}
		b.Reset()
	}
	for line := range strings.Lines(text) {
		comment, is := strings.CutPrefix(strings.TrimRight(line, "\n"), "// ")
		if !is || comment == "" || strings.HasPrefix(comment, " ") {
			end()
			continue
		}
		b.WriteString(comment + " ")
	}
	end()
	return found
}

func prose(p string) bool {
	if len(p) < minParagraph || len(p) > maxParagraph || notProse.MatchString(p) || !strings.HasSuffix(p, ".") {
		return false
	}
	letters := 0
	for i := range len(p) {
		if c := p[i]; c == ' ' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			letters++
		} else if c >= 0x80 {
			return false
		}
	}
	return float64(letters) >= proseShare*float64(len(p))
}
