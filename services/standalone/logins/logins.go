// Package logins gives each service that keeps tables two logins of its own in
// PostgreSQL: a login that uses its tables, and a login that owns them, for migrations.
// No login reaches the tables of another service.
//
// Where this process is no administrator, a platform team runs SQL, which is
// deploy/postgres/logins.sql.
package logins

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
	billingledger "svc.internal/services/billing-ledger"
	catalog "svc.internal/services/catalog"
	providerhub "svc.internal/services/provider-hub"
	signertables "svc.internal/services/settlement/signer/tables"
	settlementtables "svc.internal/services/settlement/tables"
	"svc.internal/services/standalone/localdata"
	verifier "svc.internal/services/verifier"
)

// Services are the services that keep tables, in the order in which they start.
func Services() []string {
	return []string{node.Catalog, node.BillingLedger, node.ChainSigner, node.Settlement, node.ProviderHub,
		node.Verifier}
}

// Keeps reports whether a service keeps tables.
func Keeps(service string) bool { return slices.Contains(Services(), service) }

func tables(service string) pg.Tables {
	switch service {
	case node.Catalog:
		return catalog.Tables()
	case node.BillingLedger:
		return billingledger.Tables()
	case node.ChainSigner:
		return signertables.Tables()
	case node.Settlement:
		return settlementtables.Tables()
	case node.ProviderHub:
		return providerhub.Tables()
	case node.Verifier:
		return verifier.Tables()
	default:
		return pg.Tables{}
	}
}

// Make makes the missing logins in the database at the administrator's URL, with
// passwords that are kept in dir, and returns the services' databases. Tables that an
// earlier release made under the administrator's login are given to the owners.
func Make(
	ctx context.Context, dir *localdata.Dir, admin, suffix string, services []string,
) (map[string]node.Database, error) {
	made := map[string]node.Database{}
	var all []pg.Access
	for _, service := range services {
		access := pg.Access{Tables: tables(service), Suffix: suffix}
		var err error
		if access.Password, err = dir.DatabasePassword(access.Login()); err != nil {
			return nil, err
		}
		if access.OwnerPassword, err = dir.DatabasePassword(access.OwnerLogin()); err != nil {
			return nil, err
		}
		all = append(all, access)
		made[service] = node.Database{URL: access.URL(admin), OwnerURL: access.OwnerURL(admin)}
	}
	if err := pg.Provision(ctx, admin, all...); err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return made, nil
}

// Migrate brings the tables of services to the newest version, in the databases that Make
// returned.
func Migrate(ctx context.Context, databases map[string]node.Database) error {
	for service, database := range databases {
		if err := tables(service).Migrate(ctx, database.OwnerURL); err != nil {
			return fmt.Errorf("%s: %w", service, err)
		}
	}
	return nil
}

// SQL is the text that a platform team runs.
func SQL() string {
	var b strings.Builder
	b.WriteString(head)
	for _, service := range Services() {
		fmt.Fprintf(&b, "\n-- %s\n%s", service, pg.Access{Tables: tables(service)}.LoginsSQL())
	}
	return b.String()
}

const head = `-- The roles, logins and schemas of the marketplace's services. Run it as a user
-- who may create roles and owns the database, in that database:
--
--   psql -v ON_ERROR_STOP=1 -d marketplace -f deploy/postgres/logins.sql
--
-- It makes what is missing and may be run again. Then give each login a password
-- (\password svc_billing_login, ...). Per schema there are
--   svc_*          a role that may use the tables; migrations grant it what the service needs,
--   svc_*_owner    a role that owns them,
--   svc_*_login    the service's login, a member of the first: DATABASE_URL,
--   svc_*_migrate  the migrations' login, a member of the second: DATABASE_OWNER_URL.
-- Roles belong to the whole server: a login of another deployment there is a member
-- of the same roles. So CONNECT and TEMPORARY on the database are taken from PUBLIC,
-- and CONNECT is given to these logins. Superusers and the database's owner connect
-- as before; GRANT CONNECT ON DATABASE ... to whoever else must, as a monitor.
-- A further login in the same role is how a password is changed without a pause; it
-- needs CONNECT, too.
--
-- This text is written by services/standalone/logins, whose tests hold it.
`
