package store_test

import "testing"

// passbookAttacks are attacks on the tables of passbooks and documents, as those of attacks.
const passbookAttacks = `
document document_account_id_fkey | account_id = gen_random_uuid()
document document_body_check | entry_id = (SELECT id FROM entry WHERE kind = 'orphan_work'),
	body = to_jsonb(repeat('x', 1048576))
document document_entry_id_fkey | entry_id = gen_random_uuid()
document document_is_next | series = 'X' => document_number_series_check
document document_month_check | series = 'I', entry_id = NULL, month = '2026-03-02'
document document_numbered | ! ALTER TABLE document DISABLE TRIGGER document_is_next; INSERT INTO document
	SELECT series, 2001, 2, account_id, '2001-03-01', amount, (SELECT id FROM entry WHERE kind = 'orphan_work'), month,
	body, made_at FROM document WHERE series = 'R'
document document_of | series = 'I'
document document_of_entry | =
document document_of_its_year | ! ALTER TABLE document DISABLE TRIGGER document_is_next; INSERT INTO document
	SELECT series, 2001, 2, account_id, at, amount, (SELECT id FROM entry WHERE kind = 'orphan_work'), month, body, made_at
	FROM document WHERE series = 'R'
document document_of_month | series = 'I', entry_id = NULL, month = '2026-02-01'
document document_pkey | ! ALTER TABLE document DISABLE TRIGGER document_is_next; INSERT INTO document
	SELECT series, year, number, account_id, at, amount, (SELECT id FROM entry WHERE kind = 'orphan_work'), month, body,
	made_at FROM document WHERE series = 'R'
document document_stays | ! UPDATE document SET amount = 7 => may not change any more
document_number document_number_last_check | last = 0
document_number document_number_pkey | =
document_number document_number_series_check | series = 'X'
document_number document_number_year_check | year = 1999
passbook_fold passbook_fold_invoice_month_check | invoice_month = '9000-03-02'
passbook_fold passbook_fold_month | until_at = until_at + interval '62 days'
passbook_fold passbook_fold_moves_on | ! DELETE FROM passbook_fold WHERE false; UPDATE passbook_fold
	SET until_at = until_at - interval '1 day' => may not change any more
passbook_fold passbook_fold_one_check | one = false
passbook_fold passbook_fold_pkey | =
passbook_line passbook_line_moves | n = 9, amount = 1
passbook_line passbook_line_n_check | n = 0
passbook_line passbook_line_of_usage | n = 9, series_id = NULL
passbook_line passbook_line_pkey | =
stats_fold stats_fold_moves_on | ! DELETE FROM stats_fold WHERE false; UPDATE stats_fold
	SET until_at = until_at - interval '1 day' => may not change any more
stats_fold stats_fold_one_check | one = false
stats_fold stats_fold_pkey | =
stats_sum stats_sum_accounts | model_id = 'n', accounts = -1
stats_sum stats_sum_aligned | at = at + interval '1 minute'
stats_sum stats_sum_counts | model_id = 'n', judged = 0
stats_sum stats_sum_is_kept | ! DELETE FROM stats_sum => may not change any more
stats_sum stats_sum_pkey | =
stats_sum stats_sum_span | span = 6, at = '2026-01-01Z'
stats_sum stats_sum_speed | model_id = 'n', speed = '{1}'
stats_sum stats_sum_subject | span = 5
stats_sum stats_sum_ttft | model_id = 'n', ttft = '{1}'
stats_use stats_use_aligned | at = at + interval '1 minute'
stats_use stats_use_counts | model_id = 'n', served = 0
stats_use stats_use_is_kept | ! DELETE FROM stats_use => may not change any more
stats_use stats_use_pkey | =
stats_use stats_use_subject | model_id = ''
usage_day usage_day_charged_check | day = day + 1, charged = -1
usage_day usage_day_covered_check | day = day + 1, covered = -1
usage_day usage_day_pkey | =
usage_day usage_day_requests_check | day = day + 1, requests = 0
usage_day usage_day_series_id_fkey | series_id = 0
usage_series usage_series_model_id_check | model_id = ''
usage_series usage_series_once | =
usage_series usage_series_pkey | ! INSERT INTO usage_series OVERRIDING SYSTEM VALUE
	SELECT id, account_id, gen_random_uuid(), model_id, provider_id, source, unit FROM usage_series
usage_series usage_series_source_check | source = 'gone'
usage_series usage_series_unit_check | unit = 3
`

// besiegePassbook has a row in every table of passbooks and documents.
func (e *env) besiegePassbook(t *testing.T, account [16]byte) {
	t.Helper()
	e.exec(t, `WITH s AS (INSERT INTO usage_series (account_id, key_id, model_id, provider_id, source, unit)
			VALUES ($1, gen_random_uuid(), 'm', gen_random_uuid(), 'payg', 0) RETURNING id),
		d AS (INSERT INTO usage_day SELECT id, '2026-03-01', 1, 0, 1, 5, 0 FROM s)
		INSERT INTO passbook_line SELECT $1, '2026-03-01', 1, 'usage', gen_random_uuid(), -5, 0, id, 0, 1, 5 FROM s`, account)
	e.exec(t, `INSERT INTO document_number VALUES ('R', 2026, 1), ('I', 2026, 1)`)
	e.exec(t, `INSERT INTO document SELECT 'R', 2026, 1, $1, '2026-03-01', 5, id, NULL, '{}' FROM entry
		WHERE kind = 'goodwill' LIMIT 1`, account)
	e.exec(t, `INSERT INTO document VALUES ('I', 2026, 1, $1, '2026-03-01', 5, NULL, '2026-02-01', '{}')`, account)
}
