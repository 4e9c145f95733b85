package attack

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// Case is one attack.
type Case struct {
	// Hole is the hole's name in hardening.md, Name the attack's own.
	Hole, Name string
	// Before is what the attack got before the hole was closed.
	Before string
	// Long attacks run only without -short.
	Long bool
	// Form limits the attack to one form; empty is both.
	Form string
	// Alone runs it beside no other attack, because it hurts the whole marketplace.
	Alone bool
	// Run makes the attack. A reported error or fatal means that the attack has
	// succeeded.
	Run func(t testing.TB, s *stage) Outcome
}

// Outcome is the result of an attack.
type Outcome struct{ Got, Paid, Harm string }

// The forms of a marketplace.
const (
	standaloneForm = "standalone"
	fleetForm      = "fleet"
)

// cases are all attacks, by the files that they stand in. Those with the longest waits
// come first, so that others run meanwhile.
func cases() []Case {
	var all []Case
	for _, some := range [][]Case{
		signIns(), claims(), stores(), metInUse(), bounds(), empties(), prompts(), leavings(), inside(), operators(),
		market(), agents(), reaches(), sockets(), sounds(), messages(), secrets(), tenants(), slows(), lists(),
	} {
		all = append(all, some...)
	}
	return all
}

// TestAttack makes every attack on one marketplace of each form.
func TestAttack(t *testing.T) {
	trial.BothForms(t, func(t *testing.T) { assail(t, trial.Start(t, settings()...), standaloneForm) },
		func(t *testing.T) {
			if testing.Short() {
				t.Skip("the fleet is attacked without -short")
			}
			assail(t, trial.StartFleet(t, fleetSettings), fleetForm)
		})
}

const (
	// The timeouts of bodies and of answers are short, so that slow senders and slow
	// readers are seen off within a test.
	bodyTimeout, writeTimeout = 5 * time.Second, 8 * time.Second
	// A network has few connections so that a test opens more.
	networkConnections = 500
	// handshakes is how many registrations a hub takes in a second: few, so that a small
	// flood suffices.
	handshakes = 20
)

// settings are the settings of the single process. The demo is left out.
func settings() []string {
	return []string{"SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error",
		"SVC_GATEWAY_BODY_TIMEOUT=" + bodyTimeout.String(), "SVC_GATEWAY_WRITE_TIMEOUT=" + writeTimeout.String(),
		"SVC_GATEWAY_MAX_CONNECTIONS_OF_NETWORK=" + strconv.Itoa(networkConnections),
		"SVC_HUB_HANDSHAKES_PER_SECOND=" + strconv.Itoa(handshakes)}
}

func fleetSettings(c *fleet.Config) {
	c.LogLevel = "error"
	c.Settings = map[string]map[string]any{
		fleet.Gateway: {"gateway": map[string]any{
			"body_timeout": bodyTimeout.String(), "write_timeout": writeTimeout.String(),
			"max_connections_of_network": networkConnections}},
		fleet.Hub: {"hub": map[string]any{"handshakes_per_second": handshakes}},
	}
}

// assail makes all attacks on a marketplace: first the attacks that hurt it, one by one,
// and then the other attacks together.
func assail(t *testing.T, m *trial.Market, form string) {
	t.Cleanup(func() { t.Log(render(report.take(form))) })
	for _, alone := range []bool{true, false} {
		for _, c := range cases() {
			if c.Alone != alone || c.Form != "" && c.Form != form || c.Long && testing.Short() {
				continue
			}
			t.Run(c.Hole+"_"+c.Name, func(t *testing.T) {
				if !alone {
					t.Parallel()
				}
				c.play(t, m, form)
			})
		}
	}
}

// play makes one attack and judges it.
func (c Case) play(t *testing.T, m *trial.Market, form string) {
	a := &attempt{TB: t}
	var outcome Outcome
	done := make(chan struct{})
	go func() {
		defer close(done)
		outcome = c.Run(a, &stage{Market: m, form: form, name: strings.ToLower(c.Hole + "-" + c.Name)})
	}()
	<-done
	fault := a.end()
	if t.Skipped() {
		return
	}
	reason, isOpen := open[c.Hole+"_"+c.Name]
	if !isOpen {
		reason, isOpen = open[c.Hole+"_"+c.Name+"@"+form]
	}
	verdict := "refused"
	switch {
	case fault != "" && isOpen:
		verdict = "OPEN: " + reason
		t.Logf("open (%s): %s", reason, fault)
	case fault != "":
		verdict = "SUCCEEDS"
		t.Errorf("the attack succeeds: %s\nbefore: %s", fault, c.Before)
	case isOpen:
		verdict = "listed as open"
		t.Errorf("the attack is refused (%+v) and listed as open (%s): take it off the list", outcome, reason)
	}
	report.add(line{form: form, hole: c.Hole, name: c.Name, outcome: outcome, verdict: verdict})
}

// attempt is the testing.TB of an attack. It keeps what would fail a test until the
// attack ends. A failure of its cleanup fails the test.
type attempt struct {
	testing.TB
	mu    sync.Mutex
	over  bool
	fault []string
}

// end returns the attacker's successes.
func (a *attempt) end() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	return strings.Join(a.fault, "; ")
}

func (a *attempt) keep(text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	a.fault = append(a.fault, strings.TrimSpace(text))
	return true
}

func (a *attempt) Error(args ...any) {
	if text := fmt.Sprintln(args...); !a.keep(text) {
		a.TB.Error(text)
	}
}

func (a *attempt) Errorf(format string, args ...any) { a.Error(fmt.Sprintf(format, args...)) }

func (a *attempt) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}

func (a *attempt) Fatalf(format string, args ...any) { a.Fatal(fmt.Sprintf(format, args...)) }
func (a *attempt) Fail()                             { a.Error("it failed") }
func (a *attempt) FailNow()                          { a.Fatal("it failed") }
func (a *attempt) Helper()                           {}

// Failed reports whether the attack has succeeded so far.
func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.fault) > 0
}
