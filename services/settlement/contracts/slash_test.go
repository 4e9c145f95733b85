package contracts_test

import (
	"fmt"
	"math/big"
	"testing"
)

func TestASlashIsInEscrowAtOnceAndTakenAfter48HoursAndNotBefore(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		until := w.now + 1 + appealWindow
		w.propose("s", 30).emits(fmt.Sprintf("SlashProposed(s, p1, alice, 30, %d)", until))
		w.hasPosition(p1, w.alice, 70, 30)
		w.do(w.slasher, "executeSlash", id("s")).refused(fmt.Sprintf("TooEarly(%d)", until))
		w.at(until-1).do(w.slasher, "executeSlash", id("s")).refused(fmt.Sprintf("TooEarly(%d)", until))
		w.hasBalance(w.treasury, 0)
		w.at(until).do(w.slasher, "executeSlash", id("s")).emits("SlashExecuted(s, p1, alice, 30, false)")
		w.hasPosition(p1, w.alice, 70, 0)
		w.hasBalance(w.treasury, 30)
		w.hasBalance(w.address, 70)
	})
}

func TestAnAppealComesWithin48Hours(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	until := w.now + 1 + appealWindow
	w.propose("s", 30).ok()
	w.propose("late", 30).ok()
	w.at(until-1).do(w.alice, "appeal", id("s")).
		emits(fmt.Sprintf("SlashAppealed(s, p1, alice, alice, %d)", until-1+lapseAfter))
	w.at(until+1).do(w.alice, "appeal", id("late")).refused(fmt.Sprintf("TooLate(%d)", until+1))
}

func TestTheDepositorOrAnOperatorAppealsOnce(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.put(w.bob, p1, 100)
	w.propose("s", 30).ok()
	w.propose("o", 30).ok()
	w.do(w.bob, "appeal", id("s")).refused("NotAllowed(bob)")
	w.do(w.slasher, "appeal", id("s")).refused("NotAllowed(slasher)")
	w.do(w.alice, "appeal", id("s")).ok()
	w.do(w.operator, "appeal", id("o")).ok()
	w.do(w.operator, "appeal", id("s")).refused("WrongState(2)")
	w.do(w.alice, "appeal", id("o")).refused("WrongState(2)")
}

func TestAnAppealStopsTheClock(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.propose("s", 30).ok()
		w.do(w.alice, "appeal", id("s")).ok()
		w.after(appealWindow).do(w.slasher, "executeSlash", id("s")).refused("WrongState(2)")
		w.after(27*day).do(w.slasher, "executeSlash", id("s")).refused("WrongState(2)")
		w.hasPosition(p1, w.alice, 70, 30)
	})
}

func TestAnUpheldPenaltyIsTakenAtOnce(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.propose("s", 30).ok()
		w.do(w.alice, "appeal", id("s")).ok()
		w.do(w.arbiter, "resolve", id("s"), true).emits("SlashExecuted(s, p1, alice, 30, true)")
		w.hasPosition(p1, w.alice, 70, 0)
		w.hasBalance(w.treasury, 30)
	})
}

func TestAnAppealThatIsWonFreesTheEscrow(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.propose("s", 30).ok()
		w.do(w.alice, "appeal", id("s")).ok()
		w.do(w.arbiter, "resolve", id("s"), false).emits("SlashReversed(s, p1, alice, 30)")
		w.hasPosition(p1, w.alice, 100, 0)
		w.hasBalance(w.treasury, 0)
	})
}

func TestTheArbiterAloneResolvesAndAnAppealAlone(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.propose("s", 30).ok()
	w.do(w.arbiter, "resolve", id("s"), true).refused("WrongState(1)")
	w.do(w.arbiter, "resolve", id("s"), false).refused("WrongState(1)")
	w.do(w.alice, "appeal", id("s")).ok()
	for _, name := range []string{"alice", "operator", "slasher", "admin", "stranger"} {
		w.do(w.account(name), "resolve", id("s"), false).refused("AccessControlUnauthorizedAccount")
	}
	w.do(w.arbiter, "resolve", id("s"), false).ok()
	w.do(w.arbiter, "resolve", id("s"), true).refused("WrongState(4)")
	w.hasPosition(p1, w.alice, 100, 0)
}

func TestAnAppealThatNobodyResolvesLapsesAfterThirtyDays(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.propose("s", 30).ok()
		w.after(hour).do(w.alice, "appeal", id("s")).ok()
		end := w.now + lapseAfter
		w.at(end-1).do(w.alice, "lapse", id("s")).refused(fmt.Sprintf("TooEarly(%d)", end))
		w.at(end).do(w.arbiter, "resolve", id("s"), true).refused(fmt.Sprintf("TooLate(%d)", end))
		w.do(w.arbiter, "resolve", id("s"), false).refused(fmt.Sprintf("TooLate(%d)", end))
		w.do(w.stranger, "lapse", id("s")).emits("SlashLapsed(s, p1, alice, 30)")
		w.hasPosition(p1, w.alice, 100, 0)
	})
}

func TestAnAppealIsResolvedUntilTheLastSecond(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.propose("s", 30).ok()
	w.do(w.alice, "appeal", id("s")).ok()
	w.after(lapseAfter-1).do(w.arbiter, "resolve", id("s"), true).ok()
	w.hasBalance(w.treasury, 30)
}

// A penalty that nobody executes would keep its position for ever.
func TestAPenaltyThatNobodyExecutesLapsesAfterThirtyDays(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.propose("s", 30).ok()
		w.propose("t", 30).ok()
		end := w.now - 1 + lapseAfter
		w.at(end-1).do(w.alice, "lapse", id("s")).refused(fmt.Sprintf("TooEarly(%d)", end))
		w.at(end).do(w.slasher, "executeSlash", id("s")).refused(fmt.Sprintf("TooLate(%d)", end))
		w.do(w.alice, "lapse", id("s")).emits("SlashLapsed(s, p1, alice, 30)")
		w.do(w.alice, "lapse", id("t")).ok()
		w.hasPosition(p1, w.alice, 100, 0)
	})
}

func TestAPenaltyOfNoIdIsRefused(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.propose("", 1).refused("InvalidId")
	w.do(w.alice, "appeal", id("x")).refused("WrongState(0)")
	w.do(w.slasher, "executeSlash", id("x")).refused("WrongState(0)")
	w.do(w.arbiter, "resolve", id("x"), true).refused("WrongState(0)")
	w.after(exitWait).do(w.alice, "lapse", id("x")).refused("WrongState(0)")
}

func TestAnIdIsUsedOnceWhateverBecameOfItsPenalty(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.put(w.bob, p2, 100)
	for n, name := range []string{"proposed", "appealed", "executed", "reversed", "lapsed"} {
		w.propose(name, 10).ok()
		switch name {
		case "appealed", "reversed":
			w.do(w.alice, "appeal", id(name)).ok()
		case "executed":
			w.after(appealWindow).do(w.slasher, "executeSlash", id(name)).ok()
		case "lapsed":
			w.after(lapseAfter).do(w.alice, "lapse", id(name)).ok()
		}
		if name == "reversed" {
			w.do(w.arbiter, "resolve", id(name), false).ok()
		}
		want := fmt.Sprintf("WrongState(%d)", n+1)
		w.propose(name, 10).refused(want)
		w.do(w.slasher, "proposeSlash", id(name), p2, w.bob, num(10)).refused(want)
		if n >= 2 {
			w.do(w.slasher, "executeSlash", id(name)).refused(want)
			w.do(w.arbiter, "resolve", id(name), true).refused(want)
			w.do(w.alice, "appeal", id(name)).refused(want)
			w.do(w.alice, "lapse", id(name)).refused(want)
		}
		got := w.penalty(name)
		if got.State != uint8(n+1) {
			t.Errorf("state of the penalty %s: got %d, want %d", name, got.State, n+1)
		}
		if got.Depositor != w.alice {
			t.Errorf("depositor of the penalty %s: got %s, want alice", name, w.names[got.Depositor])
		}
	}
	w.hasPosition(p2, w.bob, 100, 0)
}

func TestAPenaltyTakesNoMoreThanWhatIsFree(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.put(w.bob, p1, 100)
	w.propose("s", 0).refused("ZeroAmount")
	w.propose("s", 101).refused("InsufficientFree(100, 101)")
	w.propose("s", 60).ok()
	w.propose("t", 41).refused("InsufficientFree(40, 41)")
	huge := new(big.Int).Add(new(big.Int).Lsh(num(1), 128), num(1))
	w.do(w.slasher, "proposeSlash", id("t"), p1, w.alice, huge).refused("InsufficientFree")
	w.do(w.slasher, "proposeSlash", id("t"), p2, w.alice, num(1)).refused("InsufficientFree(0, 1)")
	w.propose("t", 40).ok()
	w.hasPosition(p1, w.alice, 0, 100)
}

func TestPenaltiesOfOnePositionEndEachForItself(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.propose("a", 10).ok()
		w.propose("b", 20).ok()
		w.propose("c", 30).ok()
		w.hasPosition(p1, w.alice, 40, 60)
		w.do(w.alice, "appeal", id("b")).ok()
		w.do(w.arbiter, "resolve", id("b"), false).ok()
		w.hasPosition(p1, w.alice, 60, 40)
		w.after(appealWindow).do(w.slasher, "executeSlash", id("c")).ok()
		w.hasPosition(p1, w.alice, 60, 10)
		w.do(w.slasher, "executeSlash", id("a")).ok()
		w.hasPosition(p1, w.alice, 60, 0)
		w.hasBalance(w.treasury, 40)
	})
}

func TestAPositionThatAPenaltyEmptiesWaitsForNoRefund(t *testing.T) {
	each(t, func(_ *testing.T, w *world) {
		w.put(w.alice, p1, 100)
		w.do(w.operator, "requestRefund", p1, w.alice).ok()
		w.do(w.alice, "requestExit", p1).ok()
		w.propose("s", 100).ok()
		w.after(appealWindow).do(w.slasher, "executeSlash", id("s")).
			emits("RefundCancelled(p1, alice)", "ExitCancelled(p1, alice)", "SlashExecuted(s, p1, alice, 100, false)")
		w.put(w.alice, p1, 10)
		w.after(exitWait).do(w.alice, "executeRefund", p1, w.alice).refused("NotRequested")
	})
}

func TestAPositionThatIsAllInEscrowCanRequestItsRefund(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.put(w.alice, p1, 100)
	w.propose("s", 100).ok()
	w.do(w.alice, "requestExit", p1).ok()
	w.after(exitWait).do(w.alice, "lapse", id("s")).ok()
	w.do(w.alice, "executeRefund", p1, w.alice).emits("Refunded(p1, alice, 100)")
}
