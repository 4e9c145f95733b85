package settlement_test

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/settlement/devchain"
)

// funder is a consumer who funds itself on chains, from a wallet of its own.
type funder struct {
	town                *town
	account, key, token string
	wallet, at          ethereum.Address
}

// newFunder signs a consumer up, who asks where its account is funded.
func (c *town) newFunder(t *testing.T, name string, wallet byte) *funder {
	t.Helper()
	f := &funder{town: c, wallet: ethereum.Address{wallet, 2}}
	made := c.Wants(t, http.StatusCreated, http.MethodPost, "/api/v1/user/signup", "",
		`{"email":"`+name+`@example.org","password":"`+password+`"}`)
	f.account, f.key, f.token = trial.Text(t, made, "user", "account_id"), trial.Text(t, made, "api_key"),
		trial.Text(t, made, "token")
	where := c.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/consumer/deposit-address", f.token, "")
	chains, _ := trial.At(where, "chains").([]any)
	var offered []string
	for _, one := range chains {
		at, err := ethereum.ParseAddress(trial.Text(t, one, "address"))
		if err != nil {
			t.Fatal(err)
		}
		f.at = at
		offered = append(offered, fmt.Sprint(trial.At(one, "chain_id"), " +", trial.At(one, "bonus_percent"), "% from $",
			trial.At(one, "minimum_usd")))
	}
	slices.Sort(offered)
	if got, want := strings.Join(offered, ", "), "1 +0% from $1, 254 +20% from $1, 8453 +0% from $1"; got != want {
		t.Errorf("where the account is funded: got %q, want %q", got, want)
	}
	for _, url := range c.Chains {
		if err := devchain.Ask(t.Context(), url, nil, "anvil_setBalance", f.wallet.String(),
			"0x"+coins(1_000).Text(16)); err != nil {
			t.Fatal(err)
		}
		if err := devchain.Mint(t.Context(), url, f.wallet, 100_000_000); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// pays has the funder's wallet send a transaction that succeeds.
func (f *funder) pays(t *testing.T, chain uint64, to string, value *big.Int, data []byte) {
	t.Helper()
	if err := devchain.Send(t.Context(), f.town.Chains[chain],
		devchain.Transaction{From: f.wallet.String(), To: to, Value: value, Data: data}); err != nil {
		t.Fatalf("pay on chain %d: %v", chain, err)
	}
}

// dollarsTo is the call that sends so many millionths of the test dollar.
func dollarsTo(to ethereum.Address, micros int64) []byte {
	return slices.Concat(transfer, word(to[:]), word(big.NewInt(micros).Bytes()))
}

// Programs of contracts that a test puts on a chain.
const (
	// forwarder sends the coins that it is called with to the address in the call.
	forwarder = "600060006000600034600035" + "5af100"
	// twice calls the contract in the first word of the call two times, with what follows it.
	twice = "60203603602060003760006000602036036000600060003" + "55af15060006000602036036000600060003" + "55af15000"
	// liar logs a transfer that does not happen: from, to and amount are the words of the call.
	liar = "604035600052602035600035" + "7fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef" +
		"60206000a300"
	// usdt is the address of USDT on chain 1, which no development chain has.
	usdt = "0xdAC17F958D2ee523a2206206994597C13D831ec7"
)

// program puts a program at an address of a chain.
func (c *town) program(t *testing.T, chain uint64, at, code string) {
	t.Helper()
	if err := devchain.Ask(t.Context(), c.Chains[chain], nil, "anvil_setCode", at, "0x"+code); err != nil {
		t.Fatal(err)
	}
}

// list is the funder's list of deposits.
func (f *funder) list(t *testing.T) (all []any) {
	t.Helper()
	answer := f.town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/consumer/deposits?page_size=200", f.token, "")
	all, _ = trial.At(answer, "list").([]any)
	return all
}

// sums are the deposits, each as its chain, asset, amount, dollars, bonus and state, in order.
func (f *funder) sums(t *testing.T) string {
	t.Helper()
	var lines []string
	for _, d := range f.list(t) {
		lines = append(lines, fmt.Sprint(trial.At(d, "chain_id"), " ", trial.At(d, "asset"), " ", trial.At(d, "amount"),
			" $", trial.At(d, "usd_str"), " +", trial.At(d, "bonus_usd_str"), " ", trial.At(d, "state")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// waitSums waits until the deposits are these. Meanwhile none loses a confirmation.
func (f *funder) waitSums(t *testing.T, what, want string) {
	t.Helper()
	most := map[string]float64{}
	var got string
	defer func() {
		if got != want {
			t.Logf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}()
	trial.Until(t, what, func() bool {
		for _, d := range f.list(t) {
			name := fmt.Sprint(trial.At(d, "transaction_hash"), trial.At(d, "place"))
			stand, _ := trial.At(d, "confirmations").(float64)
			if stand < most[name] {
				t.Errorf("confirmations of %s: got %v after %v, want no fewer", name, stand, most[name])
			}
			most[name] = stand
		}
		got = f.sums(t)
		return got == want
	})
}

// consumersFundThemselves is the story of a consumer's deposits on three chains, of what is none, and of a credit that
// is spent. It returns the coins' address that no transaction paid.
func (c *town) consumersFundThemselves(t *testing.T) (stray ethereum.Address) {
	t.Helper()
	f, other := c.newFunder(t, "fay", 0xf1), c.newFunder(t, "gus", 0xf2)
	c.program(t, 8453, "0x00000000000000000000000000000000000000B1", twice)
	if err := devchain.Mint(t.Context(), c.Chains[8453], ethereum.Address{19: 0xb1}, 4_000_000); err != nil {
		t.Fatal(err)
	}
	usd := address(t, devchain.USD)
	f.pays(t, 1, devchain.USD, nil, dollarsTo(f.at, 5_000_000))
	f.mines(t, 8453, "0x1", "0x00000000000000000000000000000000000000B1", new(big.Int),
		slices.Concat(word(usd[:]), dollarsTo(f.at, 2_000_000)))
	f.pays(t, 254, f.at.String(), coins(20), nil)
	f.waitSums(t, "the deposits are credited", strings.Join([]string{"1 TUSD 5 $5.00 +0.00 credited",
		"254 SVC 20 $10.00 +2.00 credited", "8453 TUSD 2 $2.00 +0.00 credited", "8453 TUSD 2 $2.00 +0.00 credited"}, "\n"))
	c.balance(t, f, "what was deposited, and the bonus", "21.00")
	f.tricks(t, other)
	other.waitSums(t, "what is sent to another's address is the other's", "8453 TUSD 3 $3.00 +0.00 credited")
	c.returnsWhatIsNotAccepted(t, f)
	c.balance(t, f, "what was no deposit changes nothing", "21.00")
	c.balance(t, other, "the other's", "3.00")
	f.spends(t)
	return f.at
}

// tricks sends what is no deposit of the funder's, and what is another's.
func (f *funder) tricks(t *testing.T, other *funder) {
	t.Helper()
	c := f.town
	const fake = "0x00000000000000000000000000000000000000B2"
	c.program(t, 8453, fake, liar)
	c.program(t, 1, usdt, liar)
	c.program(t, 254, "0x00000000000000000000000000000000000000B3", forwarder)
	log := func(micros int64) []byte {
		return slices.Concat(word(f.wallet[:]), word(f.at[:]), word(big.NewInt(micros).Bytes()))
	}
	// A contract that nobody knows, a token that is not accepted, less than a cent, and coins inside of a transaction.
	f.pays(t, 8453, fake, nil, log(9_000_000))
	f.pays(t, 1, usdt, nil, log(7_000_000))
	f.pays(t, 1, devchain.USD, nil, dollarsTo(f.at, 9_999))
	f.mines(t, 254, "0x1", "0x00000000000000000000000000000000000000B3", coins(4), word(f.at[:]))
	// More than the wallet has.
	f.mines(t, 8453, "0x0", devchain.USD, new(big.Int), dollarsTo(f.at, 900_000_000))
	f.pays(t, 8453, devchain.USD, nil, dollarsTo(other.at, 3_000_000))
}

// mines has a transaction of the funder's wallet mined, with gas enough for whatever it calls, and waits for its end.
func (f *funder) mines(t *testing.T, chain uint64, status, to string, value *big.Int, data []byte) {
	t.Helper()
	url := f.town.Chains[chain]
	form := map[string]string{"from": f.wallet.String(), "to": to, "data": "0x" + hex.EncodeToString(data),
		"value": "0x" + value.Text(16), "gas": "0x40000"}
	if err := devchain.Ask(t.Context(), url, nil, "anvil_impersonateAccount", f.wallet.String()); err != nil {
		t.Fatal(err)
	}
	var hash string
	if err := devchain.Ask(t.Context(), url, &hash, "eth_sendTransaction", form); err != nil {
		t.Fatal(err)
	}
	var receipt *struct{ Status string }
	trial.Until(t, "the transaction is mined", func() bool {
		err := devchain.Ask(t.Context(), url, &receipt, "eth_getTransactionReceipt", hash)
		return err == nil && receipt != nil
	})
	if receipt.Status != status {
		t.Errorf("a transaction to %s: got the status %s, want %s", to, receipt.Status, status)
	}
}

// returnsWhatIsNotAccepted has an operator return the funder's USDT, which is credited to nobody.
func (c *town) returnsWhatIsNotAccepted(t *testing.T, f *funder) {
	t.Helper()
	usdtOf := func(state string) (found any) {
		for _, d := range f.list(t) {
			if trial.At(d, "asset") == "USDT" && trial.At(d, "state") == state {
				found = d
			}
		}
		return found
	}
	var unmatched any
	trial.Until(t, "USDT is unmatched", func() bool {
		unmatched = usdtOf("unmatched")
		return unmatched != nil
	})
	which := fmt.Sprintf(`"chain_id":1,"transaction_hash":%q,"place":0,"reason":"test"`,
		trial.Text(t, unmatched, "transaction_hash"))
	path := c.AdminURL() + "/api/v1/admin/transfers/"
	status, _, body := trial.CallAt(t, path, http.MethodPost, "match", c.Env["SVC_ADMIN_TOKEN"],
		`{`+which+`,"account_id":"`+f.account+`"}`)
	if status != http.StatusConflict {
		t.Errorf("USDT is matched to an account: got %d %s, want %d", status, body, http.StatusConflict)
	}
	c.Admin(t, http.MethodPost, "/api/v1/admin/transfers/return",
		`{`+which+`,"return_transaction_hash":"0x`+strings.Repeat("7", 64)+`"}`)
	if usdtOf("returned") == nil {
		t.Error("after the return: got USDT in another state, want returned")
	}
}

// spends has the funder ask the dear model, and pays for it with what was deposited.
func (f *funder) spends(t *testing.T) {
	t.Helper()
	f.town.Wants(t, http.StatusOK, http.MethodPost, trial.ChatPath, f.key, trial.Chat(dear, `,"max_tokens":16`))
	f.town.NothingHeld(t, f.account)
	balance, _ := f.town.Balance(t, f.account)
	rest, ok := new(big.Rat).SetString(balance)
	if !ok {
		t.Fatalf("the balance: got %q, want a number", balance)
	}
	if rest.Cmp(big.NewRat(21, 1)) >= 0 {
		t.Errorf("the balance after a request: got %s, want less than 21", balance)
	}
}

// balance fails the test unless a funder's account has a balance.
func (c *town) balance(t *testing.T, f *funder, what, want string) {
	t.Helper()
	if got, _ := c.Balance(t, f.account); got != want {
		t.Errorf("%s: got the balance $%s, want $%s", what, got, want)
	}
}

// waitStray waits until the hourly look has found coins that no transaction brought to an address, as unmatched.
func (c *town) waitStray(t *testing.T, at ethereum.Address, coins string) {
	t.Helper()
	trial.Until(t, "coins that no transaction brought are unmatched", func() bool {
		answer := c.Admin(t, http.MethodGet, "/api/v1/admin/transfers?state=unmatched", "")
		list, _ := trial.At(answer, "list").([]any)
		return slices.ContainsFunc(list, func(d any) bool {
			return trial.At(d, "symbol") == "SVC" && trial.At(d, "tokens") == coins
		})
	})
	if got := c.ask(t, 254, "eth_getBalance", at.String(), "latest"); got.Sign() == 0 {
		t.Errorf("coins at %s: got none, want some", at)
	}
}

// address reads an address.
func address(t *testing.T, text string) ethereum.Address {
	t.Helper()
	a, err := ethereum.ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
