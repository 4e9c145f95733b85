package trial

import (
	"net/http"
	"testing"
)

// PutModel puts a model with round prices into the catalog: an input token costs 1,000
// and an output token 3,000 nano-USD. Providers get nine tenths.
func (m *Market) PutModel(t testing.TB, id string) {
	t.Helper()
	m.Admin(t, http.MethodPut, "/api/v1/admin/models/"+id, `{"name":"Test model","input_price":"1","output_price":"3",
		"payout_input_price":"0.9","payout_output_price":"2.7","context_length":8192,"max_output_tokens":1024,`+
		`"capabilities":["chat"]}`)
}

// Prices of the models that PutModelOf makes, each per its category's unit: per
// 1M tokens, per image, per minute.
var pricesOf = map[string]string{
	"embedding": `"input_price":"1","output_price":"0","payout_input_price":"0.9","payout_output_price":"0"`,
	"image":     `"input_price":"0","output_price":"0.04","payout_input_price":"0","payout_output_price":"0.036"`,
	"audio":     `"input_price":"0.006","output_price":"0","payout_input_price":"0.0054","payout_output_price":"0"`,
}

// PutModelOf puts a model of another category than PutModel's into the catalog:
// embedding, image or audio. An embedded token costs 1,000 nano-USD, an image 0.04 and a
// minute of audio 0.006 US dollars. Providers get nine tenths.
func (m *Market) PutModelOf(t testing.TB, category, id string) {
	t.Helper()
	m.Admin(t, http.MethodPut, "/api/v1/admin/models/"+id, `{"name":"Test model","category":"`+category+
		`",`+pricesOf[category]+
		`,"context_length":8192,"max_output_tokens":1024}`)
}

// Consumer makes an account with credit in US dollars (empty for none) and a
// key.
func (m *Market) Consumer(t testing.TB, credit string) (accountID, key string) {
	t.Helper()
	name := t.Name()
	accountID = Text(t, m.Admin(t, http.MethodPost, "/api/v1/admin/accounts", `{"name":"`+name[:min(len(name), 60)]+`"}`),
		"account", "account_id")
	if credit != "" {
		m.Admin(t, http.MethodPost, "/api/v1/admin/accounts/"+accountID+"/credit", `{"amount_usd":"`+credit+
			`","idempotency_key":"`+accountID+`","memo":"trial"}`)
	}
	return accountID, Text(t, m.Admin(t, http.MethodPost, "/api/v1/admin/accounts/"+accountID+"/keys", `{"name":"k"}`),
		"api_key")
}

// Unlimit removes an account's limits on rate and concurrency.
func (m *Market) Unlimit(t testing.TB, accountID string) {
	t.Helper()
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+accountID+"/limits",
		`{"requests_per_minute":-1,"concurrent_requests":-1}`)
}

// Balance is an account's balance, and what of it is held, exact, in US dollars.
func (m *Market) Balance(t testing.TB, accountID string) (balance, held string) {
	t.Helper()
	account := m.Admin(t, http.MethodGet, "/api/v1/admin/accounts/"+accountID, "")
	return Text(t, account, "account", "balance_usd_str"), Text(t, account, "account", "held_usd_str")
}

// NothingHeld waits until no credit of an account is held.
func (m *Market) NothingHeld(t testing.TB, accountID string) {
	t.Helper()
	Until(t, "nothing is held any more", func() bool {
		_, held := m.Balance(t, accountID)
		return held == "0.00"
	})
}

// Receipt reads the receipt of a request once the request is settled and its gateway has
// reported it.
func (m *Market) Receipt(t testing.TB, key, requestID string) map[string]any {
	t.Helper()
	var receipt map[string]any
	Until(t, "request "+requestID+" is settled or released", func() bool {
		status, _, body := m.Call(t, http.MethodGet, "/api/v1/requests/"+requestID, key, "")
		if status != http.StatusOK {
			return false
		}
		receipt = Decode(t, body)
		return receipt["status"] != "open" && receipt["http_status"] != 0.0
	})
	return receipt
}
