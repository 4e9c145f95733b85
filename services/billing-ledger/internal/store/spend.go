package store

import (
	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/usage"
)

// moveSpending moves the counters of the pinned windows. A counter that passes its cap keeps
// the excess, because no admission may pass the cap.
const moveSpending = `WITH moved AS (
	SELECT u.owner_id, u.period, CASE u.period WHEN 'none' THEN date '1970-01-01'
			ELSE date_trunc(u.period, (date '1970-01-01' + u.day)::timestamp)::date END AS window_start,
		sum(u.charged)::bigint AS charged, sum(u.released)::bigint AS released
	FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[])
		AS u (owner_id, period, day, charged, released)
	GROUP BY 1, 2, 3)
UPDATE spend_counter s SET spent = s.spent + m.charged, held = s.held - m.released,
	excess = greatest(s.excess, s.spent + m.charged + s.held - m.released - s.cap)
FROM moved m WHERE (s.owner_id, s.period, s.window_start) = (m.owner_id, m.period, m.window_start)`

// moveSpend counts what was charged and released in the windows of budgets and caps. The
// wallets of their accounts are locked.
func moveSpend(batch *pgx.Batch, changes map[usage.SpendWindow]usage.Change) {
	if len(changes) == 0 {
		return
	}
	var (
		owners            [][16]byte
		periods           []string
		days              []int32
		charged, released []int64
	)
	for w, c := range changes {
		owners, periods, days = append(owners, w.Owner), append(periods, w.Period), append(days, w.Day)
		charged, released = append(charged, int64(c.Charged)), append(released, int64(c.Released))
	}
	batch.Queue(moveSpending, owners, periods, days, charged, released)
}

// spendChecks are the invariants of budgets and caps, in the form of auditChecks.
var spendChecks = []check{
	{
		"spend counters are what was charged and is held",
		`SELECT count(*) FROM spend_counter`,
		`WITH counted AS (
			SELECT CASE WHEN b.bit < 16 THEN h.key_id ELSE h.account_id END AS owner_id, b.period,
				CASE b.period WHEN 'none' THEN date '1970-01-01'
					ELSE date_trunc(b.period, h.spend_day::timestamp)::date END AS window_start,
				sum(CASE h.state WHEN 'open' THEN h.amount ELSE 0 END) AS held,
				sum(CASE h.state WHEN 'settled' THEN coalesce(s.charged, 0) ELSE 0 END) AS spent
			FROM hold h
			JOIN (VALUES (1, 'none'), (2, 'day'), (4, 'week'), (8, 'month'), (16, 'day'), (32, 'month')) AS b (bit, period)
				ON h.spend_pins & b.bit <> 0
			LEFT JOIN usage_settlement s ON s.request_id = h.request_id AND s.source = 'payg'
			WHERE h.spend_pins IS NOT NULL GROUP BY 1, 2, 3)
		SELECT format('%s: a %s from %s: spent %s of %s, held %s of %s', owner_id, period, window_start, c.spent, v.spent,
			c.held, v.held)
		FROM spend_counter c FULL JOIN counted v USING (owner_id, period, window_start)
		-- What a window counted on cleared days cannot be counted again, only that it is no less.
		WHERE coalesce(c.held, 0) <> coalesce(v.held, 0)
			OR coalesce(c.spent, 0) < coalesce(v.spent, 0)
			OR coalesce(c.spent, 0) > coalesce(v.spent, 0)
				AND (window_start > (SELECT kept_since()) OR period = 'none' AND NOT EXISTS (SELECT FROM cleared_day))`,
	}, {
		"no admission passed a budget or a cap",
		`SELECT count(*) FROM spend_counter`,
		`SELECT format('%s: a %s from %s: spent %s and held %s of %s, %s by settling', owner_id, period, window_start,
			spent, held, cap, excess)
		FROM spend_counter WHERE spent + held - excess > cap`,
	},
}
