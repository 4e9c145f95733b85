package pgtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Baseline is the file in which a store keeps the description of its database at the
// baseline, as Describe lists it.
const Baseline = "schema.txt"

// EnvBaseline names the variable that, when it is 1, has CheckBaseline write the file
// instead: make baseline.
const EnvBaseline = "PGTEST_BASELINE"

const baselineHead = `# What a database had when the baseline was made: see pgtest.Describe. A program of
# that time works on every later schema, or the store's test fails. This file moves
# by "make baseline" alone, in a commit that says why.
`

// CheckBaseline fails when a program that was made for the baseline in the test's folder
// cannot work on a database that the present migrations make. So migrations only expand
// the database, and an unused object is removed after the baseline has moved.
//
// It reports each relation, column, function, grant, seed, trigger and unique index that
// is missing; a column that has another type, has become nullable or has lost its
// default; a new column that an old program would have to fill; and CHECKs and other
// constraints that refuse what was allowed. It reports a changed CHECK unless it
// recognises that the CHECK allows more: longer lists of values, and wider bounds. It
// does not look at what a function or a trigger does.
func CheckBaseline(t testing.TB, store fs.FS, role string, schemas ...string) {
	t.Helper()
	now := Describe(t, Database(t, schemas[0], role, store), schemas...)
	if os.Getenv(EnvBaseline) == "1" {
		if err := os.WriteFile(Baseline, []byte(baselineHead+now), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	then, err := os.ReadFile(filepath.Clean(Baseline))
	if err != nil {
		t.Fatalf("read the baseline: %v", err)
	}
	for _, problem := range narrowed(string(then), now) {
		t.Error(problem)
	}
}

// narrowed returns what a program made for the database described by then misses in the
// one described by now.
func narrowed(then, now string) []string {
	a, b := parseSchema(then), parseSchema(now)
	var problems []string
	for _, check := range []func(old, present schema) []string{
		missingObjects, changedRelations, changedColumns, newColumns, changedConstraints, newConstraints,
		missingUnique, changedFunctions, newPolicies, missingRows,
	} {
		problems = append(problems, check(a, b)...)
	}
	return problems
}

// row is a row by column, as JSON.
type row map[string]json.RawMessage

// schema is a description by kind and by name; the value is the rest of the line.
type schema struct {
	objects map[string]map[string]string
	rows    map[string][]row // by table
}

// nameless are the kinds whose whole line is the name.
var nameless = []string{"statistics", "comment", "grant"}

func parseSchema(text string) schema {
	s := schema{objects: map[string]map[string]string{}, rows: map[string][]row{}}
	for entry := range strings.SplitSeq(strings.ReplaceAll(text, "\n\t", "\r"), "\n") {
		kind, rest, _ := strings.Cut(strings.ReplaceAll(entry, "\r", "\n"), " ")
		if kind == "" || kind == "#" {
			continue
		}
		if kind == "row" {
			table, text, _ := strings.Cut(rest, " ")
			var values row
			if err := json.Unmarshal([]byte(text), &values); err != nil {
				panic(fmt.Sprintf("a row of %s is no JSON: %v", table, err))
			}
			s.rows[table] = append(s.rows[table], values)
			continue
		}
		name := rest
		if !slices.Contains(nameless, kind) {
			name, rest = cutName(kind, rest)
		}
		if s.objects[kind] == nil {
			s.objects[kind] = map[string]string{}
		}
		s.objects[kind][name] = rest
	}
	return s
}

// cutName separates the name of an object from its description. The name of a function
// includes the types of its arguments, and ends with the line.
func cutName(kind, line string) (name, rest string) {
	if kind == "function" {
		name, rest, _ = strings.Cut(line, "\n")
		name, _, _ = strings.Cut(name, " owner ")
		return name, rest
	}
	if i := strings.IndexAny(line, " \n"); i >= 0 {
		return line[:i], line[i+1:]
	}
	return line, ""
}

// each calls report for every object of a kind that was there, in order.
func (s schema) each(kind string, report func(name, rest string)) {
	for _, name := range slices.Sorted(maps.Keys(s.objects[kind])) {
		report(name, s.objects[kind][name])
	}
}

// missingObjects returns the missing objects that programs name, or that work for them.
func missingObjects(old, present schema) (problems []string) {
	for _, kind := range []string{
		"schema", "extension", "relation", "column", "function", "type", "trigger", "grant",
	} {
		old.each(kind, func(name, _ string) {
			if _, ok := present.objects[kind][name]; !ok {
				problems = append(problems, fmt.Sprintf("%s %s is gone", kind, name))
			}
		})
	}
	old.each("type", func(name, rest string) {
		if is, ok := present.objects["type"][name]; ok && !strings.HasPrefix(is, rest) {
			problems = append(problems, fmt.Sprintf("type %s is %q, and was %q", name, is, rest))
		}
	})
	return problems
}

var relationKind = regexp.MustCompile(`^kind (\S+)`)

func changedRelations(old, present schema) (problems []string) {
	old.each("relation", func(name, was string) {
		is, ok := present.objects["relation"][name]
		if !ok {
			return
		}
		if a, b := relationKind.FindString(was), relationKind.FindString(is); a != b {
			problems = append(problems, fmt.Sprintf("relation %s is of %s, and was of %s", name, b, a))
		}
		if strings.Contains(is, " row security") && !strings.Contains(was, " row security") {
			problems = append(problems, fmt.Sprintf("relation %s has row security, and had none", name))
		}
	})
	return problems
}

// column is the description of a column.
type column struct {
	typ, identity, generated string
	notNull, hasDefault      bool
}

var columnLine = regexp.MustCompile(`^(.*?)( not null)?( collation \S+)?( identity \S+)?( generated \S+)?` +
	`( default .*?)?( storage \S+)?( compression \S+)?( options .*)?$`)

func parseColumn(rest string) column {
	m := columnLine.FindStringSubmatch(rest)
	if m == nil {
		return column{typ: rest}
	}
	return column{typ: m[1] + m[3], notNull: m[2] != "", identity: m[4], generated: m[5], hasDefault: m[6] != ""}
}

// mustBeGiven reports whether an INSERT that does not name the column fails.
func (c column) mustBeGiven() bool {
	return c.notNull && !c.hasDefault && c.identity == "" && c.generated == ""
}

func changedColumns(old, present schema) (problems []string) {
	report := func(name, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("column "+name+" "+format, args...))
	}
	old.each("column", func(name, rest string) {
		now, ok := present.objects["column"][name]
		if !ok {
			return
		}
		was, is := parseColumn(rest), parseColumn(now)
		if is.typ != was.typ {
			report(name, "is of type %s, and was of %s", is.typ, was.typ)
		}
		if is.notNull && !was.notNull {
			report(name, "must not be null, and could be")
		}
		if was.hasDefault && !is.hasDefault {
			report(name, "has no default, and had one")
		}
		if is.identity != was.identity || is.generated != was.generated {
			report(name, "is filled in otherwise: %q, and was %q", is.identity+is.generated, was.identity+was.generated)
		}
	})
	return problems
}

// newColumns returns the columns that an INSERT of an old program leaves out.
func newColumns(old, present schema) (problems []string) {
	present.each("column", func(name, rest string) {
		if _, ok := old.objects["column"][name]; ok || !old.hasTable(relationOf(name)) {
			return
		}
		if parseColumn(rest).mustBeGiven() {
			problems = append(problems, fmt.Sprintf("column %s is new, must not be null, and has no default", name))
		}
	})
	return problems
}

// relationOf returns the relation of a column, constraint, trigger or policy.
func relationOf(name string) string {
	return name[:max(strings.LastIndexByte(name, '.'), 0)]
}

func (s schema) hasTable(name string) bool {
	kind := relationKind.FindString(s.objects["relation"][name])
	return kind == "kind r" || kind == "kind p"
}

// notValid ends a constraint that was not checked for old rows. New rows are checked.
var notValid = regexp.MustCompile(`( NOT VALID)?( not validated)?$`)

func definition(constraint string) string { return notValid.ReplaceAllString(constraint, "") }

func changedConstraints(old, present schema) (problems []string) {
	old.each("constraint", func(name, rest string) {
		was := definition(rest)
		isKey := strings.HasPrefix(was, "PRIMARY KEY") || strings.HasPrefix(was, "UNIQUE")
		now, ok := present.objects["constraint"][name]
		switch is := definition(now); {
		case !ok && isKey:
			problems = append(problems, fmt.Sprintf("constraint %s is gone: %s", name, was))
		case !ok || is == was || allowsMore(was, is):
		default:
			problems = append(problems, fmt.Sprintf("constraint %s is %s, and was %s", name, is, was))
		}
	})
	return problems
}

// newConstraints returns the constraints on old columns that an old program may violate.
func newConstraints(old, present schema) (problems []string) {
	report := func(kind, name, table, text string) {
		if c := old.columnIn(table, text); c != "" {
			problems = append(problems, fmt.Sprintf("%s %s is new and holds the old column %s: %s", kind, name, c, text))
		}
	}
	present.each("constraint", func(name, rest string) {
		table := relationOf(name)
		if _, ok := old.objects["constraint"][name]; ok || !old.hasTable(table) {
			return
		}
		text := definition(rest)
		if old.hasConstraint(table, text) {
			return // under another name
		}
		// A foreign key names columns of the other table, too.
		text, _, _ = strings.Cut(text, " REFERENCES ")
		report("constraint", name, table, text)
	})
	known := map[string]bool{}
	for _, rest := range old.objects["index"] {
		known[uniqueIndex(rest)] = true
	}
	present.each("index", func(name, rest string) {
		text := uniqueIndex(rest)
		if text == "" || known[text] {
			return
		}
		table, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(text, "ON "), "ONLY "), " ")
		_, isConstraint := present.objects["constraint"][table+name[strings.LastIndexByte(name, '.'):]]
		if !isConstraint && old.hasTable(table) {
			report("unique index", name, table, text[strings.Index(text, table)+len(table):])
		}
	})
	return problems
}

// hasConstraint reports whether a constraint of the table says the same.
func (s schema) hasConstraint(table, text string) bool {
	for name, rest := range s.objects["constraint"] {
		if relationOf(name) == table && definition(rest) == text {
			return true
		}
	}
	return false
}

var (
	quoted = regexp.MustCompile(`'(?:[^']|'')*'`)
	word   = regexp.MustCompile(`\w+`)
)

// columnIn returns a column of the table that the text names.
func (s schema) columnIn(table, text string) string {
	for _, w := range word.FindAllString(quoted.ReplaceAllString(text, ""), -1) {
		if _, ok := s.objects["column"][table+"."+w]; ok {
			return w
		}
	}
	return ""
}

var uniqueLine = regexp.MustCompile(`^CREATE UNIQUE INDEX \S+ (.*)`)

// uniqueIndex returns what a unique index is on, without its name. An INSERT with ON
// CONFLICT needs it.
func uniqueIndex(rest string) string {
	if m := uniqueLine.FindStringSubmatch(rest); m != nil {
		return m[1]
	}
	return ""
}

func missingUnique(old, present schema) (problems []string) {
	have := map[string]bool{}
	for _, rest := range present.objects["index"] {
		have[uniqueIndex(rest)] = true
	}
	old.each("index", func(name, rest string) {
		if text := uniqueIndex(rest); text != "" && !have[text] {
			problems = append(problems, fmt.Sprintf("unique index %s is gone: %s", name, text))
		}
	})
	return problems
}

var argumentDefault = regexp.MustCompile(` DEFAULT [^,)]+`)

// signature returns how a function is called and what it returns, and how many of its
// arguments have defaults.
func signature(definition string) (text string, defaults int) {
	lines := strings.SplitN(definition, "\n", 3)
	if len(lines) > 2 {
		lines = lines[:2]
	}
	text = strings.Join(lines, "")
	return argumentDefault.ReplaceAllString(text, ""), len(argumentDefault.FindAllString(text, -1))
}

func changedFunctions(old, present schema) (problems []string) {
	old.each("function", func(name, rest string) {
		now, ok := present.objects["function"][name]
		if !ok {
			return
		}
		was, had := signature(rest)
		is, has := signature(now)
		if is != was || has < had {
			problems = append(problems, fmt.Sprintf("function %s has another signature: %s, and had %s", name, is, was))
		}
	})
	return problems
}

func newPolicies(old, present schema) (problems []string) {
	present.each("policy", func(name, _ string) {
		if _, ok := old.objects["policy"][name]; !ok && old.hasTable(relationOf(name)) {
			problems = append(problems, fmt.Sprintf("policy %s is new", name))
		}
	})
	return problems
}

// missingRows returns the seeds for which no row has the same values in their columns.
func missingRows(old, present schema) (problems []string) {
	for _, table := range slices.Sorted(maps.Keys(old.rows)) {
		for _, was := range old.rows[table] {
			if !slices.ContainsFunc(present.rows[table], func(is row) bool { return is.holds(was) }) {
				problems = append(problems, fmt.Sprintf("a row of %s is gone or changed: %s", table, was))
			}
		}
	}
	return problems
}

// holds reports whether r has all that part has.
func (r row) holds(part row) bool {
	for column, value := range part {
		if !bytes.Equal(r[column], value) {
			return false
		}
	}
	return true
}

var (
	valueList = regexp.MustCompile(`ARRAY\[([^\]]*)\]`)
	bound     = regexp.MustCompile(`(<=|<|>=|>) \(?'?(-?\d+)'?(::\w+)?\)?`)
	// single is a comparison with one value, which PostgreSQL makes of a list of one.
	single = regexp.MustCompile(` = ('(?:[^']|'')*'::\w+)`)
	// turning are words after which a wider bound allows less.
	turning = regexp.MustCompile(`\b(NOT|CASE|ALL|IS)\b|<>|@>|\) = |= \(`)
)

// allowsMore reports whether a CHECK provably refuses nothing that the earlier one
// allowed: it differs only in values that were added to lists, and in numbers that bound
// less.
func allowsMore(was, is string) bool {
	frame := func(check string) string {
		return valueList.ReplaceAllString(bound.ReplaceAllString(check, "$1"), "")
	}
	if !strings.HasPrefix(was, "CHECK ") || turning.MatchString(was) {
		return false
	}
	was, is = single.ReplaceAllString(was, " = ANY (ARRAY[$1])"), single.ReplaceAllString(is, " = ANY (ARRAY[$1])")
	if frame(was) != frame(is) {
		return false
	}
	before, after := valueList.FindAllStringSubmatch(was, -1), valueList.FindAllStringSubmatch(is, -1)
	if len(before) != len(after) {
		return false
	}
	for i := range before {
		values := strings.Split(after[i][1], ", ")
		for value := range strings.SplitSeq(before[i][1], ", ") {
			if !slices.Contains(values, value) {
				return false
			}
		}
	}
	low, high := bound.FindAllStringSubmatch(was, -1), bound.FindAllStringSubmatch(is, -1)
	if len(low) != len(high) {
		return false
	}
	for i := range low {
		if low[i][1] != high[i][1] || !wider(low[i][1], low[i][2], high[i][2]) {
			return false
		}
	}
	return true
}

// wider reports whether the second number bounds no more than the first.
func wider(operator, was, is string) bool {
	a, errA := strconv.ParseInt(was, 10, 64)
	b, errB := strconv.ParseInt(is, 10, 64)
	if errA != nil || errB != nil {
		return was == is
	}
	if operator[0] == '<' {
		return b >= a
	}
	return b <= a
}
