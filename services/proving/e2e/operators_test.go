package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"svc.internal/services/proving/internal/trial"
)

// An operator from its invitation to its end, by HTTP alone.
func TestAnOperatorSignsInDoesWhatItsRoleMayAndIsEnded(t *testing.T) {
	m := trial.Shared(t)
	const routes = "/api/v1/admin/"
	name := fmt.Sprintf("sue.%d", time.Now().UnixNano()%1_000_000_000)
	sue := m.NewOperator(t, name, "support")
	sue.SignInAgain(t)
	token := sue.SignIn(t)
	sue.Call(t, http.StatusForbidden, http.MethodPost, "operators", m.Env["SVC_ADMIN_TOKEN"],
		`{"name":"robot","role":"admin"}`) // a machine invites nobody

	account := trial.Text(t, m.Admin(t, http.MethodPost, routes+"accounts", `{"name":"`+name+`","idempotency_key":"`+
		name+`"}`), "account", "account_id")
	sue.Call(t, http.StatusOK, http.MethodPost, "accounts/"+account+"/credit", token,
		`{"amount_usd":"1","idempotency_key":"`+name+`","memo":"sorry"}`)
	sue.Call(t, http.StatusForbidden, http.MethodPut, "accounts/"+account+"/terms", token, `{"terms":{},"note":"x"}`)
	details := sue.Call(t, http.StatusOK, http.MethodGet, "accounts/"+account+"/details", token, "")
	actions, _ := details["actions"].([]any)
	found := false
	for _, a := range actions {
		found = found || trial.At(a, "actor") == "operator:"+name+"@"+sue.ID
	}
	if !found {
		t.Errorf("the audit entries of the account: got %v, want one of %s@%s", actions, name, sue.ID)
	}
	m.Staff(t, http.MethodPost, "operators/"+sue.ID+"/end", `{}`)
	sue.Call(t, http.StatusUnauthorized, http.MethodGet, "accounts/"+account, token, "")
}
