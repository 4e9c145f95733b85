package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
)

// Tables are the tables of a service in PostgreSQL: those of package pg, for a package
// that links no driver.
type Tables interface {
	SchemaName() string
	// Migrate brings the tables to the newest version, under the owner's login.
	Migrate(ctx context.Context, url string) error
	// CheckURL refuses a server whose connection others could read or answer.
	CheckURL(url string, allowUnverified bool) error
	// Fault returns the fault that an error of the server means to a caller, for example a
	// lost connection, and nil for every other error.
	Fault(err error) *fault.Fault
}

// classifiers find the faults in the errors of services with tables.
func classifiers(specs []Spec) []serve.Classify {
	keeper := slices.IndexFunc(specs, keepsTables)
	if keeper < 0 {
		return nil
	}
	// One driver serves all services of a process.
	return []serve.Classify{specs[keeper].Tables.Fault}
}

func keepsTables(s Spec) bool { return s.Tables != nil }

// Database is where one service's tables are. OwnerURL, where it is set, may change the
// schema: the service is migrated under it before it opens URL.
type Database struct{ URL, OwnerURL string }

// UseDatabases gives services their own databases, by name, instead of the one in
// the configuration, before the first of them is built.
func (n *Node) UseDatabases(databases map[string]Database) { n.databases = databases }

// Database returns where the tables of a service are.
func (n *Node) Database(service string) Database {
	if database, given := n.databases[service]; given {
		return database
	}
	return Database{URL: n.cfg.DatabaseURL.Reveal()}
}

// checkDatabase returns an error for a server whose connection others could read or
// answer. A process without tables connects to none, so its URLs are not checked.
func (c *Config) checkDatabase(specs []Spec) []error {
	keeper := slices.IndexFunc(specs, keepsTables)
	if keeper < 0 {
		return nil
	}
	var faults []error
	for name, url := range map[string]config.Secret{
		"database_url (DATABASE_URL)": c.DatabaseURL, "database_owner_url (DATABASE_OWNER_URL)": c.DatabaseOwnerURL,
	} {
		if !url.IsSet() {
			continue
		}
		if err := specs[keeper].Tables.CheckURL(url.Reveal(), c.DatabaseAllowUnverified); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	return faults
}

// toolSettings are the settings of a tool that works on the tables of a service, by the names and in
// the forms that the service has.
type toolSettings struct {
	DatabaseURL             config.Secret `env:"DATABASE_URL"`
	DatabaseAllowUnverified bool          `env:"SVC_DATABASE_ALLOW_UNVERIFIED"`
}

// ToolDatabaseURL returns the URL of the database that environ gives to a tool. environ has the form
// of os.Environ. Like a service, a tool refuses a server whose connection others could read or answer.
func ToolDatabaseURL(tables Tables, environ []string) (string, error) {
	settings, err := config.Load[toolSettings](environ)
	if err != nil {
		return "", err
	}
	if !settings.DatabaseURL.IsSet() {
		return "", errors.New("DATABASE_URL is not set")
	}
	url := settings.DatabaseURL.Reveal()
	if err := tables.CheckURL(url, settings.DatabaseAllowUnverified); err != nil {
		return "", fmt.Errorf("DATABASE_URL: %w", err)
	}
	return url, nil
}

// migrate brings the tables of a program's services to the version that the program
// needs, under the owner's login, and says so on out.
func migrate(ctx context.Context, name string, program Program, out io.Writer) error {
	cfg := program.Process()
	if !cfg.DatabaseOwnerURL.IsSet() {
		return errors.New(
			"database_owner_url (DATABASE_OWNER_URL) is missing: migrate works under the login of the schema's owner")
	}
	if err := errors.Join(cfg.checkDatabase(program.Specs())...); err != nil {
		return err
	}
	for _, spec := range program.Specs() {
		if spec.Tables == nil {
			return fmt.Errorf("%s keeps no tables", spec.Name)
		}
		if err := spec.Tables.Migrate(ctx, cfg.DatabaseOwnerURL.Reveal()); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s: schema %s has all versions of this program\n", name,
			spec.Tables.SchemaName()); err != nil {
			return fmt.Errorf("say what was done: %w", err)
		}
	}
	return nil
}
