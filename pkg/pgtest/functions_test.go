package pgtest

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestAChangeOfAFunctionNeedsAMigration(t *testing.T) {
	store := fstest.MapFS{
		"migrations/00001_a.sql": {}, "functions/f.sql": {Data: []byte("one")}, "views/v.sql": {Data: []byte("two")},
	}
	line := func(err error) string {
		if err == nil {
			t.Fatal("got no error")
		}
		_, line, _ := strings.Cut(err.Error(), "line ")
		return strings.TrimPrefix(line, "is ") + "\n"
	}
	first := line(checkFunctions(store))
	store["migrations/functions.sum"] = &fstest.MapFile{Data: []byte(first)}
	if err := checkFunctions(store); err != nil {
		t.Errorf("a line for it: got %v", err)
	}
	store["migrations/00002_b.sql"] = &fstest.MapFile{}
	if err := checkFunctions(store); err != nil {
		t.Errorf("a migration without a change: got %v", err)
	}
	delete(store, "migrations/00002_b.sql")
	store["views/v.sql"] = &fstest.MapFile{Data: []byte("three")}
	if err := checkFunctions(store); err == nil || !strings.Contains(err.Error(), "add a migration") {
		t.Errorf("a change without a migration: got %v, want one that asks for it", err)
	}
	store["migrations/00002_b.sql"] = &fstest.MapFile{}
	store["migrations/functions.sum"] = &fstest.MapFile{Data: []byte(first + line(checkFunctions(store)))}
	if err := checkFunctions(store); err != nil {
		t.Errorf("a change with a migration: got %v", err)
	}
}
