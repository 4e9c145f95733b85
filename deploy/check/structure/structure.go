// Package structure measures how the hand-written Go of a tree hangs together:
// how many arrows between the files of a package point up, how often a walk
// returns to a file that it had left, what is too long, named for another rule
// than it obeys, or outside the glossary, and which checks of the tests hold more
// than one claim. It reads the source alone, with the standard library alone, so
// it needs no build and no network.
//
// An arrow goes from file A to file B when A names an identifier that B declares.
// Files are ordered so that the fewest arrows point back; those are upward. A walk
// follows one value from a handler; Follow says how. The numbers are compared with
// a committed list, in which a number may only fall.
package structure

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Report has the numbers of a tree. Every measure is better when it is less.
type Report struct {
	// Numbers are the measures by name. Those that are zero are left out.
	Numbers map[string]int
	// Places has what each measure counted, as path and line where it has one.
	Places map[string][]string
	// ArrowsOf is how many arrows a package has whose upward ones are counted.
	ArrowsOf map[string]int
	// Lines is how many lines the production code of each module has. They are
	// printed, not compared.
	Lines map[string]int
}

// Measure measures the tree.
func (t *Tree) Measure(words []Word, walks []Walk) (*Report, error) {
	r := &Report{
		Numbers: map[string]int{}, Places: map[string][]string{}, ArrowsOf: map[string]int{}, Lines: map[string]int{},
	}
	for _, dir := range t.dirs() {
		p := t.packages[dir]
		g := t.arrows(p)
		if n := g.upward(); n > 0 {
			r.Numbers["upward arrows "+dir] = n
			r.ArrowsOf["upward arrows "+dir] = g.count()
		}
		for _, f := range p.files {
			r.Lines[moduleOf(f.path)] += bytes.Count(f.text, []byte("\n"))
			r.measureFile(t, f)
			r.add("names outside the glossary", areaOf(f.path), f.path, t.outside(p, f, words))
		}
		for _, fn := range t.unlocked(p) {
			at := t.files.Position(fn.Pos())
			r.add("methods without the suffix Locked", areaOf(at.Filename), at.Filename, []int{at.Line})
		}
	}
	for _, f := range t.tests {
		r.measureFile(t, f)
		r.add("checks of several claims", moduleOf(f.path), f.path, t.severalClaims(f))
	}
	for _, w := range walks {
		steps, err := t.Follow(w)
		if err != nil {
			return nil, err
		}
		r.Numbers["files entered by "+w.Name] = steps.Entered
		r.Numbers["returns of "+w.Name] = steps.Returned
		r.Places["files entered by "+w.Name], r.Places["returns of "+w.Name] = steps.Trace, steps.Trace
	}
	return r, nil
}

// measureFile measures what a file has with or without types.
func (r *Report) measureFile(t *Tree, f *file) {
	r.add(fmt.Sprintf("functions over %d lines", maxLines), areaOf(f.path), f.path, t.longFunctions(f))
	r.add(fmt.Sprintf("lines over %d columns", maxColumns), areaOf(f.path), f.path, longLines(f))
}

// areaOf returns the first two directories of a path.
func areaOf(path string) string {
	part := strings.SplitN(path, "/", 3)
	return strings.Join(part[:min(2, len(part)-1)], "/")
}

// moduleOf returns the directory of the module that a path is in. The packages of
// pkg are one module.
func moduleOf(path string) string {
	if strings.HasPrefix(path, "pkg/") {
		return "pkg"
	}
	return areaOf(path)
}

// add counts lines of a file to the measure of an area.
func (r *Report) add(measure, area, path string, lines []int) {
	name := measure + " " + area
	if len(lines) == 0 {
		return
	}
	r.Numbers[name] += len(lines)
	for _, line := range lines {
		r.Places[name] = append(r.Places[name], fmt.Sprintf("%s:%d", path, line))
	}
}

// List returns the numbers as they are committed: one measure a line, in order.
func (r *Report) List() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Numbers)) {
		fmt.Fprintf(&b, "%d %s\n", r.Numbers[name], name)
	}
	return b.String()
}

// ParseList reads a committed list.
func ParseList(list string) (map[string]int, error) {
	numbers := map[string]int{}
	for line := range strings.Lines(list) {
		number, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil || !ok {
			return nil, fmt.Errorf("%q: want a number and the name of a measure", line)
		}
		numbers[name] = n
	}
	return numbers, nil
}

// Table returns the numbers beside the committed ones, aligned.
func (r *Report) Table(committed map[string]int) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "now\tcommitted\tof\t  measure\n")
	all := maps.Clone(committed)
	if all == nil {
		all = map[string]int{}
	}
	maps.Copy(all, r.Numbers)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of := ""
		if n, ok := r.ArrowsOf[name]; ok {
			of = strconv.Itoa(n)
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t  %s\n", r.Numbers[name], committed[name], of, name)
	}
	lines := 0
	for _, module := range slices.Sorted(maps.Keys(r.Lines)) {
		lines += r.Lines[module]
		fmt.Fprintf(w, "%d\t\t\t  lines of production code %s\n", r.Lines[module], module)
	}
	fmt.Fprintf(w, "%d\t\t\t  lines of production code\n", lines)
	_ = w.Flush() // a buffer takes everything
	return b.String()
}

// maxPlaces is how many places a finding names.
const maxPlaces = 20

// Compare returns what is worse than the committed numbers and what is better.
// A measure that is not in the list is zero there.
func (r *Report) Compare(committed map[string]int) (worse, better []string) {
	all := maps.Clone(r.Numbers)
	for name := range committed {
		all[name] = r.Numbers[name]
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		got, want := r.Numbers[name], committed[name]
		finding := fmt.Sprintf("%s: got %d, want %d", name, got, want)
		switch {
		case got < want:
			better = append(better, finding)
		case got > want:
			places := r.Places[name]
			if n := len(places); n > maxPlaces {
				places = append(slices.Clone(places[:maxPlaces]), fmt.Sprintf("and %d more", n-maxPlaces))
			}
			worse = append(worse, strings.Join(append([]string{finding}, places...), "\n\t"))
		}
	}
	return worse, better
}
