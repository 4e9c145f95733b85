package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc.internal/services/proving/internal/auditor"
	"svc.internal/services/proving/internal/chaos/record"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/store"
)

const (
	// idleBound is how long the fleet may take to become idle, and idleSteady how often
	// in a row it must be seen idle.
	idleBound = 3 * time.Minute
	// plantedBound is the same bound for a fleet with a planted fault, which may never be
	// idle: longer than a lease and a review.
	plantedBound = 40 * time.Second
	idleSteady   = 4
	// maxMetrics bounds what is read of a hub's metrics, in bytes.
	maxMetrics = 4 << 20
)

// settle waits until the fleet is idle. Nothing happens to it any more.
func (r *run) settle(ctx context.Context) error {
	began := time.Now()
	if err := r.market.restore(ctx, r.market.fleet.Names()); err != nil {
		r.report.Faulty = append(r.report.Faulty, "the fleet is not ready after the last fault: "+err.Error())
	}
	err := r.idle(ctx)
	r.report.Idle = time.Since(began)
	r.report.note(r.market.cardsBooked(ctx))
	if r.market.paying != nil {
		r.report.note(r.market.until(ctx, "collateral is paid back", r.market.books.Refunding))
	}
	return err
}

// idle waits until the fleet is idle. It never is if a bound passes, which is in the report.
func (r *run) idle(ctx context.Context) error {
	r.tell("waiting until the fleet is idle", "", "")
	bound := idleBound
	if r.cfg.Plant != "" {
		bound = plantedBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	ticker := time.NewTicker(idleInterval)
	defer ticker.Stop()
	last := ""
	for steady := 0; steady < idleSteady; {
		left, err := r.market.left(ctx)
		switch {
		case ctx.Err() != nil: // the last look counts
		case err != nil:
			steady, last = 0, err.Error()
		case left != "":
			steady, last = 0, left
		default:
			steady++
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			r.report.Faulty = append(r.report.Faulty, fmt.Sprintf("the fleet is not idle after %v: %s", bound, last))
			steady = idleSteady
		}
	}
	return nil
}

// left says what has yet to happen; empty for an idle fleet.
func (m *market) left(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var waiting []string
	for _, name := range m.fleet.Replicas(fleet.Hub) {
		values, err := m.gauges(ctx, name)
		if err != nil {
			return "", err
		}
		for metric, value := range values {
			if value != 0 {
				waiting = append(waiting, fmt.Sprintf("%s of %s is %v", metric, name, value))
			}
		}
	}
	left, err := m.books.Left(ctx)
	if err != nil {
		return "", err
	}
	if !left.None() {
		waiting = append(waiting, describe(left))
	}
	slices.Sort(waiting)
	return strings.Join(waiting, ", "), nil
}

func describe(l store.Left) string {
	return fmt.Sprintf("%d holds open, %d reviews under way, %d requests not told alike, %d charged for more than came, "+
		"%d slices left", l.Holds, l.Reviews, l.Unbalanced, l.Overcharged, l.Slices)
}

// unsettled matches a hub's gauge of usage that waits.
var unsettled = regexp.MustCompile(`(?m)^(svc_provider_hub_unsettled(?:\{[^}]*\})?) (\S+)$`)

func (m *market) gauges(ctx context.Context, hub string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.fleet.AdminURL(hub)+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s for unsettled usage: %w", hub, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s for unsettled usage: %w", hub, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return nil, fmt.Errorf("ask %s for unsettled usage: %w", hub, err)
	}
	values := map[string]float64{}
	for _, match := range unsettled.FindAllSubmatch(text, -1) {
		value, err := strconv.ParseFloat(string(match[2]), 64)
		if err != nil {
			return nil, fmt.Errorf("ask %s for unsettled usage: %w", hub, err)
		}
		values[string(match[1])] = value
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%s does not report unsettled usage", hub)
	}
	return values, nil
}

// judge writes the files and has the auditor read them.
func (r *run) judge(ctx context.Context) error {
	r.tell("auditing", "", "")
	m := r.market
	if err := m.unmoved(ctx); err != nil {
		return err
	}
	r.report.take(r.watch, m.fleet.Exits())
	r.report.Forged, r.report.Reorged = m.intrusions.counts, m.reorgs.Load()
	r.report.Faulty = append(r.report.Faulty, m.intrusions.wrong...)
	if err := r.export(ctx); err != nil {
		return err
	}
	// Engines may still be recording answers that nobody waits for.
	var errs []error
	for _, e := range m.engines {
		errs = append(errs, e.Stop(ctx))
	}
	m.engines = nil
	if err := errors.Join(append(errs, m.clients.Close(), m.served.Close())...); err != nil {
		return err
	}
	if m.paying != nil {
		if err := m.exportChains(ctx, m.path(record.ChainsFile)); err != nil {
			return err
		}
	}
	report, err := audit(m.path, m.paying != nil)
	if err != nil {
		// A file that cannot be read is no verdict in the marketplace's favour.
		r.report.Faulty = append(r.report.Faulty, "the auditor: "+err.Error())
		return nil
	}
	r.report.Audit = report
	return nil
}

// export writes the ledger with billing-ledger's own program, and settlement's lines. The
// program cannot sort a ledger without its primary key.
func (r *run) export(ctx context.Context) error {
	m := r.market
	if r.cfg.Plant != "" {
		if err := m.dump(ctx, "billing", record.LedgerFile); err != nil {
			return err
		}
		return m.dump(ctx, "settlement", record.SettlementFile)
	}
	ledger := filepath.Join(m.bin, fleet.Billing)
	export := exec.CommandContext(ctx, ledger, "export", "-out", m.path(record.LedgerFile)) //nolint:gosec // ours
	export.Env = append(os.Environ(), "DATABASE_URL="+m.fleet.DatabaseURL())
	if out, err := export.CombinedOutput(); err != nil {
		return fmt.Errorf("billing-ledger export: %w: %s", err, out)
	}
	return m.dump(ctx, "settlement", record.SettlementFile)
}

// dump writes a schema out as it is.
func (m *market) dump(ctx context.Context, schema, name string) error {
	file, err := os.OpenFile(m.path(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("export %s: %w", schema, err)
	}
	if err := errors.Join(m.books.Dump(ctx, schema, file), file.Close()); err != nil {
		return fmt.Errorf("export %s: %w", schema, err)
	}
	return nil
}

// audit judges the files of a run, with what its chain says if there is one.
func audit(path func(string) string, chain bool) (*auditor.Report, error) {
	names := []string{record.LedgerFile, record.SettlementFile, record.ClientsFile, record.EnginesFile, record.SetupFile}
	if chain {
		names = append(names, record.ChainsFile)
	}
	files := make([]*os.File, len(names))
	for i, name := range names {
		file, err := os.Open(path(name))
		if err != nil {
			return nil, err
		}
		defer file.Close()
		files[i] = file
	}
	in := auditor.Inputs{Export: files[0], Earnings: files[1], Clients: files[2], Engines: files[3], Setup: files[4]}
	if chain {
		in.Chains = files[5]
	}
	return auditor.Audit(in, auditor.Options{Skew: auditSkew})
}

// auditSkew is the longest time of a transaction here, where databases are made to stand
// still.
const auditSkew = 30 * time.Second
