package trial

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"svc.internal/pkg/totp"
)

// operatorRoutes is where the routes of operators begin.
const operatorRoutes = "/api/v1/admin/"

// Staff makes a call about operators as an admin who signed in, and decodes the answer. The test
// is skipped where no bootstrap token of the market is known.
func (m *Market) Staff(t testing.TB, method, path, body string) map[string]any {
	t.Helper()
	s := m.staff
	if s == nil {
		t.Skip("no bootstrap token of this marketplace is known")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admin == nil {
		s.admin = m.accept(t, m.operatorsCall(t, http.StatusOK, http.MethodPost, "operators/first", s.bootstrap,
			`{"name":"first.admin"}`))
	}
	call := func() (int, []byte) {
		status, _, answer := CallAt(t, m.AdminURL(), method, operatorRoutes+path, s.token, body)
		return status, answer
	}
	status, answer := call()
	if status == http.StatusUnauthorized { // there is no session yet, or it is over
		s.token = s.admin.SignIn(t)
		status, answer = call()
	}
	if status != http.StatusOK {
		t.Fatalf("%s %s: got %d %s, want 200", method, path, status, answer)
	}
	return Decode(t, answer)
}

// NewOperator has an admin invite an operator, who accepts and shows a first code.
func (m *Market) NewOperator(t testing.TB, name, role string) *Operator {
	t.Helper()
	return m.accept(t, m.Staff(t, http.MethodPost, "operators", fmt.Sprintf(`{"name":%q,"role":%q}`, name, role)))
}

// accept has somebody who was invited become an operator.
func (m *Market) accept(t testing.TB, invited map[string]any) *Operator {
	t.Helper()
	o := &Operator{ID: Text(t, invited, "operator", "operator_id"), Name: Text(t, invited, "operator", "name"), market: m,
		password: "correct horse battery"}
	accepted := o.Call(t, http.StatusOK, http.MethodPost, "operators/accept", "",
		fmt.Sprintf(`{"invitation":%q,"password":%q}`, Text(t, invited, "invitation"), o.password))
	o.secret = Text(t, accepted, "totp_secret")
	o.Call(t, http.StatusOK, http.MethodPost, "operators/confirm", "", fmt.Sprintf(`{"confirmation":%q,"code":%q}`,
		Text(t, accepted, "confirmation"), o.nextCode(t)))
	return o
}

// codeSkew is how many steps before its own a code is good.
const codeSkew = 1

func step() int64 { return totp.Step(time.Now()) }

// nextCode returns the present code or, if that was used, the one after it, once it is good.
func (o *Operator) nextCode(t testing.TB) string {
	t.Helper()
	o.used = max(step(), o.used+1)
	Until(t, "the next code is good", func() bool { return o.used <= step()+codeSkew })
	return codeOf(t, o.secret, o.used)
}

// SignIn signs the operator in and returns the token of the session.
func (o *Operator) SignIn(t testing.TB) (token string) {
	t.Helper()
	return Text(t, o.show(t, http.StatusOK, o.nextCode(t)), "token")
}

// SignInAgain shows the code that was used last, which is refused.
func (o *Operator) SignInAgain(t testing.TB) {
	t.Helper()
	o.show(t, http.StatusUnauthorized, codeOf(t, o.secret, o.used))
}

func (o *Operator) show(t testing.TB, want int, code string) map[string]any {
	t.Helper()
	return o.Call(t, want, http.MethodPost, "session", "", fmt.Sprintf(`{"name":%q,"password":%q,"code":%q}`, o.Name,
		o.password, code))
}

// Call makes an operator's call with a token, and decodes the answer, which has a status.
func (o *Operator) Call(t testing.TB, want int, method, path, token, body string) map[string]any {
	t.Helper()
	return o.market.operatorsCall(t, want, method, path, token, body)
}

func (m *Market) operatorsCall(t testing.TB, want int, method, path, token, body string) map[string]any {
	t.Helper()
	status, _, answer := CallAt(t, m.AdminURL(), method, operatorRoutes+path, token, body, "Content-Type",
		"application/json")
	if status != want {
		t.Fatalf("%s %s: got %d %s, want %d", method, path, status, answer, want)
	}
	return Decode(t, answer)
}

// codeOf is the code of a step of a secret in base32, as an authenticator makes it.
func codeOf(t testing.TB, secret string, step int64) string {
	t.Helper()
	raw, err := totp.Encoding.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	return totp.Code(raw, step)
}
