package contracts_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"svc.internal/services/settlement/contracts"
)

// The waits of the contract, in seconds.
const (
	refundWait   = 7 * day
	exitWait     = 30 * day
	appealWindow = 48 * hour
	lapseAfter   = 30 * day
)

// The providers of the tests.
var p1, p2 = id("p1"), id("p2")

// world is a contract for collateral with the people around it.
type world struct {
	contract
	// token is the contract's token; nil stands for the coin.
	token *contract

	admin, operator, slasher, arbiter, treasury, alice, bob, stranger common.Address
}

// num is an amount.
func num(n int64) *big.Int { return big.NewInt(n) }

// collateral is the artifact of the contract.
func collateral(t testing.TB) contracts.Artifact {
	t.Helper()
	a, err := contracts.Collateral()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// testUSD deploys the dollar of development chains. The deployer owns it.
func testUSD(c *chain) contract {
	c.t.Helper()
	a, err := contracts.TestUSD()
	if err != nil {
		c.t.Fatal(err)
	}
	return c.deploy(a, c.account("deployer"))
}

// newWorld deploys the contract on a chain with a token; nil stands for the coin.
func newWorld(c *chain, token *contract) *world {
	c.t.Helper()
	w := &world{token: token, admin: c.account("admin"), operator: c.account("operator"), slasher: c.account("slasher"),
		arbiter: c.account("arbiter"), treasury: c.account("treasury"), alice: c.account("alice"), bob: c.account("bob"),
		stranger: c.account("stranger")}
	var address common.Address
	if token != nil {
		address = token.address
	}
	w.contract = c.deploy(collateral(c.t), address, w.treasury, w.admin, w.operator, w.slasher, w.arbiter)
	return w
}

// each runs a test with a token and with the coin.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	t.Run("token", func(t *testing.T) {
		t.Parallel()
		test(t, dollars(t))
	})
	t.Run("coin", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(newChain(t, 254), nil))
	})
}

// dollars is a world whose token is TestUSD.
func dollars(t *testing.T) *world {
	t.Helper()
	c := newChain(t, 8453)
	token := testUSD(c)
	return newWorld(c, &token)
}

// at sets the time of the next block.
func (w *world) at(time uint64) *world {
	w.t.Helper()
	w.setNext(time)
	return w
}

// after sets the time of the next block to so much after the last block.
func (w *world) after(seconds uint64) *world { return w.at(w.now + seconds) }

// fund gives an amount to an account, and lets the contract take it.
func (w *world) fund(to common.Address, amount *big.Int) {
	w.t.Helper()
	if w.token == nil {
		w.give(to, amount)
		return
	}
	w.token.do(w.account("deployer"), "mint", to, amount).ok()
	w.token.do(to, "approve", w.address, amount).ok()
}

// deposit has an account deposit an amount that it has.
func (w *world) deposit(from common.Address, provider [32]byte, amount *big.Int) result {
	w.t.Helper()
	if w.token == nil {
		return w.pay(from, amount, "deposit", provider, amount)
	}
	return w.do(from, "deposit", provider, amount)
}

// put gives an account an amount and has the account deposit it.
func (w *world) put(from common.Address, provider [32]byte, amount int64) {
	w.t.Helper()
	w.fund(from, num(amount))
	w.deposit(from, provider, num(amount)).ok()
}

// balance is what an account has of what the contract holds.
func (w *world) balance(at common.Address) *big.Int {
	w.t.Helper()
	if w.token == nil {
		return w.coin(at)
	}
	return w.token.get("balanceOf", at).(*big.Int)
}

// position is a position as the contract returns it.
type position struct {
	Free, Escrow     *big.Int
	RefundAt, ExitAt uint64
}

func (p position) String() string {
	return fmt.Sprintf("%d free, %d in escrow, refund %d, exit %d", p.Free, p.Escrow, p.RefundAt, p.ExitAt)
}

func (w *world) position(provider [32]byte, depositor common.Address) position {
	w.t.Helper()
	return *abi.ConvertType(w.get("positionOf", provider, depositor), new(position)).(*position)
}

// penalty is a penalty as the contract returns it.
type penalty struct {
	Provider  [32]byte
	Depositor common.Address
	Since     uint64
	State     uint8
	Amount    *big.Int
}

func (w *world) penalty(text string) penalty {
	w.t.Helper()
	return *abi.ConvertType(w.get("penaltyOf", id(text)), new(penalty)).(*penalty)
}

// hasPosition fails the test unless a position has these amounts.
func (w *world) hasPosition(provider [32]byte, depositor common.Address, free, escrow int64) {
	w.t.Helper()
	got := w.position(provider, depositor)
	if want := fmt.Sprintf("%d free, %d in escrow", free, escrow); fmt.Sprintf("%d free, %d in escrow", got.Free,
		got.Escrow) != want {
		w.t.Errorf("%s's position: got %v, want %s", w.names[depositor], got, want)
	}
}

// hasBalance fails the test unless an account has an amount.
func (w *world) hasBalance(at common.Address, want int64) {
	w.t.Helper()
	if got := w.balance(at); got.Cmp(num(want)) != 0 {
		w.t.Errorf("%s's balance: got %d, want %d", w.names[at], got, want)
	}
}

// propose has the slasher propose a penalty of alice's position behind p1.
func (w *world) propose(penalty string, amount int64) result {
	w.t.Helper()
	return w.do(w.slasher, "proposeSlash", id(penalty), p1, w.alice, num(amount))
}
