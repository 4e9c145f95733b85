package batch

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/sha3"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/merkle"
)

// Pending is what a provider earned by the plans of a month that is not paid: settlement is pending. Held is the part
// that is held for a person to look at.
type Pending struct {
	Month        string
	Amount, Held money.NanoUSD
}

// Balances is where the earnings of a provider stand.
type Balances struct {
	// Settled may join the next batch, and Held may not.
	Settled, Held money.NanoUSD
	// Pending is in the order of months.
	Pending           []Pending
	Payable, InFlight money.NanoUSD
	Paid, Converted   money.NanoUSD
	Owed              money.NanoUSD
}

// Sum is what the lines of one kind moved in one account.
type Sum struct {
	Kind                      Kind
	EntryKind, Account, Month string
	Lines                     int64
	Amount                    money.NanoUSD
}

// Participant is a provider of a day: with lines, or with something left of the days before.
type Participant struct {
	Provider ids.ProviderID
	Chain    chain.ID
	// Earned and Given make the share; see the package's comment.
	Earned, Given money.NanoUSD
	Blocked       bool
	Lines, Filled int64
	// CSV is the SHA-256 of the CSV of the provider's lines.
	CSV              [32]byte
	Opening, Closing Balances
	Sums             []Sum
}

// Amount returns the share.
func (p Participant) Amount() money.NanoUSD {
	if p.Blocked {
		return 0
	}
	return max(p.Earned-p.Given, 0)
}

// Share is a leaf of a batch, with the statement to its provider.
type Share struct {
	Participant
	Leaf merkle.Leaf
	// Statement is canonical JSON (RFC 8785), and Summary its keccak256.
	Statement []byte
	Summary   [32]byte
}

// Batch is the batch of a day and chain.
type Batch struct {
	Chain chain.ID
	Root  merkle.Hash
	Total money.NanoUSD
	// Shares are in the order of provider ids.
	Shares []Share
}

// Stated is what a statement's signature is about.
type Stated struct {
	Day      time.Time
	Chain    chain.ID
	Provider ids.ProviderID
	Leaf     merkle.Leaf
	Root     merkle.Hash
	CSV      [32]byte
	Seal     Seal
	Summary  [32]byte
}

// Assemble makes the batches of a day, one for each chain, empty ones too.
func Assemble(
	day time.Time, seal Seal, participants []Participant, payees map[ids.ProviderID]chain.Address,
) ([]Batch, error) {
	byChain := map[chain.ID][]Share{}
	for _, p := range participants {
		leaf := merkle.Leaf{Beneficiary: merkle.Address(payees[p.Provider]), Amount: p.Amount()}
		byChain[p.Chain] = append(byChain[p.Chain], Share{Participant: p, Leaf: leaf})
	}
	batches := make([]Batch, 0, len(Chains()))
	for _, id := range Chains() {
		b, err := assemble(day, seal, id, byChain[id])
		if err != nil {
			return nil, err
		}
		batches = append(batches, b)
		delete(byChain, id)
	}
	for id := range byChain {
		return nil, fmt.Errorf("no batch is of chain %s", id)
	}
	return batches, nil
}

func assemble(day time.Time, seal Seal, id chain.ID, shares []Share) (Batch, error) {
	slices.SortFunc(shares, func(a, b Share) int { return bytes.Compare(a.Provider[:], b.Provider[:]) })
	b := Batch{Chain: id, Shares: shares}
	leaves := make([]merkle.Leaf, len(shares))
	for i := range shares {
		shares[i].Leaf.Index = uint64(i)
		leaves[i] = shares[i].Leaf
		b.Total += shares[i].Leaf.Amount
	}
	tree := merkle.New(leaves)
	b.Root = tree.Root()
	for i := range shares {
		var err error
		if shares[i].Statement, err = state(day, seal, b, i, tree.Proof(i)); err != nil {
			return b, err
		}
		shares[i].Summary = Summary(shares[i].Statement)
	}
	return b, nil
}

// Summary returns the keccak256 of a statement.
func Summary(statement []byte) (sum [32]byte) {
	k := sha3.NewLegacyKeccak256()
	_, _ = k.Write(statement) // a hash never fails
	k.Sum(sum[:0])
	return sum
}

// object is a JSON object, whose members are encoded in the order of their names.
type object map[string]any

func nano(n money.NanoUSD) string { return strconv.FormatInt(int64(n), 10) }

func count(n int64) string { return strconv.FormatInt(n, 10) }

// state returns the statement of a share as canonical JSON. Numbers are strings, because amounts do not fit in the
// numbers of JSON.
func state(day time.Time, seal Seal, b Batch, index int, proof []merkle.Hash) ([]byte, error) {
	s := b.Shares[index]
	sums := make([]object, len(s.Sums))
	for i, sum := range s.Sums {
		sums[i] = object{"kind": string(sum.Kind), "entry_kind": sum.EntryKind, "account": sum.Account, "month": sum.Month,
			"lines": count(sum.Lines), "amount_nano_usd": nano(sum.Amount)}
	}
	path := make([]string, len(proof))
	for i, h := range proof {
		path[i] = h.String()
	}
	text, err := json.Marshal(object{
		"version": "1", "day": day.Format(time.DateOnly), "provider_id": s.Provider.String(),
		"chain_id": b.Chain.String(), "seal": hex.EncodeToString(seal[:]), "root": b.Root.String(),
		"leaf": object{
			"index": strconv.FormatUint(s.Leaf.Index, 10), "beneficiary": chain.Address(s.Leaf.Beneficiary).String(),
			"amount_nano_usd": nano(s.Leaf.Amount), "hash": s.Leaf.Hash().String(),
		},
		"proof": path, "opening": balancesOf(s.Opening), "closing": balancesOf(s.Closing), "sums": sums,
		"earned_nano_usd": nano(s.Earned), "given_nano_usd": nano(s.Given),
		"carried_nano_usd": nano(s.Earned - s.Given - s.Leaf.Amount), "blocked": s.Blocked,
		"lines": count(s.Lines), "filled": count(s.Filled), "csv_sha256": hex.EncodeToString(s.CSV[:]),
	})
	if err != nil {
		return nil, fmt.Errorf("state a share: %w", err)
	}
	return text, nil
}

func balancesOf(s Balances) object {
	pending := make([]object, len(s.Pending))
	for i, p := range s.Pending {
		pending[i] = object{"month": p.Month, "amount_nano_usd": nano(p.Amount), "held_nano_usd": nano(p.Held)}
	}
	return object{
		"settled_nano_usd": nano(s.Settled), "held_nano_usd": nano(s.Held), "settlement_pending": pending,
		"payable_nano_usd": nano(s.Payable), "in_flight_nano_usd": nano(s.InFlight), "paid_nano_usd": nano(s.Paid),
		"converted_nano_usd": nano(s.Converted), "owed_nano_usd": nano(s.Owed),
	}
}
