package attack

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// secrets are hostile test 5: a key that is revoked while it is in use.
func secrets() []Case {
	return []Case{
		{Hole: "T5", Name: "revoked_key", Before: "refused",
			Run: func(t testing.TB, s *stage) Outcome { return revoked(t, s, false) }},
		{Hole: "T5", Name: "revoked_key_and_a_lost_notice", Before: "refused by admission, receipts open for a minute",
			Form: fleetForm, Alone: true,
			Run: func(t testing.TB, s *stage) Outcome { return revoked(t, s, true) }},
	}
}

// revocation is how long a revoked key may still be good.
const revocation = 2 * time.Second

func revoked(t testing.TB, s *stage, deaf bool) Outcome {
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
	account, _ := s.caller(t)
	issued := s.Admin(t, http.MethodPost, "/api/v1/admin/accounts/"+account+"/keys", `{"name":"leaked"}`)
	key := trial.Text(t, issued, "api_key")
	request := ""
	for _, base := range s.Bases() {
		// Every gateway knows the key.
		status, header, body := trial.CallAt(t, base, http.MethodPost, trial.ChatPath, key, trial.Chat(id, ""))
		if status != http.StatusOK {
			t.Fatalf("%s: got %d, want 200 (body is %s)", base, status, body)
		}
		request = header.Get(trial.RequestIDHeader)
	}
	if deaf {
		// The notice is lost: NATS stands still.
		pid := s.Fleet().Pid(s.Fleet().Replicas(fleet.NATS)[0])
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	}
	began := time.Now()
	s.Admin(t, http.MethodDelete, "/api/v1/admin/keys/"+trial.Text(t, issued, "key_id"), "")
	slowest := time.Duration(0)
	for _, base := range s.Bases() {
		for path, call := range map[string]func() int{
			trial.ChatPath: func() int {
				status, _, _ := trial.CallAt(t, base, http.MethodPost, trial.ChatPath, key, trial.Chat(id, ""))
				return status
			},
			"/api/v1/requests/{id}": func() int {
				status, _, _ := trial.CallAt(t, base, http.MethodGet, "/api/v1/requests/"+request, key, "")
				return status
			},
		} {
			// What is asked after the time is up must be refused at once.
			status, sent := call(), time.Since(began)
			for status != http.StatusUnauthorized && sent < revocation {
				pass(t, 50*time.Millisecond)
				sent = time.Since(began)
				status = call()
			}
			took := time.Since(began)
			if status != http.StatusUnauthorized {
				t.Errorf("%s%s: got %d after %v, want 401 within %v", base, path, status, took.Round(10*time.Millisecond),
					revocation)
				continue
			}
			slowest = max(slowest, sent)
		}
	}
	return Outcome{Got: fmt.Sprintf("%v of use", slowest.Round(10*time.Millisecond)), Paid: "the requests", Harm: "none"}
}
