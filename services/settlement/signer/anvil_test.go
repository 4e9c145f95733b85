package signer

import (
	"encoding/hex"
	"encoding/json"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/anvil/anviltest"
	"svc.internal/services/settlement/contracts"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/development"
)

// network is a development chain with a dollar.
type network struct {
	t     *testing.T
	rpc   *rpc.Client
	owner common.Address
	usd   common.Address
	abi   abi.ABI
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	client, err := rpc.DialContext(t.Context(), anviltest.Start(t, 254).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	n := &network{t: t, rpc: client}
	var accounts []common.Address
	n.call(&accounts, "eth_accounts")
	n.owner = accounts[0]
	artifact, err := contracts.TestUSD()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(artifact.ABI, &n.abi); err != nil {
		t.Fatal(err)
	}
	arguments, err := n.abi.Pack("", n.owner)
	if err != nil {
		t.Fatal(err)
	}
	n.usd = n.send(map[string]any{"from": n.owner, "data": hexutil.Bytes(append(artifact.Creation, arguments...)),
		"gas": hexutil.Uint64(5_000_000)}).ContractAddress
	return n
}

func (n *network) call(into any, method string, arguments ...any) {
	n.t.Helper()
	if err := n.rpc.CallContext(n.t.Context(), into, method, arguments...); err != nil {
		n.t.Fatalf("%s: %v", method, err)
	}
}

// send sends a transaction of an account that anvil has the key of.
func (n *network) send(tx map[string]any) *types.Receipt {
	n.t.Helper()
	var hash common.Hash
	n.call(&hash, "eth_sendTransaction", tx)
	return n.receipt(hash)
}

// broadcast sends what the signer has signed.
func (n *network) broadcast(resp *signerv1.SignTransactionResponse) {
	n.t.Helper()
	var hash common.Hash
	n.call(&hash, "eth_sendRawTransaction", hexutil.Bytes(resp.GetRaw()))
	if got := chain.Hash(hash); got != chain.Hash(resp.GetHash()) {
		n.t.Errorf("the chain's hash: got %s, want %x", got, resp.GetHash())
	}
	n.receipt(hash)
}

func (n *network) receipt(hash common.Hash) *types.Receipt {
	n.t.Helper()
	var receipt *types.Receipt
	// The chain mines by itself, a moment after it has answered.
	for tries := 0; receipt == nil && tries < 100; tries++ {
		n.call(nil, "evm_mine")
		n.call(&receipt, "eth_getTransactionReceipt", hash)
	}
	if receipt == nil {
		n.t.Fatalf("transaction %s: got the receipt %+v, want success", hash, receipt)
	}
	if receipt.Status != types.ReceiptStatusSuccessful {
		n.t.Fatalf("transaction %s: got the receipt %+v, want success", hash, receipt)
	}
	return receipt
}

// fund gives an address coins.
func (n *network) fund(to []byte, wei string) {
	n.t.Helper()
	amount, _ := new(big.Int).SetString(wei, 10)
	n.call(nil, "anvil_setBalance", common.BytesToAddress(to), (*hexutil.Big)(amount))
}

// mint gives an address dollars.
func (n *network) mint(to []byte, amount int64) {
	n.t.Helper()
	n.send(map[string]any{"from": n.owner, "to": n.usd,
		"data": n.pack("mint", common.BytesToAddress(to), big.NewInt(amount))})
}

func (n *network) pack(method string, arguments ...any) hexutil.Bytes {
	n.t.Helper()
	data, err := n.abi.Pack(method, arguments...)
	if err != nil {
		n.t.Fatal(err)
	}
	return data
}

// dollars is what an address has.
func (n *network) dollars(of chain.Address) int64 {
	n.t.Helper()
	var out hexutil.Bytes
	n.call(&out, "eth_call", map[string]any{"to": n.usd, "data": n.pack("balanceOf", common.Address(of))}, "latest")
	return new(big.Int).SetBytes(out).Int64()
}

func (n *network) coins(of chain.Address) *big.Int {
	n.t.Helper()
	var out hexutil.Big
	n.call(&out, "eth_getBalance", common.Address(of), "latest")
	return (*big.Int)(&out)
}

// onNetwork is a signer whose settings list the chain's dollar.
func onNetwork(t *testing.T, n *network) *bundle {
	t.Helper()
	return setup(t, func(c *Config) {
		token := &c.Chains[0].Tokens[0]
		token.Address, token.Name = n.usd.Hex(), "Test USD"
	})
}

func TestAChainTakesAPayoutAndMinesOneOfItsBumps(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	b := onNetwork(t, n)
	from := b.address(t, "payout")
	n.fund(from, "1000000000000000000")
	n.mint(from, 5_000_000)
	req := payout(0, 1_000_000)
	req.GetCall().To = n.usd[:]
	first := b.sign(t, 0, req)
	req.MaxFeePerGasWei, req.MaxPriorityFeePerGasWei = "3000000000", "2000000000"
	bumped := b.sign(t, 1, req)
	n.broadcast(bumped)
	if err := n.rpc.CallContext(t.Context(), nil, "eth_sendRawTransaction", hexutil.Bytes(first.GetRaw())); err == nil {
		t.Error("the first signature after its bump: got it taken, want the nonce used")
	}
	if got := n.dollars(payee); got != 1_000_000 {
		t.Errorf("the payee: got %d, want 1000000 once", got)
	}
	coins := payout(1, 0)
	coins.GetCall().To, coins.GetCall().ValueWei, coins.GetCall().Data = payee[:], "1000", nil
	n.broadcast(b.sign(t, 0, coins))
	if got := n.coins(payee); got.Int64() != 1000 {
		t.Errorf("the payee: got %s wei, want 1000", got)
	}
	n.broadcast(b.sign(t, 0, canceled(2)))
}

func TestAChainTakesASweepOfATokenAndOfCoins(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	b := onNetwork(t, n)
	n.fund(b.address(t, "gas"), "1000000000000000000")
	var nonce [32]byte
	nonce[0] = 1
	sweep, err := b.clients[0].SignSweep(t.Context(), &signerv1.SignSweepRequest{ChainId: 254, Token: n.usd[:],
		DepositIndex: 3, Value: "700", ValidBefore: 1 << 40, Nonce: nonce[:]})
	if err != nil {
		t.Fatal(err)
	}
	n.mint(sweep.GetFrom(), 700)
	req := payout(0, 0)
	req.Key = "gas"
	req.GetCall().To = n.usd[:]
	req.GetCall().Data = n.pack("transferWithAuthorization", common.BytesToAddress(sweep.GetFrom()),
		common.Address(treasury), big.NewInt(700), new(big.Int), big.NewInt(1<<40), nonce, uint8(sweep.GetV()),
		[32]byte(sweep.GetR()), [32]byte(sweep.GetS()))
	n.broadcast(b.sign(t, 0, req))
	if got := n.dollars(treasury); got != 700 {
		t.Errorf("the treasury: got %d, want 700", got)
	}
	n.fund(sweep.GetFrom(), "1000000000000000000")
	coins := payout(0, 0)
	coins.Key, coins.DepositIndex = "deposit", 3
	coins.GetCall().To, coins.GetCall().ValueWei, coins.GetCall().Data = treasury[:], "900000000000000000", nil
	resp := b.sign(t, 0, coins)
	if got, want := hex.EncodeToString(resp.GetSender()), hex.EncodeToString(sweep.GetFrom()); got != want {
		t.Errorf("the sender: got %s, want %s", got, want)
	}
	n.broadcast(resp)
	if got := n.coins(treasury).String(); got != "900000000000000000" {
		t.Errorf("the treasury: got %s wei, want 0.9 coins", got)
	}
}

func TestTheKeysOfRolesDoTheirPartOnAChain(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	seed := t.TempDir() + "/seed"
	addresses, err := development.Addresses(seed)
	if err != nil {
		t.Fatal(err)
	}
	artifact, err := contracts.Collateral()
	if err != nil {
		t.Fatal(err)
	}
	var deployed abi.ABI
	if err := json.Unmarshal(artifact.ABI, &deployed); err != nil {
		t.Fatal(err)
	}
	at := func(name string) common.Address { return common.Address(addresses[name]) }
	arguments, err := deployed.Pack("", common.Address{}, common.Address(treasury), n.owner, at("operator"), at("slasher"),
		at("arbiter"))
	if err != nil {
		t.Fatal(err)
	}
	creation := hexutil.Bytes(append(slices.Clone(artifact.Creation), arguments...))
	held := n.send(map[string]any{"from": n.owner, "data": creation,
		"gas": hexutil.Uint64(8_000_000)}).ContractAddress
	b := setup(t, func(c *Config) {
		c.Chains[0].Collateral, c.DevelopmentSeed = held.Hex(), seed
		c.Chains[0].Fees.Day = chain.NewAmount(1 << 62)
	})
	for _, name := range []string{"operator", "slasher", "arbiter", "gas"} {
		address := addresses[name]
		n.fund(address[:], "1000000000000000000")
	}
	pack := func(method string, arguments ...any) []byte {
		data, err := deployed.Pack(method, arguments...)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	do := func(key string, nonce int64, data []byte) {
		t.Helper()
		req := payout(nonce, 0)
		req.Key, req.GasLimit = key, 400_000
		req.MaxFeePerGasWei, req.GetCall().To, req.GetCall().Data = "2000000000", held[:], data
		n.broadcast(b.sign(t, 0, req))
	}
	provider, first, second := [32]byte{1}, [32]byte{2}, [32]byte{3}
	n.send(map[string]any{"from": n.owner, "to": held, "value": hexutil.Uint64(1000),
		"data": hexutil.Bytes(pack("deposit", provider, big.NewInt(1000)))})
	do("slasher", 0, pack("proposeSlash", first, provider, n.owner, big.NewInt(300)))
	do("operator", 0, pack("appeal", first))
	do("arbiter", 0, pack("resolve", first, true))
	if got := n.coins(treasury).String(); got != "300" {
		t.Errorf("the treasury after a lost appeal: got %s, want 300", got)
	}
	do("slasher", 1, pack("proposeSlash", second, provider, n.owner, big.NewInt(100)))
	n.call(nil, "evm_increaseTime", hexutil.Uint64(48*3600))
	n.call(nil, "evm_mine")
	do("slasher", 2, pack("executeSlash", second))
	do("operator", 1, pack("requestRefund", provider, n.owner))
	n.call(nil, "evm_increaseTime", hexutil.Uint64(7*24*3600))
	n.call(nil, "evm_mine")
	do("gas", 0, pack("executeRefund", provider, n.owner))
	if got := n.coins(chain.Address(held)); got.Sign() != 0 {
		t.Errorf("the contract at the end: got %s, want nothing", got)
	}
}
