package pgserver_test

import (
	"os"
	"strings"
	"testing"

	"svc.internal/pkg/pg/pgserver"
)

func TestFindBinariesRefusesAnUnusablePGBIN(t *testing.T) {
	t.Setenv("PGBIN", t.TempDir())
	if dir, err := pgserver.FindBinaries(); err == nil {
		t.Errorf("found %s", dir)
	}
}

func TestFindBinariesNamesTheWaysOut(t *testing.T) {
	for _, want := range []string{"apt-get install postgresql", "DATABASE_URL", "PGBIN"} {
		if !strings.Contains(pgserver.ErrNoBinaries.Error(), want) {
			t.Errorf("pgserver.ErrNoBinaries.Error(): got %q, want %q in it", pgserver.ErrNoBinaries.Error(), want)
		}
	}
}

func TestFindBinariesTakesPGBINFirst(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(dir+"/"+name, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PGBIN", dir)
	if got, err := pgserver.FindBinaries(); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got != dir {
		t.Errorf("FindBinaries(): got %q, want %q", got, dir)
	}
}
