package attack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/proving/internal/trial"
)

// signIns are F23: an attacker who tries to sign in keeps the owner out.
func signIns() []Case {
	return []Case{
		{Hole: "F23", Name: "parallel_sign_ins", Before: "70 at once, the owner gets 503", Long: true, Alone: true,
			Run: parallelSignIns},
		{Hole: "F23", Name: "owner_locked_out", Before: "130 wrong ones, locked out beyond 65 s", Long: true, Run: lockOut},
	}
}

// signUp makes a user. The response has its session's token and consumer key. Other
// attacks may crowd the place where passwords are hashed, so it tries again when the
// response asks for that.
func (s *stage) signUp(t testing.TB) (email string, answer map[string]any) {
	t.Helper()
	return s.signUpFrom(t, from(s.address()))
}

func (s *stage) signUpFrom(t testing.TB, client *http.Client) (email string, answer map[string]any) {
	t.Helper()
	email = s.title() + "@example.org"
	trial.Until(t, email+" has signed up", func() bool {
		resp, err := client.Post("http://"+s.host()+"/api/v1/user/signup", "application/json",
			strings.NewReader(`{"email":"`+email+`","password":"correct horse","display_name":"Ann"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		switch {
		case err != nil:
			t.Fatal(err)
		case resp.StatusCode == http.StatusServiceUnavailable:
			return false
		case resp.StatusCode != http.StatusCreated:
			t.Fatalf("sign up: got %d %s, want 201", resp.StatusCode, body)
		}
		answer = trial.Decode(t, body)
		return true
	})
	return email, answer
}

// address is an address of the loopback network that only this attack uses.
func (s *stage) address() string {
	sum := 0
	for _, b := range []byte(s.title() + s.form) {
		sum = sum*31 + int(b)
	}
	return fmt.Sprintf("127.%d.%d.%d", 10+sum>>16&0x3f, sum>>8&0xff, 1+sum&0x7f)
}

// retryAfter is when a refusal of billing-ledger for want of a place says to try again.
const retryAfter = 2 * time.Second

func (s *stage) logIn(client *http.Client, email, password string) (status int, took time.Duration) {
	began := time.Now()
	resp, err := client.Post("http://"+s.host()+"/api/v1/user/login", "application/json",
		strings.NewReader(`{"email":"`+email+`","password":"`+password+`"}`))
	if err != nil {
		return 0, time.Since(began)
	}
	resp.Body.Close()
	return resp.StatusCode, time.Since(began)
}

// logInOnceThereIsRoom signs the owner in, again and again while 503 says that passwords
// are hashed for others. A user who is locked out gets 429.
func (s *stage) logInOnceThereIsRoom(t testing.TB, client *http.Client, email string) (status int) {
	t.Helper()
	trial.Until(t, "there is room to sign in", func() bool {
		status, _ = s.logIn(client, email, "correct horse")
		return status != http.StatusServiceUnavailable
	})
	return status
}

// parallelSignIns goes on until the owner is in. A machine that hashes a few times
// slower than two cores of today may leave the owner without a place within the time
// that a gateway waits, so the owner tries again as the refusal says. Whoever is kept
// out by the flood is kept out every time.
func parallelSignIns(t testing.TB, s *stage) Outcome {
	const flood, tries = 300, 3
	email, _ := s.signUp(t)
	owner := from(s.address())
	// Each comes from an address of its own, which has its own sign-ins.
	var attackers []*http.Client
	for range flood {
		attackers = append(attackers, from(s.address()))
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	started := make(chan struct{}, flood)
	for i := range flood {
		wg.Go(func() {
			started <- struct{}{}
			for range clock.Every(ctx, 100*time.Millisecond) {
				s.logIn(attackers[i], fmt.Sprintf("nobody-%d@example.org", i), "wrong horse")
			}
		})
	}
	for range flood {
		<-started
	}
	pass(t, 300*time.Millisecond)
	var took []time.Duration
	status := http.StatusServiceUnavailable
	for len(took) < tries && status == http.StatusServiceUnavailable {
		if len(took) > 0 {
			pass(t, retryAfter)
		}
		var one time.Duration
		status, one = s.logIn(owner, email, "correct horse")
		took = append(took, one.Round(10*time.Millisecond))
	}
	stop()
	wg.Wait()
	if status != http.StatusOK {
		t.Errorf("the owner beside many sign-ins: got %d after tries of %v, want 200", status, took)
	}
	return Outcome{Got: fmt.Sprintf("%d sign-ins at once", flood), Paid: "nothing",
		Harm: fmt.Sprintf("the owner: %d after %v", status, took)}
}

func lockOut(t testing.TB, s *stage) Outcome {
	home, owner := from(s.address()), from(s.address())
	email, _ := s.signUpFrom(t, home)
	// A hundred at once of all networks are a bound of billing-ledger.
	for i := range 130 {
		s.logIn(from(s.address()), email, fmt.Sprintf("wrong horse %d", i))
	}
	if status := s.logInOnceThereIsRoom(t, home, email); status != http.StatusOK {
		t.Errorf("the owner at home after 130 wrong ones: got %d, want 200 at once", status)
	}
	began := time.Now()
	status := s.logInOnceThereIsRoom(t, owner, email)
	for status != http.StatusOK && time.Since(began) < time.Minute {
		pass(t, 5*time.Second)
		status = s.logInOnceThereIsRoom(t, owner, email)
	}
	if status != http.StatusOK {
		t.Errorf("the owner after 130 wrong ones: got %d after %v, want 200 within a minute", status,
			time.Since(began).Round(time.Second))
	}
	return Outcome{Got: "130 wrong passwords", Paid: "nothing", Harm: fmt.Sprintf("the owner waits %v",
		time.Since(began).Round(time.Second))}
}
