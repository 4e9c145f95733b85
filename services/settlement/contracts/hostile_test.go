package contracts_test

import (
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
)

// reentered are the events of calls that were made in the middle of another and have come to this.
func reentered(outcome string) string { return "Reentered(" + outcome + ")" }

// insideOut is a world whose token makes calls of its own, as depositor, slasher and arbiter. Each of inner would
// succeed by itself, and each of outer moves money.
func insideOut(t *testing.T) (w *world, inner map[string][]byte, outer map[string]func() result) {
	t.Helper()
	c := newChain(t, 1)
	token := c.deploy(artifact(t, "ReentrantToken"))
	w = newWorld(c, &token)
	for _, role := range []string{"SLASHER", "ARBITER"} {
		w.do(w.admin, "grantRole", w.get(role), token.address).ok()
	}
	token.do(w.stranger, "mint", token.address, num(1_000)).ok()
	token.do(w.stranger, "act", token.address, token.pack("approve", w.address, num(1_000))).ok()
	token.do(w.stranger, "act", w.address, w.pack("deposit", p2, num(100))).ok()
	token.do(w.stranger, "act", w.address, w.pack("requestExit", p2)).ok()
	w.put(w.alice, p1, 100)
	w.put(w.bob, p1, 50)
	w.do(w.bob, "requestExit", p1).ok()
	w.after(28 * day)
	w.propose("open", 10).ok()
	w.propose("other", 10).ok()
	w.propose("decided", 10).ok()
	w.do(w.alice, "appeal", id("decided")).ok()
	w.fund(w.alice, num(40))
	w.after(49 * hour)
	w.do(w.stranger, "lapse", id("")).refused("WrongState") // a block at this time
	return w, map[string][]byte{
			"deposit":       w.pack("deposit", id("p3"), num(10)),
			"executeRefund": w.pack("executeRefund", p2, token.address),
			"executeSlash":  w.pack("executeSlash", id("other")),
			"resolve":       w.pack("resolve", id("decided"), true),
		}, map[string]func() result{
			"deposit":       func() result { return w.deposit(w.alice, p1, num(40)) },
			"executeRefund": func() result { return w.do(w.stranger, "executeRefund", p1, w.bob) },
			"executeSlash":  func() result { return w.do(w.slasher, "executeSlash", id("open")) },
		}
}

func TestNoCallThatMovesMoneyIsMadeInTheMiddleOfAnother(t *testing.T) {
	t.Parallel()
	w, inner, outer := insideOut(t)
	outer["transfer"] = func() result { return w.token.do(w.alice, "transfer", w.bob, num(0)) }
	for within, call := range outer {
		want := reentered("false, ReentrancyGuardReentrantCall()")
		if within == "transfer" { // outside of the contract, where each succeeds
			want = reentered("true, ")
		}
		for name, data := range inner {
			var snapshot string
			w.call(&snapshot, "evm_snapshot")
			now := w.now
			w.token.do(w.stranger, "arm", w.address, data).ok()
			r := call().ok()
			events := strings.Join(w.token.eventsIn(r.logs), " ")
			if !strings.Contains(events, want) {
				t.Errorf("%s in the middle of %s: got %s, want %s", name, within, events, want)
			}
			w.call(nil, "evm_revert", snapshot)
			w.now = now
		}
	}
}

// The calls that move no money have no guard: they find the books as they will be.
func TestACallInTheMiddleOfARefundFindsThePositionEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(newChain(t, 254), nil)
	receiver := w.deploy(artifact(t, "CoinReceiver"))
	w.give(w.alice, num(100))
	receiver.pay(w.alice, num(100), "act", w.address, w.pack("deposit", p1, num(100))).ok()
	receiver.do(w.alice, "act", w.address, w.pack("requestExit", p1)).ok()
	w.put(w.bob, p1, 50)
	w.after(exitWait)
	for name, data := range map[string][]byte{
		"ReentrancyGuardReentrantCall()": w.pack("executeRefund", p1, receiver.address),
		"EmptyPosition()":                w.pack("requestExit", p1),
	} {
		var snapshot string
		w.call(&snapshot, "evm_snapshot")
		now := w.now
		receiver.do(w.alice, "arm", w.address, data).ok()
		r := w.do(w.alice, "executeRefund", p1, receiver.address).ok()
		if got, want := strings.Join(receiver.eventsIn(r.logs), " "), reentered("false, "+name); got != want {
			t.Errorf("a call in the middle of a refund: got %s, want %s", got, want)
		}
		w.hasBalance(receiver.address, 100)
		w.hasBalance(w.address, 50)
		w.call(nil, "evm_revert", snapshot)
		w.now = now
	}
}

// refundBoth requests the refund of two depositors behind p1 and lets it become due. The money of the one cannot be
// paid: it stays, and the other receives hers.
func refundBoth(w *world, stuck common.Address, want string) {
	w.t.Helper()
	w.do(w.operator, "requestRefund", p1, stuck).ok()
	w.do(w.operator, "requestRefund", p1, w.bob).ok()
	w.after(refundWait+1).do(w.stranger, "executeRefund", p1, stuck).refused(want)
	w.do(w.stranger, "executeRefund", p1, w.bob).ok()
	w.hasBalance(w.bob, 50)
	w.hasPosition(p1, stuck, 100, 0)
	w.hasBalance(w.address, 100)
}

func TestADepositorWhoRefusesTheCoinKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(newChain(t, 254), nil)
	receiver := w.deploy(artifact(t, "CoinReceiver"))
	w.give(w.alice, num(100))
	receiver.pay(w.alice, num(100), "act", w.address, w.pack("deposit", p1, num(100))).ok()
	w.put(w.bob, p1, 50)
	receiver.do(w.alice, "refuse", true).ok()
	refundBoth(w, receiver.address, "refused")
	receiver.do(w.alice, "refuse", false).ok()
	w.do(w.stranger, "executeRefund", p1, receiver.address).ok()
	w.hasBalance(receiver.address, 100)
}

func TestADepositorWhomTheTokenBlocksKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.put(w.bob, p1, 50)
	w.token.do(w.account("deployer"), "blacklist", w.alice).ok()
	refundBoth(w, w.alice, "Blocked(alice)")
	w.token.do(w.account("deployer"), "unBlacklist", w.alice).ok()
	w.do(w.stranger, "executeRefund", p1, w.alice).ok()
	w.hasBalance(w.alice, 100)
}

func TestABlockedDepositorIsSlashed(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.token.do(w.account("deployer"), "blacklist", w.alice).ok()
	w.propose("s", 30).ok()
	w.after(appealWindow).do(w.slasher, "executeSlash", id("s")).ok()
	w.hasBalance(w.treasury, 30)
}

func TestATreasuryThatCannotBePaidKeepsNoEscrowForEver(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.propose("s", 30).ok()
	w.propose("a", 30).ok()
	w.do(w.alice, "appeal", id("a")).ok()
	w.token.do(w.account("deployer"), "blacklist", w.treasury).ok()
	w.after(appealWindow).do(w.slasher, "executeSlash", id("s")).refused("Blocked(treasury)")
	w.do(w.arbiter, "resolve", id("a"), true).refused("Blocked(treasury)")
	w.hasPosition(p1, w.alice, 40, 60)
	w.after(lapseAfter).do(w.alice, "lapse", id("s")).ok()
	w.do(w.alice, "lapse", id("a")).ok()
	w.hasPosition(p1, w.alice, 100, 0)
}
