package trial

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// operatorRoutes is where the routes of operators begin.
const operatorRoutes = "/api/v1/admin/"

// Operator is a person who runs the marketplace and can sign in.
type Operator struct {
	ID, Name         string
	market           *Market
	password, secret string
	// used is the moment of the code that was used last; a code is good once.
	used time.Time
}

// NewOperator invites an operator, who accepts and shows a first code.
func (m *Market) NewOperator(t testing.TB, name, role string) *Operator {
	t.Helper()
	invited := m.Admin(t, http.MethodPost, operatorRoutes+"operators", fmt.Sprintf(`{"name":%q,"role":%q}`, name, role))
	o := &Operator{ID: Text(t, invited, "operator", "operator_id"), Name: name, market: m,
		password: "correct horse battery", used: time.Now()}
	accepted := o.Call(t, http.StatusOK, http.MethodPost, "operators/accept", "",
		fmt.Sprintf(`{"invitation":%q,"password":%q}`, Text(t, invited, "invitation"), o.password))
	o.secret = Text(t, accepted, "totp_secret")
	o.Call(t, http.StatusOK, http.MethodPost, "operators/confirm", "", fmt.Sprintf(`{"confirmation":%q,"code":%q}`,
		Text(t, accepted, "confirmation"), codeOf(t, o.secret, o.used)))
	return o
}

// SignIn signs the operator in, once, with the code of the next half minute, because the
// present code was used. It returns the token of the session.
func (o *Operator) SignIn(t testing.TB) (token string) {
	t.Helper()
	o.used = o.used.Add(30 * time.Second)
	return Text(t, o.show(t, http.StatusOK), "token")
}

// SignInAgain shows the code that was used last, which is refused.
func (o *Operator) SignInAgain(t testing.TB) {
	t.Helper()
	o.show(t, http.StatusUnauthorized)
}

func (o *Operator) show(t testing.TB, want int) map[string]any {
	t.Helper()
	return o.Call(t, want, http.MethodPost, "session", "", fmt.Sprintf(`{"name":%q,"password":%q,"code":%q}`, o.Name,
		o.password, codeOf(t, o.secret, o.used)))
}

// Call makes an operator's call with a token, and decodes the answer, which has a status.
func (o *Operator) Call(t testing.TB, want int, method, path, token, body string) map[string]any {
	t.Helper()
	status, _, answer := CallAt(t, o.market.AdminURL(), method, operatorRoutes+path, token, body)
	if status != want {
		t.Fatalf("%s %s: got %d %s, want %d", method, path, status, answer, want)
	}
	return Decode(t, answer)
}

// codeOf is the code of a secret in base32, as an authenticator makes it.
func codeOf(t testing.TB, secret string, at time.Time) string {
	t.Helper()
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, raw)
	_ = binary.Write(mac, binary.BigEndian, uint64(at.Unix()/30))
	sum := mac.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1_000_000)
}
