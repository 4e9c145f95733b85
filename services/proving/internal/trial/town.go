package trial

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/pg/devclock"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/settlement/devchain"
)

// Town is a market with chains, in which providers have owners who put collateral behind them and are paid.
type Town struct {
	*Market
	// DatabaseURL is a superuser's, of a database whose time can be moved.
	DatabaseURL string
	// Chains are the URLs of the chains, by their numbers.
	Chains map[uint64]string
	// Killed reports whether processes of the town are killed, so that a call that is answered 500 or more is repeated.
	Killed bool
}

// Pass lets time pass, in the database and on the chains.
func (c *Town) Pass(t testing.TB, by time.Duration) {
	t.Helper()
	if _, err := devclock.Advance(t.Context(), c.DatabaseURL, by); err != nil {
		t.Fatal(err)
	}
	for _, url := range c.Chains {
		if err := devchain.Ahead(t.Context(), url, by); err != nil {
			t.Fatal(err)
		}
	}
}

// Wants calls the API and fails the test unless the answer has the wanted status.
func (c *Town) Wants(t testing.TB, status int, method, path, key, body string, headers ...string) map[string]any {
	t.Helper()
	got, _, answer := c.Call(t, method, path, key, body, headers...)
	if c.Killed && got >= http.StatusInternalServerError {
		Until(t, method+" "+path+" is answered", func() bool {
			got, _, answer = c.Call(t, method, path, key, body, headers...)
			return got < http.StatusInternalServerError
		})
	}
	if got != status {
		t.Fatalf("%s %s: got %d %s, want %d", method, path, got, answer, status)
	}
	if len(bytes.TrimSpace(answer)) == 0 {
		return nil
	}
	return Decode(t, answer)
}

// Owner is a user who owns a provider.
type Owner struct {
	*Provider
	// Name begins the owner's address for mail. Token is that of the owner's session.
	Name, Token string
	// Wallet is the owner's account on every chain.
	Wallet ethereum.Address
	// Subject is the provider in calls of the contracts, once it has collateral.
	Subject []byte

	town *Town
}

// Password is that of all owners.
const Password = "correct horse battery"

// NewOwner signs a user up, who becomes a provider, with an account on the chains that has coins and dollars.
func (c *Town) NewOwner(t testing.TB, name string, wallet byte) *Owner {
	t.Helper()
	o := &Owner{town: c, Name: name, Wallet: ethereum.Address{wallet, 1}, Provider: &Provider{Leave: func() {}}}
	c.Wants(t, http.StatusCreated, http.MethodPost, "/api/v1/user/signup", "",
		`{"email":"`+name+`@example.org","password":"`+Password+`","display_name":"`+name+`"}`)
	o.Login(t)
	made := c.Wants(t, http.StatusCreated, http.MethodPost, "/api/v1/user/upgrade-to-provider", o.Token,
		`{"name":"`+name+`'s GPUs","wallet_address":"","beneficiary_address":"`+o.Wallet.String()+`"}`)
	o.ID, o.Key = Text(t, made, "provider_id"), Text(t, made, "provider_api_key")
	c.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+o.ID+"/qualification", `{"gpu_waived":true,"reason":"test"}`)
	for _, url := range c.Chains {
		if err := devchain.Ask(t.Context(), url, nil, "anvil_setBalance", o.Wallet.String(),
			"0x"+paychain.Whole(1_000).Text(16)); err != nil {
			t.Fatal(err)
		}
		if err := devchain.Mint(t.Context(), url, o.Wallet, 1_000_000_000); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// Login makes the owner's session anew, because the last one is over once time has passed.
func (o *Owner) Login(t testing.TB) {
	t.Helper()
	o.Token = Text(t, o.town.Wants(t, http.StatusOK, http.MethodPost, "/api/v1/user/login", "",
		`{"email":"`+o.Name+`@example.org","password":"`+Password+`"}`), "token")
}

// Send has the owner's account send a transaction.
func (o *Owner) Send(t testing.TB, chain uint64, to string, value *big.Int, data []byte) {
	t.Helper()
	if err := devchain.Send(t.Context(), o.town.Chains[chain],
		devchain.Transaction{From: o.Wallet.String(), To: to, Value: value, Data: data}); err != nil {
		t.Fatal(err)
	}
}

// Deposit puts collateral behind the provider on a chain, in whole tokens, by what the API says is to be sent.
func (o *Owner) Deposit(t testing.TB, chain uint64, tokens int64) {
	t.Helper()
	o.SendDeposit(t, chain, o.AskDeposit(t, chain, tokens))
}

// AskDeposit asks the API what is to be sent for a deposit of whole tokens.
func (o *Owner) AskDeposit(t testing.TB, chain uint64, tokens int64) map[string]any {
	t.Helper()
	asked := o.town.Wants(t, http.StatusOK, http.MethodPost, "/api/v1/provider/collateral/deposit", o.Token,
		fmt.Sprintf(`{"chain_id":%d,"amount":"%d"}`, chain, tokens), "Idempotency-Key", "deposit-"+o.ID)
	o.Subject = bytesOf(t, asked, "provider_bytes32")
	return asked
}

// SendDeposit sends what the API said.
func (o *Owner) SendDeposit(t testing.TB, chain uint64, asked map[string]any) {
	t.Helper()
	if token := Text(t, asked, "token_address"); token != "" {
		o.Send(t, chain, token, nil, bytesOf(t, asked, "approve_calldata"))
	}
	value, ok := new(big.Int).SetString(Text(t, asked, "value"), 10)
	if !ok {
		t.Fatalf("deposit: got %v, want a value", asked)
	}
	o.Send(t, chain, Text(t, asked, "contract"), value, bytesOf(t, asked, "calldata"))
}

func bytesOf(t testing.TB, answer map[string]any, field string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(strings.TrimPrefix(Text(t, answer, field), "0x"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// WaitStatus waits until the provider has a status.
func (o *Owner) WaitStatus(t testing.TB, want string) {
	t.Helper()
	Until(t, "the provider is "+want, func() bool {
		_, _, body := o.town.Call(t, http.MethodGet, "/api/v1/provider/status", o.Key, "")
		return strings.Contains(string(body), `"status":"`+want+`"`)
	})
}

// Dear is a model of which one answer costs some dollars.
const Dear = "test/dear"

// Serve has the provider serve the dear model, from an engine that is not real.
func (o *Owner) Serve(t testing.TB) {
	t.Helper()
	o.ServeModel(t, Dear)
}

// ServeModel is Serve for another model, which costs the same.
func (o *Owner) ServeModel(t testing.TB, model string) {
	t.Helper()
	o.ServeAt(t, model, 10_000, 100_000)
}

// ServeAt is Serve for a model at prices of a million tokens, in dollars, of which the provider gets nine tenths.
// It returns the engine.
func (o *Owner) ServeAt(t testing.TB, model string, input, output int) *fakeengine.Engine {
	t.Helper()
	o.town.Admin(t, http.MethodPut, "/api/v1/admin/models/"+model, fmt.Sprintf(`{"name":"Dear","input_price":"%d",
		"output_price":"%d","payout_input_price":"%d","payout_output_price":"%d","context_length":8192,
		"max_output_tokens":1024,"capabilities":["chat"]}`, input, output, input/10*9, output/10*9))
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	o.town.Connect(t, o.Provider, engine.URL, model)
	o.town.WaitOffered(t, model, o.ID)
	return engine
}

// Earn has a consumer ask the provider's model so often, and waits until the ledger has settled it.
func (o *Owner) Earn(t testing.TB, times int) {
	t.Helper()
	account, key := o.town.Consumer(t, "10000")
	o.town.Unlimit(t, account)
	for range times {
		o.town.Wants(t, http.StatusOK, http.MethodPost, ChatPath, key, Chat(Dear, ""))
	}
	o.town.NothingHeld(t, account)
}

// Payouts is the path of a provider's payouts.
const Payouts = "/api/v1/provider/payouts"

// Ask asks for a payout and returns its id.
func (o *Owner) Ask(t testing.TB, usd, key string) (id string) {
	t.Helper()
	return Text(t, o.town.Wants(t, http.StatusCreated, http.MethodPost, Payouts, o.Token, `{"amount_usd":"`+usd+`"}`,
		"Idempotency-Key", key), "payout_id")
}

// Payout is a payout as the provider sees it; nil for none.
func (o *Owner) Payout(t testing.TB, id string) (payout map[string]any) {
	t.Helper()
	list, _ := At(o.town.Wants(t, http.StatusOK, http.MethodGet, Payouts, o.Key, ""), "list").([]any)
	for _, one := range list {
		if Text(t, one, "payout_id") == id {
			payout, _ = one.(map[string]any)
		}
	}
	return payout
}

// Confirmed waits until a payout is confirmed on the chain. It returns the payout.
func (o *Owner) Confirmed(t testing.TB, id string) (payout map[string]any) {
	t.Helper()
	Until(t, "the payout is confirmed", func() bool {
		payout = o.Payout(t, id)
		state := payout["state"]
		if state == "failed" || state == "cancelled" {
			t.Fatalf("the payout: got %v, want one that is confirmed", payout)
		}
		return state == "confirmed"
	})
	return payout
}

// Payable waits until earnings may be paid out, and signs the owner in again.
func (o *Owner) Payable(t testing.TB) {
	t.Helper()
	Until(t, "the batch is posted", func() bool {
		earnings := o.town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/earnings", o.Key, "")
		return Text(t, earnings, "payable_usd_str") != "0.00"
	})
	o.Login(t)
}
