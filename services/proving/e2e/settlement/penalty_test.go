package settlement_test

import (
	"math/big"
	"net/http"
	"testing"
	"time"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/settlement/devchain"
)

// appealTime is the time to appeal, and a moment more.
const appealTime = 48*time.Hour + time.Minute

// penalty is a penalty as its provider sees it.
func (o *owner) penalty(t *testing.T, id string) any {
	t.Helper()
	page := o.town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/penalties", o.Key, "")
	list, _ := page["list"].([]any)
	for _, one := range list {
		if trial.Text(t, one, "penalty_id") == id {
			return one
		}
	}
	t.Fatalf("the provider's penalties: got %v, want %s among them", page, id)
	return nil
}

// waitPenalty waits until the provider sees a penalty in a state and its only part in another, and returns it.
func (o *owner) waitPenalty(t *testing.T, id, state, part string) (p any) {
	t.Helper()
	trial.Until(t, "the penalty is "+state+", and its part "+part, func() bool {
		p = o.penalty(t, id)
		return trial.At(p, "state") == state && trial.At(p, "parts", 0, "state") == part
	})
	if got := trial.At(p, "parts", 0, "amount"); got != "2" {
		t.Errorf("the amount of the penalty: got %v, want 2 of %d", got, minimum)
	}
	return p
}

func treasury(t *testing.T) ethereum.Address {
	t.Helper()
	a, err := ethereum.ParseAddress(devchain.Treasury)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAPenaltyIsEscrowedAtOnceAndTakenAfter48Hours(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	c := newPeered(t)
	o := c.newOwner(t, "dan", 0xd1)
	o.serveWithCollateral(t, 8453)
	o.Earn(t, 1)
	before := c.dollars(t, 8453, treasury(t))
	id := c.penalize(t, o, 1_000)
	o.waitPosition(t, 8453, "a tenth is in escrow on the chain", 18_000_000, 2_000_000)
	o.waitPenalty(t, id, "proposed", "escrowed")
	o.WaitStatus(t, "pending") // what is free is below the minimum
	if n := c.entries(t, "slash_chain"); n != 0 {
		t.Errorf("taken before the time to appeal is over: got %d entries, want none", n)
	}
	c.Pass(t, appealTime)
	o.waitPosition(t, 8453, "the penalty is executed on the chain", 18_000_000, 0)
	if p := o.waitPenalty(t, id, "executed", "executed"); trial.At(p, "executed_at") == nil {
		t.Errorf("the executed penalty: got %v, want one with its time", p)
	}
	if got, want := new(big.Int).Sub(c.dollars(t, 8453, treasury(t)), before), big.NewInt(2_000_000); got.Cmp(want) != 0 {
		t.Errorf("what the treasury received: got %s, want %s", got, want)
	}
	trial.Until(t, "the books have what was taken", func() bool { return c.entries(t, "slash_chain") == 1 })
	o.WaitStatus(t, "pending")
	status, _, answer := c.Call(t, http.MethodPost, "/api/v1/provider/penalties/"+id+"/appeal", o.Key,
		`{"text":"too late"}`)
	if status != http.StatusConflict {
		t.Errorf("an appeal after the penalty: got %d %s, want 409", status, answer)
	}
	if got := trial.ErrorCode(answer); got != "transition_not_allowed" {
		t.Errorf("an appeal after the penalty: got %q, want transition_not_allowed", got)
	}
	c.verified(t)
}

func TestAnAppealedPenaltyThatIsReversedTakesNothing(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	c := newPeered(t)
	o := c.newOwner(t, "eve", 0xe1)
	o.serveWithCollateral(t, 8453)
	o.Earn(t, 1)
	before := c.dollars(t, 8453, treasury(t))
	id := c.penalize(t, o, 1_000)
	o.waitPosition(t, 8453, "a tenth is in escrow on the chain", 18_000_000, 2_000_000)
	o.waitPenalty(t, id, "proposed", "escrowed")
	appealed := c.Wants(t, http.StatusOK, http.MethodPost, "/api/v1/provider/penalties/"+id+"/appeal", o.Key,
		`{"text":"the engine was updated"}`)
	if appealed["state"] != "appealed" {
		t.Errorf("the state after the appeal: got %v, want appealed", appealed["state"])
	}
	o.waitPenalty(t, id, "appealed", "appealed")
	c.Pass(t, appealTime) // the clock stands still
	if p := o.penalty(t, id); trial.At(p, "state") != "appealed" {
		t.Errorf("48 hours after the appeal: got %v, want a penalty that waits", p)
	}
	c.Admin(t, http.MethodPost, "/api/v1/admin/penalties/"+id+"/resolve", `{"uphold":false,"reason":"he is right"}`)
	o.waitPosition(t, 8453, "the escrow is free again", 20_000_000, 0)
	if p := o.waitPenalty(t, id, "reversed", "reversed"); trial.At(p, "resolution") != "he is right" {
		t.Errorf("what the provider reads: got %v, want the operator's reason", p)
	}
	o.WaitStatus(t, "active")
	if got := c.dollars(t, 8453, treasury(t)); got.Cmp(before) != 0 {
		t.Errorf("the treasury: got %s, want %s as before", got, before)
	}
	if n := c.entries(t, "slash_chain"); n != 0 {
		t.Errorf("entries of what was taken: got %d, want none", n)
	}
	c.verified(t)
}
