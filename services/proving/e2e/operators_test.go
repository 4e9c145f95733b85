package e2e

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"
	"time"

	"svc.internal/services/proving/internal/trial"
)

// codeOf is the code of a secret in base32, as an authenticator makes it.
func codeOf(t *testing.T, secret string, at time.Time) string {
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

// An operator from its invitation to its end, by HTTP alone.
func TestAnOperatorSignsInDoesWhatItsRoleMayAndIsEnded(t *testing.T) {
	m := trial.Shared(t)
	const routes, password = "/api/v1/admin/", "correct horse battery"
	name := fmt.Sprintf("sue.%d", time.Now().UnixNano()%1_000_000_000)
	call := func(want int, method, path, token, body string) map[string]any {
		t.Helper()
		status, _, answer := trial.CallAt(t, m.AdminURL(), method, routes+path, token, body)
		if status != want {
			t.Fatalf("%s %s: got %d %s, want %d", method, path, status, answer, want)
		}
		return trial.Decode(t, answer)
	}
	invited := m.Admin(t, http.MethodPost, routes+"operators", `{"name":"`+name+`","role":"support"}`)
	id := trial.Text(t, invited, "operator", "operator_id")
	accepted := call(http.StatusOK, http.MethodPost, "operators/accept", "",
		fmt.Sprintf(`{"invitation":%q,"password":%q}`, trial.Text(t, invited, "invitation"), password))
	secret, now := trial.Text(t, accepted, "totp_secret"), time.Now()
	call(http.StatusOK, http.MethodPost, "operators/confirm", "", fmt.Sprintf(`{"confirmation":%q,"code":%q}`,
		trial.Text(t, accepted, "confirmation"), codeOf(t, secret, now)))
	signIn := func(want int, at time.Time) map[string]any {
		t.Helper()
		return call(want, http.MethodPost, "session", "", fmt.Sprintf(`{"name":%q,"password":%q,"code":%q}`, name, password,
			codeOf(t, secret, at)))
	}
	signIn(http.StatusUnauthorized, now) // its code was used
	token := trial.Text(t, signIn(http.StatusOK, now.Add(30*time.Second)), "token")

	account := trial.Text(t, m.Admin(t, http.MethodPost, routes+"accounts", `{"name":"`+name+`","idempotency_key":"`+
		name+`"}`), "account", "account_id")
	call(http.StatusOK, http.MethodPost, "accounts/"+account+"/credit", token,
		`{"amount_usd":"1","idempotency_key":"`+name+`","memo":"sorry"}`)
	call(http.StatusForbidden, http.MethodPut, "accounts/"+account+"/terms", token, `{"terms":{},"note":"x"}`)
	actions, _ := call(http.StatusOK, http.MethodGet, "accounts/"+account+"/details", token, "")["actions"].([]any)
	found := false
	for _, a := range actions {
		found = found || trial.At(a, "actor") == "operator:"+name+"@"+id
	}
	if !found {
		t.Errorf("the audit entries of the account: got %v, want one of %s@%s", actions, name, id)
	}
	m.Admin(t, http.MethodPost, routes+"operators/"+id+"/end", `{}`)
	call(http.StatusUnauthorized, http.MethodGet, "accounts/"+account, token, "")
}
