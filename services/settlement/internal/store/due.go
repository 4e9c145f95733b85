package store

import (
	"fmt"
	"slices"
	"strings"

	"svc.internal/pkg/clock"
	"svc.internal/services/settlement/internal/collateral"
)

// Work is what one loop looks for.
type Work int

// The kinds of work that are found in the tables.
const (
	DueAccountEvents Work = iota
	DueCollateral
	DuePenalties
	DueParts
	DuePayouts
)

// Works returns all kinds of work.
func Works() []Work {
	var all []Work
	for w := range dues {
		all = append(all, w)
	}
	slices.Sort(all)
	return all
}

// dues say when the first work of a kind is due, as pg.Lull.Until wants it.
var dues = map[Work]string{
	DueAccountEvents: `SELECT min(due_at) FROM account_event`,
	DueCollateral:    first(unsent("provider_collateral"), unsent("provider_suspension")),
	// A penalty whose time to appeal is over may wait for a chain.
	DuePenalties: first(any1(`penalty WHERE state = 'upheld'`),
		`SELECT min(appeal_until) FROM penalty WHERE state = 'proposed'`),
	DueParts: first(
		any1(`penalty_part p JOIN penalty USING (penalty_id) WHERE p.state = 'appealed' AND penalty.state = 'proposed'`),
		`SELECT min(due_at) FROM penalty_part WHERE state IN ('opened', 'escrowed', 'appealed')`,
		`SELECT min(due_at) FROM penalty_part WHERE state = 'executed' AND ended_entry IS NULL`,
		`SELECT min(CASE state WHEN 'asked' THEN greatest(look_at, due_at) ELSE look_at END) FROM collateral_refund
			WHERE state IN ('asked', 'paying', 'repaying')`,
		`SELECT min(due_at) FROM collateral_refund_part WHERE state NOT IN ('done', 'cancelled', 'reversed')`),
	DuePayouts: any1(`payout WHERE state IN ('requested', 'approved', 'signing', 'submitted')`),
}

// Due is for one loop that looks for work; see pg.Lull.Until.
func (s *Store) Due(w Work) *clock.Still { return s.lull.Until(dues[w]) }

// Wrote has the loops of this store notice at once what this process has written.
func (s *Store) Wrote() { s.lull.Wrote() }

// first is the first of several times.
func first(queries ...string) string { return `SELECT least((` + strings.Join(queries, `), (`) + `))` }

// any1 is a time that has passed where there is a row.
func any1(rows string) string { return `SELECT '-infinity'::timestamptz FROM ` + rows + ` LIMIT 1` }

// unsent is when the first of the facts that the hub has not received is sent again.
func unsent(table string) string {
	return fmt.Sprintf(`SELECT coalesce(tried_at + make_interval(secs => %f), '-infinity') FROM %s
		WHERE told_at IS NULL ORDER BY tried_at NULLS FIRST LIMIT 1`, collateral.RetryAfter.Seconds(), table)
}
