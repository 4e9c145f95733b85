package main

// byChain and none say why a panel may be empty.
const (
	byChain = "Empty where no chain is configured."
	none    = "Empty while there are none."
)

func settlement() dashboard {
	const job = "settlement"
	gauge := func(title, name string) panel {
		return limit(title, "none", 1, "max(svc_settlement_"+name+")", title)
	}
	by := func(title, unit, name, label string) panel {
		return graph(title, unit, "max by ("+label+") (svc_settlement_"+name+")", "{{"+label+"}}").noted(byChain)
	}
	return dashboard{job, job, []row{calls("settlement"),
		{"Earning lines", []panel{
			gauge("Days on which lines and ledger differ", "differences_persistent"),
			gauge("Lines on the ledger's word alone", "lines_unconfirmed"),
			rate("Lines filled in", "reqps", "svc_settlement_lines_filled_total", "").
				also("sum(rate(svc_settlement_lines_corrected_total["+interval+"]))", "corrected").
				also("sum(rate(svc_settlement_lines_excluded_total["+interval+"]))", "held out").
				noted(none),
		}},
		{"Batches", []panel{
			gauge("Days behind", "batch_days_behind"),
			by("A day waits", "none", "batch_day_waiting", "because"),
			gauge("Providers blocked", "batch_providers_blocked"),
			gauge("Shares not posted", "batch_shares_unposted"),
			gauge("Statements not signed", "batch_statements_unsigned"),
			gauge("Months of plans that wait", "plan_months_waiting"),
		}},
		{"Payouts", []panel{
			by("Payouts by state", "none", "payouts_open", "state"),
			by("Payouts by what keeps them", "none", "payouts_waiting", "for"),
			gauge("Payouts that do not move", "payouts_stuck"),
			gauge("Conversions that do not end", "conversions_stuck"),
			by("Hot wallets", "none", "hot_wallet_units", "chain, token"),
			by("Sending halted", "none", "sending_halted", "chain, cause"),
			by("Transactions that hang", "none", "transactions_stuck", "chain"),
			by("Transactions at the bound of fees", "none", "transactions_fee_bound", "chain"),
			by("Transactions refused", "none", "transactions_refused", "chain"),
		}},
		{"Chains and deposits", []panel{
			by("Last block", "none", "chain_block", "chain"),
			by("Halted", "none", "chain_halted", "chain"),
			by("Not read for", "s", "chain_stalled_seconds", "chain"),
			rate("Rows that the first reading missed", "reqps", "svc_settlement_chain_rows_missed_total", "chain").
				noted(none),
			by("Prices known", "none", "price_known", "chain"),
			by("Deposits not decided", "none", "deposits_waiting", "waits"),
			gauge("Deposits not posted", "deposits_unposted").noted(byChain),
			by("Sweeps", "none", "sweeps_open", "state"),
			gauge("Sweeps stuck", "sweeps_stuck").noted(byChain),
			by("Days since revaluation", "none", "revaluation_days_behind", "chain"),
		}},
		{"Reserves", []panel{
			by("Short", "none", "reserves_short", "subject"),
			by("Missing", "none", "reserves_missing", "subject"),
			by("Age of the reading", "s", "reserves_age_seconds", "subject"),
		}},
		{"Collateral and penalties", []panel{
			by("Penalties by state", "none", "penalties_open", "state"),
			gauge("Penalties overdue", "penalties_overdue"),
			by("Positions stuck", "none", "positions_stuck", "chain"),
			rate("Positions made anew", "reqps", "svc_settlement_positions_restated_total", "chain").noted(none),
			rate("Penalties that are none of ours", "reqps", "svc_settlement_slashes_foreign_total", "chain").
				noted(none),
			gauge("Events of contracts not in the books", "custody_unposted").noted(byChain),
			gauge("Parts of penalties stuck", "penalty_parts_stuck").also("max(svc_settlement_penalty_parts_lapsed)", "lapsed").
				also("max(svc_settlement_penalty_parts_missed)", "given up").
				also("max(svc_settlement_penalty_parts_vanished)", "vanished").noted(byChain),
			gauge("Refunds overdue", "refunds_overdue").also("max(svc_settlement_refunds_by_bank)", "by bank").
				also("max(svc_settlement_refunds_taken_back)", "taken back").noted(byChain),
		}},
		peers(job), process(job)}}
}
