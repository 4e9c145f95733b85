package config

import (
	_ "embed" // for the lists of names
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// prefix begins the names of our variables.
const prefix = "SVC_"

// everyName lists the variables of all programs and scripts of the tree, one a line.
// One environment may serve several of them, so a name of another program is no
// fault. deploy/check holds the list to the tree.
//
//go:embed variables.txt
var everyName string

// injected are the variables that Kubernetes makes of a Service whose name begins
// with svc.
var injected = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT|PORT_[0-9]+_(TCP|UDP))(_|$)`)

// misspelt returns a fault for each variable with our prefix that no program of the
// tree reads, with the nearest name that one does.
func misspelt(cfg any, environ []string) []error {
	known := strings.Fields(everyName)
	ownNames(&known, reflect.TypeOf(cfg))
	var faults []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case !strings.HasPrefix(name, prefix), slices.Contains(known, name):
		case injected.MatchString(name), strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://"):
		default:
			faults = append(faults, fmt.Errorf("%s is no setting%s", name, instead(name, known)))
		}
	}
	return faults
}

// ownNames adds the variables of a configuration's own fields.
func ownNames(names *[]string, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return
	}
	for i := range typ.NumField() {
		field := typ.Field(i)
		if name, _, _ := strings.Cut(field.Tag.Get("env"), ","); name != "" {
			*names = append(*names, name)
		}
		if field.IsExported() {
			ownNames(names, field.Type)
		}
	}
}

// retiredNames lists the variables that earlier releases read, one a line, each with what to do in its place. Such a
// variable stops a program as a misspelt one does, because its holder expects an effect that it no longer has.
//
//go:embed retired.txt
var retiredNames string

// retired returns what to do in place of a variable that earlier releases read; empty for any other.
func retired(name string) (advice string) {
	for line := range strings.Lines(retiredNames) {
		if was, advice, _ := strings.Cut(strings.TrimSpace(line), " "); was == name {
			return advice
		}
	}
	return ""
}

// instead says what to set in place of a name that no program reads.
func instead(name string, known []string) string {
	if advice := retired(name); advice != "" {
		return " any more; " + advice
	}
	return suggestion(name, known)
}

// suggestion names the nearest known name, unless none is near.
func suggestion(name string, known []string) string {
	best, least := "", len(name)/3+1
	for _, candidate := range known {
		if d := distance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return "; -print shows all"
	}
	return "; did you mean " + best + "?"
}

// distance returns how many letters must be changed, added, removed or swapped with their
// neighbour to make b of a.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows[0], rows[1], rows[2] = last, row, before
	}
	return rows[1][len(b)]
}
