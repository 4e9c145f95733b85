package contracts_test

import (
	"fmt"
	"testing"
)

func TestARefundThatAnOperatorRequestsIsPaidAfterSevenDaysAndNotBefore(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		due := w.now + 1 + refundWait
		w.do(w.operator, "requestRefund", p1, w.alice).emits(fmt.Sprintf("RefundRequested(p1, alice, %d)", due))
		w.do(w.alice, "executeRefund", p1, w.alice).refused(fmt.Sprintf("TooEarly(%d)", due))
		w.at(due-1).do(w.operator, "executeRefund", p1, w.alice).refused(fmt.Sprintf("TooEarly(%d)", due))
		w.at(due).do(w.operator, "executeRefund", p1, w.alice).emits("Refunded(p1, alice, 100)")
		w.hasPosition(p1, w.alice, 0, 0)
		w.hasBalance(w.alice, 100)
		w.hasBalance(w.address, 0)
	})
}

func TestADepositorLeavesWithoutAnybodyAfterThirtyDaysAndNotBefore(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		due := w.now + 1 + exitWait
		w.do(w.alice, "requestExit", p1).emits(fmt.Sprintf("ExitRequested(p1, alice, %d)", due))
		w.at(due-1).do(w.alice, "executeRefund", p1, w.alice).refused(fmt.Sprintf("TooEarly(%d)", due))
		w.at(due).do(w.alice, "executeRefund", p1, w.alice).emits("Refunded(p1, alice, 100)")
		w.hasBalance(w.alice, 100)
	})
}

func TestWhoeverExecutesARefundTheDepositorReceivesIt(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.do(w.alice, "requestExit", p1).ok()
		w.after(exitWait).do(w.stranger, "executeRefund", p1, w.alice).ok()
		w.hasBalance(w.alice, 100)
		w.hasBalance(w.stranger, 0)
	})
}

func TestARefundIsPaidOnce(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.put(w.bob, p1, 100)
		w.do(w.alice, "requestExit", p1).ok()
		w.after(exitWait).do(w.alice, "executeRefund", p1, w.alice).ok()
		w.do(w.alice, "executeRefund", p1, w.alice).refused("EmptyPosition")
		// The request has ended with the refund: what is deposited now waits anew.
		w.put(w.alice, p1, 5)
		w.do(w.alice, "executeRefund", p1, w.alice).refused("NotRequested")
		w.hasBalance(w.alice, 100)
		w.hasPosition(p1, w.bob, 100, 0)
	})
}

func TestEachRequestHasItsOwnClockAndTheFirstThatIsDueDecides(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.put(w.bob, p1, 100)
	for _, who := range []struct {
		name      string
		exitFirst bool
		wait      uint64
	}{{"alice", true, exitWait}, {"bob", false, refundWait}} {
		depositor := w.account(who.name)
		begun := w.now + 1
		if who.exitFirst {
			w.do(depositor, "requestExit", p1).ok()
			w.at(begun+25*day).do(w.operator, "requestRefund", p1, depositor).ok()
		} else {
			w.do(w.operator, "requestRefund", p1, depositor).ok()
			w.do(depositor, "requestExit", p1).ok()
		}
		due := begun + who.wait
		w.at(due-1).do(depositor, "executeRefund", p1, depositor).refused(fmt.Sprintf("TooEarly(%d)", due))
		w.at(due).do(depositor, "executeRefund", p1, depositor).ok()
	}
}

func TestARequestIsTakenBackByWhoMadeItAlone(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.do(w.operator, "requestRefund", p1, w.alice).ok()
		w.do(w.alice, "cancelExit", p1).refused("NotRequested")
		w.do(w.alice, "cancelRefund", p1, w.alice).refused("AccessControlUnauthorizedAccount")
		exit := w.now + 1 + exitWait
		w.do(w.alice, "requestExit", p1).ok()
		w.do(w.operator, "cancelRefund", p1, w.alice).emits("RefundCancelled(p1, alice)")
		w.do(w.operator, "cancelRefund", p1, w.alice).refused("NotRequested")
		w.do(w.operator, "cancelExit", p1).refused("NotRequested")
		w.after(refundWait).do(w.alice, "executeRefund", p1, w.alice).refused(fmt.Sprintf("TooEarly(%d)", exit))
		w.do(w.alice, "cancelExit", p1).emits("ExitCancelled(p1, alice)")
		w.at(exit+1).do(w.alice, "executeRefund", p1, w.alice).refused("NotRequested")
		w.hasPosition(p1, w.alice, 100, 0)
	})
}

func TestARequestNeedsAPositionAndStandsOnce(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.do(w.operator, "requestRefund", p1, w.alice).refused("EmptyPosition")
	w.do(w.alice, "requestExit", p1).refused("EmptyPosition")
	w.do(w.alice, "executeRefund", p1, w.alice).refused("EmptyPosition")
	w.put(w.alice, p1, 100)
	w.do(w.alice, "executeRefund", p1, w.alice).refused("NotRequested")
	w.do(w.operator, "cancelRefund", p1, w.alice).refused("NotRequested")
	w.do(w.operator, "requestRefund", p1, w.alice).ok()
	w.do(w.operator, "requestRefund", p1, w.alice).refused("AlreadyRequested")
	w.do(w.alice, "requestExit", p1).ok()
	w.do(w.alice, "requestExit", p1).refused("AlreadyRequested")
}

func TestEscrowIsNeverRefunded(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.put(w.bob, p1, 50)
		w.do(w.alice, "requestExit", p1).ok()
		w.do(w.operator, "requestRefund", p1, w.alice).ok()
		w.after(exitWait)
		w.propose("s", 1).ok()
		w.do(w.alice, "executeRefund", p1, w.alice).refused("EscrowOpen(1)")
		w.do(w.alice, "appeal", id("s")).ok()
		w.after(10*day).do(w.operator, "executeRefund", p1, w.alice).refused("EscrowOpen(1)")
		w.hasBalance(w.alice, 0)
		w.do(w.arbiter, "resolve", id("s"), false).ok()
		// The request is as due as it was before the penalty.
		w.do(w.alice, "executeRefund", p1, w.alice).emits("Refunded(p1, alice, 100)")
		w.hasPosition(p1, w.bob, 50, 0)
	})
}

func TestAfterASlashTheRestIsRefunded(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.do(w.alice, "requestExit", p1).ok()
		w.after(exitWait)
		w.propose("s", 30).ok()
		w.after(appealWindow).do(w.slasher, "executeSlash", id("s")).ok()
		w.do(w.stranger, "executeRefund", p1, w.alice).emits("Refunded(p1, alice, 70)")
		w.hasBalance(w.treasury, 30)
		w.hasBalance(w.alice, 70)
	})
}

func TestNobodyTakesOrMovesThePositionOfAnother(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.put(w.bob, p1, 100)
		w.propose("s", 10).ok()
		w.do(w.operator, "requestRefund", p1, w.alice).ok()
		before := w.position(p1, w.alice)
		for _, name := range []string{"stranger", "bob", "treasury", "admin", "operator", "slasher", "arbiter"} {
			from := w.account(name)
			for _, call := range []struct {
				method string
				args   []any
				want   string
			}{
				{"requestRefund", []any{p1, w.alice}, "AccessControlUnauthorizedAccount"},
				{"cancelRefund", []any{p1, w.alice}, "AccessControlUnauthorizedAccount"},
				{"proposeSlash", []any{id("x"), p1, w.alice, num(1)}, "AccessControlUnauthorizedAccount"},
				{"executeSlash", []any{id("s")}, "AccessControlUnauthorizedAccount"},
				{"resolve", []any{id("s"), true}, "AccessControlUnauthorizedAccount"},
				{"appeal", []any{id("s")}, "NotAllowed"},
				{"cancelExit", []any{p1}, "NotRequested"},
				{"executeRefund", []any{p1, w.alice}, "TooEarly"},
				{"lapse", []any{id("s")}, "TooEarly"},
			} {
				want := call.want
				switch name + " " + call.method {
				case "operator requestRefund":
					want = "AlreadyRequested"
				case "slasher executeSlash":
					want = "TooEarly"
				case "arbiter resolve":
					want = "WrongState"
				case "operator appeal", "operator cancelRefund", "slasher proposeSlash":
					continue // they are these roles' to call, and other tests say what they do
				}
				w.do(from, call.method, call.args...).refused(want)
			}
		}
		if got := w.position(p1, w.alice); got.String() != before.String() {
			t.Errorf("alice's position: got %v, want %v", got, before)
		}
	})
}
