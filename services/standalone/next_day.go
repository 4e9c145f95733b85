package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"svc.internal/pkg/pg/devclock"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/standalone/demo"
)

// NextDay ends the day of a demo that runs in the data directory: its database, and its development chains, go on a
// quarter past the next midnight in UTC. It refuses a database that is not the demo's own. Programs keep the machine's
// time, and sign-ins that the database finds too old are made again.
func NextDay(ctx context.Context, dataDir string, out io.Writer) error {
	env, err := readEnvironment(dataDir)
	if err != nil {
		return err
	}
	now, err := ownTime(ctx, env["SVC_DATABASE_URL"], dataDir)
	if err != nil {
		return err
	}
	by := devclock.NextDay(now)
	if err := devclock.Install(ctx, env["SVC_DATABASE_URL"]); err != nil {
		return err
	}
	if _, err := devclock.Advance(ctx, env["SVC_DATABASE_URL"], by); err != nil {
		return err
	}
	for chain := range strings.SplitSeq(env["SVC_CHAIN_URLS"], ",") {
		_, url, ok := strings.Cut(chain, "=")
		if !ok {
			continue
		}
		if err := devchain.Ahead(ctx, url, by); err != nil {
			return fmt.Errorf("move the time of a development chain: %w", err)
		}
	}
	_, err = fmt.Fprintf(out, "  It is %s in the demo now. The batch of %s closes within a minute.\n",
		now.Add(by).UTC().Format("2006-01-02 15:04 UTC"), now.UTC().Format(time.DateOnly))
	return err
}

// readEnvironment returns the variables of the demo that runs in a data directory.
func readEnvironment(dataDir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, demoEnv))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no demo runs in %s: start it with make run", dataDir)
	}
	if err != nil {
		return nil, fmt.Errorf("read the demo's environment: %w", err)
	}
	return demo.ReadFile(text), nil
}

// OperatorCode writes the code by which the operator of the demo in the data directory signs in now.
func OperatorCode(dataDir string, out io.Writer) error {
	env, err := readEnvironment(dataDir)
	if err != nil {
		return err
	}
	if env["SVC_OPERATOR_SECRET"] == "" {
		return errors.New("the demo has no operator: its first one was made by somebody else")
	}
	code, left, err := demo.Code(env["SVC_OPERATOR_SECRET"], time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s  (for %s; a code counts once)\n", code, left.Round(time.Second))
	return err
}

// ownTime returns what time it is in the database of a data directory. Another database is refused.
func ownTime(ctx context.Context, url, dataDir string) (time.Time, error) {
	where, now, err := devclock.Where(ctx, url)
	if err != nil {
		return time.Time{}, fmt.Errorf("reach the demo's database: is the demo running? %w", err)
	}
	own, err := filepath.EvalSymlinks(filepath.Join(dataDir, "postgres"))
	if err == nil {
		own, err = filepath.Abs(own)
	}
	whole, err2 := filepath.EvalSymlinks(where)
	if err := errors.Join(err, err2); err != nil || !strings.HasPrefix(whole, own+string(filepath.Separator)) {
		return time.Time{}, errors.New("the database is not the demo's own, so its time stays: without DATABASE_URL," +
			" make run has one of its own")
	}
	return now, nil
}
