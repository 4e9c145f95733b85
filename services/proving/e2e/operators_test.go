package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
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

// An operator acts in three services, and one list has all of it under the operator's name.
func TestActsInThreeServicesAreOneListUnderTheOperatorsName(t *testing.T) {
	m := trial.Shared(t)
	name := fmt.Sprintf("max.%d", time.Now().UnixNano()%1_000_000_000)
	op := m.NewOperator(t, name, "admin")
	token := op.SignIn(t)
	account := trial.Text(t, op.Call(t, http.StatusOK, http.MethodPost, "accounts", token, `{"name":"`+name+
		`","idempotency_key":"`+name+`"}`), "account", "account_id")
	provider := trial.Text(t, op.Call(t, http.StatusOK, http.MethodPost, "providers", token, `{"name":"`+name+
		`","region":"eu","idempotency_key":"`+name+`"}`), "provider", "provider_id")
	model := "test/" + name
	op.Call(t, http.StatusOK, http.MethodPut, "models/"+model, token, `{"name":"Test model","input_price":"1",
		"output_price":"3","payout_input_price":"0.9","payout_output_price":"2.7","context_length":8192,
		"max_output_tokens":1024,"capabilities":["chat"],"inactive":true}`)
	who := name + "@" + op.ID
	want := []string{
		"catalog put_model " + model, "provider-hub create_provider " + provider, "billing-ledger create_account " + account,
		"billing-ledger sign_in_operator " + op.ID, "billing-ledger activate_operator " + op.ID,
	}
	var got []string
	query := url.Values{"operator": {who}, "page_size": {"2"}}
	for range want {
		page := op.Call(t, http.StatusOK, http.MethodGet, "acts?"+query.Encode(), token, "")
		if missing, _ := page["missing"].([]any); len(missing) > 0 {
			t.Fatalf("missing: got %v, want every service to answer", missing)
		}
		list, _ := page["list"].([]any)
		for _, a := range list {
			got = append(got, trial.Text(t, a, "service")+" "+trial.Text(t, a, "action")+" "+trial.Text(t, a, "subject"))
			if by := trial.Text(t, a, "operator"); by != who {
				t.Errorf("who acted: got %s, want %s", by, who)
			}
		}
		cursor := trial.Text(t, page, "next_cursor")
		if cursor == "" {
			break
		}
		query.Set("cursor", cursor)
	}
	if !slices.Equal(got, want) {
		t.Errorf("acts of %s: got %q, want %q", who, got, want)
	}
	of := op.Call(t, http.StatusOK, http.MethodGet, "acts?subject="+provider+"&service=provider-hub", token, "")
	if n := len(of["list"].([]any)); n != 1 {
		t.Errorf("acts on the provider: got %d, want 1", n)
	}
	m.Staff(t, http.MethodPost, "operators/"+op.ID+"/end", `{}`)
}
