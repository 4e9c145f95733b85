package verification

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc.internal/services/proving/internal/cheat"
	"svc.internal/services/proving/internal/trial"
)

// EnvCheats lists the names of the schemes to run, separated by commas, or is all.
const EnvCheats = "SVC_E2E_CHEATS"

// cheater is a scheme that runs.
type cheater struct {
	scheme
	*seat
	engine *cheat.Engine
}

// stage is a laboratory with an honest provider of all models, and a cheater of each.
type stage struct {
	*laboratory
	good     *seat
	cheaters []*cheater
	began    time.Time
}

// setUp fills a stage: all are admitted, penalties are on, and nobody cheats yet.
func setUp(t *testing.T, chosen []scheme) *stage {
	t.Helper()
	return fill(t, start(t, modelsOf(chosen)...), chosen)
}

// modelsOf are the models of schemes.
func modelsOf(chosen []scheme) []string {
	var models []string
	for _, c := range chosen {
		models = append(models, c.model)
	}
	return models
}

// fill is setUp in a laboratory that is running.
func fill(t *testing.T, l *laboratory, chosen []scheme) *stage {
	t.Helper()
	s, models := &stage{began: time.Now(), laboratory: l}, modelsOf(chosen)
	s.mark(t, "the market is ready")
	s.good = s.join(t, "honest", honest(t, 21), models...)
	for i, c := range chosen {
		if c.engine == nil {
			s.admitted(t, "honest", s.good.ID, c.model)
			continue
		}
		seed := uint64(31 + i)
		engine := cheat.NewEngine(honest(t, seed), c.engine(t, seed))
		joined := &cheater{scheme: c, engine: engine}
		if c.v1 {
			joined.seat = s.joinV1(t, c.name, engine, c.model)
		} else {
			joined.seat = s.join(t, c.name, engine, c.model)
		}
		s.cheaters = append(s.cheaters, joined)
	}
	for _, c := range s.cheaters {
		s.admitted(t, c.name, c.ID, c.model)
		s.admitted(t, "honest", s.good.ID, c.model)
	}
	s.mark(t, "all providers are admitted") // before the clock moves, because hubs refuse benchmarks of their future
	s.calibrate(t)
	s.mark(t, "the models are calibrated")
	trial.Until(t, "penalties are on", func() bool {
		status, _, _ := trial.CallAt(t, s.m.AdminURL(), http.MethodPost, "/api/v1/admin/verification/penalties",
			s.m.Env["SVC_ADMIN_TOKEN"], `{"on":true,"reason":"all is calibrated"}`)
		return status == http.StatusOK
	})
	return s
}

// chosen are those of some schemes that EnvCheats names. A test without any is skipped.
func chosen(t *testing.T, of ...scheme) []scheme {
	t.Helper()
	names := strings.Split(os.Getenv(EnvCheats), ",")
	if slices.Contains(names, "all") {
		return of
	}
	of = slices.DeleteFunc(of, func(s scheme) bool { return !slices.Contains(names, s.name) })
	if len(of) == 0 {
		t.Skipf("make cheats runs it: %s names no such scheme", EnvCheats)
	}
	return of
}

// mark logs how long the test takes.
func (s *stage) mark(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf("%5.1f s, %5.1f s of CPU: %s", time.Since(s.began).Seconds(), cpu(), fmt.Sprintf(format, args...))
}

// cpu is how long this process has computed, in seconds. PostgreSQL is another one.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// levels are the steps of the ladder.
var levels = []string{"normal", "watch", "notice", "confirm", "penalty"}

// reached reports whether an offer's level is at least another.
func (o offering) reached(level string) bool {
	return slices.Index(levels, o.Offering.Level) >= slices.Index(levels, level)
}

// at returns the offer of a cheater.
func (s *stage) at(t testing.TB, c *cheater) offering {
	t.Helper()
	return s.offering(t, c.ID, c.model)
}

// admitted waits until a provider is admitted with a model.
func (l *laboratory) admitted(t testing.TB, name, provider, model string) {
	t.Helper()
	trial.Until(t, name+" is admitted with "+model, func() bool {
		return l.offering(t, provider, model).Offering.Benchmark == "proven" && l.m.Offers(t, model, provider)
	})
}
