package provider

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/pkg/ids"
)

// life is an account with the store's part played by a clock: what is due and whose key
// has ended is told as a store tells it.
type life struct {
	now     time.Time
	user    bool
	account Account
	ended   map[ids.KeyID]time.Time
	next    byte
	log     []string
}

const wait = 48 * time.Hour

// told is the account with what a store knows of its proposals.
func (l *life) told() *change {
	a := l.account
	for _, q := range []*Proposal{&a.Proposed.Owner, &a.Proposed.Beneficiary} {
		if q.ID.IsZero() {
			continue
		}
		end, ended := l.ended[q.Key]
		if !l.user {
			q.TakesEffectAt = q.At.Add(wait)
		}
		inTime := q.TakesEffectAt.IsZero() || end.Before(q.TakesEffectAt)
		q.KeyEnded = ended && !end.After(l.now) && inTime
		q.Due = !q.TakesEffectAt.IsZero() && !q.TakesEffectAt.After(l.now) && (!ended || !inTime)
	}
	return &change{account: &a, by: ByProvider, now: l.now}
}

// keep is the account as a store keeps it: what is new was made now.
func (l *life) keep(c *change) {
	a := *c.account
	for _, q := range []*Proposal{&a.Proposed.Owner, &a.Proposed.Beneficiary} {
		if !q.ID.IsZero() && q.At.IsZero() {
			q.At = l.now
		}
		q.Due, q.KeyEnded = false, false
	}
	l.account = a
}

func (l *life) id() (id ids.ProposalID) {
	l.next++
	id[0], id[15] = 1, l.next
	return id
}

// model is the rule said once more, the plainest way: of each kind what waits, and since
// when, and what counts.
type model struct {
	owner, beneficiary string
	waits              map[ProposalKind]Proposal
}

// at lets the time pass that the model sees, proposal by proposal.
func (m *model) at(l *life) {
	for {
		var first *Proposal
		for _, kind := range []ProposalKind{ProposedOwner, ProposedBeneficiary} {
			q, waits := m.waits[kind]
			if !waits {
				continue
			}
			end, ended := l.ended[q.Key]
			due := q.At.Add(wait)
			dead := ended && !end.After(l.now) && (l.user || end.Before(due)) ||
				kind == ProposedOwner && m.owner != "" || kind == ProposedBeneficiary && m.owner != "" && q.Signer != m.owner
			switch {
			case dead:
				delete(m.waits, kind)
			case !l.user && !due.After(l.now) && (first == nil || due.Before(first.At.Add(wait))):
				first = &q
			}
		}
		if first == nil {
			return
		}
		m.effect(*first)
	}
}

func (m *model) effect(q Proposal) {
	if q.Kind == ProposedOwner {
		m.owner = q.Address
	} else {
		m.beneficiary = q.Address
	}
	delete(m.waits, q.Kind)
}

func (m *model) ask(l *life, q Proposal) {
	if was, waits := m.waits[q.Kind]; waits && was.Address == q.Address && was.Signer == q.Signer {
		return
	}
	q.At = l.now
	m.waits[q.Kind] = q
}

// Whatever is proposed, confirmed, refused, replaced, revoked and unbound in whatever
// order, what counts is what the rule says, and nothing counts that nobody confirmed and
// that has not waited.
func TestWhatCountsIsWhatTheRuleSays(t *testing.T) {
	addresses := []string{"A", "B", "C"}
	wallets := []string{"V", "W"}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 18))
		l := &life{now: time.Unix(0, 0), user: seed%2 == 0, ended: map[ids.KeyID]time.Time{}}
		l.account = Account{Status: Active}
		m := &model{waits: map[ProposalKind]Proposal{}}
		for range 30 {
			key := ids.KeyID{1, byte(r.IntN(3))}
			c := l.told()
			c.settle()
			m.at(l)
			said := ""
			switch _, ended := l.ended[key]; r.IntN(7) {
			case 0, 1: // an address, with a wallet's signature or without
				q := Proposal{ID: l.id(), Kind: ProposedBeneficiary, Address: addresses[r.IntN(3)], Key: key}
				if r.IntN(2) == 0 {
					q.Signer = wallets[r.IntN(2)]
				}
				if ended {
					continue
				}
				said = fmt.Sprintf("key %d: earnings to %s, signed %q", key[1], q.Address, q.Signer)
				err := c.pay(q)
				switch {
				case q.Address == m.beneficiary:
					delete(m.waits, ProposedBeneficiary)
				case m.owner == "":
					m.ask(l, q)
				case m.owner == q.Signer:
					m.beneficiary = q.Address
					delete(m.waits, ProposedBeneficiary)
				case err == nil:
					t.Fatalf("seed %d: %v, %s: got nil, want a refusal", seed, l.log, said)
				}
			case 2: // a wallet
				w := wallets[r.IntN(2)]
				q := Proposal{ID: l.id(), Kind: ProposedOwner, Address: w, Signer: w, Key: key}
				if ended {
					continue
				}
				said = fmt.Sprintf("key %d: wallet %s", key[1], w)
				err := c.proposeOwner(q)
				if m.owner == "" {
					m.ask(l, q)
				} else if (err != nil) != (m.owner != w) {
					t.Fatalf("seed %d: %v, %s: got %v with the owner %q: err != nil: got %t, want %t", seed, l.log, said, err, m.owner,
						err != nil, m.owner != w)
				}
			case 3: // the user confirms or refuses what waits, or waited
				kind := []ProposalKind{ProposedOwner, ProposedBeneficiary}[r.IntN(2)]
				q, waits := m.waits[kind]
				id := q.ID
				if !waits || r.IntN(4) == 0 {
					id, waits = l.id(), false
				}
				got := c.proposal(id)
				said = fmt.Sprintf("decided on %s %d", kind, id[15])
				if (got != nil) != waits {
					t.Fatalf("seed %d: %v, %s: got %v, want it to wait: %v", seed, l.log, said, got, waits)
				}
				if got == nil {
					continue
				}
				if r.IntN(2) == 0 {
					c.drop(got, ProposalDropped, ByUser, "")
					delete(m.waits, kind)
				} else {
					c.effect(got, ByUser, l.now)
					c.settle()
					m.effect(q)
				}
			case 4:
				if !ended {
					l.ended[key] = l.now
				}
				said = fmt.Sprintf("key %d ends", key[1])
				c = l.told() // as the store tells once it has ended
				c.settle()
			case 5:
				said = "unbound"
				c.account.Owner, c.account.OwnerProvenAt = "", time.Time{}
				m.owner = ""
			case 6:
				by := time.Duration(r.IntN(60)) * time.Hour
				said = "waited " + by.String()
				l.keep(c)
				l.now = l.now.Add(by)
				c = l.told()
				c.settle()
			}
			m.at(l)
			l.log = append(l.log, said)
			if r.IntN(2) == 0 { // a reader's view need not be kept
				l.keep(c)
			} else if said[0] != 'w' && said != fmt.Sprintf("key %d ends", key[1]) {
				l.keep(c)
			}
			got := l.told().account.Settled()
			owner := ""
			if !got.OwnerProvenAt.IsZero() {
				owner = got.Owner
			}
			waits := map[ProposalKind]string{}
			for _, q := range got.Proposed.All() {
				waits[q.Kind] = q.Address
			}
			for _, kind := range []ProposalKind{ProposedOwner, ProposedBeneficiary} {
				if waits[kind] != m.waits[kind].Address {
					t.Fatalf("seed %d: %v: got %q waiting as %s, want %q", seed, l.log, waits[kind], kind, m.waits[kind].Address)
				}
			}
			if owner != m.owner || got.Beneficiary != m.beneficiary {
				t.Fatalf("seed %d: %v: got owner %q and earnings to %q, want %q and %q", seed, l.log, owner, got.Beneficiary,
					m.owner, m.beneficiary)
			}
		}
	}
}
