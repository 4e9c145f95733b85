// Package devchain is a chain for development: anvil, with the contracts that settlement works with.
//
// Everything on it is worth nothing, and anybody who reaches it may make more: it listens on loopback, its first
// account owns the test dollar, and every account's key is known. A block comes for each transaction, two more make
// it final, and one a minute shows that the chain lives. With a folder the chain is the same after a restart. What no
// block stands on yet may be lost when the process is killed.
package devchain

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/contracts"
)

// The addresses on a chain on which nothing was deployed before: those of the first account's first transactions.
const (
	// USD is the test dollar.
	USD = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
	// Collateral is the contract that holds collateral.
	Collateral = "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512"
	// Treasury is where sweeps and penalties go: the tenth account.
	Treasury = "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"
	// owner is the first account, which deploys, and owns the test dollar.
	owner = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
)

// coinChain is the chain whose collateral and payouts are in its coin.
const coinChain = 254

// Config is what one chain is started with.
type Config struct {
	// Binary is the path of anvil: see anvil.Install.
	Binary string
	// ID is the chain's number.
	ID uint64
	// Dir is the folder of the chain's state; empty: the state ends with the chain.
	Dir string
	// ByHand leaves blocks to the caller: one comes for each transaction, and none by itself. It has no folder.
	ByHand bool
}

// heartbeat is the time between two blocks of a chain on which nothing happens, so that nobody takes it for a chain
// that stands still.
const heartbeat = time.Minute

// Start starts a chain, which ends with ctx or by Stop. Deploy makes it one that settlement can work with.
func Start(ctx context.Context, cfg Config) (*Chain, error) {
	arguments := []string{"--block-time", strconv.Itoa(int(heartbeat / time.Second)), "--mixed-mining"}
	if cfg.ByHand {
		arguments = nil
	}
	running, err := anvil.Start(ctx, anvil.Config{Binary: cfg.Binary, ChainID: cfg.ID, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	c := &Chain{Chain: running, id: cfg.ID, kept: make(chan struct{})}
	ctx, c.stop = context.WithCancel(ctx)
	if cfg.ByHand {
		close(c.kept)
		return c, nil
	}
	if err := c.restore(ctx, cfg.Dir); err != nil {
		c.stop()
		running.Stop()
		return nil, err
	}
	go c.keep(ctx)
	return c, nil
}

// Stop keeps the state and ends the chain.
func (c *Chain) Stop() {
	c.stop()
	<-c.kept
	c.Chain.Stop()
}

// Roles are the addresses that the collateral contract is deployed with.
type Roles struct{ Operator, Slasher, Arbiter ethereum.Address }

// Deploy deploys what the chain does not have yet: the test dollar, and the contract that holds collateral. It reports
// whether the chain is new.
func (c *Chain) Deploy(ctx context.Context, roles Roles) (isNew bool, err error) {
	usd, err := contracts.TestUSD()
	if err != nil {
		return false, err
	}
	if isNew, err = c.deployAt(ctx, USD, usd, word(address(owner))); err != nil {
		return false, err
	}
	collateral, err := contracts.Collateral()
	if err != nil {
		return false, err
	}
	token := address(USD)
	if c.id == coinChain {
		token = ethereum.Address{}
	}
	var arguments []byte
	for _, a := range []ethereum.Address{token, address(Treasury), address(owner), roles.Operator, roles.Slasher,
		roles.Arbiter} {
		arguments = append(arguments, word(a)...)
	}
	_, err = c.deployAt(ctx, Collateral, collateral, arguments)
	return isNew, err
}

// deployAt deploys a contract that is not there, and checks that it has the address by which others know it.
func (c *Chain) deployAt(ctx context.Context, at string, a contracts.Artifact, arguments []byte) (
	deployed bool, err error,
) {
	there := func() (bool, error) {
		var code contracts.Code
		err := c.ask(ctx, &code, "eth_getCode", at, "latest")
		return a.Matches(code), err
	}
	if is, err := there(); is || err != nil {
		return false, err
	}
	creation := append([]byte(a.Creation), arguments...)
	if err := c.Send(ctx, Transaction{From: owner, Data: creation}); err != nil {
		return false, fmt.Errorf("deploy %s: %w", a.Contract, err)
	}
	is, err := there()
	if err == nil && !is {
		err = fmt.Errorf("deploy %s: it is not at %s: the chain was used for something else before", a.Contract, at)
	}
	return is, err
}

// Transaction is what an account of the chain does. Whoever the account belongs to, anvil signs for it.
type Transaction struct {
	From, To string
	Value    *big.Int
	Data     []byte
}

// ErrReverted says that a transaction was mined and did nothing.
var ErrReverted = errors.New("the transaction was reverted")

// receiptPause is the pause between two looks for a receipt.
const receiptPause = 20 * time.Millisecond

// Send sends a transaction and waits until it is mined.
func (c *Chain) Send(ctx context.Context, tx Transaction) error { return Send(ctx, c.URL, tx) }

// Send sends a transaction on the development chain at url, as the method does.
func Send(ctx context.Context, url string, tx Transaction) error {
	if err := Ask(ctx, url, nil, "anvil_impersonateAccount", tx.From); err != nil {
		return err
	}
	form := map[string]string{"from": tx.From, "data": "0x" + hex.EncodeToString(tx.Data)}
	if tx.To != "" {
		form["to"] = tx.To
	}
	if tx.Value != nil {
		form["value"] = "0x" + tx.Value.Text(16)
	}
	var hash string
	if err := Ask(ctx, url, &hash, "eth_sendTransaction", form); err != nil {
		return err
	}
	for {
		var receipt *struct{ Status string }
		if err := Ask(ctx, url, &receipt, "eth_getTransactionReceipt", hash); err != nil {
			return err
		}
		if receipt != nil && receipt.Status != "0x1" {
			return ErrReverted
		}
		if receipt != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for a transaction: %w", ctx.Err())
		case <-time.After(receiptPause):
		}
	}
}

// mint is the selector of mint(address,uint256).
var mint = []byte{0x40, 0xc1, 0x0f, 0x19}

// Mint makes test dollars, in millionths, and gives them to an account.
func (c *Chain) Mint(ctx context.Context, to ethereum.Address, micros uint64) error {
	return Mint(ctx, c.URL, to, micros)
}

// Mint makes test dollars on the development chain at url, as the method does.
func Mint(ctx context.Context, url string, to ethereum.Address, micros uint64) error {
	data := append(append(append([]byte{}, mint...), word(to)...), number(new(big.Int).SetUint64(micros))...)
	return Send(ctx, url, Transaction{From: owner, To: USD, Data: data})
}

// Fund gives an account so much of the coin, in wei.
func (c *Chain) Fund(ctx context.Context, to ethereum.Address, wei *big.Int) error {
	return c.ask(ctx, nil, "anvil_setBalance", to.String(), "0x"+wei.Text(16))
}

// Ahead moves the chain's clock forward, from the next blocks on, and makes as many blocks as make them final.
func (c *Chain) Ahead(ctx context.Context, by time.Duration) error { return Ahead(ctx, c.URL, by) }

// Ahead moves the clock of the development chain at url forward, as the method does.
func Ahead(ctx context.Context, url string, by time.Duration) error {
	if err := Ask(ctx, url, nil, "evm_increaseTime", int64(by/time.Second)); err != nil {
		return err
	}
	return Ask(ctx, url, nil, "anvil_mine", 3)
}

func address(text string) ethereum.Address {
	a, err := ethereum.ParseAddress(text)
	if err != nil {
		panic(err) // a constant of this package
	}
	return a
}

// word is an address as an argument of a call.
func word(a ethereum.Address) []byte { return append(make([]byte, 32-len(a)), a[:]...) }

// number is a number as an argument of a call.
func number(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }
