package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/config"
	"svc.internal/pkg/pg"
)

// schemaWait bounds how long a service waits for the version of its schema that
// it needs: as long as a migration takes that began with the process.
const schemaWait = time.Minute

// Database is where one service's tables are. OwnerURL, where it is set, may
// change the schema: the service is migrated by it before it opens URL.
type Database struct{ URL, OwnerURL string }

// UseDatabases gives services their own databases, by name, instead of the one in
// the configuration, before the first of them is built.
func (n *Node) UseDatabases(databases map[string]Database) { n.databases = databases }

// Pool waits for the version of a service's schema that its program needs, at
// most a minute, and returns a pool under the service's login.
func (n *Node) Pool(ctx context.Context, service string, maxConns int32) (*pgxpool.Pool, error) {
	tables, err := n.tables(service)
	if err != nil {
		return nil, err
	}
	database, given := n.databases[service]
	if !given {
		database.URL = n.cfg.DatabaseURL.Reveal()
	}
	if database.OwnerURL != "" {
		if err := tables.Migrate(ctx, database.OwnerURL); err != nil {
			return nil, fmt.Errorf("migrate %s: %w", tables.Schema, err)
		}
	}
	pool, err := pg.Open(ctx, pg.Config{
		URL: database.URL, Schema: tables.Schema, Role: tables.Role, MaxConns: maxConns, ApplicationName: service,
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", tables.Schema, err)
	}
	if err := tables.Await(ctx, pool, schemaWait, n.Log(service)); err != nil {
		pool.Close()
		return nil, err
	}
	n.OnClose(func() error { pool.Close(); return nil })
	return pool, nil
}

func (n *Node) tables(service string) (pg.Tables, error) {
	i := slices.IndexFunc(n.specs, func(s Spec) bool { return s.Name == service })
	if i < 0 || n.specs[i].Tables.Schema == "" {
		return pg.Tables{}, fmt.Errorf("%s keeps no tables here", service)
	}
	return n.specs[i].Tables, nil
}

// checkDatabase finds a server that anybody on the way to it could read or be.
func (c *Config) checkDatabase() []error {
	var faults []error
	for name, url := range map[string]config.Secret{
		"database_url (DATABASE_URL)": c.DatabaseURL, "database_owner_url (DATABASE_OWNER_URL)": c.DatabaseOwnerURL,
	} {
		if !url.IsSet() {
			continue
		}
		if err := pg.CheckURL(url.Reveal(), c.DatabaseAllowUnverified); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	return faults
}

// migrate brings the tables of a program's services to the version that it needs,
// under the owner's login, and says so on out.
func migrate(ctx context.Context, name string, program Program, out io.Writer) error {
	cfg := program.Process()
	if !cfg.DatabaseOwnerURL.IsSet() {
		return errors.New("database_owner_url (DATABASE_OWNER_URL) is missing: migrate works under the login of the schema's owner")
	}
	if err := errors.Join(cfg.checkDatabase()...); err != nil {
		return err
	}
	for _, spec := range program.Specs() {
		if spec.Tables.Schema == "" {
			return fmt.Errorf("%s keeps no tables", spec.Name)
		}
		if err := spec.Tables.Migrate(ctx, cfg.DatabaseOwnerURL.Reveal()); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s: schema %s has all versions of this program\n", name, spec.Tables.Schema); err != nil {
			return fmt.Errorf("say what was done: %w", err)
		}
	}
	return nil
}
