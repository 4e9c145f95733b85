package trial

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/standalone/localdata"
)

// Each runs a case in both forms of a marketplace, as subtests: standalone, in one
// process of its own, started with environ; and as a fleet of separate processes, with a
// demo, which all cases of the test binary share. So the models, providers and accounts
// that a case makes have names of its own. The two forms run at once.
// SVC_E2E_FORM=standalone, or fleet, runs one form. SVC_E2E_ENV=path runs the case on a
// marketplace that is running already, known by its demo.env or fleet.env.
func Each(t *testing.T, run func(t *testing.T, m *Market), environ ...string) {
	t.Helper()
	EachForm(t, func(t *testing.T) { run(t, Start(t, environ...)) }, run)
}

// OneFormWhenShort is Each for a case that takes long and differs little between the
// forms. With -short it runs on one of them, standalone unless another is chosen.
func OneFormWhenShort(t *testing.T, run func(t *testing.T, m *Market), environ ...string) {
	t.Helper()
	if testing.Short() && os.Getenv(EnvRunning) == "" && os.Getenv(EnvForm) == "" {
		t.Run("standalone", func(t *testing.T) { run(t, Start(t, environ...)) })
		return
	}
	Each(t, run, environ...)
}

// EachForm is Each for a case that starts its own standalone, or is another case there.
func EachForm(t *testing.T, standalone func(t *testing.T), fleet func(t *testing.T, m *Market)) {
	t.Helper()
	if path := os.Getenv(EnvRunning); path != "" {
		t.Run("running", func(t *testing.T) { fleet(t, Attach(ReadEnv(t, path))) })
		return
	}
	BothForms(t, func(t *testing.T) {
		t.Parallel()
		standalone(t)
	}, func(t *testing.T) {
		t.Parallel()
		fleet(t, Shared(t))
	})
}

// BothForms is EachForm for a case that starts a marketplace of its own in each
// form, the second after the first has ended.
func BothForms(t *testing.T, standalone, fleet func(t *testing.T)) {
	t.Helper()
	form := os.Getenv(EnvForm)
	if form != "fleet" {
		t.Run("standalone", standalone)
	}
	if form != "standalone" {
		t.Run("fleet", fleet)
	}
}

// Shared is the fleet that all cases of the test binary share.
func Shared(t testing.TB) *Market {
	t.Helper()
	needFleet(t)
	m, err := shared.get()
	if err != nil {
		t.Fatal(err)
	}
	before := len(m.fleet.Exits())
	t.Cleanup(func() {
		m.tellExits(t, before)
		m.showLogs(t)
	})
	return m
}

// AtOnce lets n parallel tests run at a time unless -parallel says otherwise, because
// tests wait for marketplaces more than they compute. TestMain calls it before Main.
func AtOnce(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // the testing package's own flag
	}
}

// Main runs the tests of a package and then ends what they shared.
func Main(m *testing.M) {
	pgtest.Main(m)
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "trial:", err)
	}
}

// shared outlives single tests by design, because starting a fleet takes longer than most
// tests.
var shared sharedFleet

type sharedFleet struct {
	mu     sync.Mutex
	dir    string
	market *Market
	err    error
}

func (s *sharedFleet) get() (*Market, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.market != nil || s.err != nil {
		return s.market, s.err
	}
	if s.dir, s.err = os.MkdirTemp("", "svc-fleet-"); s.err == nil {
		s.market, s.err = startFleet(s.dir, nil)
	}
	return s.market, s.err
}

func (s *sharedFleet) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	var errs []error
	if s.market != nil {
		errs = append(errs, s.market.Stop())
	}
	errs = append(errs, localdata.RemovePostgres(s.dir))
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
