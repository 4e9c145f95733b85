package pg

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // for the text of the logins
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/clock"
)

// Access is how a service and its migrations reach the service's tables, each by a login
// of its own.
type Access struct {
	Tables
	// Suffix separates the logins of one deployment from those of another on the same
	// server; it may be empty.
	Suffix string
	// Password is the password of Login, and OwnerPassword that of OwnerLogin.
	Password, OwnerPassword string
}

// Login returns the login that may use the tables, and nothing else.
func (a Access) Login() string { return a.Role + "_login" + a.Suffix }

// OwnerLogin returns the login that may change the schema; migrations run under it.
func (a Access) OwnerLogin() string { return a.Role + "_migrate" + a.Suffix }

// URL returns how the service reaches the server of an administrator's URL, and OwnerURL
// how its migrations do. Both hold a password.
func (a Access) URL(admin string) string { return withLogin(admin, a.Login(), a.Password) }

// OwnerURL is described at URL.
func (a Access) OwnerURL(admin string) string {
	return withLogin(admin, a.OwnerLogin(), a.OwnerPassword)
}

func withLogin(admin, login, password string) string {
	u, err := url.Parse(admin)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		// In a key=value string the last value counts.
		return admin + " user=" + login + " password='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password) + "'"
	}
	u.User = url.UserPassword(login, password)
	q := u.Query()
	q.Del("user")
	q.Del("password")
	u.RawQuery = q.Encode()
	return u.String()
}

// loginsText makes the roles, the logins and the schema of one service, for each
// that is missing, and gives its owner what somebody else owns in the schema.
//
//go:embed logins.sql
var loginsText string

// LoginsSQL returns the statement that an administrator runs in the database of the
// tables, any number of times. It sets no passwords.
func (a Access) LoginsSQL() string {
	return strings.NewReplacer(
		":schemas", textArray(append([]string{a.Schema}, a.More...)), ":role", quoteLiteral(a.Role), ":owner",
		quoteLiteral(a.Owner()),
		":login", quoteLiteral(a.Login()), ":migrate", quoteLiteral(a.OwnerLogin()),
		":extensions", textArray(a.Extensions),
	).Replace(loginsText)
}

func textArray(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quoteLiteral(name)
	}
	return "ARRAY[" + strings.Join(quoted, ", ") + "]::text[]"
}

// MayProvision reports whether the login of url may make logins.
func MayProvision(ctx context.Context, url string) (bool, error) {
	conn, err := connectAdmin(ctx, url)
	if err != nil {
		return false, err
	}
	defer closeConn(ctx, conn)
	var may bool
	if err := conn.QueryRow(ctx, `SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user`).Scan(
		&may); err != nil {
		return false, fmt.Errorf("look at the login: %w", err)
	}
	return may, nil
}

// Provision makes, as the administrator of url, what is missing for each access, and sets
// the passwords. Several processes may call it at once, and again. The administrator need
// not be a superuser, and off loopback must not be.
func Provision(ctx context.Context, url string, all ...Access) error {
	for _, a := range all {
		for what, name := range map[string]string{"schema": a.Schema, "role": a.Role, "login": a.Login(),
			"owner's login": a.OwnerLogin()} {
			if err := checkName(what, name); err != nil {
				return err
			}
		}
	}
	conn, err := connectAdmin(ctx, url)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	if err := lockSchema(ctx, conn, "logins"); err != nil {
		return fmt.Errorf("wait for who makes logins: %w", err)
	}
	for _, a := range all {
		if err := provision(ctx, conn, a); err != nil {
			return fmt.Errorf("make the logins of schema %s: %w", a.Schema, err)
		}
	}
	return nil
}

func connectAdmin(ctx context.Context, url string) (*pgx.Conn, error) {
	cc, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	boundConnect(cc)
	cc.RuntimeParams["application_name"] = "logins"
	cc.RuntimeParams["lock_timeout"] = millis(migrationLockTimeout)
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, fmt.Errorf("connect to make logins: %w", err)
	}
	if offLoopback(cc) {
		if err := refuseSuperuser(ctx, conn); err != nil {
			closeConn(ctx, conn)
			return nil, err
		}
	}
	return conn, nil
}

// provision tries again after another database's provision of the same roles made it
// fail, because roles belong to the whole server.
func provision(ctx context.Context, conn *pgx.Conn, a Access) error {
	statements := []string{
		a.LoginsSQL(),
		"ALTER ROLE " + quoteName(a.Login()) + " PASSWORD " + quoteLiteral(Verifier(a.Password, scramRounds)),
		"ALTER ROLE " + quoteName(a.OwnerLogin()) + " PASSWORD " + quoteLiteral(Verifier(a.OwnerPassword, scramRounds)),
	}
	for _, statement := range statements {
		for try := 1; ; try++ {
			_, err := conn.Exec(ctx, statement)
			if err == nil {
				break
			}
			if !lostSetupRace(err) || try == setupTries || clock.Sleep(ctx, fullJitter(retryBase, retryCap, try)) != nil {
				return err
			}
		}
	}
	return nil
}

// scramRounds is PostgreSQL's own default.
const scramRounds = 4096

// Verifier returns what the server keeps of a password (RFC 5803) after so many rounds of
// hashing, so that no statement, and so no server's log, has the password itself.
func Verifier(password string, rounds int) string {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // it never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		panic(err) // the lengths above are allowed
	}
	sign := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		_, _ = h.Write([]byte(text)) // a hash never fails to write
		return h.Sum(nil)
	}
	client := sha256.Sum256(sign(salted, "Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", rounds, text(salt), text(client[:]), text(sign(salted, "Server Key")))
}

func quoteLiteral(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
