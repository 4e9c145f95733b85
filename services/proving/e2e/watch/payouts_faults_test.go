//go:build watch

package watch

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/store"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/settlement/devchain"
)

// paid is a fleet that pays an owner on chains, with collateral that the owner has put there.
type paid struct {
	*trial.Town
	*server
	chains *paychain.Chains
	peers  peers.Services
	db     *pgx.Conn
	owner  *trial.Owner
}

// staked is the owner's collateral, in dollars: twice the minimum.
const staked = 40

func newPaid(t *testing.T) *paid {
	t.Helper()
	p := &paid{}
	p.Town, p.server, p.chains = chained(t, func(c *fleet.Config) {
		own(c, fleet.Settlement, "settlement", object{"payouts": object{"recheck_interval": "1s", "alone_usd": 20}})
	})
	p.peers = peers.Services{Fleet: p.Fleet()}
	var err error
	if p.db, err = pgx.Connect(t.Context(), p.DatabaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.db.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	p.owner = p.NewOwner(t, "kim", 0xb1)
	p.owner.Deposit(t, paychain.Dollars, staked)
	p.owner.Serve(t)
	p.owner.WaitStatus(t, "active")
	p.owner.Earn(t, 60)
	p.Pass(t, 24*time.Hour)
	p.owner.Payable(t)
	return p
}

// is reports what an expression of SQL says.
func (p *paid) is(t *testing.T, expression string, args ...any) (so bool) {
	t.Helper()
	if err := p.db.QueryRow(t.Context(), `SELECT `+expression, args...).Scan(&so); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return so
}

func (p *paid) until(t *testing.T, what, expression string, args ...any) {
	t.Helper()
	trial.Until(t, what, func() bool { return p.is(t, expression, args...) })
}

// changes changes a row as nobody may: as a restore of an older row does, which no trigger sees.
func (p *paid) changes(t *testing.T, sql string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), p.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		tag, err := tx.Exec(t.Context(), sql, args...)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%s: got %d rows, want 1", sql, tag.RowsAffected())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tell calls a method of the chain of dollars.
func (p *paid) tell(t *testing.T, into any, method string, params ...any) {
	t.Helper()
	if err := devchain.Ask(t.Context(), p.Chains[paychain.Dollars], into, method, params...); err != nil {
		t.Fatal(err)
	}
}

// number is a number that the chain of dollars answers with.
func (p *paid) number(t *testing.T, method string, params ...any) int64 {
	t.Helper()
	var text string
	p.tell(t, &text, method, params...)
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		t.Fatalf("%s: got %q, want a number", method, text)
	}
	return n.Int64()
}

// operates makes an operator's call until a gateway that reaches its service takes it.
func (p *paid) operates(t *testing.T, path, body string) {
	t.Helper()
	trial.Until(t, "POST "+path+" is taken", func() bool {
		status, _, _ := trial.CallAt(t, p.AdminURL(), http.MethodPost, "/api/v1/admin/"+path,
			p.Env["SVC_ADMIN_TOKEN"], body)
		return status == http.StatusOK
	})
}

// cancels has an operator cancel a payout, and waits until its money is given back.
func (p *paid) cancels(t *testing.T, id string) {
	t.Helper()
	p.operates(t, "payouts/"+id+"/cancel", `{"reason":"test"}`)
	p.until(t, "the payout is cancelled", `state = 'cancelled' FROM settlement.payout WHERE payout_id = $1`, id)
}

// TestAlertsOfPayoutsFireByTheirFaults brings the faults about in one fleet, one after the other. The last one takes
// the chain's history away.
func TestAlertsOfPayoutsFireByTheirFaults(t *testing.T) {
	p := newPaid(t)
	for _, alert := range []string{"PayoutsStuck", "PayoutBooksDiffer", "PayoutsWait", "PositionsStuck",
		"PositionsRestated", "PenaltyPartsStuck", "PenaltyPartsVanished"} {
		p.quiet(t, alert)
	}
	for _, f := range []struct {
		name  string
		bring func(*paid, *testing.T)
	}{
		{"the signer is away, and then a database is set back", (*paid).setBack},
		{"a payout is large", (*paid).asksForMuch},
		{"a position is of an older restore", (*paid).losesARow},
		{"a contract takes the slasher for nobody", (*paid).revokes},
		{"a contract sets nothing aside for the slasher", (*paid).refuses},
		{"a chain loses its history", (*paid).losesHistory},
	} {
		if !t.Run(f.name, func(t *testing.T) { f.bring(p, t) }) {
			t.FailNow() // what follows builds on it
		}
	}
}

// setBack has a payout wait for a signer that is away, and cancels the payout. Then it puts settlement's database back
// to before the cancellation.
func (p *paid) setBack(t *testing.T) {
	sign := kill(t, p.Market, fleet.Signer)
	id := p.owner.Ask(t, "12.50", "waits")
	p.until(t, "the payout waits",
		`state = 'approved' AND waiting <> '' FROM settlement.payout WHERE payout_id = $1`, id)
	p.Pass(t, time.Hour+time.Minute)
	p.fires(t, "PayoutsStuck", `,severity="ticket"`)
	books, err := store.Open(t.Context(), p.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer books.Close()
	if err := books.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	sign()
	p.cancels(t, id)
	p.quiet(t, "PayoutsStuck")
	again := kill(t, p.Market, fleet.Settlement)
	if err := books.PutBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	again()
	p.fires(t, "PayoutBooksDiffer", `,severity="page"`)
	p.cancels(t, id)
	p.quiet(t, "PayoutBooksDiffer")
}

func (p *paid) asksForMuch(t *testing.T) {
	p.owner.Login(t)
	id := p.owner.Ask(t, "25", "much")
	p.fires(t, "PayoutsWait", `,severity="ticket",for="approval"`)
	p.cancels(t, id)
	p.quiet(t, "PayoutsWait")
}

// losesARow has settlement know less of a position than a penalty sets aside of it.
func (p *paid) losesARow(t *testing.T) {
	p.tell(t, nil, "evm_setAutomine", false)
	p.tell(t, nil, "evm_setIntervalMining", 0)
	p.penalize(t, p.owner, staked/4)
	trial.Until(t, "the proposal is sent", func() bool {
		return p.number(t, "eth_getBlockTransactionCountByNumber", "pending") > 0
	})
	const has = `UPDATE settlement.position SET free = $1 WHERE chain_id = 8453`
	p.changes(t, has, staked/8*1_000_000)
	p.tell(t, nil, "evm_setAutomine", true)
	p.tell(t, nil, "anvil_mine", 3)
	p.fires(t, "PositionsStuck", `,severity="page",chain="8453"`)
	p.changes(t, has, staked*1_000_000)
	p.quiet(t, "PositionsStuck")
	p.until(t, "the part is in escrow", `bool_and(state = 'escrowed') FROM settlement.penalty_part`)
}

// penalize opens a penalty of so many dollars of a provider's collateral.
func (p *paid) penalize(t *testing.T, o *trial.Owner, dollars int32) {
	t.Helper()
	if err := p.peers.OpenPenalty(t.Context(), o.ID, trial.Dear, dollars*10_000/staked); err != nil {
		t.Fatal(err)
	}
}

// Calls of the contract's admin, the first account of a development chain: grantRole and revokeRole of SLASHER.
const admin = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"

var grant, revoke = []byte{0x2f, 0x2f, 0xf1, 0x5d}, []byte{0xd5, 0x47, 0x74, 0x1f}

func (p *paid) slasher(t *testing.T, does []byte) {
	t.Helper()
	var text string
	p.tell(t, &text, "web3_sha3", fmt.Sprintf("0x%x", "SLASHER"))
	role, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	of := p.chains.Keys["slasher"]
	if err := p.chains.Chain(paychain.Dollars).Send(t.Context(), devchain.Transaction{From: admin,
		To: devchain.Collateral, Data: slices.Concat(does, role, make([]byte, 12), of[:])}); err != nil {
		t.Fatal(err)
	}
}

// revokes has the contract refuse to take what a penalty has set aside.
func (p *paid) revokes(t *testing.T) {
	p.slasher(t, revoke)
	p.Pass(t, 49*time.Hour)
	p.refused(t)
	p.slasher(t, grant)
	p.moves(t, "executed")
	p.quiet(t, "PenaltyPartsStuck")
}

// refuses has the contract refuse to set aside what a penalty is to take, more often than a proposal of a position that
// has less would be made. The part is not given up.
func (p *paid) refuses(t *testing.T) {
	p.slasher(t, revoke)
	p.penalize(t, p.owner, staked/4)
	p.refused(t)
	p.slasher(t, grant)
	p.moves(t, "escrowed")
	p.quiet(t, "PenaltyPartsStuck")
}

// last is the part of the last penalty.
const last = ` FROM settlement.penalty_part JOIN settlement.penalty USING (penalty_id) ORDER BY opened_at DESC LIMIT 1`

// refused waits until the call for the last part was refused so often that an operator is told.
func (p *paid) refused(t *testing.T) {
	t.Helper()
	trial.Until(t, "the call is refused again and again", func() bool {
		if p.is(t, `due_at > clock_timestamp()`+last) {
			p.Pass(t, 10*time.Minute)
		}
		return len(p.query(t, `svc_settlement_penalty_parts_stuck > 0`)) > 0
	})
	p.fires(t, "PenaltyPartsStuck", `,severity="ticket"`)
}

// moves waits until the last part has moved to a state.
func (p *paid) moves(t *testing.T, to string) {
	t.Helper()
	trial.Until(t, "the part is "+to, func() bool {
		if p.is(t, `penalty_part.state <> $1 AND due_at > clock_timestamp()`+last, to) {
			p.Pass(t, 10*time.Minute)
		}
		return p.is(t, `penalty_part.state = $1`+last, to)
	})
}

// losesHistory takes blocks off the chain: those in which a provider deposited collateral and a penalty set a part of
// the collateral aside. Then, as an operator, it accepts the changed history.
func (p *paid) losesHistory(t *testing.T) {
	o := p.NewOwner(t, "lou", 0xb2)
	before := p.number(t, "eth_blockNumber")
	o.Deposit(t, paychain.Dollars, staked)
	p.until(t, "the deposit counts", `count(*) = 2 FROM settlement.position WHERE chain_id = 8453`)
	p.penalize(t, o, staked/4)
	p.until(t, "the part is in escrow", `count(*) = 2 FROM settlement.penalty_part WHERE state = 'escrowed'`)
	var head struct{ Number, Timestamp string }
	p.tell(t, &head, "eth_getBlockByNumber", "latest", false)
	at, err := strconv.ParseInt(head.Timestamp, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	p.tell(t, nil, "anvil_reorg", p.number(t, "eth_blockNumber")-before, []any{})
	p.tell(t, nil, "evm_setNextBlockTimestamp", at+1)
	p.tell(t, nil, "anvil_mine", 3)
	trial.Until(t, "the changed history is accepted", func() bool {
		p.accepts(t)
		p.tell(t, nil, "anvil_mine", 1)
		return len(p.query(t, `svc_settlement_positions_restated_total > 0`)) > 0
	})
	p.fires(t, "PositionsRestated", `,severity="ticket",chain="8453"`)
	p.fires(t, "PenaltyPartsVanished", `,severity="page"`)
}

// accepts names the hash that the halted block of the chain has now. A halt that was lifted meanwhile is no fault.
func (p *paid) accepts(t *testing.T) {
	t.Helper()
	list, _ := p.Admin(t, http.MethodGet, "/api/v1/admin/chains", "")["chains"].([]any)
	for _, one := range list {
		block, halted := trial.At(one, "halt", "block").(string)
		if !halted {
			continue
		}
		n, err := strconv.ParseInt(block, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		var now struct{ Hash string }
		p.tell(t, &now, "eth_getBlockByNumber", fmt.Sprintf("0x%x", n), false)
		trial.CallAt(t, p.AdminURL(), http.MethodPost, "/api/v1/admin/chains/8453/halt", p.Env["SVC_ADMIN_TOKEN"],
			`{"block_hash":"`+now.Hash+`","reason":"test"}`)
	}
}
