// Package pg connects the services to PostgreSQL. Open makes a pool bound to one schema
// and one least-privileged role, Migrate changes schemas, InTx is the one place where
// transactions are opened and retried, and IsUnique and its like recognise the errors
// that a store must distinguish.
//
// Application code runs as the application role, never as the owner of the tables, so the
// server refuses what no migration grants. The role is a start-up parameter of each
// connection, so RESET ROLE returns to it. That guards against mistakes and injected
// statements that stay within one statement. It is no guard against a client that can run
// arbitrary SQL; for that, the login itself must be restricted.
//
// The pool talks to the server directly. A pooler in transaction mode between the two
// refuses or forgets start-up parameters and is not supported.
package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	defaultStatementTimeout = 10 * time.Second
	defaultMaxConns         = 10
	// dialTimeout bounds the way to a server, and connectTimeout all until the server is ready for
	// statements, when the URL names no connect_timeout. A server that is short of time may take seconds to
	// make a process for a connection. Who gives up before has it make another one for the next try.
	dialTimeout    = 5 * time.Second
	connectTimeout = 20 * time.Second
	// keepAlive is the pause between two probes of an idle connection, as the driver has it.
	keepAlive = 5 * time.Minute
	// idleInTransaction ends a transaction whose client vanished, so that its locks do
	// not outlive the client by the TCP keep-alive time.
	idleInTransaction = time.Minute
	maxConnLifetime   = time.Hour
)

// Config is how a service reaches its database.
type Config struct {
	// URL is a postgres:// URL or key=value string. It usually holds a
	// password: it is never logged and never part of an error.
	URL string
	// Schema is the service's own schema; unqualified names resolve there.
	Schema string
	// Role, when set, is the role that every statement runs as.
	Role string
	// MaxConns bounds the pool; 0 means 10.
	MaxConns int32
	// StatementTimeout bounds each statement on the server; 0 means 10 s.
	StatementTimeout time.Duration
	// ApplicationName is shown in pg_stat_activity.
	ApplicationName string
}

// String describes the configuration without the URL.
func (c Config) String() string {
	return fmt.Sprintf("schema=%s role=%s max_conns=%d application_name=%s",
		c.Schema, c.Role, c.MaxConns, c.ApplicationName)
}

// GoString keeps the URL out of %#v too.
func (c Config) GoString() string { return c.String() }

// Open returns a pool whose connections have the schema, role, timeouts and time zone of
// cfg, after one successful round trip. The server compiles no statement of theirs.
// IsUnavailable reports whether a failure is worth another try. Timestamps are scanned in
// UTC. Off loopback a login is refused that is a superuser or may change the schema.
func Open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	pc, err := cfg.poolConfig()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	if offLoopback(pc.ConnConfig) {
		if err := checkLogin(ctx, pool, cfg.Schema); err != nil {
			pool.Close()
			return nil, err
		}
	}
	return pool, nil
}

func (c Config) poolConfig() (*pgxpool.Config, error) {
	if err := checkName("schema", c.Schema); err != nil {
		return nil, err
	}
	if c.Role != "" {
		if err := checkName("role", c.Role); err != nil {
			return nil, err
		}
	}
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, errBadURL
	}
	timeout := c.StatementTimeout
	if timeout <= 0 {
		timeout = defaultStatementTimeout
	}
	sessionDefaults(pc.ConnConfig, c.Schema, timeout)
	params := pc.ConnConfig.RuntimeParams
	params["idle_in_transaction_session_timeout"] = millis(idleInTransaction)
	if c.Role != "" {
		params["role"] = c.Role
	}
	if c.ApplicationName != "" {
		params["application_name"] = c.ApplicationName
	}
	pc.MaxConns = c.MaxConns
	if pc.MaxConns <= 0 {
		pc.MaxConns = defaultMaxConns
	}
	pc.MaxConnLifetime = maxConnLifetime
	pc.MaxConnLifetimeJitter = maxConnLifetime / 10
	pc.AfterConnect = setTypes
	pc.ShouldPing = mustPing
	return pc, nil
}

// errBadURL replaces every parse failure, because the driver's own error quotes the URL.
var errBadURL = errors.New("database URL is not a valid PostgreSQL connection string")

func parseURL(url string) (*pgx.ConnConfig, error) {
	cc, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errBadURL
	}
	return cc, nil
}

func sessionDefaults(cc *pgx.ConnConfig, schema string, statementTimeout time.Duration) {
	boundConnect(cc)
	cc.RuntimeParams["search_path"] = quoteName(schema)
	cc.RuntimeParams["TimeZone"] = "UTC"
	cc.RuntimeParams["statement_timeout"] = millis(statementTimeout)
	// The planner believes that some of the short statements are long, because tables and
	// partitions that are new or empty have no statistics. Compiling such a statement takes
	// longer than running it, and leaves the compiler in the server process, 24 MiB of memory
	// for each connection.
	cc.RuntimeParams["jit"] = "off"
	// Partitions are pruned by their bounds. To rule them out by their CHECKs, too, the server
	// would read each CHECK of each partition whenever it plans.
	cc.RuntimeParams["constraint_exclusion"] = "off"
}

// boundConnect bounds how long a connection takes to make, unless the URL does.
func boundConnect(cc *pgx.ConnConfig) {
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTimeout
		cc.DialFunc = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext
	}
}

// millis renders d for a server setting in milliseconds. It rounds a positive d below one
// up, because 0 would switch the limit off.
func millis(d time.Duration) string {
	return strconv.FormatInt((d + time.Millisecond - 1).Milliseconds(), 10)
}

// setTypes gives a connection the types that it encodes and scans in our own way.
func setTypes(_ context.Context, conn *pgx.Conn) error {
	registerArrays(conn.TypeMap())
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name:  "timestamptz",
		OID:   pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return nil
}

// namePattern is stricter than PostgreSQL: it refuses names that need quoting in some
// places, instead of handling them.
var namePattern = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func checkName(what, name string) error {
	if !namePattern.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("%s name %q: want 1 to 63 of a-z, 0-9 and _, not starting with a digit or pg_", what, name)
	}
	return nil
}

func quoteName(name string) string { return pgx.Identifier{name}.Sanitize() }
