//go:build watch

package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/pg/devclock"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/proving/internal/chaos/ethnode"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/settlement/devchain"
)

// chainAlerts are the alerts of settlement and of chain-signer that TestAlertsOfChainsFireByTheirFaults has fire.
var chainAlerts = []string{"SignerRefused", "SignerCapReached", "SignerFails", "ChainStalled", "ChainHalted",
	"ChainRowsMissed", "ForeignSlash", "CustodyUnposted", "CoinPriceMissing", "DepositsUncovered", "DepositsUnposted",
	"CoinsNotRevalued", "SweepsStuck", "SendingHalted", "ReservesShort", "ReservesUnread", "HotWalletLow",
	"TransactionsRefused", "TransactionsStuck", "PositionsRestated"}

// troubled is a fleet that pays providers, to which faults happen.
type troubled struct {
	*trial.Town
	*server
	chains *paychain.Chains
	// nodes are those that settlement asks, by the numbers of their chains.
	nodes map[uint64]*ethnode.Node
	// apart reports whether the two sources of the price of a coin differ.
	apart atomic.Bool
	o     *trial.Owner
	paid  int // payouts that were asked for
}

// mostPaid is the most that chain-signer lets one payout be, in millionths of a dollar, and dearGas what a unit of gas
// costs, in wei, on a chain whose fees are above what settlement offers.
const (
	mostPaid = "12500000"
	dearGas  = "0xba43b74000"
)

// newTroubled starts the fleet, and has its provider earn.
func newTroubled(t *testing.T) *troubled {
	t.Helper()
	f := &troubled{nodes: map[uint64]*ethnode.Node{}}
	sources := f.startSources(t)
	f.Town, f.server, f.chains = chained(t, func(c *fleet.Config) {
		settlement, _ := c.Settings[fleet.Settlement]["settlement"].(object)
		known, _ := settlement["chains"].([]map[string]any)
		for _, one := range known {
			f.startNode(t, one)
		}
		own(c, fleet.Settlement, "settlement", object{"quotes": object{"fixed": object{"8453:eth": paychain.ETHPrice},
			"sources": sources}})
		signer, _ := c.Settings[fleet.Signer]["signer"].(object)
		allowed, _ := signer["chains"].([]map[string]any)
		tokens, _ := allowed[0]["tokens"].([]any)
		token, _ := tokens[0].(object)
		payouts, _ := token["payouts"].(object)
		payouts["transaction"] = mostPaid
	})
	f.o = f.NewOwner(t, "ann", 0xa1)
	f.o.Deposit(t, paychain.Dollars, 20)
	f.o.ServeAt(t, trial.Dear, 30_000, 300_000)
	f.o.WaitStatus(t, "active")
	f.o.Earn(t, 90)
	return f
}

// startNode puts a node between settlement and a chain, by the chain's settings. Settlement reads a block of Coins for
// the second time a day of blocks later, so block_time is the longest that settlement accepts and a day has few blocks.
func (f *troubled) startNode(t *testing.T, settings object) {
	t.Helper()
	urls, _ := settings["rpcs"].([]any)
	url, _ := urls[0].(string)
	n, err := ethnode.Start(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	id, _ := settings["id"].(float64)
	f.nodes[uint64(id)] = n
	settings["rpcs"] = []string{n.URL}
	if id == paychain.Coins {
		settings["block_time"] = "1m"
	}
}

// startSources starts two sources of the price of the coin of Coins, and returns settlement's settings of both.
func (f *troubled) startSources(t *testing.T) (settings []object) {
	t.Helper()
	for _, name := range []string{"one", "other"} {
		source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			price := paychain.CoinPrice
			if name == "other" && f.apart.Load() {
				price = "0.52"
			}
			_, _ = io.WriteString(w, `{"price":`+price+`}`)
		}))
		t.Cleanup(source.Close)
		settings = append(settings, object{"token": "254:native", "name": name, "url": source.URL, "path": "price"})
	}
	return settings
}

// exec runs a statement as the database's superuser, and reads the row that it returns, unless into is empty.
func (f *troubled) exec(t *testing.T, sql string, into ...any) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), f.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	if len(into) > 0 {
		err = db.QueryRow(t.Context(), sql).Scan(into...)
	} else {
		_, err = db.Exec(t.Context(), sql)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// pay asks for a payout, an hour after the last one, and returns its id.
func (f *troubled) pay(t *testing.T, usd string) (id string) {
	t.Helper()
	f.Pass(t, time.Hour+time.Minute)
	f.o.Login(t)
	f.paid++
	return f.o.Ask(t, usd, fmt.Sprint("payout-", f.paid))
}

// ask calls a method of a chain.
func (f *troubled) ask(t *testing.T, chain uint64, method string, params ...any) {
	t.Helper()
	if err := devchain.Ask(t.Context(), f.Chains[chain], nil, method, params...); err != nil {
		t.Fatal(err)
	}
}

// fund sets what an address has of a chain's coin.
func (f *troubled) fund(t *testing.T, chain uint64, of ethereum.Address, wei *big.Int) {
	t.Helper()
	f.ask(t, chain, "anvil_setBalance", of.String(), "0x"+wei.Text(16))
}

// send has an account of Dollars send so many millionths of the test dollar.
func (f *troubled) send(t *testing.T, from, to string, micros int64) {
	t.Helper()
	f.call(t, from, devchain.USD, transferOf(t, to, micros))
}

// call has an account of Dollars call a contract.
func (f *troubled) call(t *testing.T, from, contract string, data []byte) {
	t.Helper()
	if err := devchain.Send(t.Context(), f.Chains[paychain.Dollars],
		devchain.Transaction{From: from, To: contract, Data: data}); err != nil {
		t.Fatal(err)
	}
}

// TestAlertsOfChainsFireByTheirFaults brings faults of chains, of what reads them and of what sends on them about, one
// after the other, in one fleet. A part that lasts a minute by design begins early and is looked at late.
func TestAlertsOfChainsFireByTheirFaults(t *testing.T) {
	f := newTroubled(t)
	trial.Until(t, "prices are known", func() bool { return len(f.query(t, `min(svc_settlement_price_known) == 1`)) > 0 })
	for _, alert := range chainAlerts {
		f.quiet(t, alert)
	}
	f.apart.Store(true)
	gas := f.chains.Keys["gas"]
	f.fund(t, paychain.Dollars, gas, new(big.Int))
	at := depositAddress(t, f.Town, f.o, paychain.Dollars)
	f.send(t, f.o.Wallet.String(), at, 150_000_000)
	waitCredited(t, f.Town, f.o)
	f.Pass(t, 24*time.Hour)
	f.o.Payable(t)
	for _, fault := range []struct {
		name  string
		bring func(*testing.T, *troubled)
	}{
		{"a stranger speaks as settlement", strangerSpeaks},
		{"the wallet for payouts has no coins", walletIsEmpty},
		{"the fees of a chain are above what settlement offers", feesAreHigh},
		{"a payout is above the cap", payoutIsAboveTheCap},
		{"the signer cannot write", signerCannotWrite},
		{"nodes are away for five hours", nodesAreAway},
		{"billing-ledger is killed", ledgerIsKilled},
		{"a deposit address is emptied before its deposit is credited", addressIsEmptied},
		{"somebody has the slasher's key", slasherIsStolen},
		{"a node forgets logs", nodeForgets},
		{"sources of prices differ for more than a day", sourcesDiffer},
		{"sweeps cannot be paid", sweepsCannotBePaid},
		{"somebody has the key for payouts", payoutKeyIsStolen},
		{"final blocks are taken back", finalBlocksGo},
	} {
		t.Run(fault.name, func(t *testing.T) { fault.bring(t, f) })
	}
}

func strangerSpeaks(t *testing.T, f *troubled) {
	err := peers.Services{Fleet: f.Fleet()}.Call(fleet.Settlement, fleet.Signer, func(conn *grpc.ClientConn) error {
		_, err := signerv1.NewSignerServiceClient(conn).SignTransaction(t.Context(), &signerv1.SignTransactionRequest{
			ChainId: paychain.Dollars, Key: "operator", Nonce: 0, GasLimit: 100_000, MaxFeePerGasWei: "1000000000",
			MaxPriorityFeePerGasWei: "1", Content: &signerv1.SignTransactionRequest_Call{Call: &signerv1.Call{
				To: f.o.Wallet[:], ValueWei: "1"}}})
		return err
	})
	if err == nil {
		t.Fatal("a transaction to a stranger: got it signed, want it refused")
	}
	f.fires(t, "SignerRefused", `,key="operator",reason="destination_not_allowed"`)
	f.shows(t, "svc_signer_refused_total")
}

// What the wallet had is in the treasury, so that nothing lacks.
func walletIsEmpty(t *testing.T, f *troubled) {
	f.fund(t, paychain.Dollars, address(t, devchain.Treasury), paychain.Whole(paychain.GasCoins))
	f.fund(t, paychain.Dollars, f.chains.Keys["payout"], new(big.Int))
	f.ask(t, paychain.Dollars, "anvil_mine", 3)
	id := f.pay(t, "12")
	f.fires(t, "HotWalletLow", `,for="gas_low"`)
	f.fund(t, paychain.Dollars, f.chains.Keys["payout"], paychain.Whole(paychain.GasCoins))
	f.ask(t, paychain.Dollars, "anvil_mine", 3)
	f.o.Confirmed(t, id)
	f.quiet(t, "HotWalletLow")
}

func feesAreHigh(t *testing.T, f *troubled) {
	f.Pass(t, time.Hour+time.Minute)
	f.ask(t, paychain.Dollars, "anvil_setNextBlockBaseFeePerGas", dearGas)
	f.ask(t, paychain.Dollars, "anvil_mine", 1)
	f.o.Login(t)
	f.paid++
	id := f.o.Ask(t, "12", fmt.Sprint("payout-", f.paid))
	trial.Until(t, "the payout is sent", func() bool { return f.o.Payout(t, id)["state"] == "submitted" })
	if _, err := devclock.Advance(t.Context(), f.DatabaseURL, 15*time.Minute); err != nil {
		t.Fatal(err)
	}
	f.fires(t, "TransactionsStuck", `,chain="8453"`)
	f.ask(t, paychain.Dollars, "anvil_setNextBlockBaseFeePerGas", "0x1")
	f.ask(t, paychain.Dollars, "anvil_mine", 3)
	f.o.Confirmed(t, id)
	f.quiet(t, "TransactionsStuck")
}

func payoutIsAboveTheCap(t *testing.T, f *troubled) {
	id := f.pay(t, "14")
	f.fires(t, "SignerCapReached", `,key="payout"`)
	f.fires(t, "TransactionsRefused", `,chain="8453"`)
	var sender string
	var nonce int64
	f.exec(t, `SELECT '0x' || encode(sender, 'hex'), nonce FROM settlement.chain_call WHERE ref = '`+id+`'`, &sender,
		&nonce)
	f.Admin(t, http.MethodPost, "/api/v1/admin/chains/8453/calls/cancel",
		fmt.Sprintf(`{"sender":%q,"nonce":%d,"reason":"above the cap"}`, sender, nonce))
	trial.Until(t, "the payout fails", func() bool { return f.o.Payout(t, id)["state"] == "failed" })
	f.quiet(t, "TransactionsRefused")
}

// The signer stays ready, because it reads. One whose database is away is not, and nobody asks it.
func signerCannotWrite(t *testing.T, f *troubled) {
	const login = "svc_signer_login"
	set := func(change string) {
		f.exec(t, `ALTER ROLE `+login+` `+change)
		f.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '`+login+`'`)
	}
	set(`SET default_transaction_read_only = on`)
	id := f.pay(t, "12")
	f.fires(t, "SignerFails", `,key="payout"`)
	set(`RESET default_transaction_read_only`)
	f.o.Confirmed(t, id)
}

func nodesAreAway(t *testing.T, f *troubled) {
	for _, n := range f.nodes {
		defer n.Behave(ethnode.Away)()
	}
	f.Pass(t, 5*time.Hour)
	for id := range f.nodes {
		f.fires(t, "ChainStalled", fmt.Sprintf(`,chain="%d"`, id))
	}
	f.fires(t, "ReservesUnread", `,subject="8453:usdc"`)
	for _, n := range f.nodes {
		n.Behave(ethnode.Honest)
	}
	f.Pass(t, 2*time.Minute) // a look that failed is made again a minute later
	f.quiet(t, "ChainStalled")
	f.quiet(t, "ReservesUnread")
}

func ledgerIsKilled(t *testing.T, f *troubled) {
	f.o.Login(t)
	asked := f.o.AskDeposit(t, paychain.Dollars, 1)
	at := depositAddress(t, f.Town, f.o, paychain.Dollars)
	again := kill(t, f.Market, fleet.Billing)
	read := func() (events int) {
		f.exec(t, `SELECT count(*) FROM settlement.chain_event`, &events)
		return events
	}
	before := read()
	f.o.SendDeposit(t, paychain.Dollars, asked)
	f.send(t, f.o.Wallet.String(), at, 6_000_000)
	f.ask(t, paychain.Dollars, "anvil_mine", 3)
	trial.Until(t, "the deposits are read", func() bool { return read() > before })
	f.Pass(t, 20*time.Minute)
	f.fires(t, "CustodyUnposted", "")
	f.fires(t, "DepositsUnposted", "")
	again()
	f.quiet(t, "CustodyUnposted")
	f.quiet(t, "DepositsUnposted")
}

// The address is of an owner of whom nothing is being swept, because what leaves need not be there.
func addressIsEmptied(t *testing.T, f *troubled) {
	at := depositAddress(t, f.Town, f.NewOwner(t, "cat", 0xc1), paychain.Dollars)
	again := kill(t, f.Market, fleet.Settlement)
	f.send(t, f.o.Wallet.String(), at, 7_000_000)
	f.fund(t, paychain.Dollars, address(t, at), paychain.Whole(1)) // for gas
	f.send(t, at, f.o.Wallet.String(), 7_000_000)
	f.ask(t, paychain.Dollars, "anvil_mine", 3)
	again()
	f.fires(t, "DepositsUncovered", "")
}

func slasherIsStolen(t *testing.T, f *troubled) {
	slasher := f.chains.Keys["slasher"]
	f.call(t, slasher.String(), devchain.Collateral, slices.Concat([]byte{0x97, 0x44, 0x95, 0x38}, word([]byte{1}),
		f.o.Subject, word(f.o.Wallet[:]), word(big.NewInt(1_000_000).Bytes())))
	f.ask(t, paychain.Dollars, "anvil_mine", 3)
	f.fires(t, "ForeignSlash", `,chain="8453"`)
	f.shows(t, "svc_settlement_slashes_foreign_total")
}

// dayOfBlocks is more blocks than a day of Coins has.
const dayOfBlocks = 1_500

func nodeForgets(t *testing.T, f *troubled) {
	late := f.NewOwner(t, "bob", 0xb1)
	mend := f.nodes[paychain.Coins].Behave(ethnode.Forgetful)
	asked := late.AskDeposit(t, paychain.Coins, 20)
	late.SendDeposit(t, paychain.Coins, asked)
	f.ask(t, paychain.Coins, "anvil_mine", 10)
	var head string
	if err := devchain.Ask(t.Context(), f.Chains[paychain.Coins], &head, "eth_blockNumber"); err != nil {
		t.Fatal(err)
	}
	read := fmt.Sprintf(`svc_settlement_chain_block{chain="254"} >= %s - 5`, decimal(t, head))
	trial.Until(t, "the blocks of the deposit are read", func() bool { return len(f.query(t, read)) > 0 })
	mend()
	late.SendDeposit(t, paychain.Coins, asked)
	f.ask(t, paychain.Coins, "anvil_mine", dayOfBlocks)
	f.fires(t, "ChainRowsMissed", `,chain="254"`)
	f.shows(t, "svc_settlement_chain_rows_missed_total")
	f.fires(t, "PositionsRestated", `,chain="254"`)
	f.shows(t, "svc_settlement_positions_restated_total")
}

// decimal is a number of a chain's in decimal digits.
func decimal(t *testing.T, text string) string {
	t.Helper()
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		t.Fatalf("got %q, want a number", text)
	}
	return n.String()
}

func sourcesDiffer(t *testing.T, f *troubled) {
	f.fires(t, "CoinPriceMissing", `,chain="254"`)
	f.fires(t, "CoinsNotRevalued", `,chain="254"`)
	f.apart.Store(false)
}

func sweepsCannotBePaid(t *testing.T, f *troubled) {
	f.Pass(t, 7*time.Hour)
	f.fires(t, "SweepsStuck", "")
}

func payoutKeyIsStolen(t *testing.T, f *troubled) {
	thief := ethereum.Address{0xee}
	key := f.chains.Keys["payout"]
	f.send(t, key.String(), thief.String(), 50_000_000)
	f.Pass(t, 2*time.Minute)
	f.fires(t, "SendingHalted", `,chain="8453",cause="nonce_ahead"`)
	f.Pass(t, 2*time.Minute)
	f.fires(t, "ReservesShort", `,subject="8453:usdc"`)
	f.fund(t, paychain.Dollars, thief, paychain.Whole(1)) // for gas
	f.send(t, thief.String(), key.String(), 50_000_000)
	f.Pass(t, 2*time.Minute)
	f.quiet(t, "ReservesShort")
}

func finalBlocksGo(t *testing.T, f *troubled) {
	f.ask(t, paychain.Coins, "anvil_reorg", 8, []any{})
	f.ask(t, paychain.Coins, "anvil_mine", 8)
	f.fires(t, "ChainHalted", `,chain="254"`)
	var reading struct {
		Chains []struct {
			ID   string `json:"chain_id"`
			Halt *struct {
				Block string `json:"block"`
			} `json:"halt"`
		} `json:"chains"`
	}
	_, _, answer := trial.CallAt(t, f.AdminURL(), http.MethodGet, "/api/v1/admin/chains", f.Env["SVC_ADMIN_TOKEN"], "")
	if err := json.Unmarshal(answer, &reading); err != nil {
		t.Fatal(err)
	}
	for _, one := range reading.Chains {
		if one.Halt == nil {
			continue
		}
		n, ok := new(big.Int).SetString(one.Halt.Block, 10)
		if !ok {
			t.Fatalf("the block of a halt: got %q, want a number", one.Halt.Block)
		}
		var now struct{ Hash string }
		if err := devchain.Ask(t.Context(), f.Chains[paychain.Coins], &now, "eth_getBlockByNumber", "0x"+n.Text(16),
			false); err != nil {
			t.Fatal(err)
		}
		f.Admin(t, http.MethodPost, "/api/v1/admin/chains/"+one.ID+"/halt",
			fmt.Sprintf(`{"block_hash":%q,"reason":"looked at"}`, now.Hash))
	}
	f.quiet(t, "ChainHalted")
}
