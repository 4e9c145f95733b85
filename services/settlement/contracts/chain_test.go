package contracts_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"svc.internal/services/settlement/anvil/anviltest"
	"svc.internal/services/settlement/contracts"
)

const (
	// gasLimit is more than any transaction of the tests takes.
	gasLimit = 12_000_000
	// begin is the time of a chain's first block that a test makes.
	begin = 2_000_000_000

	hour = uint64(3_600)
	day  = 24 * hour
)

// chain is a development chain whose blocks have the times that a test wants.
type chain struct {
	t   testing.TB
	rpc *rpc.Client
	// now is the time of the last block.
	now   uint64
	names map[common.Address]string
	// deployment is the gas that the last deployment took.
	deployment uint64
	// errors are those of all contracts that the test has made, by selector.
	errors map[[4]byte]abi.Error
}

func newChain(t testing.TB, chainID uint64) *chain {
	t.Helper()
	// Accounts send without a key and without gas.
	url := anviltest.Start(t, chainID, "--no-mining", "--auto-impersonate", "--disable-min-priority-fee",
		"--block-base-fee-per-gas", "0").URL
	client, err := rpc.DialContext(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &chain{t: t, rpc: client, now: begin, names: map[common.Address]string{{}: "nobody"},
		errors: map[[4]byte]abi.Error{}}
}

func (c *chain) call(result any, method string, args ...any) {
	c.t.Helper()
	if err := c.rpc.CallContext(c.t.Context(), result, method, args...); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// account makes an account that has a name in errors and events.
func (c *chain) account(name string) common.Address {
	at := common.BytesToAddress([]byte("account " + name))
	c.names[at] = name
	return at
}

// coin is the account's balance of the chain's coin.
func (c *chain) coin(at common.Address) *big.Int {
	c.t.Helper()
	var balance hexutil.Big
	c.call(&balance, "eth_getBalance", at, "latest")
	return (*big.Int)(&balance)
}

// give adds an amount of the coin to an account.
func (c *chain) give(to common.Address, amount *big.Int) {
	c.t.Helper()
	c.call(nil, "anvil_setBalance", to, hexutil.EncodeBig(new(big.Int).Add(c.coin(to), amount)))
}

// setNext sets the time of the next block.
func (c *chain) setNext(time uint64) {
	c.t.Helper()
	if time <= c.now {
		c.t.Fatalf("the next block: got time %d, want more than %d", time, c.now)
	}
	c.now = time - 1
}

// receipt is what a transaction has come to.
type receipt struct {
	TransactionHash common.Hash
	Status, GasUsed hexutil.Uint64
	ContractAddress *common.Address
	Logs            []log
}

// log is an event in a receipt.
type log struct {
	Address common.Address
	Topics  []common.Hash
	Data    hexutil.Bytes
}

// send sends a transaction in a block of its own. The block has the next second, if setNext has not said otherwise.
func (c *chain) send(from common.Address, to *common.Address, data []byte, value *big.Int) receipt {
	c.t.Helper()
	tx := map[string]any{"from": from, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(gasLimit), "gasPrice": "0x0"}
	if to != nil {
		tx["to"] = to
	}
	if value != nil {
		tx["value"] = (*hexutil.Big)(value)
	}
	var hash common.Hash
	c.call(&hash, "eth_sendTransaction", tx)
	c.now++
	c.call(nil, "evm_mine", hexutil.EncodeUint64(c.now))
	var r receipt
	c.call(&r, "eth_getTransactionReceipt", hash)
	if r.TransactionHash != hash {
		c.t.Fatalf("the receipt: got that of %s, want that of %s", r.TransactionHash, hash)
	}
	return r
}

// failure is the error with which a transaction was reverted, as text.
func (c *chain) failure(r receipt) string {
	c.t.Helper()
	var trace struct {
		Output hexutil.Bytes
		Error  string
	}
	c.call(&trace, "debug_traceTransaction", r.TransactionHash, map[string]string{"tracer": "callTracer"})
	return c.explain(trace.Output, trace.Error)
}

// explain is the text of what a call has returned that failed.
func (c *chain) explain(output []byte, otherwise string) string {
	if len(output) < 4 {
		return otherwise
	}
	if reason, err := abi.UnpackRevert(output); err == nil {
		return reason
	}
	e, ok := c.errors[[4]byte(output)]
	if !ok {
		return fmt.Sprintf("unknown error %x", output)
	}
	values, err := e.Inputs.Unpack(output[4:])
	if err != nil {
		c.t.Fatal(err)
	}
	return c.text(e.Name, values)
}

// text is a name with values. Accounts and identifiers have their names.
func (c *chain) text(name string, values []any) string {
	var parts []string
	for _, v := range values {
		switch v := v.(type) {
		case common.Address:
			if known, ok := c.names[v]; ok {
				parts = append(parts, known)
			} else {
				parts = append(parts, v.Hex())
			}
		case [32]byte:
			parts = append(parts, string(bytes.TrimRight(v[:], "\x00")))
		case []byte:
			parts = append(parts, c.explain(v, ""))
		default:
			parts = append(parts, fmt.Sprint(v))
		}
	}
	return name + "(" + strings.Join(parts, ", ") + ")"
}

// id is an identifier with a readable text.
func id(text string) (b [32]byte) {
	copy(b[:], text)
	return b
}

// contract is a contract on a chain.
type contract struct {
	*chain
	address common.Address
	abi     abi.ABI
}

// artifact reads the artifact of a contract that is for tests alone.
func artifact(t testing.TB, name string) contracts.Artifact {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("artifacts", "hostile", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := contracts.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// load reads the description of a contract, with its errors.
func (c *chain) load(a contracts.Artifact) abi.ABI {
	c.t.Helper()
	parsed, err := abi.JSON(bytes.NewReader(a.ABI))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range parsed.Errors {
		c.errors[[4]byte(e.ID[:4])] = e
	}
	return parsed
}

// tryDeploy deploys a contract. It returns the error with which the constructor failed.
func (c *chain) tryDeploy(a contracts.Artifact, value *big.Int, args ...any) (contract, string) {
	c.t.Helper()
	parsed := c.load(a)
	packed, err := parsed.Pack("", args...)
	if err != nil {
		c.t.Fatal(err)
	}
	r := c.send(c.account("deployer"), nil, append(bytes.Clone(a.Creation), packed...), value)
	if r.Status == 0 {
		return contract{}, c.failure(r)
	}
	c.deployment = uint64(r.GasUsed)
	c.names[*r.ContractAddress] = a.Contract
	return contract{chain: c, address: *r.ContractAddress, abi: parsed}, ""
}

// deploy deploys a contract.
func (c *chain) deploy(a contracts.Artifact, args ...any) contract {
	c.t.Helper()
	k, failure := c.tryDeploy(a, nil, args...)
	if failure != "" {
		c.t.Fatalf("deploy %s: got the error %s, want none", a.Contract, failure)
	}
	return k
}

// result is what a transaction on a contract has come to.
type result struct {
	what string
	t    testing.TB
	// failure is the error with which the transaction was reverted; empty if it was not.
	failure string
	// events are those of the contract that was called, as texts.
	events []string
	gas    uint64
	logs   []log
}

// ok ends the test if the transaction was reverted.
func (r result) ok() result {
	r.t.Helper()
	if r.failure != "" {
		r.t.Fatalf("%s: got the error %s, want none", r.what, r.failure)
	}
	return r
}

// refused fails the test unless the transaction was reverted with the error, with or without its values.
func (r result) refused(want string) {
	r.t.Helper()
	got := r.failure
	if !strings.Contains(want, "(") {
		got, _, _ = strings.Cut(got, "(")
	}
	if got != want {
		r.t.Errorf("%s: got the error %q, want %q", r.what, r.failure, want)
	}
}

// emits ends the test if the transaction was reverted, and fails it unless these are the events.
func (r result) emits(want ...string) result {
	r.t.Helper()
	r.ok()
	if got := strings.Join(r.events, " "); got != strings.Join(want, " ") {
		r.t.Errorf("events of %s: got %s, want %s", r.what, got, strings.Join(want, " "))
	}
	return r
}

// pack encodes a call.
func (k contract) pack(method string, args ...any) []byte {
	k.t.Helper()
	data, err := k.abi.Pack(method, args...)
	if err != nil {
		k.t.Fatal(err)
	}
	return data
}

// do calls a function in a transaction.
func (k contract) do(from common.Address, method string, args ...any) result {
	k.t.Helper()
	return k.pay(from, nil, method, args...)
}

// pay calls a function in a transaction that brings coin.
func (k contract) pay(from common.Address, value *big.Int, method string, args ...any) result {
	k.t.Helper()
	r := k.send(from, &k.address, k.pack(method, args...), value)
	out := result{what: k.names[from] + ": " + k.text(method, args), t: k.t, gas: uint64(r.GasUsed), logs: r.Logs}
	if r.Status == 0 {
		out.failure = k.failure(r)
		return out
	}
	out.events = k.eventsIn(r.Logs)
	return out
}

// eventsIn returns the contract's events as texts.
func (k contract) eventsIn(logs []log) []string {
	k.t.Helper()
	var texts []string
	for _, l := range logs {
		if l.Address == k.address {
			texts = append(texts, k.event(l.Topics, l.Data))
		}
	}
	return texts
}

// event is the text of an event.
func (k contract) event(topics []common.Hash, data []byte) string {
	k.t.Helper()
	e, err := k.abi.EventByID(topics[0])
	if err != nil {
		k.t.Fatal(err)
	}
	rest, err := e.Inputs.NonIndexed().Unpack(data)
	if err != nil {
		k.t.Fatal(err)
	}
	topics = topics[1:]
	var values []any
	for _, input := range e.Inputs {
		switch {
		case !input.Indexed:
			values, rest = append(values, rest[0]), rest[1:]
		case input.Type.T == abi.AddressTy:
			values, topics = append(values, common.BytesToAddress(topics[0][:])), topics[1:]
		default:
			values, topics = append(values, [32]byte(topics[0])), topics[1:]
		}
	}
	return k.text(e.Name, values)
}

// get calls a function that changes nothing, and returns its first result.
func (k contract) get(method string, args ...any) any {
	k.t.Helper()
	var out hexutil.Bytes
	k.call(&out, "eth_call", map[string]any{"to": k.address, "data": hexutil.Bytes(k.pack(method, args...))}, "latest")
	values, err := k.abi.Unpack(method, out)
	if err == nil && len(values) == 0 {
		err = errors.New("no result")
	}
	if err != nil {
		k.t.Fatalf("%s: %v", method, err)
	}
	return values[0]
}

// code is the code of the contract on the chain.
func (k contract) code() []byte {
	k.t.Helper()
	var code hexutil.Bytes
	k.call(&code, "eth_getCode", k.address, "latest")
	return code
}
