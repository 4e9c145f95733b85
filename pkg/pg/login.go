package pg

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// CheckURL returns an error when the connection to a server off loopback could be read or
// answered by others. Each host of the URL needs sslmode=verify-full, unless
// allowUnverified is set.
func CheckURL(url string, allowUnverified bool) error {
	cc, err := parseURL(url)
	if err != nil {
		return err
	}
	if allowUnverified {
		return nil
	}
	for _, at := range hosts(cc) {
		if !isLocal(at.host) && !at.verified {
			return fmt.Errorf(
				"the server %s is not on loopback: set sslmode=verify-full (and sslrootcert), "+
					"or SVC_DATABASE_ALLOW_UNVERIFIED=true to allow less", at.host)
		}
	}
	return nil
}

// OnLoopback reports whether every host of a pool's URL is on this machine.
func OnLoopback(pool *pgxpool.Pool) bool { return !offLoopback(pool.Config().ConnConfig) }

type endpoint struct {
	host     string
	verified bool
}

// hosts returns the hosts that a connection tries, one after another, with each
// encryption that the sslmode allows.
func hosts(cc *pgx.ConnConfig) []endpoint {
	all := []endpoint{{cc.Host, verified(cc.TLSConfig)}}
	for _, f := range cc.Fallbacks {
		all = append(all, endpoint{f.Host, verified(f.TLSConfig)})
	}
	return all
}

// verified reports whether the server's certificate must match its name. With verify-ca
// and below, the driver does not check the name.
func verified(c *tls.Config) bool { return c != nil && !c.InsecureSkipVerify }

func isLocal(host string) bool {
	if host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return true // a socket in a folder
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func offLoopback(cc *pgx.ConnConfig) bool {
	for _, at := range hosts(cc) {
		if !isLocal(at.host) {
			return true
		}
	}
	return false
}

// Errors of logins with too many privileges.
var (
	errSuperuser = errors.New(
		"the login is a superuser, which is refused off loopback: make logins for the services (deploy/postgres/logins.sql)")
	errMayChange = errors.New(
		"the login may change the schema, which is refused off loopback to a service: give the service a login of its own " +
			"(deploy/postgres/logins.sql)")
)

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// refuseSuperuser looks at the login, and not at the role that it works as.
func refuseSuperuser(ctx context.Context, db querier) error {
	var super bool
	if err := db.QueryRow(ctx, `SELECT rolsuper FROM pg_roles WHERE rolname = session_user`).Scan(&super); err != nil {
		return fmt.Errorf("look at the login: %w", err)
	}
	if super {
		return errSuperuser
	}
	return nil
}

// checkLogin refuses a service's login that may do more than use the service's tables.
func checkLogin(ctx context.Context, db querier, schema string) error {
	if err := refuseSuperuser(ctx, db); err != nil {
		return err
	}
	var may bool
	if err := db.QueryRow(ctx,
		`SELECT r.rolcreaterole OR coalesce(has_schema_privilege(r.oid, to_regnamespace($1)::oid, 'CREATE'), false)
		FROM pg_roles r WHERE rolname = session_user`, quoteName(schema)).Scan(&may); err != nil {
		return fmt.Errorf("look at the login: %w", err)
	}
	if may {
		return errMayChange
	}
	return nil
}
