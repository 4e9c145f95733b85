package verification

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/crash/crashtest"
	"svc.internal/services/proving/internal/cheat"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// points are the named steps of the verifier at which it is killed.
var points = []string{
	"verifier.calibration.before_commit", "verifier.calibration.committed",
	"verifier.effect.called", "verifier.effect.done", "verifier.effect.taken",
	"verifier.event.before_commit", "verifier.event.committed",
	"verifier.hour.before_commit", "verifier.hour.committed",
	"verifier.probe.answered", "verifier.probe.scored", "verifier.probe.taken",
	"verifier.run.before_step", "verifier.run.begun", "verifier.run.stepped",
}

// ofPenalty are the points that the effect of a penalty passes once more.
var ofPenalty = []string{"verifier.effect.taken", "verifier.effect.called", "verifier.effect.done"}

// killed is a cheat that is followed to its penalty while the verifier is killed at every
// point.
var killed = scheme{name: "killed", model: "lab/killed", penalized: true,
	leads:  []string{"greedy", "sampled", "logprobs"},
	engine: func(t testing.TB, seed uint64) http.Handler { return recalls(t, cheat.FourBit(seed)) }}

func TestAVerifierThatIsKilledAtEveryPointLosesNothing(t *testing.T) {
	list := chosen(t, killed)
	k := newKiller(t)
	l := prepare(t, modelsOf(list)...)
	l.killed = true
	l.m = trial.StartFleet(t, k.fleet(t, l))
	k.market = l
	t.Cleanup(k.working.Wait)
	k.arm(t, points...)
	l.furnish(t)
	s := fill(t, l, list)
	s.find(t)
	c := s.cheaters[0]
	s.until(t, "the cheat is at confirm", func() bool { return s.at(t, c).reached("confirm") })
	k.wait(t)
	k.arm(t, ofPenalty...)
	s.penalty(t, c)
	k.wait(t)
	t.Run("nothing is lost and nothing is there twice", s.checkOnce)
	t.Run("replay", s.checkReplay)
	s.mark(t, "%d kills", k.kills)
}

// killer kills the only verifier of a fleet at each point that is armed, and starts it again.
type killer struct {
	points *crashtest.Controller
	market *laboratory
	// working ends with the kills of all points that were armed.
	working sync.WaitGroup
	mu      sync.Mutex
	kills   int
}

func newKiller(t *testing.T) *killer {
	t.Helper()
	c, err := crashtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &killer{points: c}
}

// fleet configures a marketplace whose verifier stands still at points.
func (k *killer) fleet(t *testing.T, l *laboratory) func(*fleet.Config) {
	t.Helper()
	bin := trial.Programs(t, "crashpoints")
	return func(c *fleet.Config) {
		c.BinDir, c.DatabaseURL, c.Environ = bin, l.url, []string{crash.EnvSocket + "=" + k.points.Socket()}
		c.Replicas = map[string]int{fleet.Agent: 0, fleet.Engine: 0}
		for _, service := range fleet.Services() {
			c.Replicas[service] = 1
		}
		c.Settings = map[string]map[string]any{
			fleet.Hub:        {"hub": map[string]any{"development_collateral": true}},
			fleet.Settlement: {"settlement": map[string]any{"development_collateral": true}},
			fleet.Verifier: {"verifier": map[string]any{
				"sealed": l.sealed(), "probes": true, "benchmarks_waived": false, "haste": haste,
			}},
		}
	}
}

// arm has the verifier killed when it first reaches each of the points from now on.
func (k *killer) arm(t *testing.T, list ...string) {
	t.Helper()
	for _, point := range list {
		stand := k.points.Arm(point, 1)
		k.working.Go(func() {
			defer stand.Release()
			select {
			case pid := <-stand.Reached():
				k.kill(t, point, pid)
			case <-t.Context().Done():
				t.Logf("nobody came to %s", point)
			}
		})
	}
}

// kill kills the process that stands at a point and starts the verifier again. Of several
// points at which one process stands, the first kills it.
func (k *killer) kill(t *testing.T, point string, pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.market.m.Fleet()
	name := f.Replicas(fleet.Verifier)[0]
	if f.Pid(name) != pid {
		return
	}
	k.kills++
	t.Logf("killed at %s", point)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.Kill(name); err != nil {
		t.Error(err)
		return
	}
	k.market.expire(t)
	if err := f.Start(ctx, name); err != nil {
		t.Error(err)
	}
}

// wait waits until the verifier was killed at every point that was armed.
func (k *killer) wait(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.working.Wait()
	}()
	k.market.until(t, "the verifier was killed at every point", func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
}

// expire ends the leases of a verifier that is dead, which would be over in minutes.
func (l *laboratory) expire(t testing.TB) {
	for _, sql := range []string{
		`UPDATE verifier.probe SET leased_until = pg_catalog.machine_timestamp() WHERE state = 'leased'`,
		`UPDATE verifier.effect SET leased_until = pg_catalog.machine_timestamp() WHERE leased_until IS NOT NULL`,
		`UPDATE verifier.benchmark_run SET next_at = pg_catalog.machine_timestamp() WHERE state = 'running'`,
	} {
		if err := l.quietly(sql); err != nil {
			t.Errorf("end the leases of a dead verifier: %v", err)
		}
	}
}

// quietly runs a statement as the owner with triggers off.
func (l *laboratory) quietly(sql string) error {
	ctx := context.Background()
	tx, err := l.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for _, s := range []string{`SET LOCAL session_replication_role = replica`, sql} {
		if _, err := tx.Exec(ctx, s); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// checkOnce checks that every probe has one end, every event one place in its chain, and every
// verdict one effect of each kind.
func (s *stage) checkOnce(t *testing.T) {
	s.until(t, "every probe that was due has its end", func() bool { return s.due(t) == 0 })
	for what, sql := range map[string]string{
		"probes that are done without an event": `SELECT count(*) FROM verifier.probe p WHERE state = 'done'
			AND purpose = 'evidence' AND NOT EXISTS (SELECT FROM verifier.event e WHERE e.probe_id = p.probe_id)`,
		"events of probes that are not done": `SELECT count(*) FROM verifier.event JOIN verifier.probe p USING (probe_id)
			WHERE p.state <> 'done'`,
		"observations without the event of their probe": `SELECT count(*) FROM verifier.observation o
			WHERE NOT EXISTS (SELECT FROM verifier.event e WHERE e.probe_id = o.probe_id)`,
		"offers whose events are not numbered from 1 to their standing's": `SELECT count(*) FROM verifier.standing s
			WHERE s.number <> (SELECT count(*) FROM verifier.event e
				WHERE e.provider_id = s.provider_id AND e.model_id = s.model_id)`,
		"events without evidence": `SELECT count(*) FROM verifier.event e WHERE NOT EXISTS (SELECT FROM verifier.evidence v
			WHERE v.provider_id = e.provider_id AND v.model_id = e.model_id AND v.number = e.number)`,
		"verdicts that one event brought twice": `SELECT count(*) FROM (SELECT FROM verifier.verdict
			GROUP BY provider_id, model_id, number, kind, cause HAVING count(*) > 1) AS twice`,
		"effects that are not done":  `SELECT count(*) FROM verifier.effect WHERE state <> 'done'`,
		"penalties beside the first": `SELECT count(*) - 1 FROM settlement.penalty`,
		"calibrations of a family beside the first": `SELECT count(*) FROM (SELECT FROM verifier.calibration
			GROUP BY stratum, family HAVING count(*) > 1) AS twice`,
		"benchmark runs that stand still": `SELECT count(*) FROM verifier.benchmark_run WHERE state = 'running'`,
	} {
		if got := count(t, s.db, sql); got != 0 {
			t.Errorf("%s: got %d, want 0", what, got)
		}
	}
	if got := count(t, s.db, `SELECT count(*) FROM verifier.verdict WHERE cause = 'convict'`); got != 1 {
		t.Errorf("verdicts that convict: got %d, want 1", got)
	}
}

// mark finds points in source text.
var mark = regexp.MustCompile(`crash\.At\("(verifier\.[^"]*)"\)`)

func TestTheListHasEveryPointOfTheVerifierOnce(t *testing.T) {
	var found []string
	err := filepath.WalkDir("../../../verifier", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range mark.FindAllSubmatch(text, -1) {
			found = append(found, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if !slices.Equal(found, points) {
		t.Errorf("points of the tree: got %q, want %q", found, points)
	}
}
