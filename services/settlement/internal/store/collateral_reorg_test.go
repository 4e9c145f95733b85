package store_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/sha3"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/watch"
)

// staking is the collateral contract of a scripted chain, with the positions that follow it.
type staking struct {
	*chainWorld
	terms     position.Terms
	provider  ids.ProviderID
	depositor chain.Address
	books     *custodyBooks
}

// custodyBooks are the books of what contracts hold. They take each transfer once, by its name and way.
type custodyBooks struct {
	units  map[string]int64
	posted []int64
}

// CustodyMoved implements position.Ledger.
func (b *custodyBooks) CustodyMoved(_ context.Context, m position.Movement, _ string) (ids.EntryID, error) {
	name := fmt.Sprint(m.Tx, m.Place, m.Units > 0)
	if was, ok := b.units[name]; ok && was != m.Units {
		return ids.EntryID{}, fmt.Errorf("%s is another fact: %d units, and %d before", name, m.Units, was)
	} else if !ok {
		b.units[name] = m.Units
		b.posted = append(b.posted, m.Units)
	}
	return ids.EntryID{0: 3, 15: byte(len(b.posted))}, nil
}

func newStaking(t *testing.T) *staking {
	t.Helper()
	w := newChainWorld(t, chain.Base, 2)
	s := &staking{chainWorld: w, terms: collateralTerms(), provider: ids.ProviderID(newID(t)),
		depositor: evmtest.Address("depositor", 1), books: &custodyBooks{units: map[string]int64{}}}
	s.terms.Chains = s.terms.Chains[:1]
	s.terms.Chains[0].Contract = w.contract
	w.chain.MineEmpty(3)
	w.catchUp(w.watcher())
	return s
}

// watcher makes a watcher of a chain with few blocks a day.
func (s *staking) watcher() *watch.Watcher {
	w := s.chainWorld.watcher()
	w.Config.BlockTime = time.Hour
	return w
}

// event is a log of the contract about the position. The words of its data come as numbers.
func (s *staking) event(signature string, part []byte, data ...uint64) evmtest.Event {
	k := sha3.NewLegacyKeccak256()
	k.Write([]byte(signature))
	e := evmtest.Event{Contract: s.contract, Topics: []chain.Hash{chain.Hash(k.Sum(nil))}}
	if part != nil {
		e.Topics = append(e.Topics, chain.Hash(part))
	}
	e.Topics = append(e.Topics, chain.Hash(contract.Subject(s.provider)), evmtest.Word(s.depositor))
	for _, n := range data {
		word := chain.NewAmount(n).Bytes()
		e.Data = append(e.Data, word[:]...)
	}
	return e
}

func (s *staking) deposit(salt, amount uint64) evmtest.Tx {
	return evmtest.Tx{Salt: salt, From: s.depositor, To: s.contract,
		Events: []evmtest.Event{s.event("Deposited(bytes32,address,uint256)", nil, amount)}}
}

// final mines a block with transactions and makes it final. A process that has just begun reads it.
func (s *staking) final(txs ...evmtest.Tx) {
	s.t.Helper()
	s.chain.Mine(txs...)
	s.chain.MineEmpty(2)
	s.catchUp(s.watcher())
}

// changes has the chain lose so many blocks, which were final, and have others instead. An operator accepts them.
func (s *staking) changes(blocks int, instead ...[]evmtest.Tx) {
	s.t.Helper()
	s.chain.Reorg(blocks)
	for _, txs := range instead {
		s.chain.Mine(txs...)
	}
	s.chain.MineEmpty(blocks + 2)
	if r := s.catchUp(s.watcher()); !r.Halted {
		s.t.Fatal("a final block has changed: got no halt, want one")
	}
	halt, _, err := s.store.OpenHalt(s.t.Context(), chain.Base)
	if err != nil {
		s.t.Fatal(err)
	}
	lifter := &watch.Lifter{Store: s.store, Chains: map[chain.ID]watch.Reader{chain.Base: s.reads}}
	if _, err := lifter.Lift(s.t.Context(), chain.Base, halt.Is, "operator:ann", "the network says so"); err != nil {
		s.t.Fatal(err)
	}
}

// follow has a process that has just begun follow the positions, twice, and tell the books. It returns why positions
// were made anew.
func (s *staking) follow() (causes []position.Cause) {
	s.t.Helper()
	applied, err := s.tryFollow()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, one := range applied.Restated {
		causes = append(causes, one.Cause)
	}
	if again, err := s.tryFollow(); err != nil {
		s.t.Fatal(err)
	} else if again.Events+len(again.Restated) > 0 {
		s.t.Errorf("followed twice: got %d events and %d positions made anew, want none", again.Events, len(again.Restated))
	}
	return causes
}

func (s *staking) tryFollow() (position.Applied, error) {
	positions := store.Positions{Store: store.New(s.pool), Terms: s.terms}
	f := &position.Follower{Terms: s.terms, Store: positions, Ledger: s.books, Events: store.ChainEvents{
		Positions: positions, BlockAt: func(ctx context.Context, _ chain.ID, n uint64) (chain.Block, error) {
			return s.reads.BlockAt(ctx, n)
		}}}
	applied, err := f.Follow(s.t.Context(), chain.Base)
	if err != nil {
		return applied, err
	}
	return applied, f.Post(s.t.Context(), chain.Base)
}

// stands checks what the position has, what the books have of it, and what the hub is told.
func (s *staking) stands(when string, free, escrow int64, confirmed bool) {
	s.t.Helper()
	want := fmt.Sprintf("%d free, %d in escrow, %d booked, confirmed %t", free, escrow, free+escrow, confirmed)
	got := s.text(`SELECT format('%s free, %s in escrow, %s booked, confirmed %s', free, escrow, booked,
		coalesce((SELECT CASE WHEN confirmed THEN 'true' ELSE 'false' END FROM provider_collateral), 'false')) FROM position`)
	if got != want {
		s.t.Errorf("%s: got %s, want %s", when, got, want)
	}
	var sum int64
	for _, n := range s.books.posted {
		sum += n
	}
	if sum != free+escrow {
		s.t.Errorf("%s: the books: got %d units by %v, want %d", when, sum, s.books.posted, free+escrow)
	}
}

// drifts are the invariants that do not hold.
func (s *staking) drifts() (names []string) {
	s.t.Helper()
	report, err := s.store.Audit(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

func (s *staking) wantSound(when string) {
	s.t.Helper()
	if got := s.drifts(); len(got) > 0 {
		s.t.Errorf("%s: got drift in %q, want none", when, got)
	}
}

func wantCauses(t *testing.T, when string, got []position.Cause, want ...position.Cause) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: positions made anew: got %q, want %q", when, got, want)
	}
}

func TestCollateralWhoseDepositVanishesIsTakenBack(t *testing.T) {
	t.Parallel()
	s := newStaking(t)
	s.final(s.deposit(1, 15_000_000))
	s.final(s.deposit(2, 30_000_000))
	wantCauses(t, "deposited", s.follow())
	s.stands("deposited", 45_000_000, 0, true)
	s.changes(3)
	if got := s.drifts(); !slices.Equal(got, []string{"events that count are on their chain"}) {
		t.Errorf("lifted: got drift in %q, want that an event is gone", got)
	}
	wantCauses(t, "the chain is not read again", s.follow())
	s.stands("the chain is not read again", 45_000_000, 0, true)
	s.catchUp(s.watcher())
	wantCauses(t, "read again", s.follow(), position.Gone)
	s.stands("read again", 15_000_000, 0, false)
	if want := []int64{15_000_000, 30_000_000, -30_000_000}; !slices.Equal(s.books.posted, want) {
		t.Errorf("the books: got %v, want %v, in this order", s.books.posted, want)
	}
	const history = `SELECT string_agg(kind || coalesce(' ' || cause, ''), ', ' ORDER BY number) FROM position_event`
	if got, want := s.text(history), "deposited, deposited, restated gone"; got != want {
		t.Errorf("the history: got %s, want %s, which names the cause", got, want)
	}
	s.wantSound("read again")
	// What is deposited later counts as ever.
	s.final(s.deposit(3, 5_000_000))
	wantCauses(t, "deposited anew", s.follow())
	s.stands("deposited anew", 20_000_000, 0, true)
	s.wantSound("deposited anew")
}

func TestMoreCollateralThanOneTransactionTakesBackVanishesInOnePass(t *testing.T) {
	t.Parallel()
	s := newStaking(t)
	txs := make([]evmtest.Tx, position.MaxGone+2)
	for i := range txs {
		s.depositor = evmtest.Address("depositor", uint64(i))
		txs[i] = s.deposit(uint64(i), 1_000_000)
	}
	s.final(txs...)
	s.follow()
	s.changes(3)
	s.catchUp(s.watcher())
	if got := len(s.follow()); got != len(txs) {
		t.Errorf("positions made anew: got %d, want all %d", got, len(txs))
	}
	if got := s.text(`SELECT sum(free + escrow)::text || ' ' || sum(booked) FROM position`); got != "0 0" {
		t.Errorf("what is left, and booked: got %s, want 0 0", got)
	}
	s.wantSound("read again")
}

func TestAnEventThatIsMinedAgainCountsOnceAsItIsThen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// at once: what the new history has when the halt is lifted; later: what it has afterwards.
		atOnce, later bool
		amount        uint64
	}{
		"at once, as it was":         {true, false, 30_000_000},
		"at once, another amount":    {true, false, 25_000_000},
		"later, as it was":           {false, true, 30_000_000},
		"later, and another amount":  {false, true, 25_000_000},
		"at once, less than minimum": {true, false, 5_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStaking(t)
			s.final(s.deposit(1, 30_000_000))
			s.follow()
			// It is behind another transaction then, so its log has another index and the same place.
			block := []evmtest.Tx{evmtest.Transfer(7, s.token, s.depositor, usd(1)), s.deposit(1, c.amount)}
			if c.atOnce {
				s.changes(3, nil, block)
			} else {
				s.changes(3)
			}
			s.catchUp(s.watcher())
			wantCauses(t, "read again", s.follow(), position.Gone)
			if c.later {
				s.stands("gone", 0, 0, false)
				s.final(block...)
				wantCauses(t, "mined again", s.follow(), position.Again)
			}
			s.stands("mined again", int64(c.amount), 0, c.amount >= 20_000_000)
			if got := s.text(`SELECT count(*)::text FROM position_event WHERE event IS NOT NULL AND NOT gone`); got != "1" {
				t.Errorf("events that count: got %s, want 1", got)
			}
			s.wantSound("mined again")
			// The chain changes its mind again, back to what it had.
			s.changes(8, []evmtest.Tx{s.deposit(1, 30_000_000)})
			s.catchUp(s.watcher())
			s.follow()
			s.stands("as at first", 30_000_000, 0, true)
			s.wantSound("as at first")
		})
	}
}

// forget has all RPCs leave out the logs of what is mined now.
func (s *staking) forget(txs ...evmtest.Tx) {
	for _, r := range s.rpcs {
		r.Lie(func(method string, result any) any {
			if method == "eth_getLogs" {
				return []any{}
			}
			return result
		})
	}
	s.final(txs...)
	for _, r := range s.rpcs {
		r.Lie(nil)
	}
}

// remember has a day pass, until the second reading finds what the first had not.
func (s *staking) remember() {
	s.t.Helper()
	s.chain.MineEmpty(24 + 20)
	by := s.watcher()
	for s.catchUp(by).Missed == 0 {
		if s.text(`SELECT (again + 25 >= block)::text FROM chain_cursor`) == "true" {
			s.t.Fatal("the second reading: got nothing, want what was forgotten")
		}
	}
}

func TestAnEventThatOnlyTheSecondReadingFindsCountsInTheOrderOfTheChain(t *testing.T) {
	t.Parallel()
	s := newStaking(t)
	exit := s.event("ExitRequested(bytes32,address,uint256)", nil, 1_900_000_000)
	first := s.deposit(1, 25_000_000)
	first.Events = append(first.Events, exit)
	s.forget(first)
	// The depositor stays after all. Out of order the request would stand.
	s.final(s.deposit(2, 1_000_000), evmtest.Tx{Salt: 3, Events: []evmtest.Event{s.event("ExitCancelled(bytes32,address)",
		nil)}})
	wantCauses(t, "the first is forgotten", s.follow())
	s.stands("the first is forgotten", 1_000_000, 0, false)
	s.remember()
	wantCauses(t, "found late", s.follow(), position.Late)
	s.stands("found late", 26_000_000, 0, true)
	if got := s.text(`SELECT coalesce(exit_at::text, 'stays') FROM position`); got != "stays" {
		t.Errorf("the depositor: got an exit at %s, want that he stays", got)
	}
	s.wantSound("found late")
}

func TestPositionsThatStopBeforeAnEventGoOnOnceTheOneBeforeItIsFound(t *testing.T) {
	t.Parallel()
	s := newStaking(t)
	s.forget(s.deposit(1, 30_000_000))
	s.final(evmtest.Tx{Salt: 2, Events: []evmtest.Event{s.event("Refunded(bytes32,address,uint256)", nil, 30_000_000)}})
	if _, err := s.tryFollow(); err == nil {
		t.Error("a refund without a deposit: got no error, want one")
	}
	s.remember()
	wantCauses(t, "found late", s.follow())
	s.stands("found late", 0, 0, false)
	if want := []int64{30_000_000, -30_000_000}; !slices.Equal(s.books.posted, want) {
		t.Errorf("the books: got %v, want %v", s.books.posted, want)
	}
	s.wantSound("found late")
}

func TestOneRPCThatLiesTakesNoCollateralAway(t *testing.T) {
	t.Parallel()
	s := newStaking(t)
	s.final(s.deposit(1, 30_000_000))
	s.follow()
	// The halt is a true one. In the new history the deposit is there, but one RPC leaves its log out.
	s.changes(3, nil, []evmtest.Tx{s.deposit(1, 30_000_000)})
	s.rpcs[1].Lie(func(method string, result any) any {
		if method == "eth_getLogs" {
			return []any{}
		}
		return result
	})
	for range 2 {
		if r, err := s.watcher().Pass(t.Context()); err == nil && r.Block > 2 {
			t.Errorf("one RPC lies: got block %d, want no progress", r.Block)
		}
		wantCauses(t, "one RPC lies", s.follow())
	}
	s.stands("one RPC lies", 30_000_000, 0, true)
	s.rpcs[1].Lie(nil)
	s.catchUp(s.watcher())
	wantCauses(t, "honest again", s.follow(), position.Gone)
	s.stands("honest again", 30_000_000, 0, true)
	if want := []int64{30_000_000}; !slices.Equal(s.books.posted, want) {
		t.Errorf("the books: got %v, want %v: nothing has moved", s.books.posted, want)
	}
	s.wantSound("honest again")
}

func TestAPenaltyWhoseProposalVanishesIsNamedUntilItIsMinedAgain(t *testing.T) {
	t.Parallel()
	s := newStaking(t)
	s.final(s.deposit(1, 30_000_000))
	s.follow()
	d := draft(t)
	d.ProviderID = s.provider
	keeper := penalty.NewKeeper(store.Penalties{Store: store.New(s.pool), Terms: s.terms},
		func(context.Context, penalty.Penalty) {})
	if _, err := keeper.Open(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	part, err := hex.DecodeString(s.text(`SELECT encode(part_id, 'hex') FROM penalty_part`))
	if err != nil {
		t.Fatal(err)
	}
	propose := func(until uint64) evmtest.Tx {
		return evmtest.Tx{Salt: 2, Events: []evmtest.Event{s.event(
			"SlashProposed(bytes32,bytes32,address,uint256,uint256)", part, 3_000_000, until)}}
	}
	const first, then = 1_800_000_000, 1_800_000_600
	s.final(propose(first))
	s.follow()
	s.stands("proposed", 27_000_000, 3_000_000, true)
	s.changes(3)
	s.catchUp(s.watcher())
	wantCauses(t, "gone", s.follow(), position.Gone)
	s.stands("gone", 30_000_000, 0, true)
	if got := s.drifts(); !slices.Equal(got, []string{"parts of penalties are what their chain says"}) {
		t.Errorf("gone: got drift in %q, want the part", got)
	}
	s.final(propose(then))
	wantCauses(t, "mined again", s.follow(), position.Again)
	s.stands("mined again", 27_000_000, 3_000_000, true)
	got := s.text(`SELECT state || ' ' || extract(epoch FROM appeal_until)::bigint FROM penalty_part`)
	if want := fmt.Sprintf("escrowed %d", then); got != want {
		t.Errorf("the part: got %s, want %s: the contract's times are those of the new block", got, want)
	}
	s.wantSound("mined again")
}

// Each attack is what a faulty program would do, as the application's role.
func TestTheDatabaseRefusesWhatNoChangedHistoryDoes(t *testing.T) {
	t.Parallel()
	s := newStaking(t)
	s.final(s.deposit(1, 30_000_000))
	s.follow()
	s.final(s.deposit(2, 1_000_000))
	s.changes(3)
	for name, a := range map[string]struct{ sql, says string }{
		"an event that goes without a halt": {`UPDATE chain_event SET gone_at = clock_timestamp() WHERE gone_at IS NULL`,
			"where its chain is halted"},
		"an event that comes back":  {`UPDATE chain_event SET gone_at = NULL WHERE gone_at IS NOT NULL`, "kept as they are"},
		"an event in another block": {`UPDATE chain_event SET block = block + 1`, "denied"},
		"an event twice": {`INSERT INTO chain_event (chain_id, block, block_hash, tx_hash, place, log_index, contract, topics,
			data, at) SELECT chain_id, block + 1, block_hash, tx_hash, place, log_index, contract, topics, data, at
			FROM chain_event WHERE gone_at IS NULL`, "chain_event_once"},
		"an event that counts after it is gone": {`INSERT INTO position_event (chain_id, number, event, tx, place, kind,
			subject, depositor, amount, at, free_after, escrow_after, units) SELECT chain_id, 99, seq, tx_hash, place,
			'deposited', topics[2], substr(topics[3], 13), 1, at, 1, 0, 0 FROM chain_event WHERE gone_at IS NOT NULL`,
			"gone does not count"},
		"an event that is told to the books twice": {`INSERT INTO position_event (chain_id, number, event, tx, place, kind,
			subject, depositor, provider_id, amount, at, free_after, escrow_after, units) SELECT chain_id, 98, 9998, tx, place,
			kind, subject, depositor, provider_id, amount, at, free_after, escrow_after, units FROM position_event`,
			"position_event_moved_once"},
		"a position that is restated for nothing": {`INSERT INTO position_event (chain_id, number, tx, place, kind, subject,
			depositor, provider_id, amount, at, free_after, escrow_after, units, cause) SELECT chain_id, 98, sha256('x'), 0,
			'restated', subject, depositor, provider_id, 0, at, 0, 0, -units, 'gone' FROM position_event`,
			"go or begin to count"},
		"an event that counts and is said to be gone": {`UPDATE position_event SET gone = true`,
			"once its chain has it no longer"},
		"a restatement without a cause": {`INSERT INTO position_event (chain_id, number, tx, place, kind, subject, depositor,
			amount, at, free_after, escrow_after, units) SELECT chain_id, 99, tx, place, 'restated', subject, depositor, 0, at,
			0, 0, 0 FROM position_event`, "position_event_restates|go or begin"},
		"a position that goes back by an event": {`WITH e AS (INSERT INTO position_event (chain_id, number, event, tx, place,
				kind, subject, depositor, provider_id, amount, at, free_after, escrow_after, units) SELECT chain_id, 99, 9999,
				sha256('y'), 0, 'deposited', subject, depositor, provider_id, 0, at, free_after, 0, 0 FROM position_event
				RETURNING 1)
			UPDATE position SET number = 99, block = 0 WHERE EXISTS (SELECT FROM e)`, "order of their chain"},
		"a halt that is read again before it is lifted": {`INSERT INTO chain_halt (chain_id, block, was_hash, is_hash,
			read_to) VALUES (1, 1, sha256('a'), sha256('b'), 1)`, "denied"},
	} {
		_, err := s.pool.Exec(t.Context(), a.sql)
		refused := false
		for want := range strings.SplitSeq(a.says, "|") {
			refused = refused || err != nil && strings.Contains(err.Error(), want)
		}
		if !refused {
			t.Errorf("%s: got the error %v, want one with %q", name, err, a.says)
		}
	}
}
