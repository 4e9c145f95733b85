package settlement_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/pg/devclock"
	"svc.internal/pkg/pg/pgserver"
	"svc.internal/services/proving/internal/trial"
	settlement "svc.internal/services/settlement"
	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/devchain"
)

func TestMain(m *testing.M) { trial.Main(m) }

// repository is the folder of the workspace.
const repository = "../../../.."

// town is a marketplace with three chains, whose collateral counts.
type town struct {
	*trial.Market
	url    string // the superuser's, of the database
	dir    string // of the market's data
	db     *pgxpool.Pool
	chains map[uint64]string
	// killed reports that processes of the town are killed, so that an answer of 500 or more is asked for again.
	killed bool
}

func newTown(t *testing.T, environ ...string) *town {
	t.Helper()
	path := anvilPath(t)
	c := &town{chains: map[uint64]string{}, url: newDatabase(t), dir: trial.Dir(t)}
	c.Market = trial.StartIn(t, c.dir, append([]string{"DATABASE_URL=" + c.url, "SVC_ANVIL=" + path,
		"SVC_DEVELOPMENT_CHAINS=1,254,8453", "SVC_DEMO_COLLATERAL=chain", "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=info"},
		environ...)...)
	for chain := range strings.SplitSeq(c.Env["SVC_CHAIN_URLS"], ",") {
		var id uint64
		name, url, _ := strings.Cut(chain, "=")
		if _, err := fmt.Sscan(name, &id); err != nil {
			t.Fatalf("SVC_CHAIN_URLS: %v", err)
		}
		c.chains[id] = url
	}
	c.open(t)
	return c
}

// anvilPath is where the program of the chains is. Where it cannot be installed, the test is skipped, but not in CI.
func anvilPath(t *testing.T) string {
	t.Helper()
	path, err := anvil.Install(t.Context(), repository)
	if errors.Is(err, anvil.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// newDatabase starts a PostgreSQL server whose time can be moved, and returns its superuser's URL. A shift of time is
// the whole server's.
func newDatabase(t *testing.T) string {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := devclock.Install(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	return server.URL()
}

// open connects to the database.
func (c *town) open(t *testing.T) {
	t.Helper()
	var err error
	if c.db, err = pgxpool.New(context.Background(), c.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.db.Close)
}

// nextDay ends the day and returns it.
func (c *town) nextDay(t *testing.T) (day string) {
	t.Helper()
	var now time.Time
	if err := c.db.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	c.pass(t, devclock.NextDay(now))
	return now.UTC().Format(time.DateOnly)
}

// pass lets time pass, in the database and on the chains.
func (c *town) pass(t *testing.T, by time.Duration) {
	t.Helper()
	if _, err := devclock.Advance(t.Context(), c.url, by); err != nil {
		t.Fatal(err)
	}
	for _, url := range c.chains {
		if err := devchain.Ahead(t.Context(), url, by); err != nil {
			t.Fatal(err)
		}
	}
}

// wants calls the API and fails the test unless the answer has the wanted status.
func (c *town) wants(t *testing.T, status int, method, path, key, body string, headers ...string) map[string]any {
	t.Helper()
	got, _, answer := c.Call(t, method, path, key, body, headers...)
	if c.killed && got >= http.StatusInternalServerError {
		trial.Until(t, method+" "+path+" is answered", func() bool {
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
	return trial.Decode(t, answer)
}

// owner is a user who owns a provider.
type owner struct {
	*trial.Provider
	town        *town
	name, token string
	// wallet is the owner's account on every chain.
	wallet ethereum.Address
	// subject is the provider in calls of the contracts, once it has collateral.
	subject []byte
}

const password = "correct horse battery"

// newOwner signs a user up, who becomes a provider, with an account on the chains that has coins and dollars.
func (c *town) newOwner(t *testing.T, name string, wallet byte) *owner {
	t.Helper()
	o := &owner{town: c, name: name, wallet: ethereum.Address{wallet, 1}, Provider: &trial.Provider{Leave: func() {}}}
	c.wants(t, http.StatusCreated, http.MethodPost, "/api/v1/user/signup", "",
		`{"email":"`+name+`@example.org","password":"`+password+`","display_name":"`+name+`"}`)
	o.login(t)
	made := c.wants(t, http.StatusCreated, http.MethodPost, "/api/v1/user/upgrade-to-provider", o.token,
		`{"name":"`+name+`'s GPUs","wallet_address":"","beneficiary_address":"`+o.wallet.String()+`"}`)
	o.ID, o.Key = trial.Text(t, made, "provider_id"), trial.Text(t, made, "provider_api_key")
	c.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+o.ID+"/qualification", `{"gpu_waived":true,"reason":"test"}`)
	for _, url := range c.chains {
		if err := devchain.Ask(t.Context(), url, nil, "anvil_setBalance", o.wallet.String(),
			"0x"+coins(1_000).Text(16)); err != nil {
			t.Fatal(err)
		}
		if err := devchain.Mint(t.Context(), url, o.wallet, 1_000_000_000); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// login makes the owner's session anew, because the last one is over once time has passed.
func (o *owner) login(t *testing.T) {
	t.Helper()
	o.token = trial.Text(t, o.town.wants(t, http.StatusOK, http.MethodPost, "/api/v1/user/login", "",
		`{"email":"`+o.name+`@example.org","password":"`+password+`"}`), "token")
}

// send has the owner's account send a transaction.
func (o *owner) send(t *testing.T, chain uint64, to string, value *big.Int, data []byte) {
	t.Helper()
	if err := devchain.Send(t.Context(), o.town.chains[chain],
		devchain.Transaction{From: o.wallet.String(), To: to, Value: value, Data: data}); err != nil {
		t.Fatal(err)
	}
}

// deposit puts collateral behind the provider on a chain, in whole tokens, by what the API says is to be sent.
func (o *owner) deposit(t *testing.T, chain uint64, tokens int64) {
	t.Helper()
	o.sendDeposit(t, chain, o.askDeposit(t, chain, tokens))
}

// askDeposit asks the API what is to be sent for a deposit of whole tokens.
func (o *owner) askDeposit(t *testing.T, chain uint64, tokens int64) map[string]any {
	t.Helper()
	asked := o.town.wants(t, http.StatusOK, http.MethodPost, "/api/v1/provider/collateral/deposit", o.token,
		fmt.Sprintf(`{"chain_id":%d,"amount":"%d"}`, chain, tokens), "Idempotency-Key", "deposit-"+o.ID)
	o.subject = unhex(t, trial.Text(t, asked, "provider_bytes32"))
	return asked
}

// sendDeposit sends what the API said.
func (o *owner) sendDeposit(t *testing.T, chain uint64, asked map[string]any) {
	t.Helper()
	if token := trial.Text(t, asked, "token_address"); token != "" {
		o.send(t, chain, token, nil, unhex(t, trial.Text(t, asked, "approve_calldata")))
	}
	value, ok := new(big.Int).SetString(trial.Text(t, asked, "value"), 10)
	if !ok {
		t.Fatalf("deposit: got %v, want a value", asked)
	}
	o.send(t, chain, trial.Text(t, asked, "contract"), value, unhex(t, trial.Text(t, asked, "calldata")))
}

// coins is an amount of a chain's coin, in wei.
func coins(whole int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(whole), new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil))
}

// dollars is how many of the test dollar's millionths an account has on a chain.
func (c *town) dollars(t *testing.T, chain uint64, of ethereum.Address) *big.Int {
	t.Helper()
	return c.ask(t, chain, "eth_call", map[string]string{"to": devchain.USD,
		"data": "0x70a08231" + hex.EncodeToString(word(of[:]))}, "latest")
}

// ask asks a chain for a number.
func (c *town) ask(t *testing.T, chain uint64, method string, params ...any) *big.Int {
	t.Helper()
	var text string
	if err := devchain.Ask(t.Context(), c.chains[chain], &text, method, params...); err != nil {
		t.Fatal(err)
	}
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		t.Fatalf("%s: got %q, want a number", method, text)
	}
	return n
}

// waitStatus waits until the provider has a status.
func (o *owner) waitStatus(t *testing.T, want string) {
	t.Helper()
	trial.Until(t, "the provider is "+want, func() bool {
		_, _, body := o.town.Call(t, http.MethodGet, "/api/v1/provider/status", o.Key, "")
		return strings.Contains(string(body), `"status":"`+want+`"`)
	})
}

// dear is a model of which one answer costs some dollars.
const dear = "test/dear"

// serve has the provider serve the dear model, from an engine that is not real.
func (o *owner) serve(t *testing.T) {
	t.Helper()
	o.serveModel(t, dear)
}

// serveModel is serve for another model, which costs the same.
func (o *owner) serveModel(t *testing.T, model string) {
	t.Helper()
	o.serveAt(t, model, 10_000, 100_000)
}

// serveAt is serve for a model at prices of a million tokens, in dollars, of which the provider gets nine tenths.
func (o *owner) serveAt(t *testing.T, model string, input, output int) {
	t.Helper()
	o.town.Admin(t, http.MethodPut, "/api/v1/admin/models/"+model, fmt.Sprintf(`{"name":"Dear","input_price":"%d",
		"output_price":"%d","payout_input_price":"%d","payout_output_price":"%d","context_length":8192,
		"max_output_tokens":1024,"capabilities":["chat"]}`, input, output, input/10*9, output/10*9))
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	o.town.Connect(t, o.Provider, engine.URL, model)
	o.town.WaitOffered(t, model, o.ID)
}

// earn has a consumer ask the provider's model so often, and waits until the ledger has settled it.
func (o *owner) earn(t *testing.T, times int) {
	t.Helper()
	account, key := o.town.Consumer(t, "10000")
	o.town.Unlimit(t, account)
	for range times {
		o.town.wants(t, http.StatusOK, http.MethodPost, trial.ChatPath, key, trial.Chat(dear, ""))
	}
	o.town.NothingHeld(t, account)
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// word is a value as an argument of a contract's function.
func word(value []byte) []byte { return append(make([]byte, 32-len(value)), value...) }

// write writes a file of the test's.
func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// verified fails the test unless settlement's own verification and the ledger's find nothing wrong.
func (c *town) verified(t *testing.T) {
	t.Helper()
	c.Balanced(t)
	cfg := c.db.Config()
	cfg.ConnConfig.RuntimeParams["search_path"] = settlement.Schema
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	report, err := settlement.Verify(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			t.Errorf("settlement verify: %s: %q", i.Name, i.Examples)
		}
	}
}
