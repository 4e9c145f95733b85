package deposit

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/watch"
)

// openPage is how many addresses are read at once.
const openPage = 200

// Decider decides of final transfers.
type Decider struct {
	Store    Store
	Screener Screener
	Quotes   sending.Quotes
	Chains   map[chain.ID]Balances
	Config   chain.Configs
	// Halted reports whether a chain is halted. Nothing is decided of its transfers.
	Halted func(ctx context.Context, id chain.ID) (bool, error)
}

// Pass decides of everything that can be decided now. An address that fails keeps no other one waiting.
func (d *Decider) Pass(ctx context.Context) (decided int, err error) {
	var faults []error
	behind := int64(-1)
	for {
		page, err := d.Store.Open(ctx, behind, openPage)
		if err != nil {
			return decided, errors.Join(append(faults, err)...)
		}
		for _, open := range page {
			n, err := d.address(ctx, open)
			decided += n
			if err != nil && len(faults) < 10 {
				faults = append(faults, fmt.Errorf("deposit address %d: %w", open.Index, err))
			}
			behind = int64(open.Index)
		}
		if len(page) < openPage {
			return decided, errors.Join(faults...)
		}
	}
}

// candidate is a transfer with what would be decided of it.
type candidate struct {
	Decided
	t Transfer
}

// address decides of what waits at one address.
func (d *Decider) address(ctx context.Context, open Open) (decided int, err error) {
	waiting := map[Waits][]watch.Key{}
	valued, err := d.valued(ctx, open, waiting)
	if err != nil {
		return 0, err
	}
	var credit, others []candidate
	for _, c := range valued {
		switch waits := d.screen(ctx, &c); {
		case waits != "":
			waiting[waits] = append(waiting[waits], c.Key)
		case c.Decision == Credit:
			credit = append(credit, c)
		default:
			others = append(others, c)
		}
	}
	if enough(credit) {
		others = append(others, credit...)
	} else {
		wait(waiting, ForMinimum, credit)
	}
	all, err := d.coveredOnes(ctx, open, others, waiting)
	if err != nil {
		return 0, err
	}
	for waits, keys := range waiting {
		if err := d.Store.Wait(ctx, keys, waits); err != nil {
			return 0, err
		}
	}
	return len(all), d.Store.Decide(ctx, all)
}

// valued returns what has a value and may be decided of. What the address is credited for waits, and nobody is asked
// about it, until it is worth Minimum together: otherwise many small transfers would be many questions at each pass.
func (d *Decider) valued(ctx context.Context, open Open, waiting map[Waits][]watch.Key) ([]candidate, error) {
	var credit, others []candidate
	halted, quotes := map[chain.ID]bool{}, map[chain.ID]*sending.Quote{}
	for _, t := range open.Transfers {
		if _, asked := halted[t.Chain]; !asked {
			var err error
			if halted[t.Chain], err = d.Halted(ctx, t.Chain); err != nil {
				return nil, err
			}
		}
		if halted[t.Chain] {
			continue
		}
		switch c, waits := d.value(ctx, t, quotes); {
		case waits != "":
			waiting[waits] = append(waiting[waits], t.Key)
		case t.creditable():
			credit = append(credit, c)
		default:
			others = append(others, c)
		}
	}
	if !enough(credit) {
		wait(waiting, ForMinimum, credit)
		return others, nil
	}
	return append(others, credit...), nil
}

func wait(waiting map[Waits][]watch.Key, waits Waits, of []candidate) {
	for _, c := range of {
		waiting[waits] = append(waiting[waits], c.Key)
	}
}

// value finds the price of a transfer, or what it waits for. quotes are those that were asked for.
func (d *Decider) value(
	ctx context.Context, t Transfer, quotes map[chain.ID]*sending.Quote,
) (candidate, Waits) {
	c := candidate{Decided: Decided{Key: t.Key, Decision: Stray}, t: t}
	if t.kind() == chain.Coin {
		if _, asked := quotes[t.Chain]; !asked {
			quotes[t.Chain] = nil
			if quote, err := d.Quotes.Quote(ctx, t.Chain); err == nil {
				quotes[t.Chain] = &quote
			}
		}
		if c.Quote = quotes[t.Chain]; c.Quote == nil {
			return c, ForQuote // the price is looked for again, and its absence is measured there
		}
	}
	if down, _, err := Value(t.Units, c.Quote); err != nil || down == 0 {
		return c, ForMinimum
	}
	return c, ""
}

// screen sets what would become of a transfer, or returns what it waits for.
func (d *Decider) screen(ctx context.Context, c *candidate) Waits {
	if !c.t.Sender.IsZero() {
		verdict, err := d.Screener.Check(ctx, c.t.Sender)
		if err != nil {
			return ForScreening // the screener is asked again
		}
		c.Screened = verdict.Version
		if verdict.Denied {
			c.Decision = Deny
			return ""
		}
	}
	if c.t.creditable() {
		c.Decision = Credit
	}
	return ""
}

// coveredOnes returns the decisions on what the address really has. The others wait for the balance.
func (d *Decider) coveredOnes(
	ctx context.Context, open Open, of []candidate, waiting map[Waits][]watch.Key,
) (all []Decided, err error) {
	covered := map[string]bool{}
	for _, c := range of {
		if _, asked := covered[c.t.Token]; !asked {
			if covered[c.t.Token], err = d.covered(ctx, open, c.t); err != nil {
				return nil, err
			}
		}
		if covered[c.t.Token] {
			all = append(all, c.Decided)
		} else {
			waiting[ForBalance] = append(waiting[ForBalance], c.Key)
		}
	}
	return all, nil
}

// covered reports whether the address has at least what is recorded there of the token and was not swept. A token that
// takes a fee, and a log that lies, record more than arrives.
func (d *Decider) covered(ctx context.Context, open Open, t Transfer) (bool, error) {
	reader, cfg := d.Chains[t.Chain], chain.Config{}
	if one, ok := d.Config.Of(t.Chain); ok {
		cfg = one
	}
	asset, ok := cfg.Asset(t.kind())
	if reader == nil || !ok {
		return false, nil // the chain or token is configured no more
	}
	final, err := reader.Final(ctx)
	if err != nil {
		return false, err
	}
	var has chain.Amount
	if asset.Kind == chain.Coin {
		has, err = reader.Balance(ctx, open.Address, final)
	} else {
		has, err = reader.TokenBalance(ctx, asset.Contract, open.Address, final)
	}
	return err == nil && has.Cmp(open.Recorded[t.Token]) >= 0, err
}

// enough reports whether transfers are worth Minimum together.
func enough(all []candidate) bool {
	var sum money.NanoUSD
	for _, c := range all {
		down, _, err := Value(c.t.Units, c.Quote)
		if err == nil && down >= Minimum-sum {
			return true
		}
		sum += down
	}
	return false
}
