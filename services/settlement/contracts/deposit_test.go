package contracts_test

import (
	"math/big"
	"testing"
)

func TestADepositIsItsDepositorsPosition(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.fund(w.alice, num(100))
		w.deposit(w.alice, p1, num(70)).emits("Deposited(p1, alice, 70)")
		w.deposit(w.alice, p1, num(20)).emits("Deposited(p1, alice, 20)")
		w.hasPosition(p1, w.alice, 90, 0)
		w.hasPosition(p1, w.bob, 0, 0)
		w.hasPosition(p2, w.alice, 0, 0)
		w.hasBalance(w.address, 90)
		w.hasBalance(w.alice, 10)
		if got := w.get("held").(*big.Int); got.Cmp(num(90)) != 0 {
			t.Errorf("the sum of all positions: got %d, want 90", got)
		}
	})
}

func TestADepositIsRefusedThatBringsNothing(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.fund(w.alice, num(100))
		w.deposit(w.alice, p1, num(0)).refused("ZeroAmount")
		w.deposit(w.alice, id(""), num(1)).refused("InvalidId")
		w.hasBalance(w.alice, 100)
	})
}

func TestTheCoinIsTheAmount(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.give(w.alice, num(100))
		if w.token == nil {
			w.pay(w.alice, num(4), "deposit", p1, num(5)).refused("WrongValue(4, 5)")
			w.pay(w.alice, num(6), "deposit", p1, num(5)).refused("WrongValue(6, 5)")
			w.do(w.alice, "deposit", p1, num(5)).refused("WrongValue(0, 5)")
			return
		}
		w.fund(w.alice, num(100))
		w.pay(w.alice, num(5), "deposit", p1, num(5)).refused("WrongValue(5, 0)")
	})
}

func TestADepositTakesNoMoreThanItsDepositorAllows(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.fund(w.alice, num(100))
	w.token.do(w.alice, "approve", w.address, num(99)).ok()
	w.deposit(w.alice, p1, num(100)).refused("ERC20InsufficientAllowance")
	// Bob cannot deposit what alice allows.
	w.deposit(w.bob, p1, num(1)).refused("ERC20InsufficientAllowance")
}

func TestADepositIsCreditedWithWhatArrives(t *testing.T) {
	t.Parallel()
	c := newChain(t, 1)
	token := c.deploy(artifact(t, "FeeToken"))
	w := newWorld(c, &token)
	w.fund(w.alice, num(1_000))
	w.deposit(w.alice, p1, num(1_000)).emits("Deposited(p1, alice, 990)")
	w.hasPosition(p1, w.alice, 990, 0)
	w.hasBalance(w.address, 990)
	w.do(w.alice, "requestExit", p1).ok()
	w.after(exitWait).do(w.alice, "executeRefund", p1, w.alice).emits("Refunded(p1, alice, 990)")
	w.hasBalance(w.address, 0)
}

func TestATokenThatMovesNothingIsNoDeposit(t *testing.T) {
	t.Parallel()
	c := newChain(t, 1)
	for name, want := range map[string]string{"LyingToken": "ZeroAmount", "FalseToken": "SafeERC20FailedOperation"} {
		token := c.deploy(artifact(t, name))
		w := newWorld(c, &token)
		w.deposit(w.alice, p1, num(5)).refused(want)
		w.hasPosition(p1, w.alice, 0, 0)
	}
}

// largest is the largest amount that all positions together have.
func largest() *big.Int { return new(big.Int).Sub(new(big.Int).Lsh(num(1), 128), num(1)) }

// SilentToken has no supply that bounds what one makes of it, and it answers nothing, as old tokens do.
func TestAllPositionsTogetherFitAPosition(t *testing.T) {
	t.Parallel()
	c := newChain(t, 1)
	token := c.deploy(artifact(t, "SilentToken"))
	w := newWorld(c, &token)
	token.do(w.alice, "mint", w.alice, new(big.Int).Lsh(num(1), 200)).ok()
	token.do(w.bob, "mint", w.bob, num(10)).ok()
	w.deposit(w.alice, p1, new(big.Int).Lsh(num(1), 128)).refused("TooMuch")
	w.deposit(w.alice, p1, new(big.Int).Lsh(num(1), 199)).refused("TooMuch")
	w.deposit(w.alice, p1, new(big.Int).Sub(largest(), num(1))).ok()
	w.deposit(w.bob, p2, num(2)).refused("TooMuch")
	w.deposit(w.bob, p2, num(1)).ok()
	w.deposit(w.alice, p1, num(1)).refused("TooMuch")

	whole := new(big.Int).Sub(largest(), num(1))
	w.do(w.slasher, "proposeSlash", id("s"), p1, w.alice, new(big.Int).Add(whole, new(big.Int).Lsh(num(1), 128))).
		refused("InsufficientFree")
	w.do(w.slasher, "proposeSlash", id("s"), p1, w.alice, whole).ok()
	w.deposit(w.alice, p1, num(1)).refused("TooMuch")
	w.after(lapseAfter).do(w.stranger, "lapse", id("s")).ok()
	if got := w.position(p1, w.alice).Free; got.Cmp(whole) != 0 {
		t.Errorf("free again: got %d, want %d", got, whole)
	}
}

func TestNothingIsDepositedIntoAPositionThatWaitsForItsRefund(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.fund(w.alice, num(10))
		w.do(w.operator, "requestRefund", p1, w.alice).ok()
		w.deposit(w.alice, p1, num(10)).refused("RefundPending")
		w.do(w.operator, "cancelRefund", p1, w.alice).ok()
		w.do(w.alice, "requestExit", p1).ok()
		w.deposit(w.alice, p1, num(10)).refused("RefundPending")
		w.do(w.alice, "cancelExit", p1).ok()
		w.deposit(w.alice, p1, num(10)).ok()
	})
}

func TestCoinThatComesOtherwiseIsNobodysPosition(t *testing.T) {
	t.Parallel()
	w := newWorld(newChain(t, 254), nil)
	w.put(w.alice, p1, 100)
	w.give(w.bob, num(50))
	if r := w.send(w.bob, &w.address, nil, num(7)); r.Status != 0 {
		t.Errorf("coin without a call: got status %d, want 0", r.Status)
	}
	w.give(w.account("deployer"), num(7))
	if _, failure := w.tryDeploy(artifact(t, "Forcer"), num(7), w.address); failure != "" {
		t.Fatal(failure)
	}
	w.hasBalance(w.address, 107)
	w.hasPosition(p1, w.alice, 100, 0)
	w.do(w.alice, "requestExit", p1).ok()
	w.after(exitWait).do(w.bob, "executeRefund", p1, w.alice).emits("Refunded(p1, alice, 100)")
	w.hasBalance(w.alice, 100)
}
