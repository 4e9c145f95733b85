package store

import (
	"errors"
	"testing"

	"svc.internal/pkg/pg/pgserver"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/billing-ledger/internal/limit"
)

// TestTheSynchronousStandbyIsRead has a server of its own: the setting belongs to
// the server, and who commits under it waits.
func TestTheSynchronousStandbyIsRead(t *testing.T) {
	cluster, err := pgserver.Start(t.Context(), pgserver.Config{})
	if errors.Is(err, pgserver.ErrNoBinaries) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin := pgtest.Open(t, cluster.URL(), "public", "")
	for _, step := range []struct {
		names, commit string
		want          bool
	}{{"", "on", false}, {"nobody", "off", false}, {"nobody", "local", false}, {"nobody", "on", true}} {
		if _, err := admin.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '"+step.names+"'"); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
		// Each connection has the settings as they were when it began.
		for now := "?"; now != step.names; {
			fresh := pgtest.Open(t, cluster.URL(), "public", "")
			if err := fresh.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&now); err != nil {
				t.Fatal(err)
			}
			fresh.Close()
		}
		db := pgtest.Open(t, cluster.URL()+"&synchronous_commit="+step.commit, "public", "")
		got, err := New(db, limit.Defaults{}, Terms{}).SynchronousStandby(t.Context())
		if err != nil || got != step.want {
			t.Errorf("standby %q and commit %s: got %v (%v), want %v", step.names, step.commit, got, err, step.want)
		}
	}
}
