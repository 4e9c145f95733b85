package contracts_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
)

func TestTheFirstHoldersHaveOneRoleEach(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	for _, role := range []string{"DEFAULT_ADMIN_ROLE", "OPERATOR", "SLASHER", "ARBITER"} {
		holder := map[string]string{"DEFAULT_ADMIN_ROLE": "admin", "OPERATOR": "operator", "SLASHER": "slasher",
			"ARBITER": "arbiter"}[role]
		for _, name := range []string{"admin", "operator", "slasher", "arbiter", "treasury", "deployer"} {
			if got := w.get("hasRole", w.get(role), w.account(name)).(bool); got != (name == holder) {
				t.Errorf("%s has %s: got %v, want %v", name, role, got, name == holder)
			}
		}
	}
}

func TestTheAdminAloneGrantsAndRevokesRoles(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	slasher := w.get("SLASHER")
	for _, name := range []string{"operator", "slasher", "arbiter", "stranger"} {
		w.do(w.account(name), "grantRole", slasher, w.stranger).refused("AccessControlUnauthorizedAccount")
		w.do(w.account(name), "revokeRole", slasher, w.slasher).refused("AccessControlUnauthorizedAccount")
	}
	w.put(w.alice, p1, 100)
	w.do(w.admin, "revokeRole", slasher, w.slasher).ok()
	w.propose("s", 1).refused("AccessControlUnauthorizedAccount")
	w.do(w.admin, "grantRole", slasher, w.bob).ok()
	w.do(w.bob, "proposeSlash", id("s"), p1, w.alice, num(1)).ok()
}

func TestTheAdminIsReplacedAfterThreeDaysAndNotBefore(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.do(w.stranger, "beginDefaultAdminTransfer", w.stranger).refused("AccessControlUnauthorizedAccount")
	w.do(w.admin, "beginDefaultAdminTransfer", w.bob).ok()
	due := w.now + 3*day
	w.do(w.stranger, "acceptDefaultAdminTransfer").refused("AccessControlInvalidDefaultAdmin(stranger)")
	early := fmt.Sprintf("AccessControlEnforcedDefaultAdminDelay(%d)", due)
	w.at(due).do(w.bob, "acceptDefaultAdminTransfer").refused(early)
	w.do(w.bob, "acceptDefaultAdminTransfer").ok()
	w.do(w.admin, "grantRole", w.get("SLASHER"), w.admin).refused("AccessControlUnauthorizedAccount")
	w.do(w.bob, "grantRole", w.get("SLASHER"), w.alice).ok()
}

func TestAShorterDelayTakesThreeDaysToo(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	w.do(w.admin, "changeDefaultAdminDelay", num(0)).ok()
	w.after(3*day).do(w.admin, "beginDefaultAdminTransfer", w.bob).ok()
	w.do(w.bob, "acceptDefaultAdminTransfer").refused("AccessControlEnforcedDefaultAdminDelay")
}

func TestAnotherAdminCannotBeGranted(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	admin := w.get("DEFAULT_ADMIN_ROLE")
	w.do(w.admin, "grantRole", admin, w.bob).refused("AccessControlEnforcedDefaultAdminRules")
	w.do(w.admin, "revokeRole", admin, w.admin).refused("AccessControlEnforcedDefaultAdminRules")
}

func TestAContractThatCouldPayNobodyIsNotDeployed(t *testing.T) {
	t.Parallel()
	c := newChain(t, 1)
	var nobody common.Address
	some := c.account("some")
	for _, test := range []struct {
		args []any // token, treasury, admin, operator, slasher, arbiter
		want string
	}{
		{[]any{some, some, some, some, some, some}, "InvalidAddress(some)"}, // a token without code
		{[]any{nobody, nobody, some, some, some, some}, "InvalidAddress(nobody)"},
		{[]any{nobody, some, nobody, some, some, some}, "AccessControlInvalidDefaultAdmin(nobody)"},
		{[]any{nobody, some, some, nobody, some, some}, "InvalidAddress(nobody)"},
		{[]any{nobody, some, some, some, nobody, some}, "InvalidAddress(nobody)"},
		{[]any{nobody, some, some, some, some, nobody}, "InvalidAddress(nobody)"},
		{[]any{nobody, some, some, some, some, some}, ""},
	} {
		if _, got := c.tryDeploy(collateral(t), nil, test.args...); got != test.want {
			t.Errorf("deploy with %s: got the error %q, want %q", c.text("", test.args), got, test.want)
		}
	}
}

func TestTokenAndTreasuryAreThoseOfTheDeployment(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	if got := w.get("token").(common.Address); got != w.token.address {
		t.Errorf("token: got %s, want %s", got, w.token.address)
	}
	if got := w.get("treasury").(common.Address); got != w.treasury {
		t.Errorf("treasury: got %s, want %s", got, w.treasury)
	}
}

func TestTheTimesAreThoseOfTheRules(t *testing.T) {
	t.Parallel()
	w := dollars(t)
	for name, want := range map[string]uint64{"ADMIN_DELAY": 3 * day, "REFUND_WAIT": refundWait, "EXIT_WAIT": exitWait,
		"APPEAL_WINDOW": appealWindow, "LAPSE_AFTER": lapseAfter} {
		if got := fmt.Sprint(w.get(name)); got != fmt.Sprint(want) {
			t.Errorf("%s: got %s, want %d", name, got, want)
		}
	}
	if got := w.get("defaultAdminDelay").(*big.Int).Uint64(); got != 3*day {
		t.Errorf("delay of a new admin: got %d, want %d", got, 3*day)
	}
}
